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
"""Test the count of stores that chooses what DropletSearch measures first."""

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import meta_schedule as ms
from tvm import te
from tvm.meta_schedule.search_strategy import DropletSearch
from tvm.meta_schedule.search_strategy.store_count import count_stores
from tvm.meta_schedule.testing import te_workload
from tvm.script import tir as T  # noqa: N812


def make_matmul(dtype="float32"):
    func = te.create_prim_func(te_workload.matmul(8, 32, 4, in_dtype=dtype, out_dtype=dtype))
    return tvm.tir.Schedule(func)


def add_twice():
    a = te.placeholder((8, 32), name="A")
    b = te.compute((8, 32), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 32), lambda i, j: b[i, j] + 1, name="C")
    return tvm.tir.Schedule(te.create_prim_func([a, c]))


def test_counts_iterations():
    assert count_stores(make_matmul().mod) == 8 * 32 * 4


def test_counts_each_block():
    sch = add_twice()
    assert count_stores(sch.mod) == 2 * 8 * 32
    sch.compute_inline("B")
    assert count_stores(sch.mod) == 8 * 32


@pytest.mark.parametrize(
    "dtype, length, num_vectors", [("float32", 2, 1), ("float32", 16, 1), ("float64", 16, 2)]
)
def test_vectors_count_once_for_each_unit_they_fill(dtype, length, num_vectors):
    sch = make_matmul(dtype)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(j, [None, length])
    sch.reorder(i, outer, k, inner)
    sch.vectorize(inner)
    assert count_stores(sch.mod) == 8 * 32 * 4 / length * num_vectors


def test_counts_initializations_that_are_blocks():
    sch = make_matmul()
    _, _, k = sch.get_loops("C")
    sch.decompose_reduction("C", k)
    assert count_stores(sch.mod) == 8 * 32 * 4 + 8 * 32


def test_tensor_intrinsics_count_once():
    sch = tvm.tir.Schedule(calls_an_intrinsic)
    assert count_stores(sch.mod) == 8


@T.prim_func
def calls_an_intrinsic(a: T.handle):
    buffer = T.match_buffer(a, (8, 16))
    for i in range(8):
        with T.block("intrinsic"):
            row = T.axis.spatial(8, i)
            T.reads()
            T.writes(buffer[row, 0:16])
            T.evaluate(T.call_extern("int32", "fill", buffer.data, row))


def explore(target, sample_trials):
    """Runs the exploration of a search with 8 trials of it, in rounds of 3."""
    strategy = DropletSearch("evolutionary", explore_trials=8, sample_trials=sample_trials)
    context = ms.TuneContext(
        mod=te.create_prim_func(te_workload.matmul(64, 64, 64)),
        target=tvm.target.Target(target),
        space_generator="post-order-apply",
        search_strategy=strategy,
        rand_state=1,
        num_threads=1,
    )
    database = ms.database.MemoryDatabase()
    strategy.pre_tuning(32, 3, context.generate_design_space(), database, FixedModel())
    rounds = []
    while strategy.num_explored < 8:
        rounds.append(strategy.generate_measure_candidates())
        results = [ms.runner.RunnerResult([1.0], None) for _ in rounds[-1]]
        strategy.notify_runner_results(rounds[-1], results)
    strategy.post_tuning()
    return rounds


@ms.utils.derived_object
class FixedModel(ms.cost_model.PyCostModel):
    """Scores all alike."""

    def predict(self, context, candidates):
        return np.full(len(candidates), 0.5)


def test_samples_have_few_stores():
    rounds = explore("llvm -num-cores=2", sample_trials=5)
    assert [len(candidates) for candidates in rounds] == [3, 2, 3]
    counts = [[count_stores(c.sch.mod) for c in candidates] for candidates in rounds]
    sampled = counts[0] + counts[1]
    assert sampled == sorted(sampled)
    assert max(sampled) < min(counts[2])


@pytest.mark.parametrize(
    "target, sample_trials", [("llvm -num-cores=2", 0), ("nvidia/nvidia-a100", 5)]
)
def test_explores_at_once(target, sample_trials):
    rounds = explore(target, sample_trials)
    assert [len(candidates) for candidates in rounds] == [3, 3, 2]


if __name__ == "__main__":
    tvm.testing.main()
