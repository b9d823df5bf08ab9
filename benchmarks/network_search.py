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
"""Tune a network with a search policy for a given wall-clock time.

The time counts from the first round on, over all sittings: a search that was interrupted goes on
from its log.
"""

import itertools
import json
import random
import time
from dataclasses import asdict, dataclass, field
from typing import List, Union

from result_files import write_json

import numpy as np
from tvm import auto_scheduler
from tvm.auto_scheduler.log_check import mend_log
from tvm.auto_scheduler.measure import PythonBasedMeasureCallback
from tvm.auto_scheduler.task_scheduler import TaskSchedulerCallback

# The trials of a task's round. With as many as TaskScheduler takes by itself, a search of some
# minutes would be over before each task had its first one, and the cost model learns only then.
ROUND = 16
# TaskScheduler derives from the number of trials how many of them explore. These are about what two
# cores measure in a second; in any case, the time ends the search.
TRIALS_PER_SECOND = {"sketch.xgb": 1, "droplet.xgb": 2}


@dataclass(frozen=True)
class Contender:
    """A search for schedules of a network.

    Parameters
    ----------
    name : str
        Its name.
    search_policy : str
        The search policy as TaskScheduler takes it by name.
    seconds : float
        The wall-clock time that it has.
    """

    name: str
    search_policy: str
    seconds: float


@dataclass
class Progress:
    """How far a search is.

    Parameters
    ----------
    seconds : float
        The wall-clock time that it took so far.
    num_records : int
        The number of records that it made in time. A round that was begun in time is finished, but
        what it measures too late does not count.
    curve : List[List[Union[float, int, None]]]
        For each round when it ended, the number of records by then, and the sum of the lowest
        latencies of all tasks in seconds, each as often as it occurs. None until each has one.
    finished : bool
        Whether its time is up, or nothing is left to try.
    """

    seconds: float = 0.0
    num_records: int = 0
    curve: List[List[Union[float, int, None]]] = field(default_factory=list)
    finished: bool = False


class TimeIsUp(Exception):
    """Ends a search between two rounds."""


class Stopwatch(PythonBasedMeasureCallback):
    """Counts the time and the records of a search, and keeps its progress in a file.

    Parameters
    ----------
    limit : float
        The seconds that the search has.
    log : Path
        The log of its records. The progress is in a file beside it.
    """

    def __init__(self, limit, log):
        super().__init__()
        self.limit = limit
        self.path = progress_of(log)
        self.progress = load_progress(log)
        self.begin = time.perf_counter() - self.progress.seconds
        lines = log.read_text().splitlines() if log.exists() else []
        # A record that was cut is a comment by now.
        self.num_measured = sum(not line.startswith("#") for line in lines)

    def callback(self, policy, inputs, results):
        """Count a batch."""
        self.num_measured += len(inputs)
        if self.read() <= self.limit:
            self.progress.num_records = self.num_measured
        self.save()

    def read(self):
        """The seconds of the search so far."""
        self.progress.seconds = time.perf_counter() - self.begin
        return self.progress.seconds

    def save(self):
        """Write the progress to its file."""
        write_json(self.path, asdict(self.progress))


class Rounds(TaskSchedulerCallback):
    """Reports the rounds of a search, and ends it when its time is up.

    Parameters
    ----------
    stopwatch : Stopwatch
        That of the search.
    report : Callable
        Called with the progress after each round.
    """

    def __init__(self, stopwatch, report):
        self.stopwatch = stopwatch
        self.report = report

    def pre_tune(self, task_scheduler, task_id):
        """Begin no round when the time is up."""
        if self.stopwatch.read() >= self.stopwatch.limit:
            raise TimeIsUp

    def post_tune(self, task_scheduler, task_id):
        """Report a round."""
        is_complete = all(cost < 1e9 for cost in task_scheduler.best_costs)
        latency = float(task_scheduler.cur_score) if is_complete else None
        progress = self.stopwatch.progress
        progress.curve.append([self.stopwatch.read(), self.stopwatch.num_measured, latency])
        self.stopwatch.save()
        self.report(progress)


def progress_of(log):
    """The file with the progress of a search.

    Parameters
    ----------
    log : Path
        The log of its records.

    Returns
    -------
    path : Path
        The file.
    """
    return log.with_suffix(".progress.json")


def load_progress(log):
    """The progress of a search.

    Parameters
    ----------
    log : Path
        The log of its records.

    Returns
    -------
    progress : Progress
        How far it came so far.
    """
    path = progress_of(log)
    return Progress(**json.loads(path.read_text())) if path.exists() else Progress()


def count_tuned(tasks, log, num_records):
    """How many tasks a log has a program for that ran.

    Parameters
    ----------
    tasks : List[auto_scheduler.SearchTask]
        The distinct tasks.
    log : Path
        The log of their records.
    num_records : int
        How many records of the log count.

    Returns
    -------
    count : int
        The number of tasks.
    """
    if not num_records:
        return 0
    records = itertools.islice(auto_scheduler.load_records(str(log)), num_records)
    tuned = {inp.task.workload_key for inp, result in records if result.error_no == 0}
    return sum(task.workload_key in tuned for task in tasks)


def search(contender, tasks, weights, log, measure, seed, report):
    """Tune the tasks of a network. Goes on from where an earlier call was interrupted.

    Parameters
    ----------
    contender : Contender
        How to search, and for how long.
    tasks : List[auto_scheduler.SearchTask]
        The tasks.
    weights : List[int]
        How often each of them occurs.
    log : Path
        The log of the records.
    measure : Dict[str, object]
        The builder and the runner.
    seed : int
        The seed of the search.
    report : Callable
        Called with the progress after each round.

    Returns
    -------
    progress : Progress
        How the search went.
    """
    if log.exists():
        mend_log(log)
    stopwatch = Stopwatch(contender.seconds, log)
    progress = stopwatch.progress
    # Policies by name have no seed of their own, and draw from these.
    random.seed(seed)
    np.random.seed(seed)
    while not progress.finished:
        scheduler = auto_scheduler.TaskScheduler(
            tasks,
            weights,
            load_log_file=str(log) if stopwatch.num_measured else None,
            callbacks=[Rounds(stopwatch, report)],
        )
        num_trials = int(contender.seconds * TRIALS_PER_SECOND[contender.search_policy])
        options = auto_scheduler.TuningOptions(
            num_measure_trials=max(num_trials, ROUND * len(tasks)),
            num_measures_per_round=ROUND,
            measure_callbacks=[auto_scheduler.RecordToFile(str(log)), stopwatch],
            verbose=0,
            **measure,
        )
        try:
            scheduler.tune(options, contender.search_policy)
            progress.finished = len(scheduler.dead_tasks) == len(tasks)
        except TimeIsUp:
            progress.finished = True
        stopwatch.save()
    return progress
