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
"""Tune a matrix product and a convolution for this machine's CPU, and show what descending gains.

Leaves in the output folder a log of records for each kernel, a plot and a summary of the numbers.
"""

import json
import sys

from machine import detect_target, measure_options, use_all_cores
from options import parse_search_args
from report import plot, summary, table
from search import tune
from workloads import KERNELS, relative_error

import numpy as np
import tvm

NUM_COMPARISONS = 21


def compare_phases(search, seed):
    """Check the tuned kernel, then measure the best candidate of each phase again.

    A logged latency is the lowest of many noisy ones, thus too low. So both are measured anew, in
    turns and in one process.

    Parameters
    ----------
    search : Search
        The search, to which the measurements are added.
    seed : int
        The seed of the inputs.
    """
    arrays = search.kernel.random_inputs(seed)
    expected = search.kernel.reference(*arrays)
    buffers = [tvm.nd.array(array) for array in (*arrays, np.zeros_like(expected))]
    tuned = tvm.build(*search.task.apply_best(str(search.log)), target=search.task.target)
    tuned(*buffers)
    check(search.kernel.name, buffers[-1].numpy(), expected)

    explored = search.task.compute_dag.apply_steps_from_state(search.best_explored())
    timers = [
        kernel.time_evaluator(kernel.entry_name, tvm.cpu(), number=1, min_repeat_ms=50)
        for kernel in (tvm.build(*explored, target=search.task.target), tuned)
    ]
    for _ in range(NUM_COMPARISONS):
        for phase, timer in zip(search.phases, timers):
            phase.samples.append(timer(*buffers).mean)


def check(name, actual, expected):
    """Exit unless a kernel's output is what NumPy computes.

    Parameters
    ----------
    name : str
        The kernel.
    actual : numpy.ndarray
        Its output.
    expected : numpy.ndarray
        The output of NumPy.
    """
    error = relative_error(actual, expected)
    if not error < 1e-4:
        sys.exit(f"{name}: the tuned kernel is WRONG, off from NumPy by a factor of {error:.1e}.")
    print(f"{name}: the tuned kernel agrees with NumPy (relative error below {error:.1e})")


def main():
    """Run the demo."""
    args = parse_search_args(__doc__, "build/demo", trials=96, explore_trials=24)
    sys.stdout.reconfigure(line_buffering=True)
    num_cores = use_all_cores()
    target = detect_target()
    print(f"TVM {tvm.__version__}, target {target}, {num_cores} cores, seed {args.seed}")
    searches = [
        tune(KERNELS[name], target, args.output / f"{name}.json", args, measure_options(num_cores))
        for name in args.kernels
    ]
    print()
    for search in searches:
        compare_phases(search, args.seed)
    print(f"\n{table(searches)}\n")
    plot(searches, args.output / "demo.png")
    numbers = summary(searches, target, num_cores, args)
    (args.output / "summary.json").write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"Records, plot and summary: {args.output}")


if __name__ == "__main__":
    main()
