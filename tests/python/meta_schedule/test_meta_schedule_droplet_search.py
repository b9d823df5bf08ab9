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

import logging
import math
from collections import Counter

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import meta_schedule as ms
from tvm import relax, relay, te
from tvm.meta_schedule.builder.local_builder import default_build, default_export
from tvm.meta_schedule.search_strategy import DropletSearch
from tvm.meta_schedule.search_strategy.trace_coordinates import TraceCoordinates
from tvm.meta_schedule.search_strategy.trace_descent import TraceDescent
from tvm.meta_schedule.testing import te_workload
from tvm.meta_schedule.testing.dummy_object import DummyRunner

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


def make_context(workload, target, strategy=None, seed=1, space="post-order-apply"):
    func, args = WORKLOADS[workload]
    return ms.TuneContext(
        mod=te.create_prim_func(func(*args)),
        target=target,
        space_generator=space,
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


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_neighbors(workload, target):
    """What there is at a neighbor has the decisions that were wanted."""
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
        # TVM replaces places that do not exist.
        if not any(inst.kind.name == "SampleComputeLocation" for inst in sch.trace.insts):
            assert read.origin == point
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


def changes(kind):
    """What the decisions of a kind are before and after the steps from a few schedules, each with
    the attributes of its instruction."""
    context = make_context("conv2d", CPU)
    for candidate in sample(context):
        coordinates = TraceCoordinates(context.mod, candidate.sch.trace)
        insts, decisions = coordinates.trace.as_json()
        for point in neighbors(coordinates, coordinates.origin):
            sch = coordinates.schedule_at(point, [])
            if sch is None:
                continue
            moved = TraceCoordinates(context.mod, sch.trace).trace.as_json()
            for (index, before), (_, after) in zip(decisions, moved[1]):
                if insts[index][0] == kind and before != after:
                    yield before, after, insts[index][2]


def test_innermost_tiles_without_a_limit():
    space = ms.space_generator.PostOrderApply(
        sch_rules=[ms.schedule_rule.MultiLevelTiling("SSRSRS")], postprocs=[], mutator_probs={}
    )
    search = Search(max_trials=40, explore_trials=4, space=space).run()
    assert len(search.trials) == 40
    attributes = search.trials[0][0].sch.trace.as_json()[0]
    assert {inst[2][1] for inst in attributes if inst[0] == "SamplePerfectTile"} == {-1}
    assert min(search.costs) < min(search.costs[:4])


def test_choices_move_to_the_next_value():
    found = list(changes("SampleCategorical"))
    assert found
    for before, after, (values, _) in found:
        ranks = sorted(values)
        assert abs(ranks.index(values[after]) - ranks.index(values[before])) == 1


def test_places_move_in_and_out():
    found = list(changes("SampleComputeLocation"))
    assert any(after > before for before, after, _ in found)
    assert any(after < before for before, after, _ in found)


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

    def __init__(
        self,
        workload="matmul",
        max_trials=64,
        batch=16,
        cost=tile_cost,
        space="post-order-apply",
        **options,
    ):
        self.strategy = DropletSearch(**{"explore_strategy": "replay-trace", **options})
        self.context = make_context(workload, CPU, self.strategy, space=space)
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
        # Of a clone there is a handle only.
        self.num_explored = getattr(self.strategy, "num_explored", None)
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
    assert search.num_explored == max(max_trials * 3 // 8, min(max_trials, 1))


def test_explores_as_much_as_it_should():
    for explore_trials in (4, 20):
        search = Search(max_trials=64, explore_trials=explore_trials).run()
        assert search.num_explored == explore_trials


def test_nothing_is_measured_twice_but_to_confirm():
    search = Search(max_trials=120, explore_trials=8).run()
    counts = Counter(programs_of(search.trials))
    assert max(counts.values()) <= 2
    assert sum(counts.values()) - len(counts) < len(counts) / 2


@ms.utils.derived_object
class Repeating(ms.search_strategy.PySearchStrategy):
    """Proposes the same candidates for ever."""

    def _initialize_with_tune_context(self, context):
        self.candidates = sample(make_context("matmul", CPU), 3)

    def pre_tuning(self, *_):
        pass

    def post_tuning(self):
        pass

    def generate_measure_candidates(self):
        return self.candidates

    def notify_runner_results(self, measure_candidates, results):
        assert len(measure_candidates) == len(results)


def test_what_is_known_is_not_explored_again():
    options = {"explore_trials": 8, "sample_trials": 0, "num_starts": 1}
    search = Search(explore_strategy=Repeating(), max_trials=40, **options).run()
    assert search.num_explored == 3
    assert len(search.trials) == 40
    programs = Counter(tvm.ir.structural_hash(c.sch.mod) for c, _ in search.trials[:3])
    assert max(programs.values()) == 1


def test_half_of_the_candidates_fail():
    def cost(candidate):
        failed = tvm.ir.structural_hash(candidate.sch.mod) % 2
        return None if failed else tile_cost(candidate)

    search = Search(max_trials=100, explore_trials=16, cost=cost).run()
    ran = [cost for cost in search.costs if cost is not None]
    explored = [cost for cost in search.costs[:16] if cost is not None]
    assert len(ran) < len(search.costs)
    assert min(ran) < min(explored)


@ms.utils.derived_object
class ShortInnermostTiles(ms.postproc.PyPostproc):
    """Rejects schedules with an innermost tile above 2."""

    def _initialize_with_tune_context(self, context):
        pass

    def apply(self, sch):
        return all(tiles[-1] <= 2 for tiles, _ in tilings(sch.trace))

    def clone(self):
        return ShortInnermostTiles()


def test_what_a_postprocessor_rejects_is_not_measured():
    space = ms.space_generator.PostOrderApply(
        sch_rules="llvm", postprocs=[ShortInnermostTiles()], mutator_probs={}
    )
    search = Search(max_trials=100, explore_trials=4, space=space).run()
    num_rejected = sum(
        any(tiles[-1] > 2 for tiles, _ in tilings(candidate.sch.trace))
        for candidate, _ in search.trials
    )
    assert num_rejected == 0
    # Without it, the descents go to innermost tiles of 4.
    best, _ = min(Search(max_trials=100, explore_trials=4).run().trials, key=lambda trial: trial[1])
    assert any(tiles[-1] > 2 for tiles, _ in tilings(best.sch.trace))


def test_all_candidates_fail():
    search = Search(max_trials=40, explore_trials=8, cost=lambda _: None).run()
    assert len(search.trials) == 40  # it explores as long as nothing runs


def database_of(search, target=CPU):
    """A database that has the trials of a search."""
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(search.context.mod)
    for candidate, cost in search.trials:
        database.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace, workload, [cost], target, candidate.args_info
            )
        )
    return database


