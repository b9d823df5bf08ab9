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
"""Test the decisions of traces as coordinates, and DropletSearch on them."""

import math
from collections import Counter

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import meta_schedule as ms
from tvm import te
from tvm.meta_schedule.search_strategy import DropletSearch
from tvm.meta_schedule.search_strategy.trace_coordinates import TraceCoordinates
from tvm.meta_schedule.testing import te_workload

CPU = tvm.target.Target("llvm -num-cores=2")
GPU = tvm.target.Target("nvidia/nvidia-a100")

WORKLOADS = {
    "matmul": (te_workload.matmul, (48, 60, 64)),
    "matmul_relu": (te_workload.matmul_relu, (64, 64, 64)),
    "conv2d": (te_workload.conv2d_nhwc, (1, 14, 14, 8, 16, 3, 1, 1)),
    "depthwise": (te_workload.depthwise_conv2d_nhwc, (1, 14, 14, 16, 3, 1, 1)),
    "softmax": (te_workload.softmax_mn, (32, 60)),
    "norm": (te_workload.norm_bmn, (1, 32, 60)),
}


def make_context(workload, target, strategy=None, seed=1):
    func, args = WORKLOADS[workload]
    return ms.TuneContext(
        mod=te.create_prim_func(func(*args)),
        target=target,
        space_generator="post-order-apply",
        search_strategy=strategy or "replay-trace",
        task_name=workload,
        rand_state=seed,
        num_threads=1,
    )


def sample(context, number=4):
    """Candidates of random decisions."""
    strategy = context.search_strategy
    strategy.pre_tuning(number, number, context.generate_design_space())
    candidates = strategy.generate_measure_candidates()
    strategy.post_tuning()
    assert candidates
    return candidates


def neighbors(coordinates, base):
    for direction in coordinates.directions:
        point = list(base)
        for coordinate, delta in direction:
            point[coordinate] += delta
        if all(0 <= value <= upper for value, upper in zip(point, coordinates.upper)):
            yield point


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_origin_is_what_was_read(workload, target):
    context = make_context(workload, target)
    postprocs = context.space_generator.postprocs
    for candidate in sample(context):
        coordinates = TraceCoordinates(context.mod, candidate.sch.trace)
        assert len(coordinates.origin) == len(coordinates.upper) > 0
        sch = coordinates.schedule_at(coordinates.origin, postprocs)
        tvm.ir.assert_structural_equal(sch.mod, candidate.sch.mod)
        again = TraceCoordinates(context.mod, sch.trace)
        assert again.origin == coordinates.origin
        assert again.structure == coordinates.structure


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_neighbors(workload, target):
    """What there is at a neighbor tiles the same loops and differs from the origin."""
    context = make_context(workload, target)
    (candidate,) = sample(context, 1)
    coordinates = TraceCoordinates(context.mod, candidate.sch.trace)
    num_valid = 0
    for point in neighbors(coordinates, coordinates.origin):
        sch = coordinates.schedule_at(point, context.space_generator.postprocs)
        if sch is None:
            continue
        num_valid += 1
        read = TraceCoordinates(context.mod, sch.trace)
        assert extents(read.trace) == extents(coordinates.trace)
        for tiles, max_innermost in tilings(sch.trace):
            assert tiles[-1] <= max_innermost
    assert num_valid > 0


def tilings(trace):
    """The tiles of each loop, and how long the innermost one may be."""
    insts, decisions = trace.as_json()
    return [
        (decision, insts[index][2][1])
        for index, decision in decisions
        if insts[index][0] == "SamplePerfectTile"
    ]


def extents(trace):
    """The extents of all loops that are tiled."""
    return [math.prod(tiles) for tiles, _ in tilings(trace)]


def test_moves_in_words():
    context = make_context("matmul", CPU)
    (candidate,) = sample(context, 1)
    coordinates = TraceCoordinates(context.mod, candidate.sch.trace)
    assert coordinates.describe(coordinates.origin, coordinates.origin) == ""
    moves = [
        coordinates.describe(coordinates.origin, point)
        for point in neighbors(coordinates, coordinates.origin)
    ]
    assert len(set(moves)) == len(moves)
    assert any("SamplePerfectTile [" in move and "] -> [" in move for move in moves)


def test_tensorized_blocks_stay():
    """Only decisions differ between a schedule and its neighbors, not what is tensorized."""
    context = make_context("matmul_relu", GPU)
    for candidate in sample(context, 2):
        coordinates = TraceCoordinates(context.mod, candidate.sch.trace)
        for point in list(neighbors(coordinates, coordinates.origin))[:8]:
            sch = coordinates.schedule_at(point, [])
            if sch is not None:
                changed = TraceCoordinates(context.mod, sch.trace)
                assert changed.structure == coordinates.structure


def tile_cost(candidate):
    """1 ms, and 1 ms more for each factor of 2 that a tile is off 4."""
    distance = sum(
        abs(math.log2(factor) - 2)
        for tiles, _ in tilings(candidate.sch.trace)
        for factor in tiles[1:]
    )
    return 1e-3 * (1 + distance)


