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
"""Measure what DropletSearch itself costs in MetaSchedule while it descends.

Candidates are neither built nor run, and their latencies follow from their programs, so that all
the time is that of the strategy. Replaying a trace with the postprocessors, by which TVM makes a
schedule, is what any strategy does for each candidate, on all cores. Everything else must stay
below 5 ms a candidate.
"""

import json
import sys
import time
from contextlib import contextmanager

from contest_report import markdown
from machine import detect_target, use_all_cores
from meta_searches import program_hash, with_num_cores
from options import parse_search_args
from workloads import KERNELS

from tvm import meta_schedule as ms
from tvm.meta_schedule.search_strategy import DropletSearch
from tvm.meta_schedule.search_strategy.trace_descent import TraceDescent

MAX_OWN_MS = 5.0


@contextmanager
def timed_replays():
    """Count the replays of traces, and the seconds that they take."""
    clock = {"replays": 0, "seconds": 0.0}
    replay = TraceDescent.replay

    def timed(descent, points):
        begin = time.perf_counter()
        schedules = replay(descent, points)
        clock["seconds"] += time.perf_counter() - begin
        clock["replays"] += len(points)
        return schedules

    TraceDescent.replay = timed
    try:
        yield clock
    finally:
        TraceDescent.replay = replay


def latency_of(candidate):
    """A latency in seconds, from 1 to 2 ms, that follows from the program."""
    return 1e-3 + 1e-6 * (program_hash(candidate) % 1000)


def time_search(kernel, target, args):
    """Search for a schedule of a kernel and time its descents.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    args : argparse.Namespace
        The options.

    Returns
    -------
    numbers : Dict[str, float]
        The trials of the descents, their replays, and for each trial the milliseconds that replays
        and everything else took.
    """
    strategy = DropletSearch("replay-trace", explore_trials=args.explore_trials)
    context = ms.TuneContext(
        mod=kernel.module(),
        target=target,
        space_generator="post-order-apply",
        search_strategy=strategy,
        rand_state=args.seed + 1,  # 0 is taken for none
    )
    context.pre_tuning(args.trials)
    seconds, num_trials = 0.0, 0
    with timed_replays() as clock:
        while True:
            begin = time.perf_counter()
            candidates = context.generate_measure_candidates()
            own = time.perf_counter() - begin
            if not candidates:
                break
            explores = strategy.phase == "explore"
            results = [ms.runner.RunnerResult([latency_of(c)], None) for c in candidates]
            begin = time.perf_counter()
            context.notify_runner_results(candidates, results)
            own += time.perf_counter() - begin
            if not explores:
                seconds += own
                num_trials += len(candidates)
    context.post_tuning()
    return {
        "trials": num_trials,
        "replays": clock["replays"],
        "replay_ms": clock["seconds"] / num_trials * 1e3,
        "own_ms": (seconds - clock["seconds"]) / num_trials * 1e3,
    }


def table(numbers):
    """The numbers as a table.

    Parameters
    ----------
    numbers : Dict[str, Dict[str, float]]
        Those of each kernel.

    Returns
    -------
    text : str
        The lines of the table.
    """
    rows = [["kernel", "trials", "replays", "ms a trial: replays", "everything else"]]
    for name, kernel in numbers.items():
        rows.append([name, str(kernel["trials"]), str(kernel["replays"])])
        rows[-1] += [f"{kernel[key]:.2f}" for key in ("replay_ms", "own_ms")]
    return "\n".join(markdown(rows))


def main():
    """Run the benchmark."""
    args = parse_search_args(__doc__, "build/strategy_overhead", trials=192, explore_trials=64)
    target = with_num_cores(detect_target(), use_all_cores())
    numbers = {name: time_search(KERNELS[name], target, args) for name in args.kernels}
    print(table(numbers))
    (args.output / "strategy_overhead.json").write_text(json.dumps(numbers, indent=1) + "\n")
    for name, kernel in numbers.items():
        if kernel["own_ms"] >= MAX_OWN_MS:
            sys.exit(f"{name}: {kernel['own_ms']:.2f} ms a trial, not below {MAX_OWN_MS:.0f}.")


if __name__ == "__main__":
    main()
