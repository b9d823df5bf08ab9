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
"""Descend from the best records of a log, after the search that wrote it."""

import os
import tempfile
import time
from typing import List, NamedTuple

import numpy as np

from .cost_model import XGBModel
from .droplet_search_policy import DropletSearchPolicy
from .log_check import key_of, mend_log, no_records_message
from .measure import (
    MeasureInput,
    MeasureResult,
    PythonBasedMeasureCallback,
    recover_measure_input,
)
from .measure_record import RecordReader, RecordToFile, save_records
from .search_policy import PreloadMeasuredStates
from .search_task import TuningOptions
from .utils import array_mean

# Fewer trials would be over before a descent has tried what the cost model promises most.
_MIN_TRIALS_PER_TASK = 16


def descend_from_log(
    log_file, tune_option, tasks=None, task_weights=None, search_policy_params=None
):
    """Descend from the best record of every task in a log, the most expensive tasks first.

    An expensive task is one with a high product of latency and weight, and the trials are shared
    in proportion to it. What a task leaves, because its descents converge, is for those after it.
    When the trials are used up, the tasks that come last have had none. The cost model is trained
    with the whole log first. After an interruption, the same call goes on from what is in the log
    by then.

    Parameters
    ----------
    log_file : str
        The log of an earlier search, for example one of TaskScheduler with SketchPolicy. New
        records are appended. A last record that was cut, since its writer was killed, becomes a
        comment.
    tune_option : TuningOptions
        The number of trials of all tasks together, and how to measure them. `early_stopping` holds
        for each task. It needs no RecordToFile.
    tasks : Optional[List[SearchTask]]
        The tasks to descend, for example all of a network from `extract_tasks`. Those without a
        valid record in the log are left out. By default all tasks of the log, which is possible
        if their workloads are registered, as they are after `extract_tasks`.
    task_weights : Optional[List[float]]
        How often each of `tasks` occurs. By default once. Those that do not are left out.
    search_policy_params : Optional[Dict[str, Any]]
        Parameters of DropletSearchPolicy. It does not explore.

    Returns
    -------
    latencies : List[Tuple[SearchTask, float, float]]
        The tasks in the order of their descents, with the lowest latency in the log, in seconds,
        before and after.

    Raises
    ------
    FileNotFoundError
        If there is no such log.
    ValueError
        If the log has no valid record, or none of the tasks on their target.
    """
    records = _read(log_file)
    tasks = _tasks_of(records, log_file) if tasks is None else list(tasks)
    weights = [1] * len(tasks) if task_weights is None else list(task_weights)
    if len(weights) != len(tasks):
        raise ValueError(f"There are {len(tasks)} tasks, but {len(weights)} task_weights")
    lowest = [_LowestLatency(records.get(key_of(task), _NO_RECORDS).results) for task in tasks]
    before = [latency.seconds for latency in lowest]
    costs = {
        i: weights[i] * before[i]
        for i in range(len(tasks))
        if weights[i] > 0 and np.isfinite(before[i])
    }
    if not costs:
        raise ValueError(no_records_message(log_file, tasks, records))
    order = sorted(costs, key=costs.get, reverse=True)

    cost_model = XGBModel(num_warmup_sample=0)
    cost_model.update(*(sum(lists, []) for lists in zip(*records.values())))
    num_left = tune_option.num_measure_trials
    begin = time.time()
    for rank, i in enumerate(order):
        fair = num_left * costs[i] / sum(costs[other] for other in order[rank:])
        num_trials = min(num_left, max(round(fair), _MIN_TRIALS_PER_TASK))
        if num_trials < 2:  # A search with less measures nothing.
            break
        num_left -= _descend(
            tasks[i],
            records[key_of(tasks[i])],
            cost_model,
            _options_of_task(tune_option, num_trials, [RecordToFile(log_file), lowest[i]]),
            search_policy_params,
        )
        if tune_option.verbose:
            num_done = max(tune_option.num_measure_trials - num_left, 1)
            minutes = (time.time() - begin) / 60 * num_left / num_done
            print(
                f"Task {rank + 1} of {len(order)}: {before[i] * 1e3:.4f} ms before, "
                f"{lowest[i].seconds * 1e3:.4f} ms now. At most {num_left} trials and about "
                f"{minutes:.0f} minutes are left.",
                flush=True,
            )
    return [(tasks[i], before[i], lowest[i].seconds) for i in order]


class _Records(NamedTuple):
    """What a log has of a task."""

    inputs: List[MeasureInput]
    results: List[MeasureResult]


_NO_RECORDS = _Records([], [])


class _LowestLatency(PythonBasedMeasureCallback):
    """Keeps the lowest latency of a task, in seconds. It is infinite as long as none was valid.

    Parameters
    ----------
    results : List[MeasureResult]
        Results that are known already.
    """

    def __init__(self, results):
        super().__init__()
        self.seconds = float("inf")
        self.callback(None, None, results)

    def callback(self, policy, inputs, results):
        latencies = [array_mean(res.costs) for res in results if res.error_no == 0]
        self.seconds = min([self.seconds, *latencies])


def _descend(task, records, cost_model, options, search_policy_params):
    """Descend from the best record of a task. Returns the number of trials that it took."""
    # The policy reads no more than it needs: a log of many tasks is long.
    with tempfile.TemporaryDirectory() as folder:
        log_file = os.path.join(folder, "task.json")
        save_records(log_file, *records)
        policy = DropletSearchPolicy(
            task,
            cost_model,
            params={**(search_policy_params or {}), "explore_trials": 0},
            verbose=options.verbose,
            init_search_callbacks=[PreloadMeasuredStates(log_file)],
        )
    task.tune(options, search_policy=policy)
    return policy.num_descended


def _options_of_task(tune_option, num_trials, callbacks):
    """The options of one of several tasks, with a part of their trials."""
    return TuningOptions(
        num_measure_trials=num_trials,
        early_stopping=tune_option.early_stopping,
        num_measures_per_round=tune_option.num_measures_per_round,
        verbose=tune_option.verbose,
        builder=tune_option.builder,
        runner=tune_option.runner,
        measure_callbacks=callbacks + list(tune_option.measure_callbacks or []),
    )


def _read(log_file):
    """What a log has of each task."""
    mend_log(log_file)
    records = {}
    for inp, res in RecordReader(log_file):
        of_task = records.setdefault(key_of(inp.task), _Records([], []))
        of_task.inputs.append(inp)
        of_task.results.append(res)
    if not any(res.error_no == 0 for of_task in records.values() for res in of_task.results):
        raise ValueError(f"The log {log_file} has no valid record to descend from")
    return records


def _tasks_of(records, log_file):
    """The tasks of a log. Their workloads have to be registered."""
    try:
        return [recover_measure_input(of_task.inputs[0]).task for of_task in records.values()]
    except Exception as error:
        raise ValueError(
            f"The log {log_file} has tasks whose workloads are not registered. Give `tasks`, for "
            "example those that extract_tasks returns for the network"
        ) from error
