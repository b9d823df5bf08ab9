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
"""Test DropletSearchPolicy as TaskScheduler takes it by name."""

import re

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler
from tvm.auto_scheduler.droplet_search_policy import explore_trials_per_task
from tvm.auto_scheduler.task_scheduler import TaskSchedulerCallback, make_search_policies
from tvm.meta_schedule.testing import te_workload

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


@pytest.fixture
def models(monkeypatch):
    """The instances of XGBModel that TaskScheduler makes."""
    made = []

    def make(**kwargs):
        made.append(auto_scheduler.XGBModel(**kwargs))
        return made[-1]

    monkeypatch.setattr(auto_scheduler.task_scheduler, "XGBModel", make)
    return made


def options(num_trials, log=None, **kwargs):
    return auto_scheduler.TuningOptions(
        num_measure_trials=num_trials,
        builder=auto_scheduler.LocalBuilder(n_parallel=2),
        measure_callbacks=[auto_scheduler.RecordToFile(str(log))] if log else [],
        **{"verbose": 0, **kwargs},
    )


def tune(scheduler, num_trials, search_policy="droplet.random", log=None, **kwargs):
    params = {**FAST_SKETCH_PARAMS, **kwargs.pop("params", {})}
    tune_options = options(num_trials, log, **kwargs.pop("options", {}))
    scheduler.tune(tune_options, search_policy, search_policy_params=params, **kwargs)
    return scheduler.search_policies


@pytest.mark.parametrize("name", ["droplet.random", "droplet.xgb"])
def test_by_name(measurer, name):
    tasks = [make_task(64), make_task(32)]
    scheduler = auto_scheduler.TaskScheduler(tasks, callbacks=[])
    policies = tune(scheduler, 80, name)
    assert len(measurer.inputs) == scheduler.ct == 80
    assert [policy.search_task.workload_key for policy in policies] == [
        task.workload_key for task in tasks
    ]
    # A quarter of the 40 trials that a task gets on average explores, the rest descends.
    assert [policy.num_explored for policy in policies] == [10, 10]
    assert sum(policy.num_descended for policy in policies) == 60
    for policy, cost in zip(policies, scheduler.best_costs):
        key = policy.search_task.workload_key
        costs = [tile_cost(i) for i in measurer.inputs if i.task.workload_key == key]
        assert cost == pytest.approx(min(costs))
        assert cost < min(costs[:10])


def test_given_params_come_first(measurer):
    scheduler = auto_scheduler.TaskScheduler([make_task()], callbacks=[])
    (policy,) = tune(scheduler, 40, params={"explore_trials": 24})
    assert policy.num_explored == 24


def test_explore_trials():
    assert explore_trials_per_task(num_measure_trials=80, num_tasks=2) == 10
    assert explore_trials_per_task(num_measure_trials=7, num_tasks=2) == 1
    alone = auto_scheduler.DropletSearchPolicy.DEFAULT_PARAMS["explore_trials"]
    assert explore_trials_per_task(num_measure_trials=100000, num_tasks=1) == alone


@pytest.mark.parametrize(
    "name, num_measures_per_round, num_samples",
    [("sketch.xgb", 64, 128), ("droplet.xgb", 64, 47), ("droplet.xgb", 8, 15)],
)
def test_model_guesses_no_longer_than_policies_sample(
    models, name, num_measures_per_round, num_samples
):
    tasks = [make_task(64), make_task(32)]
    make_search_policies(name, {}, tasks, num_measures_per_round, verbose=0)
    assert models[0].num_warmup_sample == num_samples


