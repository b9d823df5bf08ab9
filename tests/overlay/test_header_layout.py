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
"""The headers that the new C++ is compiled against lay TVM's objects out as the library does.

The overlay's headers are assembled from two releases, so this is checked, not assumed. The library
makes objects; code compiled against the headers (header_layout.cc) says what it sees of them:

- fields that reflection knows: name, type and offset, compared with the library's own reflection;
- the steps of a state, compared with the record that the library writes of that state;
- what neither shows: values, compared with those that the objects were made from.
"""

import ctypes
import json
import os
import re
import subprocess

import pytest
import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler import _ffi_api
from tvm.auto_scheduler.cost_model.cost_model import PythonBasedModel
from tvm.auto_scheduler.measure import BuildResult, LocalBuilder, ProgramMeasurer

ctypes.CDLL(os.environ["HEADER_LAYOUT_LIBRARY"])
mismatches = tvm.get_global_func("header_layout.mismatches")

N = 16
STEP_FIELDS = {
    "AN": ["stage_id", "iter_id", "annotation"],
    "FU": ["stage_id", "fused_ids"],
    "PR": ["stage_id", "iter_id", "pragma_type"],
    "RE": ["stage_id", "after_ids"],
    "SP": ["stage_id", "iter_id", "extent", "lengths", "inner_to_outer"],
    "FSP": ["stage_id", "iter_id", "src_step_id", "n_split"],
    "FFSP": ["stage_id", "iter_id", "src_step_ids", "level", "factor_or_nparts"],
    "SA": ["stage_id", "iter_id", "factor", "offset"],
    "CA": ["stage_id", "target_stage_id", "target_iter_id"],
    "CI": ["stage_id"],
    "CR": ["stage_id"],
    "CHR": ["stage_id", "scope_name", "reader_stage_ids"],
    "CHW": ["stage_id", "scope_name"],
    "RF": ["stage_id", "iter_id", "factor_iter_id"],
}


@auto_scheduler.register_workload
def header_layout_matmul_relu(n):
    """relu(2A x B)"""
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    twice = te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="twice")
    c = te.compute((n, n), lambda i, j: te.sum(twice[i, k] * b[k, j], axis=[k]), name="C")
    relu = te.compute((n, n), lambda i, j: te.max(c[i, j], 0.0), name="relu")
    return [a, b, relu]


@pytest.fixture(name="task", scope="module")
def fixture_task():
    """A task with hardware parameters that are all different."""
    return auto_scheduler.SearchTask(
        func=header_layout_matmul_relu,
        args=(N,),
        target="llvm",
        hardware_params=auto_scheduler.HardwareParams(4, 64, 63, 10000, 10001, 1024, 7, 32),
    )


def stages(state, *names):
    """The operations of some stages."""
    by_name = {op.name: op for op in state.stage_ops}
    return [by_name[name] for name in names]


def tiled_and_cached(task):
    """A state with every step of a CPU schedule, and the stage-adding ones."""
    state = task.compute_dag.get_init_state()
    b, twice, c, relu = stages(state, "B", "twice", "C", "relu")
    state.compute_inline(twice)
    cached = state.cache_write(c, "local")
    state.cache_read(b, "shared", [cached])
    i, _, _ = state[cached].iters
    state.split(cached, i, [2, 4])
    first = len(state.transform_steps) - 1
    state.follow_split(c, state[c].iters[0], first, 2)
    state.split(relu, state[relu].iters[0], [8], False)
    fused = state.fuse(relu, state[relu].iters[1:])
    state.parallel(relu, state[relu].iters[0])
    state.storage_align(relu, fused, 32, 5)
    outer, inner = state[relu].iters
    state.reorder(relu, [inner, outer])
    state.compute_at(c, relu, state[relu].iters[1])
    state.compute_root(c)
    state.compute_at(cached, c, state[c].iters[1])
    state.pragma(c, state[c].iters[0], "auto_unroll_max_step$64")
    return state


