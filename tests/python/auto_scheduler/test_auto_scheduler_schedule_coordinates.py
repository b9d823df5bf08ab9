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
"""Test the parameters of a schedule as coordinates."""

import functools
import json
import random

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.feature import get_per_store_features_from_states
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string
from tvm.auto_scheduler.schedule_coordinates import ScheduleCoordinates
from tvm.testing.auto_scheduler import (
    conv2d_nchw_bn_relu_auto_scheduler_test,
    conv2d_winograd_nhwc_auto_scheduler_test,
    matmul_auto_scheduler_test,
    max_pool2d_auto_scheduler_test,
    softmax_nm_auto_scheduler_test,
)

MAX_INNERMOST_SPLIT_FACTOR = 64
MAX_THREADS = 256
MAX_VTHREADS = 8
VECTOR_UNIT_BYTES = 16

HARDWARE = {
    "llvm": auto_scheduler.HardwareParams(4, 64, 64, 0, 0, 0, 0, 0),
    "cuda": auto_scheduler.HardwareParams(
        -1, VECTOR_UNIT_BYTES, 64, 49152, 2147483647, MAX_THREADS, MAX_VTHREADS, 32
    ),
}


@auto_scheduler.register_workload
def coordinates_depthwise(channels, size, stride):
    data = te.placeholder((1, channels, size, size), name="data")
    kernel = te.placeholder((channels, 1, 3, 3), name="kernel")
    return [data, kernel, topi.nn.depthwise_conv2d_nchw(data, kernel, stride, 1, 1)]


@auto_scheduler.register_workload
def coordinates_conv2d_transpose(channels, filters, size):
    data = te.placeholder((1, channels, size, size), name="data")
    kernel = te.placeholder((channels, filters, 4, 4), name="kernel")
    strides, padding = (2, 2), (1, 1, 1, 1)
    out = topi.nn.conv2d_transpose_nchw(data, kernel, strides, padding, "float32", (0, 0))
    return [data, kernel, out]


