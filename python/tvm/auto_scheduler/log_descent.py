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

from .cost_model import XGBModel
from .droplet_search_policy import DropletSearchPolicy
from .measure import recover_measure_input
from .measure_record import RecordReader, RecordToFile
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
    with the whole log first.

    Parameters
    ----------
    log_file : str
        The log of an earlier search, for example one of TaskScheduler with SketchPolicy. New
        records are appended.
    tune_option : TuningOptions
        The number of trials of all tasks together, and how to measure them. `early_stopping` holds
        for each task. It needs no RecordToFile.
    tasks : Optional[List[SearchTask]]
        The tasks to descend, for example all of a network from `extract_tasks`. Those without a
        valid record in the log are left out. By default all tasks of the log, which is possible
        if their workloads are registered, as they are after `extract_tasks`.
    task_weights : Optional[List[float]]
        How often each of `tasks` occurs. By default once.
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
    before = _best_records(log_file)
    tasks = _tasks_of(before, log_file) if tasks is None else list(tasks)
    weights = [1] * len(tasks) if task_weights is None else list(task_weights)
    if len(weights) != len(tasks):
        raise ValueError(f"There are {len(tasks)} tasks, but {len(weights)} task_weights")
    costs = {
        i: weight * before[_key_of(tasks[i])][0]
        for i, weight in enumerate(weights)
        if _key_of(tasks[i]) in before
    }
    if not costs:
        raise ValueError(_no_records_message(log_file, tasks, before))
    order = sorted(costs, key=costs.get, reverse=True)

    cost_model = XGBModel(num_warmup_sample=0)
    cost_model.update_from_file(log_file)
    num_left = tune_option.num_measure_trials
    for rank, i in enumerate(order):
        fair = num_left * costs[i] / sum(costs[other] for other in order[rank:])
        num_trials = min(num_left, max(round(fair), _MIN_TRIALS_PER_TASK))
        if num_trials < 2:  # A search with less measures nothing.
            break
        num_left -= _descend(
            tasks[i], log_file, cost_model, num_trials, tune_option, search_policy_params
        )
    after = _best_records(log_file)
    descended = [(tasks[i], _key_of(tasks[i])) for i in order]
    return [(task, before[key][0], after[key][0]) for task, key in descended]


def _descend(task, log_file, cost_model, num_trials, tune_option, search_policy_params):
    """Descend from the best record of a task. Returns the number of trials that it took."""
    policy = DropletSearchPolicy(
        task,
        cost_model,
        params={**(search_policy_params or {}), "explore_trials": 0},
        verbose=tune_option.verbose,
        init_search_callbacks=[PreloadMeasuredStates(log_file)],
    )
    options = TuningOptions(
        num_measure_trials=num_trials,
        early_stopping=tune_option.early_stopping,
        num_measures_per_round=tune_option.num_measures_per_round,
        verbose=tune_option.verbose,
        builder=tune_option.builder,
        runner=tune_option.runner,
        measure_callbacks=[RecordToFile(log_file), *(tune_option.measure_callbacks or [])],
    )
    task.tune(options, search_policy=policy)
    return policy.num_descended


def _key_of(task):
    """What tells tasks apart in a log."""
    return task.workload_key, str(task.target)


def _best_records(log_file):
    """The lowest latency of each task in a log, in seconds, with its MeasureInput."""
    if not os.path.isfile(log_file):
        raise FileNotFoundError(f"There is no log {log_file}")
    best = {}
    for inp, res in RecordReader(log_file):
        latency = array_mean(res.costs)
        key = _key_of(inp.task)
        if res.error_no == 0 and (key not in best or latency < best[key][0]):
            best[key] = (latency, inp)
    if not best:
        raise ValueError(f"The log {log_file} has no valid record to descend from")
    return best


def _tasks_of(best, log_file):
    """The tasks of a log. Their workloads have to be registered."""
    try:
        return [recover_measure_input(inp).task for _, inp in best.values()]
    except Exception as error:
        raise ValueError(
            f"The log {log_file} has tasks whose workloads are not registered. Give `tasks`, for "
            "example those that extract_tasks returns for the network"
        ) from error


def _no_records_message(log_file, tasks, best):
    targets = "; ".join(sorted({target for _, target in best}))
    wanted = "; ".join(sorted({str(task.target) for task in tasks}))
    return (
        f"The log {log_file} has no valid record of any of the {len(tasks)} tasks on {wanted}. Its "
        f"records are for the target {targets}"
    )
