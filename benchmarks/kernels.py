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
"""Compare Ansor (SketchPolicy) with DropletSearchPolicy, kernel by kernel, at equal conditions.

A contest is a kernel and a seed. Its results go to a file of its own in the output folder, which
also gets a table and plots of all results that it holds. A contest that is there already is not
held again.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import contest_report
from contest import Settings, hold_contest
from machine import detect_target, measure_options, use_all_cores
from options import at_least, make_folder
from workers import keep_workers
from workloads import KERNELS

import numpy as np
import tvm
import xgboost
from tvm.target import codegen

DEFAULT_KERNELS = (
    "matmul",
    "conv2d",
    "conv2d_1x1",
    "depthwise",
    "dense",
    "batch_matmul",
    "pooling",
    "softmax",
)
QUICK_KERNELS = ("matmul", "softmax")
DEFAULT_SETTINGS = Settings(explore_trials=32, descend_trials=96, sketch_trials=512)
QUICK_SETTINGS = Settings(explore_trials=16, descend_trials=32, sketch_trials=64)


def parse_args(arguments=None):
    """Read the options.

    Parameters
    ----------
    arguments : Optional[List[str]]
        The words of the command line, by default those of this process.

    Returns
    -------
    args : argparse.Namespace
        The options, with `settings`.
    """
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS)
    parser.add_argument("--output", type=make_folder, default="build/kernels", help="a folder")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS)
    parser.add_argument("--seeds", nargs="+", type=at_least(0), default=[0])
    parser.add_argument("--explore-trials", type=at_least(1), help="of DropletSearchPolicy")
    parser.add_argument("--descend-trials", type=at_least(1), help="of DropletSearchPolicy")
    parser.add_argument("--sketch-trials", type=at_least(1), help="of SketchPolicy")
    parser.add_argument(
        "--quick", action="store_true", help="other defaults: two kernels, few trials, minutes"
    )
    parser.add_argument(
        "--report", action="store_true", help="only report what is in the output folder"
    )
    args = parser.parse_args(arguments)
    defaults = asdict(QUICK_SETTINGS if args.quick else DEFAULT_SETTINGS)
    given = {name: getattr(args, name) for name in defaults}
    args.settings = Settings(
        **{name: defaults[name] if value is None else value for name, value in given.items()}
    )
    kernels = args.kernels or (QUICK_KERNELS if args.quick else DEFAULT_KERNELS)
    args.kernels = list(dict.fromkeys(kernels))
    args.seeds = list(dict.fromkeys(args.seeds))
    return args


def contests_to_hold(args):
    """The contests that are not finished yet. Exits if one was held with other settings.

    Parameters
    ----------
    args : argparse.Namespace
        The options.

    Returns
    -------
    contests : List[Tuple[str, int, Path]]
        Kernel, seed and the file of the results.
    """
    contests = []
    for seed in args.seeds:
        for name in args.kernels:
            path = args.output / f"{name}-seed{seed}.json"
            if not path.exists():
                contests.append((name, seed, path))
                continue
            found, wanted = contest_report.read(path)["settings"], asdict(args.settings)
            if found != wanted:
                sys.exit(f"{path} was made with {found}, not with {wanted}: name another --output.")
            print(f"{name}, seed {seed}: finished already, see {path}")
    return contests


def describe_machine(target, num_cores):
    """The machine that a contest is held on.

    Parameters
    ----------
    target : tvm.target.Target
        The target.
    num_cores : int
        The number of threads of kernels.

    Returns
    -------
    machine : Dict[str, object]
        Its description.
    """
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else ())
        if line.startswith("model name")
    ]
    cpu = models[0] if models else platform.machine()
    return {"cpu": cpu, "threads": num_cores, "target": str(target)}


def describe_versions():
    """The software that a contest is held with.

    Returns
    -------
    versions : Dict[str, object]
        The version of each, of this patch set its commit.
    """
    # A commit's name ends in "-dirty" where files differ from it.
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        commit = done.stdout.strip() or "unknown"
    except FileNotFoundError:
        commit = "unknown"
    return {
        "commit": commit,
        "tvm": tvm.__version__,
        "llvm": codegen.llvm_version_major(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "xgboost": xgboost.__version__,
    }


def write_atomically(path, text):
    """Write a file as a whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    text : str
        Its content.
    """
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text)
    unfinished.replace(path)


def leave(*_):
    """On Ctrl-C, say so and leave."""
    print("\nInterrupted: the contest that was going on begins anew next time.", flush=True)
    # Not by an exception: TVM would take it for the failure of a candidate.
    os._exit(128 + signal.SIGINT)


def hold(contests, args):
    """Hold contests, and report all results after each.

    Parameters
    ----------
    contests : List[Tuple[str, int, Path]]
        Kernel, seed and the file of the results.
    args : argparse.Namespace
        The options.
    """
    num_cores = use_all_cores()
    target = detect_target()
    surroundings = {
        "machine": describe_machine(target, num_cores),
        "versions": describe_versions(),
    }
    keep_workers()
    signal.signal(signal.SIGINT, leave)
    for name, seed, path in contests:
        print(f"\n{name}, seed {seed}: {KERNELS[name].description}")
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        measure = measure_options(num_cores)
        result = hold_contest(KERNELS[name], target, seed, args.settings, args.output, measure)
        write_atomically(path, json.dumps({**result, **surroundings, "date": date}) + "\n")
        contest_report.write(args.output)


def main():
    """Hold the contests and report them."""
    args = parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    contests = [] if args.report else contests_to_hold(args)
    if contests:
        hold(contests, args)
    else:
        contest_report.write(args.output)


if __name__ == "__main__":
    main()
