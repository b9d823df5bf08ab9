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
"""Test DropletSearchPolicy with CUDA programs that are compiled, but not run: no GPU is needed."""

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler
from tvm.contrib import utils
from tvm.meta_schedule.testing import te_workload

from test_auto_scheduler_droplet_common import (
    FAST_SKETCH_PARAMS,
    Measurer,
    fake_measuring,
    gpu_hardware_params,
)

NUM_EXPLORED = 8
NUM_TRIALS = 32
NUM_REGISTERS = 65536

# What compute capabilities 8.0, 8.6 and 9.0 have in common; only launches that ask for it get more
# shared memory.
HARDWARE_PARAMS = gpu_hardware_params(49152, 1024)

WORKLOADS = {
    "matmul": (te_workload.matmul, (256, 256, 256)),
    "conv2d": (te_workload.conv2d_nchw, (1, 28, 28, 32, 64, 3, 3, 1, 1)),
    "norm": (te_workload.norm_bmn, (1, 256, 256)),
}

pytestmark = pytest.mark.skipif(
    tvm.get_global_func("target.build.cuda", allow_missing=True) is None
    or shutil.which("nvcc") is None,
    reason="needs a TVM with CUDA's code generator, and nvcc in PATH",
)


def compile_cubin(code, target):
    """Compile kernels and check what they use against what a block has."""
    temp = utils.tempdir()
    source, cubin = temp.relpath("kernels.cu"), temp.relpath("kernels.cubin")
    with open(source, "w") as file:
        file.write(code)
    command = ["nvcc", "--cubin", "-O3", f"-arch={target.arch}", "--resource-usage"]
    done = subprocess.run(
        [*command, "-o", cubin, source], capture_output=True, text=True, check=False
    )
    report = done.stdout + done.stderr
    if done.returncode:
        raise RuntimeError(f"{code}\n{report}")
    check_resources(code, report)
    with open(cubin, "rb") as file:
        return bytearray(file.read())


def check_resources(code, report):
    """Compare what nvcc reports of each kernel with the limits."""
    # A kernel of one thread has no bounds.
    kernels = re.findall(r"__global__ void (?:__launch_bounds__\((\d+)\) )?(\w+)\(", code)
    num_threads = {name: int(number or 1) for number, name in kernels}
    assert num_threads
    for name, number in num_threads.items():
        used = report.partition(f"Compiling entry function '{name}'")[2].partition("Compiling")[0]
        (num_registers,) = re.findall(r"Used (\d+) registers", used)
        shared = sum(map(int, re.findall(r"(\d+) bytes smem", used)))
        assert number <= HARDWARE_PARAMS.max_threads_per_block
        assert number * int(num_registers) <= NUM_REGISTERS
        assert shared <= HARDWARE_PARAMS.max_shared_memory_per_block


class Compiler(Measurer):
    """Compiles programs. Costs are still those of the base class."""

    def __init__(self):
        super().__init__()
        self.errors = []

    def build(self, inputs, *_):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            self.errors += pool.map(compile_error, inputs)
        return super().build(inputs)


def compile_error(measure_input):
    """Compile a program and return what went wrong, None if nothing did."""
    task = measure_input.task
    schedule, args = task.compute_dag.apply_steps_from_state(measure_input.state)
    try:
        tvm.build(schedule, args, task.target)
    except Exception as error:  # pylint: disable=broad-except
        return error
    return None


@pytest.fixture
def cubins():
    """Have kernels compiled by `compile_cubin`."""
    name = "tvm_callback_cuda_compile"
    original = tvm.get_global_func(name)
    tvm.register_func(name, compile_cubin, override=True)
    yield
    tvm.register_func(name, original, override=True)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_proposed_program_compiles(workload, arch, cubins):
    func, args = WORKLOADS[workload]
    auto_scheduler.register_workload(func, override=True)
    task = auto_scheduler.SearchTask(
        func=func,
        args=args,
        target=tvm.target.Target(f"cuda -arch={arch}", "llvm"),
        hardware_params=HARDWARE_PARAMS,
    )
    with fake_measuring(Compiler()) as compiler:
        policy = auto_scheduler.DropletSearchPolicy(
            task, params={**FAST_SKETCH_PARAMS, "explore_trials": NUM_EXPLORED}, seed=1, verbose=0
        )
        task.tune(auto_scheduler.TuningOptions(NUM_TRIALS, verbose=0), policy)
    assert len(compiler.inputs) == policy.num_explored + policy.num_descended
    assert policy.num_descended > 0
    # SketchPolicy explores programs that exceed the limits, too.
    assert compiler.errors[policy.num_explored :] == [None] * policy.num_descended


if __name__ == "__main__":
    tvm.testing.main()
