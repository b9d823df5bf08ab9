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
"""Test descending from the log of an earlier search."""

import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler
from tvm.auto_scheduler.measure_record import load_records, save_records

from test_auto_scheduler_droplet_common import (
    FAST_SKETCH_PARAMS,
    fake_measuring,
    make_task,
    tile_cost,
)


@pytest.fixture
def measurer():
    with fake_measuring() as fake:
        yield fake


def options(num_trials, **kwargs):
    return auto_scheduler.TuningOptions(
        num_measure_trials=num_trials,
        num_measures_per_round=8,
        builder=auto_scheduler.LocalBuilder(n_parallel=2),
        verbose=0,
        **kwargs,
    )


@pytest.fixture
def log(measurer, tmp_path):
    """A log of Ansor with 16 trials each of three tasks, which are forgotten by the measurer."""
    path = tmp_path / "log.json"
    for n in (16, 64, 32):
        task = make_task(n)
        policy = auto_scheduler.SketchPolicy(task, params=FAST_SKETCH_PARAMS, seed=1, verbose=0)
        record = auto_scheduler.RecordToFile(str(path))
        task.tune(options(16, measure_callbacks=[record]), policy)
    measurer.inputs.clear()
    return path


def keys_of(inputs):
    """The workload keys in the order in which they first occur."""
    return list(dict.fromkeys(i.task.workload_key for i in inputs))


def test_descends_the_most_expensive_tasks_first(measurer, log):
    """The cost of a task here is the product of a common latency and its weight."""
    measurer_cost = 1e-3
    records = [
        (i, auto_scheduler.MeasureResult([measurer_cost], 0, "", 0.1, 0.0))
        for i, _ in load_records(str(log))
    ]
    log.unlink()
    save_records(str(log), *zip(*records))
    tasks = [make_task(n) for n in (16, 32, 64)]
    latencies = auto_scheduler.descend_from_log(
        str(log), options(120), tasks, [2, 1, 3], {"num_starts": 1}
    )
    expected = [tasks[i].workload_key for i in (2, 0, 1)]
    assert keys_of(measurer.inputs) == expected
    assert [task.workload_key for task, _, _ in latencies] == expected
    assert 0 < len(measurer.inputs) <= 120


def test_appends_better_records(measurer, log):
    old = log.read_text()
    before = {}
    for inp, res in load_records(str(log)):
        key = inp.task.workload_key
        before[key] = min(before.get(key, 1.0), res.costs[0].value)
    latencies = auto_scheduler.descend_from_log(str(log), options(300))
    assert log.read_text().startswith(old)
    assert len(log.read_text().splitlines()) == 48 + len(measurer.inputs)
    assert {task.workload_key: first for task, first, _ in latencies} == pytest.approx(before)
    for task, first, last in latencies:
        costs = [tile_cost(i) for i in measurer.inputs if i.task.workload_key == task.workload_key]
        assert last == pytest.approx(min(costs))
        assert last < first


@pytest.mark.parametrize("trials", [0, 1, 2, 20, 50])
def test_keeps_the_budget(measurer, log, trials):
    auto_scheduler.descend_from_log(str(log), options(trials))
    assert len(measurer.inputs) == (trials if trials > 1 else 0)


def test_tasks_without_records_are_left_out(measurer, log):
    tasks = [make_task(8), make_task(64)]
    latencies = auto_scheduler.descend_from_log(str(log), options(32), tasks)
    assert [task.workload_key for task, _, _ in latencies] == [tasks[1].workload_key]
    assert keys_of(measurer.inputs) == [tasks[1].workload_key]


def test_log_of_another_target(log):
    task = make_task(64)
    other = auto_scheduler.SearchTask(
        workload_key=task.workload_key, target=tvm.target.Target("llvm -mcpu=skylake-avx512")
    )
    with pytest.raises(ValueError, match="skylake-avx512.*for the target llvm -keys=cpu"):
        auto_scheduler.descend_from_log(str(log), options(32), [other])


@pytest.mark.parametrize("is_failed", [False, True])
def test_log_without_valid_records(tmp_path, log, is_failed):
    path = tmp_path / "invalid.json"
    path.touch()
    if is_failed:
        inp, _ = next(load_records(str(log)))
        save_records(str(path), [inp], [auto_scheduler.MeasureResult([1e10], 2, "no", 0.1, 0.0)])
    with pytest.raises(ValueError, match="invalid.json has no valid record"):
        auto_scheduler.descend_from_log(str(path), options(32))


def test_missing_log(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no log .*missing.json"):
        auto_scheduler.descend_from_log(str(tmp_path / "missing.json"), options(32))


def test_unknown_workloads(tmp_path, log):
    path = tmp_path / "unknown.json"
    path.write_text(log.read_text().replace("droplet_matmul", "droplet_unknown"))
    with pytest.raises(ValueError, match="workloads are not registered. Give `tasks`"):
        auto_scheduler.descend_from_log(str(path), options(32))


def test_wrong_number_of_weights(log):
    with pytest.raises(ValueError, match="There are 1 tasks, but 2 task_weights"):
        auto_scheduler.descend_from_log(str(log), options(32), [make_task()], [1, 2])


if __name__ == "__main__":
    tvm.testing.main()
