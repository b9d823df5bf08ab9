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
"""A contest of search policies for one kernel, with one seed, in one process.

The contenders take turns: always the one that has used the least wall-clock time so far goes on, by
one round. What slows the machine down for a while thus slows them all down.
"""

import contextlib
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Optional

import winners
from search import best_latency, latency_of

import numpy as np
import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.measure import ProgramMeasurer, PythonBasedMeasureCallback

SKETCH_ROUND = 64  # trials in a round of SketchPolicy, as TaskScheduler has them
DESCENT_ROUND = 16  # trials in a round of a descent
# SketchPolicy may find nothing new in a round, and yet in the next one.
MAX_EMPTY_ROUNDS = auto_scheduler.SketchPolicy.DEFAULT_PARAMS["retry_search_one_round_on_empty"]

MEASURING = {
    "build": "auto_scheduler.local_builder.build",
    "run": "auto_scheduler.local_runner.run",
}


@dataclass(frozen=True)
class Settings:
    """How many trials the contenders have.

    Parameters
    ----------
    explore_trials : int
        Those that DropletSearchPolicy explores.
    descend_trials : int
        Those that it descends, at most.
    sketch_trials : int
        Those of SketchPolicy.
    """

    explore_trials: int
    descend_trials: int
    sketch_trials: int


@dataclass
class Trial:
    """A measured candidate: when its batch was done, its latency if it ran, and its error."""

    seconds: float
    latency: Optional[float]
    error_no: int


class Contender(PythonBasedMeasureCallback):
    """A search policy with a clock, a log and a source of random numbers of its own.

    Parameters
    ----------
    name : str
        Its name.
    log : Path
        The log of its records, written anew.
    make_policy : Callable
        Makes the policy, on the contender's own time.
    next_trials : Callable
        From the contender to the number of trials of its next round, 0 at the end.
    seed : int
        The seed of NumPy, from which a cost model guesses until it is trained.
    measure : Dict[str, object]
        The builder and the runner.
    clock : Dict[str, float]
        The seconds spent on building and on running candidates, of all contenders.
    start : float
        Its wall-clock time at the start, in seconds.
    """

    def __init__(self, name, log, make_policy, next_trials, seed, measure, clock, start=0.0):
        super().__init__()
        self.name = name
        self.log = log
        self.next_trials = next_trials
        self.clock = clock
        self.start = start
        self.seconds = start
        self.trials = []
        self.split = defaultdict(lambda: dict.fromkeys(("search", *MEASURING), 0.0))
        self.empty_rounds = 0
        self.random_state = np.random.RandomState(seed).get_state()
        log.unlink(missing_ok=True)
        callbacks = [auto_scheduler.RecordToFile(str(log)), self]
        self.measurer = ProgramMeasurer(callbacks=callbacks, verbose=0, **measure)
        with self.on_the_clock():
            self.policy = make_policy()

    def callback(self, policy, inputs, results):
        """Keep the trials of a batch."""
        seconds = self.seconds + time.perf_counter() - self.round_begin
        self.trials += [
            Trial(seconds, latency_of(result), int(result.error_no)) for result in results
        ]

    @property
    def finished(self):
        """Whether there is nothing left to do."""
        return self.empty_rounds > MAX_EMPTY_ROUNDS or self.next_trials(self) <= 0

    @property
    def phase(self):
        """What it did last: DropletSearchPolicy explores, then descends."""
        phase = str(getattr(self.policy, "phase", "all"))
        return "descend" if phase == "done" else phase

    def advance(self):
        """Search for one round."""
        num_before = len(self.trials)
        with self.on_the_clock():
            self.policy.continue_search_one_round(self.next_trials(self), self.measurer)
        is_empty = len(self.trials) == num_before
        self.empty_rounds = self.empty_rounds + 1 if is_empty else 0
        best = best_latency(self.trials)
        best = "none ran yet" if best is None else f"best {best * 1e3:8.4f} ms"
        print(f"{self.name:8} {self.phase:8} {len(self.trials):5} {best} {self.seconds:7.1f} s")

    @contextlib.contextmanager
    def on_the_clock(self):
        """Count the time as that of the contender, and draw from its random numbers."""
        others = np.random.get_state()
        np.random.set_state(self.random_state)
        clock, self.round_begin = dict(self.clock), time.perf_counter()
        yield
        seconds = time.perf_counter() - self.round_begin
        self.random_state = np.random.get_state()
        np.random.set_state(others)

        self.seconds += seconds
        measuring = {name: self.clock[name] - clock[name] for name in clock}
        split = self.split[self.phase]
        for name, spent in measuring.items():
            split[name] += spent
        split["search"] += seconds - sum(measuring.values())

    def summary(self):
        """All that is kept of it, ready for JSON."""
        return {
            "start": self.start,
            "seconds": self.seconds,
            "split": dict(self.split),
            "trials": [asdict(trial) for trial in self.trials],
        }

    def best(self, until=np.inf):
        """The index of the trial with the lowest latency, None if none ran.

        Parameters
        ----------
        until : float
            Count only trials that were done by this time of the contender's clock.

        Returns
        -------
        index : Optional[int]
            That of the first one of equals, which `apply_best` takes too.
        """
        ran = [
            (trial.latency, index)
            for index, trial in enumerate(self.trials)
            if trial.latency is not None and trial.seconds <= until
        ]
        return min(ran)[1] if ran else None

    def record(self, index):
        """The record of a trial, as a line of the log."""
        return self.log.read_text().splitlines()[index]