def factored(task):
    """A state with a factored reduction, and a split that follows a fused one."""
    state = task.compute_dag.get_init_state()
    c, relu = stages(state, "C", "relu")
    steps = []
    for _ in range(2):
        state.split(relu, state[relu].iters[len(steps) * 2], [4])
        steps.append(len(state.transform_steps) - 1)
    state.split(c, state[c].iters[2], [4])
    factor = state.rfactor(c, state[c].iters[2], 2)
    state.follow_fused_split(factor, state[factor].iters[0], steps, 0, True)
    return state


STATES = {"tiled_and_cached": tiled_and_cached, "factored": factored}


def measure_input(task, state):
    """What would be built and run."""
    return auto_scheduler.MeasureInput(task, state)


def measure_result(costs=(0.5, 0.25)):
    """What running it would give."""
    return auto_scheduler.MeasureResult(list(costs), 0, "no error", 1.5, 1234567890.0)


@pytest.fixture(name="objects", scope="module")
def fixture_objects(task):
    """An object of each reflected type that the new C++ reads, by the name of its class."""
    state = factored(task).state_object
    dag = task.compute_dag
    iterator = state.stages[-1].iters[0]
    (computed,) = stages(dag.get_init_state(), "C")
    found = [task, dag, task.hardware_params, task.target, task.target.kind]
    found += [state, state.stages[0], iterator, iterator.range, iterator.range.extent]
    found += [computed, dag.ops[0], dag.tensors[0], computed.axis[0], computed.axis[0].var]
    found += [measure_input(task, state), measure_result(), measure_result().costs[0]]
    found += [BuildResult("file", [], 0, "", 0.5)]
    found += [auto_scheduler.EmptyPolicy(task)]
    return {re.sub(r"^.*\.", "", type(one).__name__): one for one in found}


REFLECTED = (
    "BuildResult ComputeDAG ComputeOp EmptyPolicy FloatImm HardwareParams IntImm IterVar Iterator "
    "MeasureInput MeasureResult PlaceholderOp Range SearchTask Stage StateObject Target TargetKind "
    "Tensor Var"
).split()


@pytest.mark.parametrize("name", REFLECTED)
def test_reflected_fields(objects, name):
    """Each field is there, of the same type and at the same offset."""
    assert not mismatches(objects[name], "")


def test_all_objects_are_compared(objects):
    """No type that `objects` has is forgotten in the list of tests."""
    assert sorted(objects) == sorted(REFLECTED)


def test_a_shifted_field_is_named(objects):
    """The comparison can fail: a layout with one field too many is found out, field by field."""
    found = [str(line) for line in mismatches(objects["Iterator"], "shifted ")]
    assert [line.split(":")[0] for line in found] == [
        f"auto_scheduler.Iterator.{name}" for name in ("annotation", "iter_kind", "name", "range")
    ]
    assert re.search(r"name: ObjectRef at 24 in the headers, ObjectRef at 16 in", found[2])


def recorded_steps(task, state):
    """The steps as the library writes them."""
    line = auto_scheduler.measure_record.dump_record_to_string(
        measure_input(task, state), measure_result()
    )
    return json.loads(line)["i"][1][1]


def read(name, *arguments):
    """What header_layout.cc sees."""
    return json.loads(tvm.get_global_func(f"header_layout.{name}")(*arguments))


def step_mismatches(found, expected):
    """Where two lists of steps differ, by number, kind and field."""
    assert [step[0] for step in found] == [step[0] for step in expected]
    return [
        f"step {number}, {right[0]}.{field}: {a} in the headers, {b} in the library"
        for number, (left, right) in enumerate(zip(found, expected))
        for field, a, b in zip(STEP_FIELDS[right[0]], left[1:], right[1:])
        if a != b
    ]


@pytest.mark.parametrize("make", STATES.values(), ids=STATES)
def test_steps(task, make):
    """Every field of every step is read as the library recorded it."""
    state = make(task)
    found, expected = read("steps", state.state_object), recorded_steps(task, state.state_object)
    assert all(len(step) == 1 + len(STEP_FIELDS[step[0]]) for step in found + expected)
    assert not step_mismatches(found, expected)


def test_all_steps_are_compared(task):
    """The states above have all kinds of steps between them."""
    kinds = {step[0] for make in STATES.values() for step in recorded_steps(task, make(task))}
    assert kinds == set(STEP_FIELDS)


