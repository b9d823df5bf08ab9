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
"""Test DropletSearchPolicy with programs that run on a GPU, or on what poses as one."""

import json

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler
from tvm.meta_schedule.testing import te_workload

from test_auto_scheduler_droplet_common import (
    FAST_SKETCH_PARAMS,
    droplet_matmul,
    gpu_hardware_params,
)

NUM_EXPLORED = 4
NUM_TRIALS = 16

# Not those of the device, so that it is the same search on each.
HARDWARE_PARAMS = gpu_hardware_params(32768, 256)


def conv2d(data, weight):
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwyx,ocyx->nohw", windows, weight)


def softmax(data):
    exponentials = np.exp(data - data.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


WORKLOADS = {
    "matmul": (te_workload.matmul, (64, 64, 64), np.matmul),
    "conv2d": (te_workload.conv2d_nchw, (1, 14, 14, 16, 32, 3, 3, 1, 1), conv2d),
    "softmax": (te_workload.softmax_mn, (64, 128), softmax),
}


@pytest.mark.parametrize("target", ["opencl", "cuda"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_real_search(workload, target, tmp_path):
    if not tvm.testing.device_enabled(target):
        pytest.skip(f"there is no {target} device, or TVM was built without its runtime")
    func, args, reference = WORKLOADS[workload]
    log = tmp_path / "log.json"
    # The processes that build and run need a workload of a module that they can import.
    auto_scheduler.register_workload(func, override=True)
    task = auto_scheduler.SearchTask(
        func=func,
        args=args,
        target=tvm.target.Target(target, "llvm"),
        hardware_params=HARDWARE_PARAMS,
    )
    policy = auto_scheduler.DropletSearchPolicy(
        task, params={**FAST_SKETCH_PARAMS, "explore_trials": NUM_EXPLORED}, seed=1, verbose=0
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=NUM_TRIALS,
        builder=auto_scheduler.LocalBuilder(timeout=120),
        runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=20, timeout=120),
        measure_callbacks=[auto_scheduler.RecordToFile(str(log))],
        verbose=0,
    )
    task.tune(options, policy)

    errors = [json.loads(line)["r"][1] for line in log.read_text().splitlines()]
    assert len(errors) == policy.num_explored + policy.num_descended > NUM_EXPLORED
    assert not any(errors[NUM_EXPLORED:])

    sch, tensors = task.apply_best(str(log))
    built = tvm.build(sch, tensors, task.target)
    device = tvm.device(target)
    shapes = [[int(extent) for extent in tensor.shape] for tensor in tensors]
    arrays = [np.random.uniform(size=shape).astype("float32") for shape in shapes]
    buffers = [tvm.nd.array(array, device) for array in arrays]
    built(*buffers)
    tvm.testing.assert_allclose(buffers[-1].numpy(), reference(*arrays[:-1]), rtol=1e-4)


@pytest.mark.parametrize(
    "target, message",
    [
        ("opencl", "Cannot find OpenCL device_api in registry"),
        ("cuda -arch=sm_80", "Cannot find CUDA device_api in registry"),
    ],
)
def test_target_without_a_runtime(target, message):
    kind = target.split()[0]
    if tvm.runtime.enabled(kind):
        pytest.skip(f"TVM was built with its {kind} runtime")
    target = tvm.target.Target(target, "llvm")
    shape = (64, 64, 64)
    with pytest.raises(tvm.TVMError, match=message):
        auto_scheduler.SearchTask(func=droplet_matmul, args=shape, target=target)
    with pytest.raises(tvm.TVMError, match=f"Device API {kind} is not enabled"):
        tvm.nd.empty(shape, device=tvm.device(kind))


if __name__ == "__main__":
    tvm.testing.main()
