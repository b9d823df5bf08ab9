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
"""Test DropletSearch on GPU targets: measured where there is a device, and compiled by nvcc."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tvm
import tvm.testing
import tvm.tir.tensor_intrin  # schedules for tensor cores refer to what it registers
from tvm import meta_schedule as ms
from tvm import te
from tvm.meta_schedule.search_strategy import DropletSearch
from tvm.meta_schedule.testing import te_workload
from tvm.meta_schedule.utils import derived_object

NUM_EXPLORED = 4
NUM_TRIALS = 16

# What devices have in common, so that it is the same search on each. A warp is the least number of
# threads that a block gets: with one, programs can become too large to compile.
OPENCL = {
    "kind": "opencl",
    "max_threads_per_block": 256,
    "max_shared_memory_per_block": 32768,
    "thread_warp_size": 32,
}
CUDA = {
    "kind": "cuda",
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}

needs_nvcc = pytest.mark.skipif(
    tvm.get_global_func("target.build.cuda", allow_missing=True) is None
    or shutil.which("nvcc") is None,
    reason="needs a TVM with CUDA's code generator, and nvcc in PATH",
)


def space(kind):
    """The schedules for a kind of target. For OpenCL, MetaSchedule takes those for CUDA."""
    return ms.space_generator.PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)


@derived_object
class Errors(ms.measure_callback.PyMeasureCallback):
    """Keeps the messages of candidates that fail."""

    def __init__(self):
        self.messages = []

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        results = [*builder_results, *runner_results]
        self.messages += [str(result.error_msg) for result in results if result.error_msg]


@pytest.mark.parametrize("config", [OPENCL, CUDA], ids=["opencl", "cuda"])
def test_real_search(config, tmp_path):
    kind = config["kind"]
    if not tvm.testing.device_enabled(kind):
        pytest.skip(f"there is no {kind} device, or TVM was built without its runtime")
    target = tvm.target.Target(config, host="llvm")
    func = te.create_prim_func(te_workload.matmul(64, 64, 64))
    errors = Errors()
    database = ms.tune_tir(
        mod=func,
        target=target,
        work_dir=str(tmp_path),
        max_trials_global=NUM_TRIALS,
        num_trials_per_iter=8,
        strategy=DropletSearch(explore_trials=NUM_EXPLORED),
        space=space("cuda"),
        # The driver compiles, and the machine may be busy.
        builder=ms.builder.LocalBuilder(timeout_sec=120),
        runner=ms.runner.LocalRunner(
            timeout_sec=120,
            evaluator_config=ms.runner.EvaluatorConfig(number=1, min_repeat_ms=10),
        ),
        cost_model="random",
        measure_callbacks=[*ms.MeasureCallback.create("default"), errors],
        seed=1,
    )
    assert not errors.messages
    costs = [
        float(record.run_secs[0]) for record in database.get_all_tuning_records() if record.run_secs
    ]
    assert len(costs) == NUM_TRIALS
    assert max(costs) < 1  # none failed

    sch = ms.tir_integration.compile_tir(database, func, target)
    built = tvm.build(sch.mod, target=target)
    device = tvm.device(kind)
    a, b = (np.random.uniform(size=(64, 64)).astype("float32") for _ in range(2))
    arrays = [tvm.nd.array(array, device) for array in (a, b, np.zeros((64, 64), "float32"))]
    built(*arrays)
    tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


WORKLOADS = {
    "matmul": (te_workload.matmul, (128, 128, 128)),
    "conv2d": (te_workload.conv2d_nhwc, (1, 28, 28, 32, 64, 3, 1, 1)),
    "norm": (te_workload.norm_bmn, (1, 256, 256)),
}


def propose(mod, target, kind):
    """The modules that a search proposes with costs that are made up, without those explored."""
    strategy = DropletSearch(explore_strategy="replay-trace", explore_trials=NUM_EXPLORED)
    context = ms.TuneContext(
        mod=mod,
        target=target,
        space_generator=space(kind),
        search_strategy=strategy,
        rand_state=1,
        num_threads=1,
    )
    context.pre_tuning(NUM_TRIALS, database=ms.database.MemoryDatabase())
    mods = []
    while True:
        candidates = context.generate_measure_candidates()
        if candidates is None:
            break
        mods += [candidate.sch.mod for candidate in candidates]
        costs = [1e-3 + 1e-6 * (tvm.ir.structural_hash(mod) % 997) for mod in mods]
        context.notify_runner_results(
            candidates,
            [ms.runner.RunnerResult([cost], None) for cost in costs[-len(candidates) :]],
        )
    return mods[strategy.num_explored :]


@needs_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_proposed_program_compiles(workload, arch):
    func, args = WORKLOADS[workload]
    target = tvm.target.Target({**CUDA, "arch": arch}, host="llvm")
    mods = propose(te.create_prim_func(func(*args)), target, "cuda")
    assert len(mods) >= NUM_TRIALS // 2
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda mod: tvm.build(mod, target=target), mods))


def test_tensor_cores_stay_in_use():
    """What is proposed for a program with tensorized blocks has them, too."""
    func = te.create_prim_func(te_workload.matmul(128, 128, 128, "float16", "float32"))
    target = tvm.target.Target({**CUDA, "arch": "sm_80"}, host="llvm")
    mods = propose(func, target, "cuda-tensorcore")
    assert len(mods) >= NUM_TRIALS // 2
    for mod in mods:
        with target:
            lowered = tvm.lower(mod).script()
        assert "tvm_mma_sync" in lowered


if __name__ == "__main__":
    tvm.testing.main()
