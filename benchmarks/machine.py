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
"""This machine as a place to tune on: its targets, its cores, and how candidates are measured."""

import os
import shutil
import sys
from pathlib import Path

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # nothing here needs schedules from the network

import tvm
from tvm import auto_scheduler
from tvm.target import codegen

# Of an OpenCL device, TVM takes this from the environment, and warns of its own default of 1.
os.environ.setdefault("TVM_OPENCL_WARP_SIZE", "32")

GPU_TARGETS = ("cuda", "opencl")

# Compiling a long unrolled loop may take longer than the default time-out on a busy machine.
BUILD_TIMEOUT = 30  # seconds
REPEATS = {"number": 3, "min_repeat_ms": 150}

# The extensions of x86 that generated code uses; a virtual machine may hide some of them.
_VECTOR_EXTENSIONS = ("amx", "avx", "f16c", "fma", "gfni", "sse", "ssse", "va", "vp")


def detect_target():
    """Find the CPU of this machine.

    Returns
    -------
    target : tvm.target.Target
        The target, with `-mcpu` if LLVM knows the CPU.
    """
    cpu = codegen.llvm_get_system_cpu()
    if cpu == "generic" or cpu not in set(codegen.llvm_get_cpu_archlist(tvm.target.Target("llvm"))):
        print(f"LLVM {codegen.llvm_version_major()} does not know this CPU: tuning for plain llvm.")
        return tvm.target.Target("llvm")
    target = f"llvm -mcpu={cpu}"
    hidden = _hidden_extensions(tvm.target.Target(target))
    return tvm.target.Target(f"{target} -mattr={','.join(hidden)}" if hidden else target)


def _hidden_extensions(target):
    """What LLVM expects of the CPU and this machine does not have, as `-mattr` takes it away."""
    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    missing = [name for name, has in host.items() if not has]
    expected = codegen.llvm_get_cpu_features(target)
    return sorted(
        f"-{name}" for name in missing if name in expected and name.startswith(_VECTOR_EXTENSIONS)
    )


def detect_gpu(kind):
    """Find the GPU of this machine. Exits if there is none, or if TVM cannot use it.

    Parameters
    ----------
    kind : str
        One of `GPU_TARGETS`.

    Returns
    -------
    target : tvm.target.Target
        The target.
    """
    if not tvm.runtime.enabled(kind):
        sys.exit(
            f"This TVM was built without its {kind} runtime: "
            f"cmake --preset {kind} && cmake --build --preset {kind}"
        )
    device = tvm.device(kind)
    try:
        exists = device.exist
    except tvm.error.TVMError:  # there is no driver
        exists = False
    if not exists:
        sys.exit(f"This machine has no {kind} device, or no driver for it.")
    if kind == "opencl":
        # Without attributes of the device: as one, the warp size that the environment gives would
        # let reductions do without barriers.
        return tvm.target.Target(kind)
    if shutil.which("nvcc") is None:
        sys.exit("TVM compiles with nvcc, which is not in PATH.")
    return tvm.target.Target.from_device(device)  # MetaSchedule wants to know its limits


def use_all_cores():
    """Let kernels run on each core that this process may use, in workers too.

    Returns
    -------
    num_cores : int
        The number of threads: of `TVM_NUM_THREADS` if it is set, otherwise one a physical core.
    """
    cores = {_core_of(cpu) for cpu in os.sched_getaffinity(0)}
    num_threads = os.environ.setdefault("TVM_NUM_THREADS", str(len(cores)))
    if not num_threads.isdecimal() or int(num_threads) == 0:
        sys.exit(f"TVM_NUM_THREADS must be a positive integer, but it is {num_threads}.")
    return int(num_threads)


def _core_of(cpu):
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return siblings.read_text() if siblings.exists() else cpu


def num_builders(num_cores):
    """How many candidates are built at a time."""
    return min(max(num_cores, 2), 8)


def measure_options(num_cores):
    """How candidates are built and run.

    Parameters
    ----------
    num_cores : int
        The number of cores that kernels run on.

    Returns
    -------
    options : Dict[str, object]
        The builder and the runner of `auto_scheduler.TuningOptions`.
    """
    # A batch is twice as large as the number of parallel builds: from 4, since each batch starts
    # processes that import TVM first, to 16, so that the descent decides often.
    builder = auto_scheduler.LocalBuilder(timeout=BUILD_TIMEOUT, n_parallel=num_builders(num_cores))
    runner = auto_scheduler.LocalRunner(**REPEATS)
    return {"builder": builder, "runner": runner}