@pytest.mark.parametrize("name, trained", [("droplet.xgb", True), ("droplet.random", False)])
def test_trained_model_evolves_from_the_first_trial_on(
    measurer, monkeypatch, tmp_path, name, trained
):
    seen = []

    def record(*args, params, **kwargs):
        seen.append(params or {})
        return auto_scheduler.DropletSearchPolicy(*args, params=params, **kwargs)

    record.DEFAULT_PARAMS = auto_scheduler.DropletSearchPolicy.DEFAULT_PARAMS
    model_file = str(tmp_path / "model.bin")
    task = make_task()
    tune(auto_scheduler.TaskScheduler([task], callbacks=[]), 16)
    model = auto_scheduler.XGBModel(verbose_eval=0)
    model.update(measurer.inputs, list(map(measurer.result, measurer.inputs)))
    model.save(model_file)
    monkeypatch.setattr(auto_scheduler.task_scheduler, "DropletSearchPolicy", record)
    for given in ({}, {"sample_trials": 5}):
        make_search_policies(name, given, [task], 8, 0, load_model_file=model_file)
    assert seen[0].get("sample_trials") == (0 if trained else None)
    assert seen[1]["sample_trials"] == 5


@pytest.mark.parametrize("adaptive_training", [False, True])
def test_adaptive_training(measurer, models, adaptive_training):
    scheduler = auto_scheduler.TaskScheduler([make_task()], callbacks=[])
    tune(scheduler, 16, "droplet.xgb", adaptive_training=adaptive_training)
    assert [model.adaptive_training for model in models] == [adaptive_training]


def test_converged_tasks_give_their_rounds_to_the_others(measurer):
    """The run ends when all tasks have converged."""
    tasks = [make_task(8), make_task(64)]
    scheduler = auto_scheduler.TaskScheduler(tasks, callbacks=[])
    policies = tune(scheduler, 4000, params={"explore_trials": 8, "num_starts": 4})
    assert [policy.phase for policy in policies] == ["done", "done"]
    assert scheduler.dead_tasks == {0, 1}
    assert len(measurer.inputs) == scheduler.ct < 4000
    small, large = (policy.num_explored + policy.num_descended for policy in policies)
    assert small < large


@pytest.mark.parametrize("name", ["droplet.random", "droplet.xgb"])
def test_resumes_from_a_log(measurer, models, caplog, tmp_path, name):
    log = tmp_path / "log.json"
    tasks = [make_task(64), make_task(32)]
    tune(auto_scheduler.TaskScheduler(tasks, callbacks=[]), 40, name, log=log)
    before = measurer.programs
    scheduler = auto_scheduler.TaskScheduler(tasks, load_log_file=str(log), callbacks=[])
    policies = tune(scheduler, 40, name, log=log)
    assert not set(before) & set(measurer.programs[len(before) :])
    # All that is in the log counts as explored.
    assert sum(policy.num_explored for policy in policies) == 40
    assert len(measurer.inputs) == 80
    # The second model learns from the log, too.
    assert [len(model.inputs) for model in models] == ([40, 80] if name == "droplet.xgb" else [])
    assert not caplog.records


def test_resumes_from_a_log_whose_last_record_was_cut(measurer, caplog, tmp_path):
    log = tmp_path / "log.json"
    task = make_task()
    tune(auto_scheduler.TaskScheduler([task], callbacks=[]), 20, log=log)
    log.write_bytes(log.read_bytes()[:-40])
    scheduler = auto_scheduler.TaskScheduler([task], load_log_file=str(log), callbacks=[])
    (policy,) = tune(scheduler, 20, log=log)
    assert "log.json was cut" in caplog.text
    assert policy.num_explored == 19
    assert len(list(auto_scheduler.load_records(str(log)))) == 39


def test_log_is_missing(measurer, tmp_path):
    log = str(tmp_path / "missing.json")
    scheduler = auto_scheduler.TaskScheduler([make_task()], load_log_file=log, callbacks=[])
    with pytest.raises(FileNotFoundError, match="There is no log .*missing.json"):
        tune(scheduler, 16)


def test_log_of_another_target(measurer, caplog, tmp_path):
    log = tmp_path / "log.json"
    task = make_task()
    tune(auto_scheduler.TaskScheduler([task], callbacks=[]), 16, log=log)
    other = auto_scheduler.SearchTask(
        workload_key=task.workload_key, target=tvm.target.Target("llvm -mcpu=skylake-avx512")
    )
    scheduler = auto_scheduler.TaskScheduler([other], load_log_file=str(log), callbacks=[])
    tune(scheduler, 16)
    assert re.search("skylake-avx512.*for the target llvm -keys=cpu", caplog.text)


