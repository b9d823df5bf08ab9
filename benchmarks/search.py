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
"""Run a search with live progress, and keep what it did."""

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional

from workloads import Kernel

import numpy as np
from tvm import auto_scheduler
from tvm.auto_scheduler.measure import PythonBasedMeasureCallback


@dataclass
class Trial:
    """A measured candidate: in which phase, when it was done, and its latency if it ran."""

    phase: str
    seconds: float
    latency: Optional[float]


@dataclass
class Phase:
    """What exploring or descending took, and the best candidate known at its end."""

    trials: int
    failed: int
    seconds: float
    logged_latency: float
    samples: List[float] = field(default_factory=list)

    @property
    def latency(self):
        """The median of the measurements after the search."""
        return float(np.median(self.samples))


@dataclass
class Search:
    """A finished search of one kernel."""

    kernel: Kernel
    task: auto_scheduler.SearchTask
    log: Path
    trials: List[Trial]
    phases: List[Phase]

    @property
    def gain(self):
        """How many times faster the kernel became by descending."""
        explored, descended = self.phases
        return explored.latency / descended.latency

    def gflops(self, latency):
        """The rate at which the kernel computes."""
        return self.task.compute_dag.flop_ct / latency / 1e9

    def best_explored(self):
        """The state with the lowest logged latency of those that were explored."""
        records = list(auto_scheduler.load_records(str(self.log)))[: self.phases[0].trials]
        best, _ = min(records, key=lambda record: latency_of(record[1]) or np.inf)
        return best.state


class Progress(PythonBasedMeasureCallback):
    """Prints a line for each measured batch and remembers its trials.

    Parameters
    ----------
    policy : auto_scheduler.DropletSearchPolicy
        The policy that searches.
    max_trials : int
        The number of trials that it may use.
    """

    def __init__(self, policy, max_trials):
        super().__init__()
        self.droplet = policy
        self.max_trials = max_trials
        self.start = time.time()
        self.trials = []
        self.move = ""

    def callback(self, policy, inputs, results):
        """Report a batch. The policy has not learned from it yet: `last_move` is of those before.

        Parameters
        ----------
        policy : auto_scheduler.SearchPolicy
            The policy that had the batch measured. It is the inner one while exploring.
        inputs : List[auto_scheduler.MeasureInput]
            The candidates.
        results : List[auto_scheduler.MeasureResult]
            Their results.
        """
        self.report_move()
        phase = str(self.droplet.phase)
        for result in results:
            self.trials.append(Trial(phase, result.timestamp - self.start, latency_of(result)))
        latency = best_latency(self.trials)
        best = "none ran yet"
        if latency is not None:
            rate = self.droplet.search_task.compute_dag.flop_ct / latency / 1e9
            best = f"best {latency * 1e3:7.3f} ms {rate:7.1f} GFLOP/s"
        name = f"{phase} {self.droplet.num_descents}" if phase == "descend" else phase
        print(f"{self.seconds():5.0f} s  {name:9}  {len(self.trials):4}/{self.max_trials}  {best}")

    def report_move(self):
        """Print the move that the policy took last, once."""
        if self.droplet.last_move != self.move:
            self.move = str(self.droplet.last_move)
            print(f"{'':9}moved: {self.move}")

    def seconds(self):
        """The seconds since the search began."""
        return time.time() - self.start


def latency_of(result):
    """The mean latency in seconds of a result, None if the candidate failed."""
    return float(np.mean([cost.value for cost in result.costs])) if result.error_no == 0 else None


def best_latency(trials):
    """The lowest latency of the trials, None if all failed."""
    return min((trial.latency for trial in trials if trial.latency is not None), default=None)


def tune(kernel, target, log, args, measure):
    """Search for a schedule of a kernel.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    log : Path
        The log of records to write anew.
    args : argparse.Namespace
        `trials`, the number of candidates to measure at most, `explore_trials` and `seed`.
    measure : Dict[str, object]
        The builder and the runner.

    Returns
    -------
    search : Search
        The search, before its best candidates are compared.
    """
    task = kernel.task(target)
    log.unlink(missing_ok=True)
    print(f"\n{kernel.name}: {kernel.description}. At most {args.trials} trials.")
    print(f"Records go to {log}, which starts afresh. Ansor proposes the first candidates ...")

    np.random.seed(args.seed)  # for the cost model, which guesses until it is trained
    policy = auto_scheduler.DropletSearchPolicy(
        task,
        auto_scheduler.XGBModel(seed=args.seed),
        params={"explore_trials": args.explore_trials},
        seed=args.seed,
        verbose=0,
    )
    progress = Progress(policy, args.trials)
    exit_on_interrupt(log)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=args.trials,
        # Explore in one round, since proposing the candidates of a round takes long.
        num_measures_per_round=args.explore_trials,
        measure_callbacks=[auto_scheduler.RecordToFile(str(log)), progress],
        verbose=0,
        **measure,
    )
    task.tune(options, policy)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    progress.report_move()
    if best_latency(progress.trials) is None:
        sys.exit(f"{kernel.name}: none of {len(progress.trials)} candidates ran, see {log}.")
    return Search(kernel, task, log, progress.trials, summarize_phases(progress))


def summarize_phases(progress):
    """Split the trials of a search into its two phases.

    Parameters
    ----------
    progress : Progress
        The progress of the search, which has just ended.

    Returns
    -------
    phases : List[Phase]
        Exploring and descending.
    """
    explored = [trial for trial in progress.trials if trial.phase == "explore"]
    descended = progress.trials[len(explored) :]
    explore_seconds = explored[-1].seconds
    return [
        Phase(
            len(trials),
            sum(trial.latency is None for trial in trials),
            seconds,
            best_latency(known),
        )
        for trials, known, seconds in (
            (explored, explored, explore_seconds),
            (descended, progress.trials, progress.seconds() - explore_seconds),
        )
    ]


def exit_on_interrupt(log):
    """On Ctrl-C, say where the records are and leave.

    Parameters
    ----------
    log : Path
        The log of the search that is about to begin.
    """

    def leave(*_):
        num_records = len(log.read_text().splitlines()) if log.exists() else 0
        print(f"\nInterrupted after {num_records} records in {log}.")
        if num_records:
            print(
                "The next demo starts that log afresh. To go on from it instead, make a policy for"
            )
            print("the kernel's task in benchmarks/workloads.py, with init_search_callbacks=")
            print(f'[auto_scheduler.PreloadMeasuredStates("{log}")]')
        sys.stdout.flush()
        # Not by an exception: TVM would take it for the failure of a candidate.
        os._exit(128 + signal.SIGINT)

    signal.signal(signal.SIGINT, leave)
