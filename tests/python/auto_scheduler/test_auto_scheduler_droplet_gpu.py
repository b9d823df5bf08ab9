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

from test_auto_scheduler_droplet_common import FAST_SKETCH_PARAMS, gpu_hardware_params

NUM_EXPLORED = 8

# Not those of the device, so that it is the same search on each.
HARDWARE_PARAMS = gpu_hardware_params(32768, 256)


def has_device(target):
    try:
        return tvm.device(target).exist
    except tvm.error.TVMError:  # there is no driver
        return False


@pytest.mark.parametrize("target", ["opencl", "cuda"])
def test_real_search(target, tmp_path):
    if not has_device(target):
        pytest.skip(f"there is no {target} device, or TVM was built without its runtime")
    log = tmp_path / "log.json"
    # The processes that build and run need a workload of a module that they can import.
    auto_scheduler.register_workload(te_workload.matmul, override=True)
    task = auto_scheduler.SearchTask(
        func=te_workload.matmul,
        args=(64, 64, 64),
        target=tvm.target.Target(target, "llvm"),
        hardware_params=HARDWARE_PARAMS,
    )
    policy = auto_scheduler.DropletSearchPolicy(
        task, params={**FAST_SKETCH_PARAMS, "explore_trials": NUM_EXPLORED}, seed=1, verbose=0
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=4 * NUM_EXPLORED,
        runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=20, timeout=30),
        measure_callbacks=[auto_scheduler.RecordToFile(str(log))],
        verbose=0,
    )
    task.tune(options, policy)

    errors = [json.loads(line)["r"][1] for line in log.read_text().splitlines()]
    assert len(errors) == policy.num_explored + policy.num_descended > NUM_EXPLORED
    assert not any(errors[NUM_EXPLORED:])

    sch, args = task.apply_best(str(log))
    func = tvm.build(sch, args, task.target)
    device = tvm.device(target)
    a, b = (np.random.uniform(size=(64, 64)).astype("float32") for _ in range(2))
    arrays = [tvm.nd.array(x, device) for x in (a, b, np.zeros((64, 64), "float32"))]
    func(*arrays)
    tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


if __name__ == "__main__":
    tvm.testing.main()
