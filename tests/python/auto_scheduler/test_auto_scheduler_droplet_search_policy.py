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
"""Test DropletSearchPolicy, mostly with a builder and a runner that return known costs."""

import itertools
import json
import zlib

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler, te
from tvm.auto_scheduler.cost_model.cost_model import PythonBasedModel
from tvm.auto_scheduler.feature import get_per_store_features_from_states
from tvm.auto_scheduler.measure import MeasureErrorNo, PythonBasedMeasureCallback
from tvm.auto_scheduler.schedule_coordinates import ScheduleCoordinates
from tvm.auto_scheduler.store_count_model import StoreCountModel
from tvm.meta_schedule.testing import te_workload

from test_auto_scheduler_droplet_common import (
    FAST_SKETCH_PARAMS,
    droplet_matmul,
    fake_measuring,
    gpu_hardware_params,
    make_task,
    steps_of,
    tile_cost,
)


@auto_scheduler.register_workload
def droplet_add_one(n):
    a = te.placeholder((n,), name="A")
    return [a, te.compute((n,), lambda i: a[i] + 1, name="B")]


def make_policy(task, explore_trials=8, **kwargs):
    params = {**FAST_SKETCH_PARAMS, "explore_trials": explore_trials, **kwargs.pop("params", {})}
    return auto_scheduler.DropletSearchPolicy(
        task, params=params, **{"seed": 1, "verbose": 0, **kwargs}
    )


@pytest.fixture
def measurer():
    with fake_measuring() as fake:
        yield fake


def program_measurer(callbacks=(), **options):
    return auto_scheduler.measure.ProgramMeasurer(
        auto_scheduler.LocalBuilder(n_parallel=2),
        auto_scheduler.LocalRunner(),
        list(callbacks),
        0,
        **options,
    )


def tune(task, policy, trials, callbacks=(), **options):
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=trials,
            num_measures_per_round=8,
            builder=auto_scheduler.LocalBuilder(n_parallel=2),
            verbose=0,
            measure_callbacks=list(callbacks),
            **options,
        ),
        search_policy=policy,
    )


@pytest.mark.parametrize("repeat", [1, 2])
def test_reaches_the_known_optimum_and_stops(measurer, repeat):
    measurer.repeat = repeat
    task = make_task()
    policy = make_policy(task)
    tune(task, policy, 1000)

    assert min(map(tile_cost, measurer.inputs)) == pytest.approx(1e-3)
    assert min(map(tile_cost, measurer.inputs[: policy.num_explored])) > 1e-3
    assert policy.phase == "done"
    assert policy.num_explored == 8
    assert policy.num_explored + policy.num_descended == len(measurer.inputs) < 1000
    assert policy.last_move
    if repeat == 2:
        assert len(set(measurer.programs)) == len(measurer.programs)


@pytest.mark.parametrize("trials", [2, 3, 7, 8, 20, 33])
def test_keeps_the_budget(measurer, trials):
    task = make_task()
    policy = make_policy(task, explore_trials=300)
    tune(task, policy, trials)
    assert len(measurer.inputs) == trials
    assert policy.num_explored == (3 * trials + 7) // 8


@pytest.mark.parametrize("trials", [0, 1])
def test_measures_nothing_without_trials(measurer, trials):
    task = make_task()
    policy = make_policy(task)
    tune(task, policy, trials)
    assert not measurer.inputs


def test_rounds(measurer):
    policy = make_policy(make_task())
    measure = program_measurer()
    seen = 0
    while True:
        inputs, results = policy.continue_search_one_round(6, measure)
        assert len(inputs) == len(results) <= 6
        seen += len(inputs)
        if not inputs:
            break
    assert seen == len(measurer.inputs) == policy.num_explored + policy.num_descended
    assert min(map(tile_cost, measurer.inputs)) == pytest.approx(1e-3)
    assert not policy.continue_search_one_round(6, measure)[0]


@pytest.mark.parametrize("repeat", [1, 2])
def test_resumes_without_measuring_twice(measurer, tmp_path, repeat):
    measurer.repeat = repeat
    log = str(tmp_path / "log.json")
    task = make_task()
    tune(task, make_policy(task), 24, [auto_scheduler.RecordToFile(log)])
    before = measurer.programs
    assert len(before) == 24

    measurer.inputs = []
    policy = make_policy(task, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)])
    assert policy.num_explored == len(set(before))
    tune(task, policy, 1000, [auto_scheduler.RecordToFile(log)])
    assert policy.num_descended == len(measurer.inputs)
    assert min(map(tile_cost, measurer.inputs)) == pytest.approx(1e-3)
    # A sample of its own confirms a decision, and nothing else is measured twice.
    counts = [(before + measurer.programs).count(p) for p in set(before + measurer.programs)]
    assert max(counts) == (2 if repeat == 1 else 1)


