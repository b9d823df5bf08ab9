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
"""A contest of searches for one kernel, with one seed, in one process.

The contenders take turns: always the one that has used the least wall-clock time so far goes on, by
one round. What slows the machine down for a while thus slows them all down.
"""

import contextlib
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Optional

import winners
from schedulers import SCHEDULERS
from search import best_latency

import numpy as np
from tvm.auto_scheduler import SketchPolicy

EXPLORE_ROUND = 64  # trials in a round of whatever explores, as TaskScheduler has them
DESCENT_ROUND = 16  # trials in a round of a descent
# A search may find nothing new in a round, and yet in the next one.
MAX_EMPTY_ROUNDS = SketchPolicy.DEFAULT_PARAMS["retry_search_one_round_on_empty"]


@dataclass(frozen=True)
class Settings:
    """Whose searches there are, and how many trials they have.

    Parameters
    ----------
    scheduler : str
        A key of `SCHEDULERS`.
    explore_trials : int
        Those that droplet explores.
    descend_trials : int
        Those that it descends, at most.
    rival_trials : int
        Those of the search that it is compared with.
    """

    scheduler: str
    explore_trials: int
    descend_trials: int
    rival_trials: int

    @property
    def warmup_trials(self):
        """The samples up to which cost models guess."""
        # By default 100. Here they are to guide from the second round, and once DropletSearchPolicy
        # has sampled its first programs.
        return min(EXPLORE_ROUND, self.explore_trials) // 3


@dataclass
class Trial:
    """A measured candidate: when its batch was done, its latency if it ran, and its error."""

    seconds: float
    latency: Optional[float]
    error_no: int


