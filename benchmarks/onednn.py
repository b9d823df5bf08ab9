# Licensed to the Apache Software Foundation (ASF) under one
# or more contributor license agreements.  See the NOTICE file
# distributed with this work for additional information
# regarding copyright ownership.  The ASF licenses this file
# to you under the Apache License, Version 2.0 (the
# "License"); you may not use this file except in compliance
# with the License.  You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing,
# software distributed under the License is distributed on an
# "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
# KIND, either express or implied.  See the License for the
# specific language governing permissions and limitations
# under the License.
"""Compare the winners of contests with oneDNN, on the same kernels, machine and threads.

oneDNN runs through PyTorch, which is no requirement of anything else here: install its CPU build
into the environment first. PyTorch takes it for convolutions, and where its builds say so for other
kernels, too: `ONEDNN_VERBOSE=1` shows which. Results and a table go to the folder of the contests.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

import contest_report
import machine
import onednn_latency
import winners
from result_files import describe_origin, write_json

import numpy as np
import torch

NUM_PROCESSES = 5


def parse_args():
    """Read the options.

    Returns
    -------
    args : argparse.Namespace
        The options.
    """
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS)
    parser.add_argument("folder", type=Path, help="the output of kernels.py")
    return parser.parse_args()


def contests_to_compare(folder, here):
    """The contests of kernels that PyTorch has. Exits if they were not held on this machine.

    Parameters
    ----------
    folder : Path
        Their folder.
    here : Dict[str, object]
        The description of this machine.

    Returns
    -------
    contests : List[Dict[str, object]]
        Their results.
    """
    contests = contest_report.read_all(folder)
    held = contests[0]  # all were on the same machine
    if held["machine"] != here:
        sys.exit(
            f"The contest of {held['kernel']} was held on another machine, or for another "
            f"target: {held['machine']}, but this is {here}."
        )
    return [
        contest
        for contest in contests
        if contest["kernel"] in onednn_latency.FUNCTIONS
        and all(contest["winners"][name] for name in names_of(contest))
    ]


def names_of(contest):
    """The searches whose winners are compared."""
    return "droplet", contest_report.scheduler_of(contest).rival


def compare(contest, target):
    """Measure the winners of a contest and oneDNN, in fresh processes that take turns.

    Parameters
    ----------
    contest : Dict[str, object]
        The results of the contest.
    target : tvm.target.Target
        The target.

    Returns
    -------
    latencies : Dict[str, List[float]]
        The latencies in seconds of `droplet`, its rival and `pytorch`, a median for each process.
    """
    job = {"kernel": contest["kernel"], "target": str(target), "seed": contest["seed"]}
    job["scheduler"] = contest["settings"]["scheduler"]
    job["records"] = {
        name: json.dumps(contest["winners"][name]["record"]) for name in names_of(contest)
    }
    latencies = defaultdict(list)
    for _ in range(NUM_PROCESSES):
        for script in (winners.__file__, onednn_latency.__file__):
            for name, samples in winners.run_in_process(script, job).items():
                latencies[name].append(float(np.median(samples)))
    return latencies


def table(results):
    """The results as a table in Markdown.

    Parameters
    ----------
    results : List[Dict[str, object]]
        Those of each contest.

    Returns
    -------
    text : str
        The table.
    """
    names = tuple(results[0]["latencies"])
    rows = [["kernel", "seed", *(f"{name} ms" for name in names), "droplet/pytorch"]]
    for result in results:
        medians = [np.median(result["latencies"][name]) for name in names]
        row = [result["kernel"], str(result["seed"])]
        row += [f"{median * 1e3:.4f}" for median in medians]
        rows.append([*row, f"{medians[0] / medians[2]:.3f}"])
    return "\n".join(contest_report.markdown(rows))


def write(results, origin, folder):
    """Write the results and their table.

    Parameters
    ----------
    results : List[Dict[str, object]]
        Those of each contest.
    origin : Dict[str, object]
        Where, when and with what they were made.
    folder : Path
        The folder.
    """
    write_json(folder / "onednn.json", {"results": results, **origin})
    (folder / "onednn.md").write_text(table(results) + "\n")


def main():
    """Compare all contests of a folder."""
    args = parse_args()
    num_cores = machine.use_all_cores()
    target = machine.detect_target()
    origin = describe_origin(target, num_cores)
    origin["versions"]["torch"] = torch.__version__
    results, failed = [], []
    for contest in contests_to_compare(args.folder, origin["machine"]):
        label = f"{contest['kernel']}, seed {contest['seed']}"
        print(f"{label} ...", flush=True)
        try:
            latencies = compare(contest, target)
        except winners.MeasureFailed as error:
            print(f"{label}: {error}")
            failed.append(label)
            continue
        kept = {name: contest[name] for name in ("kernel", "seed")}
        results.append({**kept, "latencies": dict(latencies)})
        write(results, origin, args.folder)
    if results:
        print(table(results))
    if failed:
        sys.exit(f"Not compared: {'; '.join(failed)}.")


if __name__ == "__main__":
    main()