@pytest.mark.parametrize(
    "error_no, is_measured_again",
    [
        (MeasureErrorNo.COMPILE_HOST, False),
        (MeasureErrorNo.BUILD_TIMEOUT, False),
        (MeasureErrorNo.COMPILE_DEVICE, True),
        (MeasureErrorNo.RUNTIME_DEVICE, True),
        (MeasureErrorNo.RUN_TIMEOUT, True),
    ],
)
def test_resuming_forgets_failures_of_the_device(measurer, tmp_path, error_no, is_measured_again):
    """A board that died in the middle leaves failures in the log that say nothing of programs."""
    log = str(tmp_path / "log.json")
    measurer.error_no = error_no
    measurer.fails = lambda measure_input: len(measurer.inputs) > 8
    task = make_task()
    tune(task, make_policy(task, explore_trials=8), 24, [auto_scheduler.RecordToFile(log)])
    failed = set(measurer.programs[8:])
    assert len(failed) == 16

    measurer.inputs = []
    measurer.fails = lambda measure_input: False
    policy = make_policy(
        task, explore_trials=8, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    assert policy.num_explored == (8 if is_measured_again else 24)
    tune(task, policy, 1000)
    assert bool(failed & set(measurer.programs)) == is_measured_again


def test_warns_when_no_program_runs(measurer, capfd):
    measurer.fails = lambda measure_input: True
    task = make_task()
    tune(task, make_policy(task), 6)
    warning = (
        "None of the {} programs measured so far has run, with the target "
        f"{task.target}. The last error is: no"
    )
    assert warning.format(6) in capfd.readouterr().err
    make_policy(task).continue_search_one_round(4, program_measurer())
    assert warning.format(4) in capfd.readouterr().err


def test_resuming_explores_what_is_left(measurer, tmp_path):
    log = str(tmp_path / "log.json")
    task = make_task()
    tune(task, make_policy(task, explore_trials=16), 20, [auto_scheduler.RecordToFile(log)])
    policy = make_policy(
        task, explore_trials=40, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    assert policy.num_explored == 20
    tune(task, policy, 20)
    # Three eighths of the new trials, however many came before.
    assert (policy.num_explored, policy.num_descended) == (28, 12)


def test_searches_again(measurer):
    task = make_task()
    policy = make_policy(task, explore_trials=30, params={"num_starts": 1, "sample_trials": 0})
    tune(task, policy, 12)
    assert (policy.num_explored, policy.num_descended, policy.num_descents) == (5, 7, 1)
    # The second search explores what is left and descends anew; the third has little left to try.
    for _ in range(2):
        num_descents = policy.num_descents
        tune(task, policy, 1000)
        assert policy.num_explored == 30
        assert policy.num_descents > num_descents
        assert policy.num_descended > 7
    assert len(set(measurer.programs)) == len(measurer.programs) < 500


def test_descends_from_a_log(measurer, tmp_path):
    log = str(tmp_path / "log.json")
    task = make_task()
    sketch_policy = auto_scheduler.SketchPolicy(
        task, params=dict(FAST_SKETCH_PARAMS), seed=1, verbose=0
    )
    tune(task, sketch_policy, 8, [auto_scheduler.RecordToFile(log)])
    best = min(map(tile_cost, measurer.inputs))

    measurer.inputs = []
    policy = make_policy(
        task, explore_trials=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    tune(task, policy, 1000, [auto_scheduler.RecordToFile(log)])
    assert policy.num_explored == 8
    assert min(map(tile_cost, measurer.inputs)) == pytest.approx(1e-3)
    assert best > 1e-3
    inp, res = auto_scheduler.load_best_record(log, task.workload_key)
    assert tile_cost(inp) == pytest.approx(res.costs[0].value) == pytest.approx(1e-3)
    task.apply_best(log)


def test_latencies_of_another_target_do_not_count(measurer, tmp_path):
    log = str(tmp_path / "log.json")
    preload = [auto_scheduler.PreloadMeasuredStates(log)]
    for target in ("llvm", "llvm -mcpu=skylake -mattr=-avx2"):
        task = auto_scheduler.SearchTask(
            func=droplet_matmul, args=(64, 64, 64), target=tvm.target.Target(target, "llvm")
        )
        with pytest.raises(ValueError, match="nothing to descend from.* on llvm"):
            make_policy(task, explore_trials=0, init_search_callbacks=preload)
        tune(task, make_policy(task), 12, [auto_scheduler.RecordToFile(log)])
        assert make_policy(task, init_search_callbacks=preload).num_explored == 12


def test_search_returns_the_best_state_known(measurer, tmp_path):
    log = str(tmp_path / "log.json")
    task = make_task()
    tune(task, make_policy(task), 1000, [auto_scheduler.RecordToFile(log)])
    best = auto_scheduler.load_best_record(log, task.workload_key)[0].state
    expected = task.compute_dag.infer_bound_from_state(best)

    # Nothing better is left to find, so the best state is the one from the log.
    measurer.inputs = []
    policy = make_policy(task, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)])
    options = auto_scheduler.TuningOptions(
        num_measure_trials=64, builder=auto_scheduler.LocalBuilder(n_parallel=2), verbose=0
    )
    sch, args = auto_scheduler._ffi_api.AutoSchedule(policy, options)
    expected_sch, _ = task.compute_dag.apply_steps_from_state(expected)
    lowered = tvm.lower(sch, args)["main"].script()
    assert lowered == tvm.lower(expected_sch, args)["main"].script()


def test_all_candidates_fail(measurer):
    measurer.fails = lambda measure_input: True
    task = make_task()
    policy = make_policy(task)
    tune(task, policy, 24)
    # Without a valid program the search goes on exploring.
    assert len(measurer.inputs) == policy.num_explored == 24
    assert policy.num_descended == 0


def test_ends_after_too_many_errors(measurer, capfd):
    measurer.fails = lambda measure_input: len(measurer.inputs) > 8
    task = make_task(512)
    policy = make_policy(task, explore_trials=300)
    tune(task, policy, 1000)
    max_errors = 150  # the default of ProgramMeasurer
    assert 8 + max_errors < len(measurer.inputs) <= 8 + max_errors + 8
    assert policy.phase == "done"
    warning = capfd.readouterr().err
    assert "The search ends: the last" in warning
    assert "The last error is: no" in warning


def test_round_ends_after_too_many_errors(measurer):
    measurer.fails = lambda measure_input: len(measurer.inputs) > 16
    policy = make_policy(make_task())
    measure = program_measurer(max_continuous_error=10)
    inputs, _ = policy.continue_search_one_round(100, measure)
    assert 16 + 10 < len(inputs) <= 16 + 10 + 16
    assert policy.phase == "done"
    assert not policy.continue_search_one_round(100, measure)[0]


def test_half_of_the_candidates_fail(measurer):
    def fails(measure_input):
        return zlib.crc32(json.dumps(steps_of(measure_input)).encode()) % 2 == 0

    measurer.fails = fails
    task = make_task()
    policy = make_policy(task)
    tune(task, policy, 400)
    valid = [i for i in measurer.inputs if not fails(i)]
    explored = [i for i in measurer.inputs[:8] if not fails(i)]
    assert 0 < len(valid) < len(measurer.inputs)
    assert min(map(tile_cost, valid)) < min(map(tile_cost, explored))


def test_interrupted_exploration_is_not_taken_up_again(measurer):
    """SketchPolicy would read what it does not have."""

    def interrupt(measure_input):
        raise RuntimeError("interrupted")

    measurer.fails = interrupt
    policy = make_policy(make_task())
    with pytest.raises(RuntimeError, match="interrupted"):
        policy.continue_search_one_round(8, program_measurer())
    measurer.fails = lambda measure_input: False
    with pytest.raises(tvm.TVMError, match="Make a new policy, and let PreloadMeasuredStates"):
        policy.continue_search_one_round(8, program_measurer())


def test_interrupted_measurement_is_taken_up_again(measurer):
    task = make_task()
    policy = make_policy(task, params={"num_starts": 1})
    measure = program_measurer()
    policy.continue_search_one_round(8, measure)
    policy.continue_search_one_round(4, measure)
    assert policy.phase == "descend"

    interrupted = []

    def interrupt(inputs, *_):
        interrupted.extend(json.dumps(steps_of(i)) for i in inputs)
        raise RuntimeError("interrupted")

    measurer.run, run = interrupt, measurer.run
    with pytest.raises(RuntimeError, match="interrupted"):
        policy.continue_search_one_round(4, measure)
    measurer.run = run
    while policy.continue_search_one_round(64, measure)[0]:
        pass
    assert interrupted and set(interrupted) <= set(measurer.programs)
    assert min(map(tile_cost, measurer.inputs)) == pytest.approx(1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_lucky_start_is_not_believed(measurer, seed):
    """Nor is its luck found again at another point that gives the same program."""
    measurer.repeat = 1
    times = {}

    def lucky_at_first(measure_input):
        program = str(measure_input.state)
        times[program] = times.get(program, 0) + 1
        return 0.5e-3 if len(times) == 1 and times[program] == 1 else 1e-3

    measurer.cost = lucky_at_first
    task = make_task()
    policy = make_policy(task, seed=seed, params={"num_starts": 1})
    tune(task, policy, 300)
    # All programs are equally fast, so no move pays, and only the start is measured twice.
    assert policy.last_move == ""
    assert sorted(times.values())[-2:] == [1, 2]


def test_latencies_that_are_no_numbers_are_failures(measurer):
    measurer.repeat = 1
    measured = []

    def cost(measure_input):
        measured.append(measure_input)
        return float("nan") if len(measured) % 2 else tile_cost(measure_input)

    measurer.cost = cost
    task = make_task()
    policy = make_policy(task)
    tune(task, policy, 60)
    assert policy.num_descended > 0


def test_task_without_coordinates(measurer):
    task = auto_scheduler.SearchTask(
        func=droplet_add_one, args=(1,), target=tvm.target.Target("llvm")
    )
    measurer.cost = lambda measure_input: 1e-3
    policy = auto_scheduler.DropletSearchPolicy(
        task, explore_policy=auto_scheduler.EmptyPolicy(task), verbose=0
    )
    tune(task, policy, 16)
    # EmptyPolicy has a single program; its second round finds nothing new.
    assert len(measurer.inputs) == policy.num_explored == 2
    assert policy.phase == "done"


def test_proposes_what_a_gpu_can_run(measurer):
    """Without a cost model that rejects programs, which exceed the shared memory before long."""
    shared_memory = 4096
    hardware_params = auto_scheduler.HardwareParams(-1, 16, 64, shared_memory, 1 << 30, 256, 8, 32)
    task = auto_scheduler.SearchTask(
        func=droplet_matmul,
        args=(128, 128, 128),
        target=tvm.target.Target("cuda -arch=sm_80"),
        hardware_params=hardware_params,
    )
    policy = make_policy(task)
    tune(task, policy, 96)
    states = [measure_input.state for measure_input in measurer.inputs]
    features = get_per_store_features_from_states(states, task)
    assert policy.num_descended > 32
    assert all(feature.any() for feature in features[policy.num_explored :])


def caches(measure_input):
    return any(step[0] == "CHW" for step in steps_of(measure_input))


def test_descends_from_several_starts(measurer):
    """The best ones, at most two of the same structure."""

    def begun(explore_trials, num_starts):
        params = {"num_starts": num_starts}
        policy = make_policy(make_task(), explore_trials=explore_trials, params=params)
        one_measurer = program_measurer()
        for num_trials in (explore_trials, 8):
            policy.continue_search_one_round(num_trials, one_measurer)
        return policy.num_descents

    assert [begun(16, num_starts) for num_starts in (1, 2, 3, 5)] == [1, 2, 3, 5]
    # The matrix product has a structure without a cache, and two with one.
    assert 3 < begun(64, num_starts=100) <= 6


def test_goes_on_where_it_pays(measurer):
    """The best start cannot be improved; another structure has a slower start and faster
    programs."""

    def cost(measure_input):
        return tile_cost(measure_input) if caches(measure_input) else 1.5e-3

    measurer.cost = cost
    task = make_task()
    policy = make_policy(task, explore_trials=16, params={"num_starts": 4, "sample_trials": 0})
    tune(task, policy, 16 * 8)
    explored, descended = measurer.inputs[:16], measurer.inputs[16:]
    best = min(explored, key=cost)
    assert not caches(best) and cost(best) < min(map(cost, filter(caches, explored)))
    assert not any(map(caches, descended[:8]))
    assert all(map(caches, descended[-16:]))
    assert min(map(cost, descended)) == pytest.approx(1e-3)


def test_carries_parameters_over_to_other_structures(measurer):
    """The only start has no cache. All programs with a cache but the explored ones are faster."""

    def cost(measure_input):
        is_explored = len(measurer.inputs) <= 16
        return tile_cost(measure_input) * (
            (9 if is_explored else 0.5) if caches(measure_input) else 1
        )

    measurer.cost = cost
    task = make_task()
    policy = make_policy(task, explore_trials=16, params={"num_starts": 1})
    policy.continue_search_one_round(16, program_measurer())
    explored = [caches(i) for i in measurer.inputs]
    assert any(explored) and not all(explored)
    tune(task, policy, 1000)
    results = [(i, cost(i)) for i in measurer.inputs[16:]]
    assert not any(caches(i) for i, _ in results[:8])
    best, lowest = min(results, key=lambda result: result[1])
    assert caches(best) and lowest == pytest.approx(0.5e-3)


def neighbors(coordinates, base):
    for direction in coordinates.directions:
        point = list(base)
        for coordinate, delta in direction:
            point[coordinate] += delta
        if all(0 <= value <= upper for value, upper in zip(point, coordinates.upper)):
            yield point


def all_states(task, start):
    """All that steps lead to."""
    coordinates = ScheduleCoordinates(task, start)
    states, points = {}, [coordinates.origin]
    seen = {tuple(points[0])}
    while points:
        base = points.pop()
        state = coordinates.state_at(base)
        if state is not None:
            states[str(state)] = state
        for point in neighbors(coordinates, base):
            if tuple(point) not in seen:
                seen.add(tuple(point))
                points.append(point)
    return list(states.values())


def test_carries_over_what_a_log_led_to(measurer, tmp_path):
    """The log has all programs of the structure that it leads to: none is left to measure."""
    log = str(tmp_path / "log.json")
    task = make_task(2)
    explored, results = make_policy(task, 16).continue_search_one_round(16, program_measurer())
    start, *others = all_states(task, explored[0].state)
    for state, cost in ((start, 1e-6), *((other, 1.0) for other in others)):
        result = auto_scheduler.MeasureResult([cost, cost], 0, "", 0.1, 0.0)
        auto_scheduler.save_records(log, [auto_scheduler.MeasureInput(task, state)], [result])
    auto_scheduler.save_records(log, explored, results)
    measurer.inputs.clear()
    preload = auto_scheduler.PreloadMeasuredStates(log)
    params = {"num_starts": 1}
    tune(task, make_policy(task, 0, params=params, init_search_callbacks=[preload]), 1000)
    structures = {ScheduleCoordinates(task, i.state).structure for i in measurer.inputs}
    assert structures and ScheduleCoordinates(task, start).structure not in structures


def test_begins_no_descent_where_another_came_lower(measurer):
    """Structures take turns in having the best program, by a few percent."""
    measurer.cost = distinct_cost
    policy = make_policy(make_task(), explore_trials=16, params={"num_starts": 1})
    tune(policy.search_task, policy, 400)
    assert 2 <= policy.num_descents <= 6


def test_explores_with_a_given_policy(measurer):
    task = make_task()
    sketch_policy = auto_scheduler.SketchPolicy(
        task, params=dict(FAST_SKETCH_PARAMS), seed=2, verbose=0
    )
    policy = auto_scheduler.DropletSearchPolicy(
        task, explore_policy=sketch_policy, params={"explore_trials": 8}, seed=1, verbose=0
    )
    assert policy.explore_policy.same_as(sketch_policy)
    tune(task, policy, 1000)
    assert min(map(tile_cost, measurer.inputs)) == pytest.approx(1e-3)


def test_limits_of_the_explore_policy_hold(measurer):
    task = make_task()
    params = {**FAST_SKETCH_PARAMS, "max_innermost_split_factor": 2}
    sketch_policy = auto_scheduler.SketchPolicy(task, params=params, seed=2, verbose=0)
    policy = auto_scheduler.DropletSearchPolicy(
        task, explore_policy=sketch_policy, params={"explore_trials": 8}, seed=1, verbose=0
    )
    tune(task, policy, 200)
    assert policy.num_descended > 0
    splits = [step for i in measurer.inputs for step in steps_of(i) if step[0] == "SP"]
    assert max(step[4][-1] for step in splits) == 2


def test_params_reach_the_descent(measurer):
    """A margin that no gain reaches ends the descent where it began; a radius widens it."""
    measurer.repeat = 1
    num_descended = {}
    for name, params in (
        ("margin", {"margin": 0.999}),
        ("radius", {"margin": 0.999, "radius": 3}),
        ("neither", {}),
    ):
        task = make_task()
        policy = make_policy(
            task, params={"num_starts": 1, **params}, program_cost_model=RecordingModel(), seed=3
        )
        one_measurer = program_measurer()
        moves = set()
        while policy.phase != "done":
            policy.continue_search_one_round(8, one_measurer)
            moves.add(policy.last_move)
        num_descended[name] = policy.num_descended
        assert (moves == {""}) == ("margin" in params)
    assert num_descended["margin"] < num_descended["radius"]


class RecordingModel(PythonBasedModel):
    """Remembers what it is trained with."""

    def __init__(self):
        super().__init__()
        self.updates = []

    def update(self, inputs, results):
        self.updates.extend(zip(inputs, results))

    def predict(self, task, states):
        return [float(i % 7) for i in range(len(states))]


def test_cost_model_learns_from_all_programs(measurer):
    model = RecordingModel()
    task = make_task()
    tune(task, make_policy(task, program_cost_model=model), 60)
    assert len(measurer.inputs) == 60
    assert [json.dumps(steps_of(inp)) for inp, _ in model.updates] == measurer.programs


def test_cost_model_learns_from_an_explore_policy_with_another_one(measurer):
    model = RecordingModel()
    task = make_task()
    explore_policy = auto_scheduler.SketchPolicy(task, params=FAST_SKETCH_PARAMS, seed=1, verbose=0)
    policy = auto_scheduler.DropletSearchPolicy(
        task,
        model,
        params={"explore_trials": 8},
        explore_policy=explore_policy,
        seed=1,
        verbose=0,
    )
    measure = program_measurer()
    policy.continue_search_one_round(8, measure)
    assert len(model.updates) == 8
    while len(measurer.inputs) < 60:
        policy.continue_search_one_round(8, measure)
    assert [json.dumps(steps_of(inp)) for inp, _ in model.updates] == measurer.programs


class WarmedModel(RecordingModel):
    """Guesses until it has learned from more than 8 programs."""

    num_orders = 0

    def predict(self, task, states):
        if len(self.updates) <= 8:
            return np.random.uniform(0.5, 1, len(states))
        self.num_orders += len(states) > 1
        return super().predict(task, states)


def test_cost_model_orders_descents_once_it_has_learned(measurer):
    latencies = (1e-3 * 0.9**i for i in itertools.count())  # so that the descent does not stall
    measurer.cost = lambda measure_input: next(latencies)
    measurer.repeat = 1
    model = WarmedModel()
    policy = make_policy(make_task(), program_cost_model=model, params={"num_starts": 1})
    measure = program_measurer()
    for _ in range(2):  # the second one descends, and lets the model learn enough
        policy.continue_search_one_round(8, measure)
    assert policy.num_descended == 8
    assert model.num_orders == 0
    policy.continue_search_one_round(8, measure)
    assert policy.num_descents == 1
    assert model.num_orders > 0


class CountingModel(RecordingModel):
    """Counts how often it is asked: for the first population, and for each that evolves."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def predict(self, task, states):
        self.calls += 1
        return super().predict(task, states)

    def calls_of(self, function, *args):
        before = self.calls
        function(*args)
        return self.calls - before


@pytest.mark.parametrize("sample_trials", [0, 4, 8])
def test_samples_before_it_evolves(measurer, sample_trials):
    model = CountingModel()
    params = {"sample_trials": sample_trials, "evolutionary_search_num_iters": 3}
    policy = make_policy(make_task(), params=params, program_cost_model=model)
    one_measurer = program_measurer()
    for begin in (0, 4):
        calls = model.calls_of(policy.continue_search_one_round, 4, one_measurer)
        assert calls == (0 if begin < sample_trials else 5)
        assert policy.num_explored == begin + 4


def test_samples_what_executes_the_fewest_stores(measurer):
    params = {"sample_trials": 8, "evolutionary_search_population": 64}
    policy = make_policy(make_task(), params=params)
    sampled, _ = policy.continue_search_one_round(8, program_measurer())
    count = StoreCountModel(auto_scheduler.RandomModel()).predict
    task = policy.search_task
    states = [trial.state for trial in sampled]
    others = policy.explore_policy.sample_initial_population()
    assert np.mean(count(task, states)) > np.quantile(count(task, others), 0.8)


def test_evolves_again_after_sampling_failed(measurer):
    """On GPU, where the cost model is asked about samples, too."""

    class FailingModel(CountingModel):
        def predict(self, task, states):
            if not self.calls:
                self.calls += 1
                raise ValueError("not now")
            return super().predict(task, states)

    task = auto_scheduler.SearchTask(
        func=droplet_matmul,
        args=(64, 64, 64),
        target="cuda",
        hardware_params=gpu_hardware_params(49152, 1024),
    )
    model = FailingModel()
    # Enough to sample once, though some programs are beyond the limits.
    params = {"evolutionary_search_num_iters": 3, "evolutionary_search_population": 128}
    policy = make_policy(task, params=params, program_cost_model=model)
    with pytest.raises(Exception, match="not now"):
        policy.continue_search_one_round(4, program_measurer())
    explore = policy.explore_policy.continue_search_one_round
    assert model.calls_of(explore, 4, program_measurer()) == 5


def test_cost_model_orders_the_descent(measurer):
    """The first batch holds the neighbors that the cost model prefers, and none that it calls
    invalid."""

    class TileModel(RecordingModel):
        def predict(self, task, states):
            costs = [tile_cost(auto_scheduler.MeasureInput(task, state)) for state in states]
            return [float("-inf") if cost > 8e-3 else 1e-3 / cost for cost in costs]

    def first_batch(model):
        measurer.inputs.clear()
        task = make_task()
        policy = make_policy(task, program_cost_model=model)
        tune(task, policy, 16)
        return [tile_cost(inp) for inp in measurer.inputs[policy.num_explored :]]

    guided, unguided = first_batch(TileModel()), first_batch(auto_scheduler.RandomModel())
    assert np.mean(guided) < np.mean(unguided)
    assert max(guided) <= 8e-3


def hash_of(text):
    return zlib.crc32(text.encode()) / 2**32


def distinct_cost(measure_input):
    """No two programs have the same."""
    return tile_cost(measure_input) * (1 + 0.03 * hash_of(json.dumps(steps_of(measure_input))))


# With others, the last program has lost values of coordinates that make no difference to it.
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_measures_all_neighbors_of_its_last_program(measurer, seed):
    """Whatever else the cost model was asked about, which tells nothing here."""

    class HashModel(RecordingModel):
        def predict(self, task, states):
            return [hash_of(str(state)) for state in states]

    measurer.cost = distinct_cost
    task = make_task()
    policy = make_policy(task, program_cost_model=HashModel(), seed=seed)
    tune(task, policy, 2000)
    assert policy.phase == "done"
    states = [task.compute_dag.infer_bound_from_state(i.state) for i in measurer.inputs]
    best = states[np.argmin([distinct_cost(i) for i in measurer.inputs])]
    coordinates = ScheduleCoordinates(task, best)
    measured = {str(state) for state in states}
    for point in neighbors(coordinates, coordinates.origin):
        neighbor = coordinates.state_at(point)
        assert neighbor is None or str(neighbor) in measured


def test_a_cost_model_that_guesses_is_not_asked(measurer):
    class GuessingModel(RecordingModel):
        num_asked = 0

        def predict(self, task, states):
            self.num_asked += len(states)
            return np.random.uniform(0.5, 1, len(states))

    model = GuessingModel()
    policy = make_policy(make_task(), program_cost_model=model)
    while policy.num_explored < 8:
        policy.continue_search_one_round(4, program_measurer())
    model.num_asked = 0
    for _ in range(3):
        policy.continue_search_one_round(8, program_measurer())
    # Each descent asks twice about its start, to see whether the answer stays the same, and again
    # after each round that the model learned from.
    assert 0 < model.num_asked <= 2 * policy.num_descents * (1 + 3)


def test_callbacks_and_log(measurer, tmp_path):
    log = str(tmp_path / "log.json")
    calls = []

    class Callback(PythonBasedMeasureCallback):
        def callback(self, policy, inputs, results):
            assert len(inputs) == len(results)
            calls.append((type(policy), len(inputs)))

    task = make_task()
    policy = make_policy(task)
    tune(task, policy, 40, [auto_scheduler.RecordToFile(log), Callback()])
    # The exploring policy measures for itself.
    count = {kind: sum(n for k, n in calls if k is kind) for kind, _ in calls}
    assert count == {
        auto_scheduler.SketchPolicy: policy.num_explored,
        auto_scheduler.DropletSearchPolicy: policy.num_descended,
    }
    records = list(auto_scheduler.load_records(log))
    assert [json.dumps(steps_of(inp)) for inp, _ in records] == measurer.programs


def test_early_stopping(measurer):
    measurer.cost = lambda measure_input: 1e-3
    task = make_task()
    policy = make_policy(task, explore_trials=8)
    tune(task, policy, 1000, early_stopping=12)
    assert 12 < len(measurer.inputs) <= 12 + 8


def test_same_seed_same_search(measurer):
    runs = []
    for _ in range(2):
        measurer.inputs = []
        task = make_task()
        tune(task, make_policy(task, seed=7, program_cost_model=RecordingModel()), 48)
        runs.append(measurer.programs)
    assert runs[0] == runs[1]


def test_task_scheduler(measurer):
    tasks = [make_task(64), make_task(32)]
    policies = [make_policy(task) for task in tasks]
    scheduler = auto_scheduler.TaskScheduler(tasks, callbacks=[])
    scheduler.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=60,
            num_measures_per_round=10,
            builder=auto_scheduler.LocalBuilder(n_parallel=2),
            verbose=0,
        ),
        search_policy=policies,
    )
    assert len(measurer.inputs) == 60
    assert all(policy.num_descended > 0 for policy in policies)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"explore_trails": 3}, "explore_trails"),
        (
            {"explore_trials": -1},
            '"explore_trials" must be at least 0 and fit 32 bits, but it is -1',
        ),
        (
            {"explore_trials": 2**40},
            '"explore_trials" must be at least 0 and fit 32 bits, but it is',
        ),
        ({"explore_trials": 1.5}, '"explore_trials" must be an integer, but it is'),
        ({"num_starts": 0}, '"num_starts" must be at least 1 and fit 32 bits, but it is 0'),
        ({"radius": 0}, '"radius" must be at least 1 and fit 32 bits, but it is 0'),
        ({"p_value": 0}, '"p_value" must be above 0 and below 1, but it is 0'),
        ({"p_value": 1.0}, '"p_value" must be above 0 and below 1, but it is 1'),
        ({"margin": -0.5}, '"margin" must be at least 0 and below 1, but it is -0.5'),
        ({"margin": "1 %"}, '"margin" must be a number, but it is'),
        ({"eps_greedy": "a lot"}, "\"eps_greedy\" must be of type float, but it is 'a lot'"),
        ({"max_vectorize_size": None}, '"max_vectorize_size" must be of type int, but it is None'),
        ({"explore_trials": 0}, "nothing to descend from"),
    ],
)
def test_rejects_params(params, message):
    given = dict(params)
    with pytest.raises(ValueError, match=message):
        auto_scheduler.DropletSearchPolicy(make_task(), params=params, verbose=0)
    assert params == given


def test_rejects_policy_of_another_task():
    other = make_task(32)
    with pytest.raises(ValueError) as error:
        auto_scheduler.DropletSearchPolicy(
            make_task(64), explore_policy=auto_scheduler.EmptyPolicy(other), verbose=0
        )
    assert other.workload_key in str(error.value)


def test_rejects_sampling_of_an_explore_policy():
    task = make_task()
    with pytest.raises(ValueError, match="sample_trials.*explore_policy is given"):
        auto_scheduler.DropletSearchPolicy(
            task,
            params={"sample_trials": 8},
            explore_policy=auto_scheduler.SketchPolicy(task, verbose=0),
        )


def test_rejects_what_belongs_to_the_explore_policy():
    task = make_task()
    with pytest.raises(ValueError, match="eps_greedy.*give it to the explore_policy itself"):
        auto_scheduler.DropletSearchPolicy(
            task,
            explore_policy=auto_scheduler.SketchPolicy(task, verbose=0),
            params={"eps_greedy": 0.1},
        )
    rule = auto_scheduler.PreloadCustomSketchRule(lambda *_: 0, lambda *_: [])
    with pytest.raises(ValueError, match="PreloadCustomSketchRule"):
        auto_scheduler.DropletSearchPolicy(
            task,
            explore_policy=auto_scheduler.SketchPolicy(task, verbose=0),
            init_search_callbacks=[rule],
        )


@tvm.testing.requires_llvm
def test_real_search(tmp_path):
    log = str(tmp_path / "log.json")
    n = 64
    # The processes that build and run need a workload of a module that they can import.
    auto_scheduler.register_workload(te_workload.matmul, override=True)
    task = auto_scheduler.SearchTask(func=te_workload.matmul, args=(n, n, n), target="llvm")
    policy = make_policy(task, explore_trials=6)
    task.tune(
        auto_scheduler.TuningOptions(
            num_measure_trials=10,
            num_measures_per_round=6,
            runner=auto_scheduler.LocalRunner(number=1, repeat=2, min_repeat_ms=5),
            measure_callbacks=[auto_scheduler.RecordToFile(log)],
            verbose=0,
        ),
        search_policy=policy,
    )
    records = list(auto_scheduler.load_records(log))
    assert len(records) == 10 and policy.num_descended == 6
    assert all(result.error_no == 0 for _, result in records)

    sch, args = task.apply_best(log)
    func = tvm.build(sch, args, task.target)
    a, b = (np.random.uniform(size=(n, n)).astype("float32") for _ in range(2))
    dev = tvm.cpu()
    arrays = [tvm.nd.array(x, dev) for x in (a, b, np.zeros((n, n), "float32"))]
    func(*arrays)
    tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


if __name__ == "__main__":
    tvm.testing.main()