class Contender:
    """A search with a clock and a source of random numbers of its own.

    Parameters
    ----------
    name : str
        Its name.
    make_search : Callable
        Makes the search, on the contender's own time. It is given the log, and what to call with
        the latency in seconds (None if it failed) and the error number of each candidate of a
        batch.
    log : Path
        The log of its records, which starts afresh.
    next_trials : Callable
        From the contender to the number of trials of its next round, 0 at the end.
    seed : int
        The seed of NumPy, from which a cost model guesses until it is trained.
    clock : Dict[str, float]
        The seconds that all contenders together spent on each activity besides the search itself.
    start : float
        Its wall-clock time at the start, in seconds.
    """

    def __init__(self, name, make_search, log, next_trials, seed, clock, start=0.0):
        self.name = name
        self.log = log
        self.next_trials = next_trials
        self.clock = clock
        self.start = start
        self.seconds = start
        self.trials = []
        self.split = defaultdict(lambda: dict.fromkeys(("search", *clock), 0.0))
        self.empty_rounds = 0
        self.random_state = np.random.RandomState(seed).get_state()
        log.unlink(missing_ok=True)
        with self.on_the_clock():
            self.search = make_search(log, self.keep)

    def keep(self, outcomes):
        """Keep the trials of a batch.

        Parameters
        ----------
        outcomes : List[Tuple[Optional[float], int]]
            The latency and the error number of each.
        """
        seconds = self.seconds + time.perf_counter() - self.round_begin
        self.trials += [Trial(seconds, *outcome) for outcome in outcomes]

    def records(self):
        """The records of its trials, a line each."""
        # Before them, there may be those that it began with.
        lines = self.log.read_text().splitlines()
        return lines[len(lines) - len(self.trials) :]

    @property
    def finished(self):
        """Whether there is nothing left to do."""
        return self.empty_rounds > MAX_EMPTY_ROUNDS or self.next_trials(self) <= 0

    @property
    def phase(self):
        """What it did last: droplet explores, then descends."""
        return "descend" if self.search.phase == "done" else self.search.phase

    def advance(self):
        """Search for one round."""
        num_before = len(self.trials)
        with self.on_the_clock():
            self.search.advance(self.next_trials(self))
        is_empty = len(self.trials) == num_before
        self.empty_rounds = self.empty_rounds + 1 if is_empty else 0
        best = best_latency(self.trials)
        best = "none ran yet" if best is None else f"best {best * 1e3:8.4f} ms"
        print(f"{self.name:10} {self.phase:8} {len(self.trials):5} {best} {self.seconds:7.1f} s")

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
        activities = {name: self.clock[name] - clock[name] for name in clock}
        split = self.split[self.phase]
        for name, spent in activities.items():
            split[name] += spent
        split["search"] += seconds - sum(activities.values())

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
        Whose searches there are, and how many trials they have.
    records : Path
        The folder of the logs.
    num_cores : int
        The number of cores that kernels run on.
    """

    def __init__(self, kernel, target, seed, settings, records, num_cores):
        self.kernel = kernel
        self.seed = seed
        self.settings = settings
        self.records = records
        searches = SCHEDULERS[settings.scheduler]
        self.clock = dict.fromkeys(searches.activities, 0.0)
        self.searches = searches(kernel, target, seed, settings, num_cores, self.clock)
        self.contenders = {}
        records.mkdir(parents=True, exist_ok=True)

    def run(self):
        """Let the contenders search.

        Returns
        -------
        contenders : Dict[str, Dict[str, object]]
            What each did.
        """
        rival = self.searches.rival
        with self.searches.timed():
            self.add(rival, self.searches.make_rival, self.next_rival_trials)
            self.add("droplet", self.searches.make_droplet, self.next_droplet_trials)
            while True:
                if self.contenders["droplet"].finished and len(self.contenders) == 2:
                    self.add_continued()
                active = [c for c in self.contenders.values() if not c.finished]
                if not active:
                    break
                min(active, key=lambda contender: contender.seconds).advance()
        summaries = {name: c.summary() for name, c in self.contenders.items()}
        summaries["droplet"]["explored"] = self.num_explored
        return summaries

    def add(self, name, make_search, next_trials, start=0.0):
        """Add a contender."""
        log = self.records / f"{self.kernel.name}-seed{self.seed}-{name}.json"
        self.contenders[name] = Contender(
            name, make_search, log, next_trials, self.seed, self.clock, start
        )

    def add_continued(self):
        """Add the rival, continued from what droplet explored."""
        droplet = self.contenders["droplet"]
        if droplet.best() is None:
            raise winners.MeasureFailed(f"none of {len(droplet.trials)} candidates ran")
        explored = droplet.records()[: self.num_explored]
        self.add(
            f"{self.searches.rival}+",
            lambda log, keep: self.searches.make_continued(log, keep, explored),
            self.next_continued_trials,
            droplet.trials[self.num_explored - 1].seconds,
        )

    @property
    def num_explored(self):
        """The trials that droplet explored."""
        return self.contenders["droplet"].search.num_explored

    def next_rival_trials(self, contender):
        """The trials of a round of the rival."""
        return min(EXPLORE_ROUND, self.settings.rival_trials - len(contender.trials))

    def next_droplet_trials(self, contender):
        """The trials of a round of droplet."""
        search = contender.search
        if search.phase == "done":
            return 0
        to_explore = self.settings.explore_trials - search.num_explored
        if search.phase == "explore" and to_explore > 0:
            return min(EXPLORE_ROUND, to_explore)
        num_trials = self.settings.explore_trials + self.settings.descend_trials
        return min(DESCENT_ROUND, num_trials - len(contender.trials))

    def next_continued_trials(self, contender):
        """The trials of a round of the continued rival: as many in all as the descent had."""
        num_descended = len(self.contenders["droplet"].trials) - self.num_explored
        return min(EXPLORE_ROUND, num_descended - len(contender.trials))

    def winners(self):
        """The best candidates.

        Returns
        -------
        records : Dict[str, Optional[str]]
            The record of each winner, None where no candidate ran.
        """
        rival, droplet, continued = self.contenders.values()
        explored = droplet.trials[: self.num_explored]
        best = {
            "droplet": (droplet, droplet.best()),
            rival.name: (rival, rival.best()),
            f"{rival.name}@droplet": (rival, rival.best(until=droplet.seconds)),
            continued.name: (continued, continued.best()),
        }
        own = best_latency(continued.trials)
        if own is None or best_latency(explored) <= own:
            best[continued.name] = (droplet, droplet.best(until=explored[-1].seconds))
        return {
            name: None if index is None else contender.records()[index]
            for name, (contender, index) in best.items()
        }


def hold_contest(kernel, target, seed, settings, folder, num_cores):
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
        Whose searches there are, and how many trials they have.
    folder : Path
        The folder, where the logs go into `records`.
    num_cores : int
        The number of cores that kernels run on.

    Returns
    -------
    result : Dict[str, object]
        What the contest was and what came out, ready for JSON. Latencies are in seconds.
    """
    contest = Contest(kernel, target, seed, settings, folder / "records", num_cores)
    contenders = contest.run()
    records = contest.winners()
    print("measuring the winners again ...")
    samples = winners.measure_again(kernel, target, seed, settings.scheduler, records)
    return {
        "kernel": kernel.name,
        "description": kernel.description,
        "shapes": kernel.shapes,
        "seed": seed,
        "settings": asdict(settings),
        "contenders": contenders,
        "winners": winners.summarize(samples, records),
    }
