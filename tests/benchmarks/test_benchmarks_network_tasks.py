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
"""Test that a descent proposes valid programs for each task of the networks, on each target.

Nothing is measured: latencies are made up. Programs are valid if they can be lowered and, on GPU,
if they keep to the limits of the device.
"""

import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "auto_scheduler"))

import machine  # noqa: F401 (before TVM, for it keeps TVM from the network)
from models import MODELS
from network import load_model

import tvm
import tvm.testing
from test_auto_scheduler_droplet_common import FAST_SKETCH_PARAMS, fake_measuring
from tvm import auto_scheduler, relay
from tvm.auto_scheduler.feature import get_per_store_features_from_states
from tvm.auto_scheduler.measure import ProgramMeasurer

NUM_EXPLORED = 2
MAX_EXPLORED = 200
NUM_PROPOSED = 4

TARGETS = {
    "llvm": ("llvm -mcpu=skylake-avx512", None),
    "cuda": (
        "cuda -arch=sm_80",
        auto_scheduler.HardwareParams(-1, 16, 64, 49152, 2147483647, 1024, 8, 32),
    ),
    "arm": ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon", None),
}

# An ARM CPU that computes with float16, and has products of int8 vectors.
ARM_V8_2 = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -mattr=+neon,+fullfp16,+dotprod"
# What networks are tuned for besides float32 in NHWC.
ARM_VARIANTS = [
    ("float32", "NCHW"),
    ("float16", "NHWC"),
    ("float16", "NCHW"),
    ("int8", "NHWC"),
    ("int8", "NCHW"),
]

# DenseNets concatenate tensors before they are scaled. TVM's quantizer leaves int8 beside int32
# there, and then finds that the types do not match, so it is kept from all but the convolutions.
ONLY_CONVOLUTIONS = {name for name in MODELS if name.startswith("densenet")}

# TVM's schedule of int8 convolutions for ARM in NCHW cannot tile the 58 channels of this network.
WITHOUT_SCHEDULE = {("shufflenet-v2-1.0", "int8", "NCHW")}

# The tasks that were seen already, since many networks have them in common.
seen = set()


def are_valid(states, task):
    return [feature.any() for feature in get_per_store_features_from_states(states, task)]


def propose(task):
    """The programs of a descent's first batch."""
    with fake_measuring() as measurer:
        measurer.fails = lambda inp: not are_valid([inp.state], task)[0]
        measurer.cost = lambda inp: 1e-3 + 1e-9 * zlib.crc32(str(inp.state).encode())
        policy = auto_scheduler.DropletSearchPolicy(
            task,
            params={**FAST_SKETCH_PARAMS, "explore_trials": NUM_EXPLORED, "num_starts": 1},
            seed=1,
            verbose=0,
        )
        one_measurer = ProgramMeasurer(
            auto_scheduler.LocalBuilder(n_parallel=2), auto_scheduler.LocalRunner(), [], 0
        )
        # It explores until a program is valid.
        while policy.num_descended == 0 and policy.num_explored < MAX_EXPLORED:
            num_measure = NUM_EXPLORED if policy.phase == "explore" else NUM_PROPOSED
            policy.continue_search_one_round(num_measure, one_measurer)
        return [inp.state for inp in measurer.inputs[policy.num_explored :]]


def check_proposals(module, params, target, hardware_params=None):
    """Check what is proposed for each task of a network. Returns the tasks."""
    tasks, _ = auto_scheduler.extract_tasks(
        module["main"], params, target, hardware_params=hardware_params
    )
    assert tasks
    for task in tasks:
        key = (task.workload_key, str(task.target))
        if key in seen:
            continue
        seen.add(key)
        states = propose(task)
        assert states and all(are_valid(states, task)), task.desc
    return tasks


def check_proposals_for_target(name, target):
    """The same for a network by name, as it is tuned for a target."""
    network = load_model(name)
    check_proposals(network.module, network.params, *TARGETS[target])


def quantize(module, params, only_convolutions):
    """The same network with int8."""
    # Of a parameter that is all zeros, as means and biases are before training, it makes NaN.
    params = {
        name: value if value.numpy().any() else tvm.nd.array(np.full(value.shape, 0.1, value.dtype))
        for name, value in params.items()
    }
    # The default scale of weights, "power2", wants a NumPy that still has numpy.math.
    options = {"calibrate_mode": "global_scale", "weight_scale": "max"}
    if only_convolutions:
        options["debug_enabled_ops"] = [tvm.tir.StringImm("nn.conv2d")]
    with relay.quantize.qconfig(**options):
        return relay.quantize.quantize(module, params)


def check_proposals_for_arm(name, dtype, layout):
    """The same for another type or layout. Networks of int8 are quantized ones of float32."""
    if (name, dtype, layout) in WITHOUT_SCHEDULE:
        pytest.skip("TVM has no schedule for this network")
    module, params = MODELS[name].build(
        layout=layout, dtype="float32" if dtype == "int8" else dtype
    )
    if dtype == "int8":
        module, params = quantize(module, params, name in ONLY_CONVOLUTIONS), {}
    tasks = check_proposals(module, params, ARM_V8_2)
    inputs = {tensor.dtype for task in tasks for tensor in task.compute_dag.tensors}
    assert dtype in inputs


all_targets = pytest.mark.parametrize("target", TARGETS)


@all_targets
def test_proposals_for_a_small_network(target):
    check_proposals_for_target("squeezenet-1.0", target)


@pytest.mark.parametrize("dtype, layout", [("float16", "NHWC"), ("int8", "NCHW")])
def test_proposals_for_a_small_network_on_arm(dtype, layout):
    check_proposals_for_arm("squeezenet-1.0", dtype, layout)


@tvm.testing.slow
@all_targets
@pytest.mark.parametrize("name", MODELS)
def test_proposals_for_every_network(name, target):
    check_proposals_for_target(name, target)


@tvm.testing.slow
@pytest.mark.parametrize("dtype, layout", ARM_VARIANTS)
@pytest.mark.parametrize("name", MODELS)
def test_proposals_for_every_network_on_arm(name, dtype, layout):
    check_proposals_for_arm(name, dtype, layout)


if __name__ == "__main__":
    tvm.testing.main()
