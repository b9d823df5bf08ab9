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
"""Measure the winners of a contest again, since a logged latency is the lowest of many noisy ones.

Run as a script it is one of the fresh processes that do so: how a process lays out its memory
counts, too.
"""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import machine  # noqa: F401 (before TVM, for it keeps TVM from the network)
from schedulers import SCHEDULERS
from workloads import KERNELS, relative_error

import numpy as np
import tvm

NUM_PROCESSES = 5
NUM_ROUNDS = 11
MAX_ERROR = 1e-4


class MeasureFailed(Exception):
    """Winners could not be measured again."""


def measure_again(kernel, target, seed, scheduler, records):
    """Measure winners in several fresh processes.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What they were tuned for.
    seed : int
        The seed of the inputs.
    scheduler : str
        Whose records they are, a key of `SCHEDULERS`.
    records : Dict[str, Optional[str]]
        The record of each winner. Where there is none, nothing is measured.

    Returns
    -------
    samples : Dict[str, List[List[float]]]
        The latencies in seconds of each winner, of each process, of each round.
    """
    job = {
        "kernel": kernel.name,
        "target": str(target),
        "seed": seed,
        "scheduler": scheduler,
        "records": {name: record for name, record in records.items() if record is not None},
    }
    processes = [run_in_process(__file__, job) for _ in range(NUM_PROCESSES)]
    return {name: [process[name] for process in processes] for name in job["records"]}


def run_in_process(script, job):
    """Run a script that measures in a fresh process.

    Parameters
    ----------
    script : str
        The script. It reads a job from its input, and writes samples to the file that it is given.
    job : object
        The job, ready for JSON.

    Returns
    -------
    samples : object
        What the script measured.

    Raises
    ------
    error : MeasureFailed
        If the script fails, which has said why.
    """
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder, "samples.json")
        done = subprocess.run(
            [sys.executable, script, samples], input=json.dumps(job), text=True, check=False
        )
        if done.returncode:
            raise MeasureFailed("the winners could not be measured again, see above")
        return json.loads(samples.read_text())


def summarize(samples, records):
    """Compare the winners with that of DropletSearchPolicy.

    Parameters
    ----------
    samples : Dict[str, List[List[float]]]
        The latencies in seconds of each winner, of each process, of each round.
    records : Dict[str, Optional[str]]
        The record of each winner.

    Returns
    -------
    summary : Dict[str, Optional[Dict[str, object]]]
        For each winner its record, its samples, their median and, as `ratio`, how the latency of
        `droplet` compares to its own: the median and percentiles of the ratios of all rounds. None
        where there is no record.
    """
    summary = dict.fromkeys(records)
    for name, own in samples.items():
        summary[name] = {
            "record": json.loads(records[name]),
            "samples": own,
            "latency": float(np.median(own)),
            "ratio": compare(samples["droplet"], own),
        }
    return summary


def compare(samples, others):
    """The ratios of latencies that were measured in turns.

    Parameters
    ----------
    samples : List[List[float]]
        The latencies of each process, of each round.
    others : List[List[float]]
        Those to divide them by.

    Returns
    -------
    ratio : Dict[str, float]
        The median and percentiles of the ratios of all rounds.
    """
    low, median, high = np.percentile(np.divide(samples, others), [10, 50, 90])
    return {"median": float(median), "p10": float(low), "p90": float(high)}


def _measure(job):
    """Build the winners, check them against NumPy and measure them in turns.

    Returns the latencies in seconds of each winner. Equal programs are built and measured once.
    """
    kernel, target = KERNELS[job["kernel"]], tvm.target.Target(job["target"])
    scheduler = SCHEDULERS[job["scheduler"]]
    programs = {}
    timers = {}
    device = tvm.device(target.kind.name)
    arrays = kernel.random_inputs(job["seed"])
    expected = kernel.reference(*arrays)
    buffers = [tvm.nd.array(array, device) for array in (*arrays, np.zeros_like(expected))]
    for name, record in job["records"].items():
        programs[name], program = scheduler.program_of(kernel, target, record)
        if programs[name] not in timers:
            built = tvm.build(*program, target=target)
            _check(f"{kernel.name}, {name}", built, buffers, expected)
            timers[programs[name]] = built.time_evaluator(
                built.entry_name, device, number=1, min_repeat_ms=50
            )

    samples = {program: [] for program in timers}
    order = list(timers)
    for _ in range(NUM_ROUNDS):
        for program in order:
            samples[program].append(timers[program](*buffers).mean)
        order.append(order.pop(0))
    return {name: samples[program] for name, program in programs.items()}


def _check(name, built, buffers, expected):
    """Exit unless the output of a program is what NumPy computes."""
    buffers[-1].copyfrom(np.full_like(expected, np.nan))
    built(*buffers)
    error = relative_error(buffers[-1].numpy(), expected)
    if not error <= MAX_ERROR:
        sys.exit(f"{name}: the winner is WRONG, its relative error is {error:.1e}.")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that waits has the last word
    Path(sys.argv[1]).write_text(json.dumps(_measure(json.load(sys.stdin))))