class Contest:
    """A contest of one kernel and seed.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    seed : int
        The seed of all contenders and of the inputs.
    settings : Settings
        How many trials there are.
    records : Path
        The folder of the logs.
    measure : Dict[str, object]
        The builder and the runner.
    """

    def __init__(self, kernel, target, seed, settings, records, measure):
        self.kernel = kernel
        self.task = kernel.task(target)
        self.seed = seed
        self.settings = settings
        self.records = records
        self.measure = measure
        self.clock = dict.fromkeys(MEASURING, 0.0)
        self.contenders = {}
        records.mkdir(parents=True, exist_ok=True)

    def run(self):
        """Let the contenders search.

        Returns
        -------
        contenders : Dict[str, Dict[str, object]]
            What each did.
        """
        with timed_measuring(self.clock):
            self.add("sketch", self.sketch_policy, self.next_sketch_trials)
            self.add("droplet", self.droplet_policy, self.next_droplet_trials)
            while True:
                if self.contenders["droplet"].finished and "sketch+" not in self.contenders:
                    self.add_continued()
                active = [c for c in self.contenders.values() if not c.finished]
                if not active:
                    break
                min(active, key=lambda contender: contender.seconds).advance()
        summaries = {name: c.summary() for name, c in self.contenders.items()}
        summaries["droplet"]["explored"] = self.num_explored
        return summaries

    def add(self, name, make_policy, next_trials, start=0.0):
        """Add a contender."""
        log = self.log_of(name)
        self.contenders[name] = Contender(
            name, log, make_policy, next_trials, self.seed, self.measure, self.clock, start
        )

    def add_continued(self):
        """Add Ansor, continued from what DropletSearchPolicy explored."""
        droplet = self.contenders["droplet"]
        if droplet.best() is None:
            sys.exit(f"{self.kernel.name}: none of {len(droplet.trials)} candidates ran.")
        explored = droplet.log.read_text().splitlines(keepends=True)[: self.num_explored]
        self.log_of("explored").write_text("".join(explored))
        start = droplet.trials[self.num_explored - 1].seconds
        self.add("sketch+", self.continued_policy, self.next_continued_trials, start)

    def log_of(self, name):
        """The log of a contender."""
        return self.records / f"{self.kernel.name}-seed{self.seed}-{name}.json"

    @property
    def num_explored(self):
        """The trials that DropletSearchPolicy explored."""
        return int(self.contenders["droplet"].policy.num_explored)

    @property
    def policy_options(self):
        """What all policies have in common."""
        # SketchPolicy takes the seed 0 for none.
        return {"task": self.task, "seed": self.seed + 1, "verbose": 0}

    def cost_model(self):
        """An untrained cost model."""
        # By default it guesses until it has 100 samples. Here it is to guide from the second round,
        # and once DropletSearchPolicy has sampled its first programs.
        num_warmup = min(SKETCH_ROUND, self.settings.explore_trials) // 3
        return auto_scheduler.XGBModel(
            num_warmup_sample=num_warmup, seed=self.seed + 1, verbose_eval=0
        )

    def sketch_policy(self):
        """Ansor."""
        return auto_scheduler.SketchPolicy(
            program_cost_model=self.cost_model(), **self.policy_options
        )

    def droplet_policy(self):
        """Ansor, then coordinate descent."""
        return auto_scheduler.DropletSearchPolicy(
            program_cost_model=self.cost_model(),
            params={"explore_trials": self.settings.explore_trials},
            **self.policy_options,
        )

    def continued_policy(self):
        """Ansor, continued."""
        log = str(self.log_of("explored"))
        model = self.cost_model()
        model.update_from_file(log)
        return auto_scheduler.SketchPolicy(
            program_cost_model=model,
            init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)],
            **self.policy_options,
        )

    def next_sketch_trials(self, contender):
        """The trials of a round of Ansor."""
        return min(SKETCH_ROUND, self.settings.sketch_trials - len(contender.trials))

    def next_droplet_trials(self, contender):
        """The trials of a round of DropletSearchPolicy."""
        policy = contender.policy
        if policy.phase == "done":
            return 0
        to_explore = self.settings.explore_trials - policy.num_explored
        if policy.phase == "explore" and to_explore > 0:
            return min(SKETCH_ROUND, to_explore)
        num_trials = self.settings.explore_trials + self.settings.descend_trials
        return min(DESCENT_ROUND, num_trials - len(contender.trials))

    def next_continued_trials(self, contender):
        """The trials of a round of the continued Ansor: as many in all as the descent had."""
        num_descended = self.contenders["droplet"].policy.num_descended
        return min(SKETCH_ROUND, num_descended - len(contender.trials))

    def winners(self):
        """The best candidates.

        Returns
        -------
        records : Dict[str, Optional[str]]
            The record of each winner, None where no candidate ran.
        """
        sketch, droplet, continued = self.contenders.values()
        explored = droplet.trials[: self.num_explored]
        best = {
            "droplet": (droplet, droplet.best()),
            "sketch": (sketch, sketch.best()),
            "sketch@droplet": (sketch, sketch.best(until=droplet.seconds)),
            "sketch+": (continued, continued.best()),
        }
        own = best_latency(continued.trials)
        if own is None or best_latency(explored) <= own:
            best["sketch+"] = (droplet, droplet.best(until=explored[-1].seconds))
        return {
            name: None if index is None else contender.record(index)
            for name, (contender, index) in best.items()
        }


