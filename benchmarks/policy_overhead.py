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
"""Measure what the search policy itself costs while it descends.

Tunes kernels as the demo does, and splits the wall time of the descents into building candidates,
running them and everything else, which must stay below 3 %.
"""

import json
import sys
import time
from collections import defaultdict

from machine import detect_target, measure_options, use_all_cores
from options import parse_search_args
from workloads import KERNELS

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler import measure

MAX_OVERHEAD = 0.03

# What the policy does by itself, in the order of the table.
OVERHEADS = {
    "propose": "proposing candidates: the engine, the coordinates, comparing programs",
    "update": "updating the cost model",
    "measurer": "between building, running and the callbacks, with writing the records",
}


class Stopwatch:
    """Splits the wall time of a search by phase and activity, without gaps.

    Parameters
    ----------
    policy : auto_scheduler.DropletSearchPolicy
        The policy that is about to search.
    """

    def __init__(self, policy):
        self.policy = policy
        self.seconds = {"explore": defaultdict(float), "descend": defaultdict(float)}
        self.activity = "propose"
        self.since = time.perf_counter()

    def switch(self, activity):
        """End the current activity and begin another.

        Parameters
        ----------
        activity : str
            The activity that begins.
        """
        now = time.perf_counter()
        phase = "explore" if self.policy.phase == "explore" else "descend"
        self.seconds[phase][self.activity] += now - self.since
        self.activity, self.since = activity, now

    def timed(self, function, activity, then):
        """Wrap a function so that its calls count as an activity.

        Parameters
        ----------
        function : Callable
            The function.
        activity : str
            The activity.
        then : str
            The activity that follows.

        Returns
        -------
        wrapped : Callable
            The function, timed.
        """

        def wrapped(*args):
            self.switch(activity)
            result = function(*args)
            self.switch(then)
            return result

        return wrapped


class BatchEnd(measure.PythonBasedMeasureCallback):
    """The last of the callbacks: from here on the policy works by itself."""

    def __init__(self, stopwatch):
        super().__init__()
        self.stopwatch = stopwatch

    def callback(self, policy, inputs, results):
        """End a batch."""
        self.stopwatch.switch("propose")


def time_search(kernel, target, num_cores, args):
    """Search for a schedule of a kernel and time it.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    num_cores : int
        The number of cores that kernels run on.
    args : argparse.Namespace
        The options.

    Returns
    -------
    numbers : Dict[str, object]
        The descents' trials, the seconds of each activity and their fraction that is overhead.
    """
    # Fewer than are explored, so that the model orders the descents.
    model = auto_scheduler.XGBModel(seed=args.seed, num_warmup_sample=args.explore_trials // 2)
    policy = auto_scheduler.DropletSearchPolicy(
        kernel.task(target),
        model,
        params={"explore_trials": args.explore_trials},
        seed=args.seed,
        verbose=0,
    )
    log = args.output / f"{kernel.name}.json"
    log.unlink(missing_ok=True)
    stopwatch = Stopwatch(policy)
    model.update = stopwatch.timed(model.update, "update", "propose")
    for name, function, activity in (
        ("auto_scheduler.local_builder.build", measure.local_builder_build, "build"),
        ("auto_scheduler.local_runner.run", measure.local_run, "run"),
    ):
        tvm.register_func(name, stopwatch.timed(function, activity, "measurer"), override=True)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=args.trials,
        measure_callbacks=[auto_scheduler.RecordToFile(str(log)), BatchEnd(stopwatch)],
        verbose=0,
        **measure_options(num_cores),
    )
    policy.search_task.tune(options, policy)
    stopwatch.switch("done")

    seconds = stopwatch.seconds["descend"]
    wall = sum(seconds.values())
    return {
        "trials": policy.num_descended,
        "wall_seconds": wall,
        "seconds": dict(seconds),
        "overhead": sum(seconds[activity] for activity in OVERHEADS) / wall,
    }


def table(numbers):
    """The numbers as a table.

    Parameters
    ----------
    numbers : Dict[str, Dict[str, object]]
        Those of each kernel.

    Returns
    -------
    text : str
        The lines of the table, with what they show.
    """
    activities = ["build", "run", *OVERHEADS]
    rows = [["kernel", "trials", "seconds", *activities, "overhead"]]
    for name, kernel in numbers.items():
        rows.append(
            [name, str(kernel["trials"]), f"{kernel['wall_seconds']:.1f}"]
            + [f"{kernel['seconds'].get(activity, 0):.3f}" for activity in activities]
            + [f"{kernel['overhead']:.2%}"]
        )
    lines = ["".join(f"{cell:>10}" for cell in row) for row in rows]
    lines += [f"{activity}: {meaning}" for activity, meaning in OVERHEADS.items()]
    return "\n".join(lines)


def main():
    """Run the benchmark."""
    args = parse_search_args(__doc__, "build/policy_overhead", trials=80, explore_trials=16)
    num_cores = use_all_cores()
    target = detect_target()
    numbers = {}
    for name in args.kernels:
        print(f"{name}: exploring {args.explore_trials} of {args.trials} trials ...", flush=True)
        numbers[name] = time_search(KERNELS[name], target, num_cores, args)
    print(table(numbers))
    (args.output / "policy_overhead.json").write_text(json.dumps(numbers, indent=1) + "\n")
    for name, kernel in numbers.items():
        if kernel["overhead"] >= MAX_OVERHEAD:
            sys.exit(f"{name}: the overhead is {kernel['overhead']:.2%}, not below 3 %.")


if __name__ == "__main__":
    main()
