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

import json
import re
import types

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler
from tvm.auto_scheduler.log_check import mend_log
from tvm.auto_scheduler.measure import PythonBasedMeasureCallback
from tvm.auto_scheduler.measure_record import load_records, save_records

from test_auto_scheduler_droplet_common import (
    FAST_SKETCH_PARAMS,
    fake_measuring,
    make_task,
    steps_of,
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
        **{"verbose": 0, **kwargs},
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


def lowest_latencies(log):
    """From the workload key of each task in a log to its lowest latency."""
    lowest = {}
    for inp, res in load_records(str(log)):
        key = inp.task.workload_key
        lowest[key] = min(lowest.get(key, 1.0), res.costs[0].value)
    return lowest


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
    before = lowest_latencies(log)
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


def test_shows_progress(measurer, log, monkeypatch, capsys):
    """By the clock of this test, each trial takes a minute."""
    clock = types.SimpleNamespace(time=lambda: 60 * len(measurer.inputs))
    monkeypatch.setattr(auto_scheduler.log_descent, "time", clock)
    latencies = auto_scheduler.descend_from_log(str(log), options(100, verbose=1))
    lines = re.findall(
        r"Task (\d) of 3: (\S+) ms before, (\S+) ms now. "
        r"At most (\d+) trials and about (\d+) minutes are left.",
        capsys.readouterr().out,
    )
    assert [rank for rank, *_ in lines] == ["1", "2", "3"]
    shown = [(float(before), float(now)) for _, before, now, _, _ in lines]
    assert np.allclose(shown, [(before * 1e3, now * 1e3) for _, before, now in latencies])
    trials = [int(trials) for *_, trials, _ in lines]
    assert [int(minutes) for *_, minutes in lines] == trials
    assert 100 > trials[0] > trials[1] > trials[2] == 100 - len(measurer.inputs)


class Interrupted(Exception):
    pass


class Interrupter(PythonBasedMeasureCallback):
    """Interrupts a search in its fourth batch."""

    def __init__(self):
        super().__init__()
        self.num_batches = 0

    def callback(self, policy, inputs, results):
        self.num_batches += 1
        if self.num_batches == 4:
            raise Interrupted


def test_goes_on_after_an_interruption(measurer, log):
    with pytest.raises(Interrupted):
        auto_scheduler.descend_from_log(str(log), options(60, measure_callbacks=[Interrupter()]))
    records = log.read_text()
    assert len(records.splitlines()) == 48 + len(measurer.inputs) > 48
    known = {json.dumps(steps_of(inp)) for inp, _ in load_records(str(log))}
    assert set(measurer.programs) <= known
    lowest = lowest_latencies(log)
    measurer.inputs.clear()
    latencies = auto_scheduler.descend_from_log(str(log), options(60))
    assert log.read_text().startswith(records)
    assert {task.workload_key: first for task, first, _ in latencies} == pytest.approx(lowest)
    assert measurer.inputs and not known & set(measurer.programs)


@pytest.mark.parametrize(
    "missing, is_cut",
    [('"i"', True), (', "r"', True), (', "v"', True), ("}\n", True), ("\n", False)],
)
def test_last_record_was_cut(measurer, log, caplog, missing, is_cut):
    """A search that was killed may leave a part of a record. All others count, and are kept."""
    records = log.read_text()
    log.write_text(records[: records.rindex(missing)])
    others, _, part = log.read_text().rpartition("\n")
    auto_scheduler.descend_from_log(str(log), options(20))
    assert ("log.json was cut" in caplog.text) == is_cut
    kept = "#" + part[1:] if is_cut else part
    assert log.read_text().startswith(f"{others}\n{kept}\n")
    assert len(list(load_records(str(log)))) == (47 if is_cut else 48) + 20
    assert len(measurer.inputs) == 20


def test_last_comment_was_cut(measurer, log):
    log.write_text(log.read_text() + "# a comment")
    auto_scheduler.descend_from_log(str(log), options(20))
    assert len(list(load_records(str(log)))) == 48 + 20


@pytest.mark.parametrize("text", ['{"i": 1}', "no log"])
def test_no_other_file_is_mended(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    mend_log(str(path))
    assert path.read_text() == text


def test_tasks_without_records_are_left_out(measurer, log):
    tasks = [make_task(8), make_task(64)]
    latencies = auto_scheduler.descend_from_log(str(log), options(32), tasks)
    assert [task.workload_key for task, _, _ in latencies] == [tasks[1].workload_key]
    assert keys_of(measurer.inputs) == [tasks[1].workload_key]


def test_tasks_without_weight_are_left_out(measurer, log):
    tasks = [make_task(32), make_task(64)]
    latencies = auto_scheduler.descend_from_log(str(log), options(16), tasks, [1, 0])
    assert [task.workload_key for task, _, _ in latencies] == [tasks[0].workload_key]
    assert keys_of(measurer.inputs) == [tasks[0].workload_key]


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