@auto_scheduler.register_workload
def coordinates_avg_pool2d(channels, size):
    data = te.placeholder((1, channels, size, size), name="data")
    return [data, topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg")]


@auto_scheduler.register_workload
def coordinates_batch_norm(batch, channels, size):
    data = te.placeholder((batch, channels, size, size), name="data")
    gamma, beta, mean, var = (te.placeholder((channels,), name=name) for name in "gbmv")
    out = topi.nn.batch_norm(data, gamma, beta, mean, var, training=False)
    return [data, gamma, beta, mean, var, out[0]]


@auto_scheduler.register_workload
def coordinates_layer_norm(rows, columns):
    data = te.placeholder((rows, columns), name="data")
    gamma, beta = (te.placeholder((columns,), name=name) for name in "gb")
    return [data, gamma, beta, topi.nn.layer_norm(data, gamma, beta, [1])]


@auto_scheduler.register_workload
def coordinates_norm(batch, rows, columns):
    data = te.placeholder((batch, rows, columns), name="A")
    i, j = te.reduce_axis((0, rows), name="i"), te.reduce_axis((0, columns), name="j")
    total = te.compute((batch,), lambda b: te.sum(data[b, i, j] * data[b, i, j], [i, j]), name="C")
    return [data, te.compute((batch,), lambda b: te.sqrt(total[b]), name="D")]


@auto_scheduler.register_workload
def coordinates_elementwise(n):
    data = te.placeholder((n,), name="A")
    return [data, te.compute((n,), lambda i: data[i] * 2 + 1, name="B")]


# With few states of each, their sketches differ: with and without rfactor, cache stages, ...
WORKLOADS = {
    "matmul": (matmul_auto_scheduler_test, (64, 48, 32)),
    "matmul_prime": (matmul_auto_scheduler_test, (17, 31, 13)),
    "matmul_row": (matmul_auto_scheduler_test, (1, 60, 1001)),
    "conv2d_bn_relu": (conv2d_nchw_bn_relu_auto_scheduler_test, (1, 14, 14, 12, 32, 3, 1, 1)),
    "depthwise": (coordinates_depthwise, (24, 15, 2)),
    "conv2d_transpose": (coordinates_conv2d_transpose, (8, 12, 7)),
    "max_pool2d": (max_pool2d_auto_scheduler_test, (1, 15, 15, 10, 1)),
    "avg_pool2d": (coordinates_avg_pool2d, (10, 15)),
    "softmax": (softmax_nm_auto_scheduler_test, (12, 100)),
    "winograd": (conv2d_winograd_nhwc_auto_scheduler_test, (1, 14, 14, 16, 16)),
    "batch_norm": (coordinates_batch_norm, (2, 6, 14)),
    "layer_norm": (coordinates_layer_norm, (12, 96)),
    "norm": (coordinates_norm, (4, 64, 30)),
    "elementwise": (coordinates_elementwise, (1000,)),
}

all_workloads = pytest.mark.parametrize("workload", WORKLOADS)
all_targets = pytest.mark.parametrize("target", HARDWARE)


def make_task(workload, target):
    func, args = WORKLOADS[workload]
    hardware = HARDWARE[target]
    if target == "cuda":
        # Name the architecture: without a GPU, TVM cannot ask for it.
        target = "cuda -arch=sm_70"
    return auto_scheduler.SearchTask(func=func, args=args, target=target, hardware_params=hardware)


@functools.lru_cache(maxsize=None)
def sample_states(workload, target, num_states=2, seed=1):
    """States as sampled first, and states that evolution has mutated."""
    task = make_task(workload, target)
    np.random.seed(seed)  # RandomModel draws from NumPy
    params = {
        "sample_init_min_population": num_states,
        "evolutionary_search_population": 16,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 0.99,
    }
    policy = auto_scheduler.SketchPolicy(
        task,
        program_cost_model=auto_scheduler.RandomModel(),
        params=params,
        seed=seed,
        verbose=0,
    )
    sampled = policy.sample_initial_population()
    evolved = policy.evolutionary_search(sampled, num_states)
    return task, list(sampled)[:num_states] + list(evolved)[:num_states]


def make_record(task, state):
    result = auto_scheduler.MeasureResult([0.1], 0, "", 0.1, 1)
    return dump_record_to_string(auto_scheduler.MeasureInput(task, state), result)


def steps_of(task, state):
    """The transform steps as they are written to records."""
    return json.loads(make_record(task, state))["i"][1][1]


def from_record(task, state):
    """What a record of the state gives when it is read and its steps are replayed."""
    measure_input, _ = load_record_from_string(make_record(task, state))
    return task.compute_dag.infer_bound_from_state(measure_input.state)


def lower(task, state):
    schedule, args = task.compute_dag.apply_steps_from_state(state)
    # Unrolling would take nearly all of the time.
    with tvm.transform.PassContext(disabled_pass=["tir.UnrollLoop"]):
        return tvm.lower(schedule, args)


def move(coordinates, point, direction):
    """The point one unit step away, None if that is outside the space."""
    moved = list(point)
    for coordinate, delta in direction:
        moved[coordinate] += delta
    inside = all(0 <= value <= upper for value, upper in zip(moved, coordinates.upper))
    return moved if inside else None


def neighbors(coordinates):
    moved = [move(coordinates, coordinates.origin, d) for d in coordinates.directions]
    return [point for point in moved if point is not None]


def walk(coordinates, num_steps, rng):
    point = coordinates.origin
    for _ in range(num_steps):
        point = move(coordinates, point, rng.choice(coordinates.directions)) or point
    return point


# The annotations as numbered in steps.
VECTORIZE, PARALLEL, VTHREAD, THREAD_X = 2, 3, 4, 6
# The kind of a loop over a reduced axis.
REDUCTION = 1


def innermost_annotation(steps, step_id):
    """How the innermost loop of a split is annotated by the steps right after it."""
    _, stage, it, _, lengths, _ = steps[step_id]
    for step in steps[step_id + 1 :]:
        if step[:3] == ["AN", stage, it + len(lengths)]:
            return step[3]
        if step[0] != "AN":
            break
    return None


def check_splits(task, before, after):
    """The factors that moved must keep their product and the limits of the innermost one."""
    on_gpu = task.target.kind.name == "cuda"
    for i, (old, new) in enumerate(zip(before, after)):
        if old[0] != "SP" or old == new:
            continue
        assert old[:4] == new[:4] and len(old[4]) == len(new[4]) and old[5] == new[5]
        annotation = innermost_annotation(after, i)
        if on_gpu and annotation == VECTORIZE:
            assert new[4][0] in (1, 2, 4)
            continue
        product = np.prod(old[4]) * -(-old[3] // np.prod(old[4]))
        assert product % np.prod(new[4]) == 0
        limit = MAX_THREADS if annotation == THREAD_X else MAX_INNERMOST_SPLIT_FACTOR
        assert new[4][-1] <= max(limit, old[4][-1])


def check_state(task, start, state):
    """What must hold for each state that is returned."""
    check_splits(task, steps_of(task, start), steps_of(task, state))
    assert str(from_record(task, state)) == str(state)
    for stage in state.stages:
        num_threads = 1
        for it in stage.iters:
            if it.annotation == THREAD_X:
                num_threads *= int(it.range.extent)
            elif it.annotation == VTHREAD:
                assert int(it.range.extent) <= MAX_VTHREADS
            elif it.annotation == VECTORIZE:
                assert int(it.range.extent) <= MAX_INNERMOST_SPLIT_FACTOR
        assert num_threads <= MAX_THREADS


def check_points(workload, target, points_of):
    """Check and lower the states at points of each sampled state's space."""
    task, starts = sample_states(workload, target)
    num_points = num_states = 0
    for start in starts:
        coordinates = ScheduleCoordinates(task, start)
        for point in points_of(coordinates):
            num_points += 1
            state = coordinates.state_at(point)
            if state is not None:
                check_state(task, start, state)
                # Lowering takes seconds for winograd, milliseconds for the others.
                if workload != "winograd" or num_states % 40 == 0:
                    lower(task, state)
                num_states += 1
    assert num_states >= num_points / 4


@all_targets
@all_workloads
def test_origin(workload, target):
    task, starts = sample_states(workload, target)
    assert starts
    for start in starts:
        coordinates = ScheduleCoordinates(task, start)
        state = coordinates.state_at(coordinates.origin)
        assert str(state) == str(task.compute_dag.infer_bound_from_state(start))
        assert steps_of(task, state) == steps_of(task, start)
        assert coordinates.describe(coordinates.origin, coordinates.origin) == ""
        for value, upper in zip(coordinates.origin, coordinates.upper):
            assert 0 <= value <= upper


@all_targets
@all_workloads
def test_neighbors(workload, target):
    check_points(workload, target, neighbors)


@all_targets
@all_workloads
def test_far_points(workload, target):
    rng = random.Random(0)

    def far_points(coordinates):
        points = [walk(coordinates, rng.randint(2, 30), rng) for _ in range(6)]
        return [point for point in points if point != coordinates.origin]

    check_points(workload, target, far_points)


@all_workloads
def test_tile_moves_are_valid_on_cpu(workload):
    """No constraint but the innermost factor's limit forbids a move of tile sizes."""
    task, starts = sample_states(workload, "llvm")
    for start in starts:
        if has_parallel_in_parallel(start):
            continue  # SketchPolicy samples such states and leaves them out later.
        coordinates = ScheduleCoordinates(task, start)
        for direction in coordinates.directions:
            point = move(coordinates, coordinates.origin, direction)
            if len(direction) == 2 and point is not None:
                text = coordinates.describe(coordinates.origin, point)
                innermost = int(text[text.rindex("[") :].strip("[]").split(", ")[-1])
                is_valid = coordinates.state_at(point) is not None
                assert is_valid == (innermost <= MAX_INNERMOST_SPLIT_FACTOR), text


def has_parallel_in_parallel(state):
    return any(
        sum(it.annotation == PARALLEL for it in stage.iters) > 0 and stage.compute_at == 2
        for stage in state.stages
    )


@pytest.mark.parametrize(
    "workload",
    ["matmul_prime", "conv2d_bn_relu", "depthwise", "max_pool2d", "softmax", "norm", "batch_norm"],
)
@tvm.testing.requires_llvm
def test_kernels_are_right(workload):
    rng = random.Random(0)
    task, starts = sample_states(workload, "llvm")

    def run(state):
        schedule, args = task.compute_dag.apply_steps_from_state(state)
        func = tvm.build(schedule, args, target="llvm")
        values = np.random.RandomState(0)
        shapes = [[int(extent) for extent in tensor.shape] for tensor in args]
        arrays = [tvm.nd.array(values.uniform(0.5, 1, shape).astype("float32")) for shape in shapes]
        func(*arrays)
        return arrays[-1].numpy()

    expected = run(task.compute_dag.init_state)
    for start in starts:
        coordinates = ScheduleCoordinates(task, start)
        for num_steps in (1, 3, 20):
            state = coordinates.state_at(walk(coordinates, num_steps, rng))
            if state is not None:
                tvm.testing.assert_allclose(run(state), expected, rtol=1e-4)


@all_targets
@all_workloads
def test_structure(workload, target):
    """It is that of the neighbors too, and differs where the numbers of stages do."""
    task, starts = sample_states(workload, target)
    num_stages = {}
    for start in starts:
        coordinates = ScheduleCoordinates(task, start)
        num_stages.setdefault(coordinates.structure, set()).add(len(start.stages))
        for point in neighbors(coordinates)[::5]:
            state = coordinates.state_at(point)
            if state is not None:
                assert ScheduleCoordinates(task, state).structure == coordinates.structure
    assert all(len(numbers) == 1 for numbers in num_stages.values())


@auto_scheduler.register_workload
def coordinates_exp_add(*shape):
    """A stage B that is not inlined by rule, and its consumer C."""
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: te.exp(a(*i)), name="B")
    return [a, te.compute(shape, lambda *i: b(*i) + 1, name="C")]


# The numbers of these stages.
B, C = 1, 2


def exp_add(*shape, target="llvm"):
    task = auto_scheduler.SearchTask(
        func=coordinates_exp_add, args=shape, target=target, hardware_params=HARDWARE[target]
    )
    return task, task.compute_dag.get_init_state()


def prime_exponents(*levels):
    """The coordinates of tile levels with the prime factors 2 and 3."""
    exponents = []
    for prime in (2, 3):
        for level in levels:
            exponents.append(sum(level % prime**power == 0 for power in range(1, 20)))
    return exponents


def set_state(coordinates, **values):
    """The state where coordinates that are described by their names have other values."""
    point = coordinates.origin
    for name, value in values.items():
        index = coordinate_named(coordinates, name.replace("_", " "))
        point[index] = value
    return coordinates.state_at(point)


def coordinate_named(coordinates, name):
    found = set()
    for direction in coordinates.directions:
        point = move(coordinates, coordinates.origin, direction)
        if point is not None and coordinates.describe(coordinates.origin, point).startswith(name):
            found.update(coordinate for coordinate, _ in direction)
    (index,) = found
    return index


def loops(state, name):
    """The loops of a stage as (extent, annotation)."""
    (stage,) = [stage for stage in state.stages if stage.op.name == name]
    return [(int(it.range.extent), it.annotation) for it in stage.iters]


def test_split():
    task, state = exp_add(12)
    state.split(C, state.stages[C].iters[0], [2, 3])
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.origin[:6] == prime_exponents(2, 2, 3)
    assert coordinates.upper[:6] == [2, 2, 2, 1, 1, 1]
    tile_moves = {tuple(d) for d in coordinates.directions if len(d) == 2}
    assert tile_moves == {
        ((first + a, -1), (first + b, 1))
        for first in (0, 3)
        for a in range(3)
        for b in range(3)
        if a != b
    }

    def lengths(levels):
        point = prime_exponents(*levels) + coordinates.origin[6:]
        state = coordinates.state_at(point)
        assert [extent for extent, _ in loops(state, "C")] == levels
        return steps_of(task, state)[0][4]

    assert lengths([1, 12, 1]) == [12, 1]
    assert lengths([3, 1, 4]) == [1, 4]
    moved = prime_exponents(1, 4, 3) + coordinates.origin[6:]
    assert coordinates.describe(coordinates.origin, moved) == "C i0 split [2, 2, 3] -> [1, 4, 3]"


def test_split_from_outer_to_inner():
    task, state = exp_add(12)
    state.split(C, state.stages[C].iters[0], [2, 3], False)
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.origin[:6] == prime_exponents(2, 3, 2)
    state = coordinates.state_at(prime_exponents(4, 1, 3) + coordinates.origin[6:])
    assert steps_of(task, state)[0][4] == [4, 1]
    assert [extent for extent, _ in loops(state, "C")] == [4, 1, 3]


def test_split_that_does_not_divide():
    """The levels keep their product, which is the extent rounded up."""
    task, state = exp_add(10)
    state.split(C, state.stages[C].iters[0], [4])
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.origin[:4] == prime_exponents(3, 4)
    state = coordinates.state_at(prime_exponents(2, 6) + coordinates.origin[4:])
    assert [extent for extent, _ in loops(state, "C")] == [2, 6]
    lower(task, state)


def test_innermost_factor_is_limited():
    task, state = exp_add(1024)
    state.split(C, state.stages[C].iters[0], [8])
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.upper[:2] == [10, 6]
    assert ScheduleCoordinates(task, state, {"max_innermost_split_factor": 16}).upper[:2] == [10, 4]

    _, state = exp_add(1024)
    state.split(C, state.stages[C].iters[0], [128])
    coordinates = ScheduleCoordinates(task, state)  # starts beyond the limit
    assert coordinates.upper[:2] == [10, 7]
    assert steps_of(task, coordinates.state_at(coordinates.origin)) == steps_of(task, state)


def test_followers_follow():
    task, state = exp_add(12)
    state.split(C, state.stages[C].iters[0], [6])
    state.follow_split(B, state.stages[B].iters[0], 0, 1)
    coordinates = ScheduleCoordinates(task, state)
    state = coordinates.state_at(prime_exponents(3, 4) + coordinates.origin[4:])
    assert [extent for extent, _ in loops(state, "C")] == [3, 4]
    assert [extent for extent, _ in loops(state, "B")] == [3, 4]


def test_adopt():
    task, state = exp_add(12)
    state.split(C, state.stages[C].iters[0], [2, 3])
    plain = ScheduleCoordinates(task, state)
    task, state = exp_add(12)
    state.cache_write(C, "local")
    (local,) = [i for i, stage in enumerate(state.stages) if stage.op.name == "C.local"]
    state.split(local, state.stages[local].iters[0], [12, 1])
    cached = ScheduleCoordinates(task, state)
    assert plain.structure != cached.structure

    def extents(coordinates, point, name):
        return [extent for extent, _ in loops(coordinates.state_at(point), name)]

    # The stage and its write cache are the same in this.
    point = prime_exponents(1, 4, 3) + plain.origin[6:]
    adopted = cached.adopt(plain, point)
    assert extents(cached, adopted, "C.local") == [1, 4, 3]
    assert extents(cached, adopted, "C") == extents(cached, cached.origin, "C") == [12]
    assert adopted[6:] == cached.origin[6:]
    assert extents(plain, plain.adopt(cached, cached.origin), "C") == [1, 12, 1]
    assert plain.adopt(plain, point) == point

    # What has no counterpart stays as it is.
    for extent, lengths in ((24, [2, 3]), (12, [2, 3, 1])):
        task, state = exp_add(extent)
        state.split(C, state.stages[C].iters[0], lengths)
        other = ScheduleCoordinates(task, state)
        assert other.adopt(plain, point) == other.origin
        assert plain.adopt(other, other.origin) == plain.origin


def test_unroll():
    task = make_task("norm", "llvm")
    for value, values in ((16, [0, 16, 64, 512]), (7, [0, 7, 16, 64, 512])):
        state = task.compute_dag.get_init_state()
        state.pragma(1, state.stages[1].iters[0], f"auto_unroll_max_step${value}")
        coordinates = ScheduleCoordinates(task, state)
        index = coordinate_named(coordinates, "C auto_unroll_max_step")
        assert coordinates.upper[index] == len(values) - 1
        assert coordinates.origin[index] == values.index(value)
        for i, moved in enumerate(values):
            state = set_state(coordinates, C_auto=i)
            assert steps_of(task, state) == [["PR", 1, 0, f"auto_unroll_max_step${moved}"]]


def test_unroll_values_on_gpu():
    task = make_task("norm", "cuda")
    state = task.compute_dag.get_init_state()
    state.pragma(1, state.stages[1].iters[0], "auto_unroll_max_step$1024")
    coordinates = ScheduleCoordinates(task, state)
    assert (coordinates.upper, coordinates.origin) == ([4], [4])


def test_parallel_loops():
    task, state = exp_add(4, 1, 6, 8)
    state.parallel(C, state.stages[C].iters[0])
    state.unroll(C, state.stages[C].iters[3])
    coordinates = ScheduleCoordinates(task, state)
    assert set_state(coordinates, C_parallel=3) is None  # the last loop is unrolled
    assert loops(set_state(coordinates, C_parallel=0), "C") == [(4, 0), (1, 0), (6, 0), (8, 1)]
    state = set_state(coordinates, C_parallel=2)  # the loop that runs once does not count
    assert loops(state, "C") == [(24, PARALLEL), (8, 1)]
    assert steps_of(task, state) == [["FU", 2, [0, 1, 2]], ["AN", 2, 0, PARALLEL], ["AN", 2, 1, 1]]

    # From fused loops back to one.
    coordinates = ScheduleCoordinates(task, state)
    state = set_state(coordinates, C_parallel=1)
    assert loops(state, "C") == [(4, PARALLEL), (1, 0), (6, 0), (8, 1)]


def test_parallel_loops_end_where_a_stage_is_computed():
    task, state = exp_add(4, 6, 8)
    state.compute_at(B, C, state.stages[C].iters[1])
    state.parallel(C, state.stages[C].iters[0])
    coordinates = ScheduleCoordinates(task, state)
    for value, expected in ((1, [4, 6, 8]), (2, [24, 8]), (3, [24, 8])):
        state = set_state(coordinates, C_parallel=value)
        assert [extent for extent, _ in loops(state, "C")] == expected
        lower(task, state)


def test_no_parallel_loop_in_another():
    task, state = exp_add(4, 6, 8)
    state.compute_at(B, C, state.stages[C].iters[0])
    state.parallel(B, state.stages[B].iters[1])
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.state_at(coordinates.origin) is not None
    assert set_state(coordinates, C_parallel=1) is None


def test_vectorized_loops():
    task, state = exp_add(5, 6, 8)
    state.vectorize(C, state.stages[C].iters[2])
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.upper[coordinate_named(coordinates, "C vectorized")] == 2  # 240 is too long
    assert loops(set_state(coordinates, C_vectorized=0), "C") == [(5, 0), (6, 0), (8, 0)]
    state = set_state(coordinates, C_vectorized=2)
    assert loops(state, "C") == [(5, 0), (48, VECTORIZE)]
    # B may come to be computed in C, so its loops do not tell how many fit. They do here.
    for value, expected in ((1, [5, 6, 8]), (2, [5, 48]), (3, [5, 48])):
        state = set_state(coordinates, B_vectorized=value)
        assert [extent for extent, _ in loops(state, "B")] == expected


def test_compute_location():
    task, state = exp_add(100, 6, 8)
    state.compute_root(B)
    state.parallel(B, state.stages[B].iters[0])
    state.parallel(C, state.stages[C].iters[0])
    state.vectorize(B, state.stages[B].iters[2])
    coordinates = ScheduleCoordinates(task, state)
    assert coordinates.upper[coordinate_named(coordinates, "B computed")] == 4
    moved = coordinates.origin
    moved[coordinate_named(coordinates, "B computed")] = 2
    assert coordinates.describe(coordinates.origin, moved) == "B computed at root -> C i1"

    texts = set()
    for value, expected in (
        (0, [(100, PARALLEL), (6, 0), (8, VECTORIZE)]),
        (1, [(1, 0), (6, 0), (8, VECTORIZE)]),
        (2, [(1, 0), (1, 0), (8, VECTORIZE)]),
        (3, [(1, 0), (1, 0), (1, VECTORIZE)]),
    ):
        state = set_state(coordinates, B_computed=value)
        assert loops(state, "B") == expected
        assert loops(state, "C") == [(100, PARALLEL), (6, 0), (8, 0)]
        texts.add(str(lower(task, state)))
    state = set_state(coordinates, B_computed=4)
    assert ["CI", 1] in steps_of(task, state) and not any(
        step[:2] == ["AN", 1] for step in steps_of(task, state)
    )
    texts.add(str(lower(task, state)))
    assert len(texts) == 5

    # A stage that comes to root gets the parallel loops that SketchPolicy would give it.
    coordinates = ScheduleCoordinates(task, set_state(coordinates, B_computed=2))
    state = set_state(coordinates, B_computed=0)
    assert loops(state, "B") == [(100, PARALLEL), (6, 0), (8, VECTORIZE)]
    coordinates = ScheduleCoordinates(task, set_state(coordinates, B_computed=4))
    state = set_state(coordinates, B_computed=0)
    assert loops(state, "B") == [(100, PARALLEL), (6, 0), (8, VECTORIZE)]


def test_compute_location_can_be_fixed():
    task, state = exp_add(4, 6)
    state.compute_root(B)
    assert_moves(ScheduleCoordinates(task, state), "B computed", True)
    params = {"disable_change_compute_location": 1}
    assert_moves(ScheduleCoordinates(task, state, params), "B computed", False)


def assert_moves(coordinates, name, expected):
    texts = [coordinates.describe(coordinates.origin, point) for point in neighbors(coordinates)]
    assert any(text.startswith(name) for text in texts) == expected


def test_threads_are_limited():
    task, state = exp_add(8192, target="cuda")
    state.compute_inline(B)
    block, vthread, thread = state.split(C, state.stages[C].iters[0], [8, 128])
    state.bind(C, block, "blockIdx.x")
    state.bind(C, vthread, "vthread")
    state.bind(C, thread, "threadIdx.x")
    coordinates = ScheduleCoordinates(task, state)
    # Threads may be more than the innermost factor of other splits.
    assert coordinates.origin == [3, 3, 7]
    assert coordinates.upper == [13, 13, 8]
    assert coordinates.state_at([2, 3, 8]) is not None
    assert coordinates.state_at([4, 1, 8]) is not None
    assert coordinates.state_at([2, 4, 7]) is None  # 16 virtual threads


def test_vector_width_of_cooperative_fetch():
    task, starts = sample_states("matmul", "cuda")
    coordinates = ScheduleCoordinates(task, starts[0])
    for stage in ("A.shared", "B.shared"):
        index = coordinate_named(coordinates, stage)
        assert coordinates.upper[index] == 2
        widths = set()
        for value in range(3):
            point = coordinates.origin
            point[index] = value
            state = coordinates.state_at(point)
            lower(task, state)
            (fetch,) = [s for s in state.stages if s.op.name == stage]
            widths.add(
                [int(it.range.extent) for it in fetch.iters if it.annotation == VECTORIZE][0]
            )
        assert widths == {1, 2, 4}


def reduction_threads(state):
    """How many threads reduce together, of each stage in which they do."""
    return {
        int(it.range.extent)
        for stage in state.stages
        for it in stage.iters
        if it.annotation == THREAD_X and it.iter_kind == REDUCTION
    }


@pytest.mark.parametrize(
    "workload, expected",
    # The reduction of norm follows a split of 4 rows, which a warp rounds up to 32.
    [("matmul_row", {16, 64}), ("softmax", {16, 64}), ("norm", {16})],
)
def test_threads_of_a_reduction_move(workload, expected):
    """From one warp, and to programs that pass VerifyGPUCode: others have no features."""
    task, starts = sample_states(workload, "cuda", num_states=4)
    found = set()
    for start in starts:
        coordinates = ScheduleCoordinates(task, start)
        if reduction_threads(coordinates.state_at(coordinates.origin)) != {32}:
            continue
        for point in neighbors(coordinates):
            state = coordinates.state_at(point)
            threads = {32} if state is None else reduction_threads(state)
            if threads != {32}:
                (features,) = get_per_store_features_from_states([state], task)
                assert features.any(), coordinates.describe(coordinates.origin, point)
                found |= threads
    assert found == expected


def test_no_coordinates():
    task = make_task("matmul", "llvm")
    coordinates = ScheduleCoordinates(task, task.compute_dag.init_state)
    assert (coordinates.upper, coordinates.origin, coordinates.directions) == ([], [], [])
    assert str(coordinates.state_at([])) == str(task.compute_dag.init_state)

    task, state = exp_add(1, target="cuda")
    state.compute_inline(B)
    state.split(C, state.stages[C].iters[0], [1])
    assert ScheduleCoordinates(task, state).origin == []


def test_points_that_are_none():
    task, state = exp_add(12)
    state.split(C, state.stages[C].iters[0], [6])
    coordinates = ScheduleCoordinates(task, state)
    rest = coordinates.origin[4:]
    assert coordinates.state_at(prime_exponents(2, 6) + rest) is not None
    assert coordinates.state_at(prime_exponents(4, 6) + rest) is None
    assert coordinates.state_at([3, -1, 0, 1] + rest) is None
    assert coordinates.state_at([0, 3, 0, 1] + rest) is None
    with pytest.raises(ValueError, match="coordinates"):
        coordinates.state_at([0])


@auto_scheduler.register_workload
def coordinates_exp_exp_add(n, m):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: te.exp(a[i, j]), name="B")
    d = te.compute((n, m), lambda i, j: te.exp(b[i, j]), name="D")
    return [a, te.compute((n, m), lambda i, j: d[i, j] + 1, name="C")]