class Search:
    """Runs a strategy with costs that are known."""

    def __init__(self, workload="matmul", max_trials=64, batch=16, cost=tile_cost, **options):
        self.strategy = DropletSearch(**{"explore_strategy": "replay-trace", **options})
        self.context = make_context(workload, CPU, self.strategy)
        self.cost = cost
        self.max_trials = max_trials
        self.batch = batch
        self.batches = []

    def run(self, database=None, cost_model=None):
        self.strategy.pre_tuning(
            self.max_trials,
            self.batch,
            self.context.generate_design_space(),
            database or ms.database.MemoryDatabase(),
            cost_model or ms.cost_model.RandomModel(),
        )
        while True:
            candidates = self.strategy.generate_measure_candidates()
            if candidates is None:
                break
            assert 0 < len(candidates) <= self.batch
            costs = [self.cost(candidate) for candidate in candidates]
            self.batches.append(list(zip(candidates, costs)))
            self.strategy.notify_runner_results(
                candidates,
                [
                    (
                        ms.runner.RunnerResult(None, "failed")
                        if cost is None
                        else ms.runner.RunnerResult([cost], None)
                    )
                    for cost in costs
                ],
            )
        self.strategy.post_tuning()
        return self

    @property
    def trials(self):
        return [trial for batch in self.batches for trial in batch]

    @property
    def costs(self):
        return [cost for _, cost in self.trials]


def test_descends_to_the_optimum():
    search = Search(max_trials=400, explore_trials=8, num_starts=1).run()
    assert len(search.trials) < 400  # it has converged
    best, cost = min(search.trials, key=lambda trial: trial[1])
    coordinates = TraceCoordinates(search.context.mod, best.sch.trace)
    for point in neighbors(coordinates, coordinates.origin):
        sch = coordinates.schedule_at(point, search.context.space_generator.postprocs)
        if sch is not None:
            assert tile_cost(ms.MeasureCandidate(sch, best.args_info)) >= cost * 0.99
    assert cost < min(search.costs[:8])


@pytest.mark.parametrize("max_trials", [0, 1, 7, 30])
def test_keeps_the_budget(max_trials):
    search = Search(max_trials=max_trials, batch=8).run()
    assert len(search.trials) == max_trials


def test_nothing_is_measured_twice_but_to_confirm():
    search = Search(max_trials=120, explore_trials=8).run()
    counts = Counter(tvm.ir.structural_hash(candidate.sch.mod) for candidate, _ in search.trials)
    assert max(counts.values()) <= 2
    assert sum(counts.values()) - len(counts) < len(counts) / 2


def test_half_of_the_candidates_fail():
    def cost(candidate):
        failed = tvm.ir.structural_hash(candidate.sch.mod) % 2
        return None if failed else tile_cost(candidate)

    search = Search(max_trials=100, explore_trials=16, cost=cost).run()
    ran = [cost for cost in search.costs if cost is not None]
    explored = [cost for cost in search.costs[:16] if cost is not None]
    assert len(ran) < len(search.costs)
    assert min(ran) < min(explored)


def test_all_candidates_fail():
    search = Search(max_trials=40, explore_trials=8, cost=lambda _: None).run()
    assert len(search.trials) == 40  # it explores as long as nothing runs


def test_starts_from_a_database():
    first = Search(max_trials=20, explore_trials=5).run()
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(first.context.mod)
    for candidate, cost in first.trials:
        database.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace, workload, [cost], CPU, candidate.args_info
            )
        )
    second = Search(max_trials=40, explore_trials=0).run(database)
    known = {tvm.ir.structural_hash(candidate.sch.mod) for candidate, _ in first.trials}
    fresh = [
        candidate
        for candidate, _ in second.trials
        if tvm.ir.structural_hash(candidate.sch.mod) not in known
    ]
    assert len(fresh) > len(second.trials) / 2
    assert min(second.costs) <= min(first.costs)


def test_searches_again_after_post_tuning():
    search = Search(max_trials=20)
    assert len(search.run().trials) == 20
    assert len(search.run().trials) == 40


def test_clone_searches_alike():
    options = {"max_trials": 40, "explore_trials": 5, "num_starts": 2, "margin": 0.1}
    first = Search(**options).run()
    second = Search(**options)
    second.strategy = first.strategy.clone()
    second.context = make_context("matmul", CPU, second.strategy)
    assert second.run().costs == first.costs


@pytest.mark.parametrize(
    "options, message",
    [
        ({"explore_trials": -1}, "explore_trials must be at least 0, but it is -1"),
        ({"num_starts": 0}, "num_starts must be at least 1, but it is 0"),
        ({"radius": 0}, "radius must be at least 1, but it is 0"),
        ({"p_value": 1.5}, "p_value must be between 0 and 1, but it is 1.5"),
        ({"margin": -0.1}, "margin must be at least 0 and below 1, but it is -0.1"),
        ({"explore_strategy": "storm"}, "Unknown SearchStrategy: storm"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        DropletSearch(**options)


def test_by_name():
    assert ms.search_strategy.create("droplet", explore_trials=7).explore_trials == 7


@tvm.testing.requires_llvm
def test_real_search(tmp_path):
    func = te.create_prim_func(te_workload.matmul(64, 64, 64))
    database = ms.tune_tir(
        mod=func,
        target=CPU,
        work_dir=str(tmp_path),
        max_trials_global=24,
        num_trials_per_iter=8,
        strategy=ms.search_strategy.create("droplet", explore_trials=8),
        runner=ms.runner.LocalRunner(
            evaluator_config=ms.runner.EvaluatorConfig(number=1, min_repeat_ms=10)
        ),
        cost_model="random",
        seed=1,
    )
    assert len(database) > 8
    sch = ms.tir_integration.compile_tir(database, func, CPU)
    built = tvm.build(sch.mod, target=CPU)
    a, b = (np.random.uniform(size=(64, 64)).astype("float32") for _ in range(2))
    arrays = [tvm.nd.array(array) for array in (a, b, np.zeros((64, 64), "float32"))]
    built(*arrays)
    tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


if __name__ == "__main__":
    tvm.testing.main()