def test_a_misread_step_is_named(task):
    """The comparison can fail."""
    state = factored(task).state_object
    expected = recorded_steps(task, state)
    expected[0][4] = [5]
    assert step_mismatches(read("steps", state), expected) == [
        "step 0, SP.lengths: [4] in the headers, [5] in the library"
    ]


def test_stages(task):
    """What reflection leaves out of a stage, an iterator and a state."""
    state = tiled_and_cached(task)
    rows = {row[0]: row[1:] for row in read("stages", state.state_object)}
    names = [stage.op.name for stage in state.stages]
    # auto_unroll_max_step and storage_offset; where it is attached; names before fusion
    assert rows["C"] == [64, 0]
    assert rows["C.local"] == [0, 0, names.index("C"), 1]
    assert rows["relu"] == [0, 5, "i.1", "j"]
    assert rows["A"] == [0, 0]

    has_own_dag = tvm.get_global_func("header_layout.has_own_dag")
    assert has_own_dag(state.state_object)
    assert not has_own_dag(task.compute_dag.init_state)


def test_measurer(task):
    """A measurer, its builder and its runner: as they were made, and what a measurement adds."""
    build = "auto_scheduler.local_builder.build"
    run = "auto_scheduler.local_runner.run"
    replaced = {
        build: lambda inputs, *_: [BuildResult("file", [], 0, "", 0.5) for _ in inputs],
        run: lambda inputs, *_: [measure_result() for _ in inputs],
    }
    originals = {name: tvm.get_global_func(name) for name in replaced}
    for name, function in replaced.items():
        tvm.register_func(name, function, override=True)
    try:
        measurer = ProgramMeasurer(
            LocalBuilder(timeout=11, n_parallel=3),
            # not through the Python class, which sets some of these when it flushes caches
            _ffi_api.LocalRunner(21, 22, 23, 24, 25.0, True, 1),
            [auto_scheduler.RecordToFile(os.devnull)],
            0,
            31,
        )
        policy = auto_scheduler.EmptyPolicy(task)
        policy.set_verbose(0)
        policy.continue_search_one_round(1, measurer)
        policy.continue_search_one_round(1, measurer)
    finally:
        for name, function in originals.items():
            tvm.register_func(name, function, override=True)
    flops = int(task.compute_dag.flop_ct / 0.375)
    counters = read("measurer", measurer, task.workload_key)
    assert counters == [
        [11, 3],
        [21, 22, 23, 24, 25, 1, 1],
        [1, 0, 31],
        [2, 0, flops, len(task.compute_dag.init_state.stages), 0, 1],
    ]


def test_preloaded_states(task, tmp_path):
    """What the library writes into the base class of a policy stays within it."""
    log = tmp_path / "log.json"
    states = [factored(task).state_object, task.compute_dag.init_state]
    for state, costs in zip(states, ([0.5], [0.25])):
        auto_scheduler.save_records(str(log), [measure_input(task, state)], [measure_result(costs)])
    steps = [len(state.transform_steps) for state in states]
    assert read("preloaded", task, str(log)) == [[2, *steps, 2, 4, 12345]]


def test_cost_model(task):
    """The virtual functions of a cost model are where the headers have them."""
    calls = []

    class Model(PythonBasedModel):
        """Scores states by their number of steps."""

        def update(self, inputs, results):
            calls.append("update")

        def predict(self, task, states):
            return [len(state.transform_steps) for state in states]

    states = [make(task).state_object for make in STATES.values()]
    assert read("scores", Model(), task, states) == [[len(s.transform_steps) for s in states]]
    assert calls == ["update"]


def test_no_unproven_class_is_used():
    """Classes outside reflection that are laid out differently in the two releases."""
    library = tvm._ffi.libinfo.find_lib_path()[0]
    output = subprocess.check_output(["nm", "--dynamic", "--demangle", "--undefined-only", library])
    used = re.findall(r"tvm::(?:arith::Analyzer|tir::ScheduleNode)\b\S*", output.decode())
    assert not used