@contextlib.contextmanager
def timed_measuring(clock):
    """Count the seconds that candidates are built and run.

    Parameters
    ----------
    clock : Dict[str, float]
        The seconds, to which they are added.
    """
    originals = {name: tvm.get_global_func(path) for name, path in MEASURING.items()}

    def timed(name):
        def wrapped(*args):
            begin = time.perf_counter()
            results = originals[name](*args)
            clock[name] += time.perf_counter() - begin
            return results

        return wrapped

    for name, path in MEASURING.items():
        tvm.register_func(path, timed(name), override=True)
    try:
        yield
    finally:
        for name, path in MEASURING.items():
            tvm.register_func(path, originals[name], override=True)


def hold_contest(kernel, target, seed, settings, folder, measure):
    """Hold a contest and measure its winners again.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    seed : int
        The seed of all contenders and of the inputs.
    settings : Settings
        How many trials there are.
    folder : Path
        The folder, where the logs go into `records`.
    measure : Dict[str, object]
        The builder and the runner.

    Returns
    -------
    result : Dict[str, object]
        What the contest was and what came out, ready for JSON. Latencies are in seconds.
    """
    contest = Contest(kernel, target, seed, settings, folder / "records", measure)
    contenders = contest.run()
    records = contest.winners()
    print("measuring the winners again ...")
    samples = winners.measure_again(kernel, target, seed, records)
    return {
        "kernel": kernel.name,
        "description": kernel.description,
        "shapes": kernel.shapes,
        "seed": seed,
        "settings": asdict(settings),
        "contenders": contenders,
        "winners": winners.summarize(samples, records),
    }