def test_stage_must_be_inside_its_consumer():
    task = auto_scheduler.SearchTask(
        func=coordinates_exp_exp_add, args=(4, 6), target="llvm", hardware_params=HARDWARE["llvm"]
    )
    state = task.compute_dag.get_init_state()
    state.compute_at(2, 3, state.stages[3].iters[0])
    state.compute_at(1, 3, state.stages[3].iters[0])
    coordinates = ScheduleCoordinates(task, state)
    assert set_state(coordinates, B_computed=0) is not None
    assert set_state(coordinates, D_computed=0) is None  # B would be in C, which does not use it

    state = task.compute_dag.get_init_state()
    state.compute_at(2, 3, state.stages[3].iters[0])
    state.compute_at(1, 2, state.stages[2].iters[1])
    coordinates = ScheduleCoordinates(task, state)
    inlined = coordinates.upper[coordinate_named(coordinates, "D computed")]
    assert set_state(coordinates, D_computed=0) is not None
    assert set_state(coordinates, D_computed=inlined) is None  # B would be in no loop


def test_state_that_is_not_concrete():
    task, state = exp_add(12)
    state.split(C, state.stages[C].iters[0], [None])
    with pytest.raises(ValueError, match="concrete"):
        ScheduleCoordinates(task, state)
    for workload in ("matmul", "norm"):
        policy = auto_scheduler.SketchPolicy(make_task(workload, "llvm"), verbose=0)
        sketch, *_ = policy.generate_sketches()
        with pytest.raises(ValueError, match="concrete"):
            ScheduleCoordinates(policy.search_task, sketch)


if __name__ == "__main__":
    tvm.testing.main()
