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
"""Test the cost model that counts stores."""

import math

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler, te
from tvm.auto_scheduler.store_count_model import StoreCountModel

from test_auto_scheduler_droplet_common import make_task


def count_stores(task, state):
    """What the model scores, as a number of stores."""
    state = task.compute_dag.infer_bound_from_state(state)
    return math.exp(-StoreCountModel(auto_scheduler.RandomModel()).predict(task, [state])[0])


@auto_scheduler.register_workload
def store_count_two_sums(dtype):
    a = te.placeholder((32, 48), dtype, name="A")
    r = te.reduce_axis((0, 48), name="r")
    b = te.compute((32,), lambda i: te.sum(a[i, r], axis=r), name="B")
    c = te.compute((32, 16), lambda i, j: b[i] + a[i, j], name="C")
    return [a, c]


def make_sums(dtype="float32"):
    return auto_scheduler.SearchTask(
        func=store_count_two_sums, args=(dtype,), target=tvm.target.Target("llvm")
    )


def test_counts_iterations_of_each_stage():
    task = make_sums()
    assert count_stores(task, task.compute_dag.get_init_state()) == pytest.approx(32 * 48 + 32 * 16)


def test_counts_what_is_computed_again():
    task = make_sums()
    state = task.compute_dag.get_init_state()
    sums, result = state.stage_ops[1], state.stage_ops[2]
    state.compute_at(sums, result, state[result].iters[1])
    assert count_stores(task, state) == pytest.approx(32 * 16 * 48 + 32 * 16)


def test_inlined_stages_store_nothing():
    task = auto_scheduler.SearchTask(
        func=store_count_chain, args=(32,), target=tvm.target.Target("llvm")
    )
    state = task.compute_dag.get_init_state()
    assert count_stores(task, state) == pytest.approx(64)
    state.compute_inline(state.stage_ops[1])
    assert count_stores(task, state) == pytest.approx(32)


@auto_scheduler.register_workload
def store_count_chain(n):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    return [a, c]


@pytest.mark.parametrize(
    "dtype, length, num_vectors",
    [("float32", 2, 1), ("float32", 16, 1), ("float64", 16, 2), ("float16", 16, 1)],
)
def test_vectors_count_once_for_each_unit_they_fill(dtype, length, num_vectors):
    task = make_sums(dtype)
    assert task.hardware_params.vector_unit_bytes == 64
    state = task.compute_dag.get_init_state()
    result = state.stage_ops[2]
    _, inner = state.split(result, state[result].iters[1], [length])
    state.vectorize(result, inner)
    expected = 32 * 48 + 32 * 16 / length * num_vectors
    assert count_stores(task, state) == pytest.approx(expected)


def test_loops_without_a_constant_extent_count_once():
    task = make_sums()
    state = task.compute_dag.get_init_state()
    sums, result = state.stage_ops[1], state.stage_ops[2]
    state.compute_at(sums, result, state[result].iters[0])
    # Without inferred bounds, nothing is known of the loop over rows and that of the sum.
    model = StoreCountModel(auto_scheduler.RandomModel())
    assert math.exp(-model.predict(task, [state])[0]) == pytest.approx(32 + 32 * 16)


def test_learner_learns():
    learned = []

    class Learner(auto_scheduler.cost_model.cost_model.PythonBasedModel):
        def update(self, inputs, results):
            learned.extend(zip(inputs, results))

    task = make_task()
    measured = auto_scheduler.MeasureInput(task, task.compute_dag.get_init_state())
    result = auto_scheduler.MeasureResult([1e-3], 0, "", 0.1, 0)
    StoreCountModel(Learner()).update([measured], [result])
    assert [trial[0].same_as(measured) and trial[1].same_as(result) for trial in learned] == [True]


def test_tells_vectorized_programs_from_others():
    task = make_task(64)
    np.random.seed(0)
    policy = auto_scheduler.SketchPolicy(task, seed=1, verbose=0)
    states = policy.sample_initial_population()
    scores = StoreCountModel(auto_scheduler.RandomModel()).predict(task, states)
    best = str(states[int(np.argmax(scores))])
    worst = str(states[int(np.argmin(scores))])
    assert "vectorize" in best
    assert len(scores) == len(states) and max(scores) > min(scores) + math.log(2)
    assert best != worst


if __name__ == "__main__":
    tvm.testing.main()