def programs_of(trials):
    return [tvm.ir.structural_hash(candidate.sch.mod) for candidate, _ in trials]


def test_starts_from_a_database():
    first = Search(max_trials=20, explore_trials=5).run()
    second = Search(max_trials=40, explore_trials=15).run(database_of(first))
    best = min(zip(first.costs, programs_of(first.trials)))[1]
    assert second.num_explored == 0
    # The best one is measured again since a single sample chose it.
    assert best in programs_of(second.batches[0])
    known = set(programs_of(first.trials))
    fresh = [program for program in programs_of(second.trials) if program not in known]
    assert len(fresh) > len(second.trials) / 2
    assert min(second.costs) <= min(first.costs)


def test_nothing_of_a_long_database_is_measured_again():
    """Not what is slow, either: the neighbors of the best schedule are like all others here."""

    def cost(candidate):
        return 1e-3 + tvm.ir.structural_hash(candidate.sch.mod) % 1000 * 1e-6

    first = Search(max_trials=300, explore_trials=100, num_starts=1, cost=cost).run()
    second = Search(max_trials=60, explore_trials=0, num_starts=1, cost=cost)
    second.run(database_of(first))
    assert not set(programs_of(first.trials)) & set(programs_of(second.trials))


def test_all_samples_of_a_database_count():
    """The best schedule has two, so that it needs no confirmation."""
    first = Search(max_trials=20, explore_trials=5).run()
    database = database_of(first)
    candidate, cost = min(first.trials, key=lambda trial: trial[1])
    workload = database.commit_workload(first.context.mod)
    database.commit_tuning_record(
        ms.database.TuningRecord(candidate.sch.trace, workload, [cost], CPU, candidate.args_info)
    )
    second = Search(max_trials=20, explore_trials=0, num_starts=1).run(database)
    (program,) = programs_of([(candidate, cost)])
    assert program not in programs_of(second.batches[0])


def test_a_trace_that_does_not_apply_is_left_out():
    first = Search(max_trials=20, explore_trials=5).run()
    database = database_of(first)
    (other,) = sample(make_context("softmax", CPU), 1)
    workload = database.commit_workload(first.context.mod)
    database.commit_tuning_record(
        ms.database.TuningRecord(other.sch.trace, workload, [1e-9], CPU, other.args_info)
    )
    second = Search(max_trials=40, explore_trials=15).run(database)
    assert len(second.trials) == 40


