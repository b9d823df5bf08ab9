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
"""Test the add-on with the TVM that PyPI has."""

import json
import logging
import shutil

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder.local_builder import default_build, default_export
from tvm.s_tir.meta_schedule.post_optimization import PostOpt
from tvm.s_tir.meta_schedule.post_optimization.space import Space
from tvm_droplet_search import DropletSearch
from tvm_droplet_search._engine import CoordinateDescent

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 2})
SIZE = 64


def matmul():
    a, b = (te.placeholder((SIZE, SIZE), name=name) for name in "ab")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


@derived_object
class InProcessBuilder(ms.builder.PyBuilder):
    """Builds without other processes, which take longer to start than the search takes."""

    def build(self, build_inputs):
        return [
            ms.builder.BuilderResult(
                default_export(default_build(build_input.mod, build_input.target, None)), None
            )
            for build_input in build_inputs
        ]


def tune(work_dir, strategy, max_trials, **options):
    options.setdefault("cost_model", "random")
    # TVM cannot set up its log again while handlers without a name, such as pytest's, are there.
    logging.getLogger("tvm.s_tir.meta_schedule").handlers.clear()
    return ms.tune_tir(
        mod=matmul(),
        target=TARGET,
        work_dir=str(work_dir),
        max_trials_global=max_trials,
        num_trials_per_iter=8,
        strategy=strategy,
        builder=InProcessBuilder(),
        runner=ms.runner.LocalRunner(
            evaluator_config=ms.runner.EvaluatorConfig(number=1, min_repeat_ms=10)
        ),
        seed=1,
        **options,
    )


def test_engine_finds_the_minimum():
    def cost(point):
        return 1 + sum((value - 3) ** 2 for value in point)

    directions = [[(i, delta)] for i in range(2) for delta in (-1, 1)]
    descent = CoordinateDescent(
        [9, 9], directions, [9, 0], [cost([9, 0])], prior=lambda p: [0.0] * len(p)
    )
    while not descent.converged:
        for point in descent.ask(4):
            descent.tell(point, [cost(point)])
    assert descent.best == [3, 3]
    assert descent.best_cost == 1


def test_engine_rejects_wrong_arguments():
    with pytest.raises(ValueError, match="radius must be at least 1, but it is 0"):
        CoordinateDescent([], [], [], [1.0], radius=0)


def test_real_search(tmp_path):
    database = tune(tmp_path, DropletSearch(explore_trials=8), 24)
    assert len(database) > 8
    sch = ms.tir_integration.compile_tir(database, matmul(), TARGET)
    built = tvm.compile(sch.mod, target=TARGET)
    a, b = (np.random.uniform(size=(SIZE, SIZE)).astype("float32") for _ in range(2))
    arrays = [tvm.runtime.tensor(array) for array in (a, b, np.zeros((SIZE, SIZE), "float32"))]
    built(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


def latencies_in(work_dir):
    """The mean latencies of all records in a database."""
    lines = (work_dir / "database_tuning_record.json").read_text().splitlines()
    return [np.mean(json.loads(line)[1][1]) for line in lines]


def test_against_post_optimization(tmp_path, monkeypatch):
    """From the same records and with as many trials, compared with what TVM itself has for it."""
    num_trials = 16
    first, own, other = (tmp_path / name for name in ("first", "own", "other"))
    tune(first, "evolutionary", 8)
    for work_dir in (own, other):
        shutil.copytree(first, work_dir)
    outcomes = []
    run = Space.run

    def keep_outcomes(*args):
        results = run(*args)
        outcomes.extend(results)
        return results

    monkeypatch.setattr(Space, "run", keep_outcomes)
    PostOpt(str(other), TARGET, trials=num_trials).run()
    tune(own, DropletSearch(explore_trials=0), num_trials)

    num_known = len(latencies_in(first))
    own_outcomes = latencies_in(own)[num_known:]
    assert len(own_outcomes) == num_trials
    own_failed, other_failed = (
        sum(np.mean(outcome) > 1e3 for outcome in found) for found in (own_outcomes, outcomes)
    )
    print(
        f"failed: {own_failed} of {num_trials}, post-optimization {other_failed} of {len(outcomes)}"
    )
    assert own_failed < other_failed
    assert min(latencies_in(own)) <= min(latencies_in(other))
