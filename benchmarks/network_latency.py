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
"""Measure a network as it was tuned by each contender, end to end.

Run as a script it is one of the fresh processes that do so: how a process lays out its memory
counts, too.
"""

import json
import signal
import sys
import tempfile
from pathlib import Path

import machine  # noqa: F401 (before TVM, for it keeps TVM from the network)
from winners import run_in_process
from workloads import relative_error

import numpy as np
import tvm
from tvm.contrib import graph_executor

NUM_PROCESSES = 3
NUM_ROUNDS = 15
# Relative to how the outputs spread: with random weights, all classes are nearly as probable.
MAX_ERROR = 1e-2
UNTUNED = "untuned"


def measure_network(network, target, logs, seed):
    """Compile a network untuned and with each log, and measure it in several fresh processes.

    Parameters
    ----------
    network : network.Network
        The network.
    target : tvm.target.Target
        The target.
    logs : Dict[str, Tuple[Path, int]]
        The log of each search, and how many of its records count.
    seed : int
        The seed of the inputs.

    Returns
    -------
    samples : Dict[str, List[List[float]]]
        The latencies in seconds of the untuned network and with each log, of each process, of each
        round.
    """
    with tempfile.TemporaryDirectory() as folder:
        libraries = {}
        for name, log in {UNTUNED: (), **logs}.items():
            libraries[name] = str(Path(folder, f"{len(libraries)}.so"))
            network.compile(target, *log).export_library(libraries[name])
        inputs = str(Path(folder, "inputs.npz"))
        np.savez(inputs, **network.random_inputs(seed))
        job = {"libraries": libraries, "inputs": inputs}
        processes = [run_in_process(__file__, job) for _ in range(NUM_PROCESSES)]
    return {name: [process[name] for process in processes] for name in libraries}


def _measure(job):
    """Check the outputs against those of the untuned network, and measure in turns.

    Returns the latencies in seconds of each library.
    """
    device = tvm.cpu()
    executors = {}
    for name, path in job["libraries"].items():
        executors[name] = graph_executor.GraphModule(
            tvm.runtime.load_module(path)["default"](device)
        )
        with np.load(job["inputs"]) as inputs:
            executors[name].set_input(**inputs)
        executors[name].run()
    expected = _outputs(executors[UNTUNED])
    for name, executor in executors.items():
        for actual, correct in zip(_outputs(executor), expected):
            error = relative_error(actual - correct.mean(), correct - correct.mean())
            if not error <= MAX_ERROR:
                sys.exit(f"{name}: the network is WRONG, its relative error is {error:.1e}.")

    timers = {
        name: executor.module.time_evaluator("run", device, number=1, min_repeat_ms=100)
        for name, executor in executors.items()
    }
    samples = {name: [] for name in timers}
    order = list(timers)
    for _ in range(NUM_ROUNDS):
        for name in order:
            samples[name].append(timers[name]().mean)
        order.append(order.pop(0))
    return samples


def _outputs(executor):
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that waits has the last word
    Path(sys.argv[1]).write_text(json.dumps(_measure(json.load(sys.stdin))))