def test_latencies_of_another_target_do_not_count():
    first = Search(max_trials=20, explore_trials=5).run()
    database = database_of(first, target=tvm.target.Target("llvm -num-cores=8"))
    fresh = Search(max_trials=40, explore_trials=5).run()
    assert Search(max_trials=40, explore_trials=5).run(database).costs == fresh.costs


def test_without_a_database_and_a_cost_model():
    strategy = DropletSearch(explore_trials=4)
    context = make_context("matmul", CPU, strategy)
    context.pre_tuning(16)
    assert context.generate_measure_candidates()
    context.post_tuning()


def test_failed_pre_tuning_can_be_repeated():
    strategy = DropletSearch(explore_trials=4)
    context = make_context("matmul", CPU, strategy)
    with pytest.raises(RuntimeError):
        strategy.pre_tuning(16, 8, [])
    context.pre_tuning(16)
    with pytest.raises(ValueError, match="without post_tuning"):
        context.pre_tuning(16)


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


@ms.utils.derived_object
class InProcessBuilder(ms.builder.PyBuilder):
    """Builds without other processes, which take longer to start than the search takes."""

    def build(self, build_inputs):
        return [
            ms.builder.BuilderResult(
                default_export(default_build(build_input.mod, build_input.target, None)), None
            )
            for build_input in build_inputs
        ]


@pytest.fixture
def num_proposed(monkeypatch):
    """How many candidates each descent proposed, of all searches."""
    counts = Counter()
    propose = TraceDescent.propose

    def counted(self, *args):
        candidates = propose(self, *args)
        counts[self] += len(candidates)
        return candidates

    monkeypatch.setattr(TraceDescent, "propose", counted)
    return counts


def tune(function, *args, work_dir, strategy="droplet", **options):
    # TVM cannot set up its log while handlers without a name, such as pytest's, are there.
    logging.getLogger("tvm.meta_schedule").handlers.clear()
    return function(
        *args,
        target=CPU,
        work_dir=str(work_dir),
        num_trials_per_iter=8,
        strategy=strategy,
        builder=InProcessBuilder(),
        cost_model="random",
        seed=1,
        **options,
    )


@tvm.testing.requires_llvm
def test_real_search(tmp_path, num_proposed):
    func = te.create_prim_func(te_workload.matmul(64, 64, 64))
    evaluator_config = ms.runner.EvaluatorConfig(number=1, min_repeat_ms=10)
    options = {
        "work_dir": tmp_path,
        "max_trials_global": 24,
        "runner": ms.runner.LocalRunner(evaluator_config=evaluator_config),
    }
    database = tune(ms.tune_tir, func, **options)
    assert sum(num_proposed.values()) == 24 - 24 * 3 // 8
    assert len(database) == 24
    sch = ms.tir_integration.compile_tir(database, func, CPU)
    built = tvm.build(sch.mod, target=CPU)
    a, b = (np.random.uniform(size=(64, 64)).astype("float32") for _ in range(2))
    arrays = [tvm.nd.array(array) for array in (a, b, np.zeros((64, 64), "float32"))]
    built(*arrays)
    tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)

    # The database is what the same call goes on from: it does not explore again.
    num_proposed.clear()
    tune(ms.tune_tir, func, **options)
    assert sum(num_proposed.values()) == 24


def tune_network(function, network, work_dir):
    return tune(
        function,
        network,
        {},
        work_dir=work_dir,
        strategy=DropletSearch("replay-trace", explore_trials=8),
        max_trials_global=48,
        max_trials_per_task=24,
        runner=DummyRunner(),
    )


def test_tune_relay(tmp_path, num_proposed):
    data = relay.var("data", shape=(16, 32))
    weight = relay.const(np.ones((64, 32), "float32"))
    network = tvm.IRModule.from_expr(relay.nn.softmax(relay.nn.dense(data, weight)))
    database = tune_network(ms.relay_integration.tune_relay, network, tmp_path)
    assert len(database) == 48
    assert len(num_proposed) >= 2  # one task or more descents each


def test_tune_relax(tmp_path, num_proposed):
    data, weight = (
        relax.Var(name, relax.TensorStructInfo(shape, "float32"))
        for name, shape in [("data", (16, 32)), ("weight", (32, 64))]
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [data, weight]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(data, weight))
            result = builder.emit_output(relax.op.nn.softmax(product))
        builder.emit_func_output(result)
    network = relax.transform.LegalizeOps()(builder.get())
    database = tune_network(ms.relax_integration.tune_relax, network, tmp_path)
    assert len(database) == 48
    assert len(num_proposed) >= 2


if __name__ == "__main__":
    tvm.testing.main()