def test_log_without_records(measurer, caplog, tmp_path):
    log = tmp_path / "log.json"
    log.touch()
    tune(auto_scheduler.TaskScheduler([make_task()], load_log_file=str(log), callbacks=[]), 16)
    assert "It has no records" in caplog.text


def test_early_stopping_of_a_task(measurer):
    measurer.cost = lambda measure_input: 1e-3
    tasks = [make_task(64), make_task(32)]
    scheduler = auto_scheduler.TaskScheduler(tasks, callbacks=[])
    tune(scheduler, 1000, per_task_early_stopping=40, params={"explore_trials": 8})
    assert scheduler.dead_tasks == {0, 1}
    assert len(measurer.inputs) < 400


class CountingCallback(TaskSchedulerCallback):
    def __init__(self):
        self.calls = []

    def pre_tune(self, task_scheduler, task_id):
        self.calls.append(("pre", task_id))

    def post_tune(self, task_scheduler, task_id):
        self.calls.append(("post", task_id))


def test_callbacks(measurer):
    callback = CountingCallback()
    scheduler = auto_scheduler.TaskScheduler([make_task(64), make_task(32)], callbacks=[callback])
    tune(scheduler, 40)
    assert callback.calls[:4] == [("pre", 0), ("post", 0), ("pre", 1), ("post", 1)]
    assert len(callback.calls) % 2 == 0


@pytest.mark.parametrize("name", ["droplet.random", "sketch.random"])
def test_table_shows_the_phases(measurer, capfd, name):
    callback = auto_scheduler.task_scheduler.PrintTableInfo()
    scheduler = auto_scheduler.TaskScheduler([make_task(64), make_task(32)], callbacks=[callback])
    tune(scheduler, 24, name, options={"verbose": 1})
    table = capfd.readouterr().out
    is_droplet = name == "droplet.random"
    assert ("Trials |  Phase  |" in table) == is_droplet
    assert ("| explore |" in table) == ("| descend |" in table) == is_droplet


def test_table_shows_what_has_converged(measurer, capfd):
    measurer.cost = lambda measure_input: 1e-3
    callback = auto_scheduler.task_scheduler.PrintTableInfo()
    scheduler = auto_scheduler.TaskScheduler([make_task(8), make_task(64)], callbacks=[callback])
    tune(scheduler, 1000, options={"verbose": 1}, params={"explore_trials": 8})
    rows = [row for row in capfd.readouterr().out.splitlines() if row.startswith("|    0 |")]
    assert rows[-1].endswith("|    done |")


@pytest.mark.parametrize("name", ["droplet", "droplet.lstm", "drop.xgb", ""])
def test_unknown_names(name):
    scheduler = auto_scheduler.TaskScheduler([make_task()], callbacks=[])
    with pytest.raises(ValueError, match=f'Invalid search policy: "{name}".*droplet.xgb'):
        scheduler.tune(options(16), name)


def test_unknown_params():
    scheduler = auto_scheduler.TaskScheduler([make_task()], callbacks=[])
    with pytest.raises(ValueError, match='Unknown parameter "explore_trails"'):
        scheduler.tune(options(16), "droplet.random", search_policy_params={"explore_trails": 3})


@tvm.testing.requires_llvm
def test_real_search(tmp_path):
    log = tmp_path / "log.json"
    # The processes that build and run need a workload of a module that they can import.
    auto_scheduler.register_workload(te_workload.matmul, override=True)
    tasks = [
        auto_scheduler.SearchTask(func=te_workload.matmul, args=(n, n, n), target="llvm")
        for n in (32, 16)
    ]
    scheduler = auto_scheduler.TaskScheduler(tasks, callbacks=[])
    tune(scheduler, 32, "droplet.xgb", log=log)
    for task in tasks:
        sch, args = task.apply_best(str(log))
        func = tvm.build(sch, args, task.target)
        n = int(args[0].shape[0])
        a, b = (np.random.uniform(size=(n, n)).astype("float32") for _ in range(2))
        arrays = [tvm.nd.array(x) for x in (a, b, np.zeros((n, n), "float32"))]
        func(*arrays)
        tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


if __name__ == "__main__":
    tvm.testing.main()
