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
"""Tune for AArch64 from this machine, and search on AArch64 itself, on a device that is emulated.

ARM_DEVICE is the folder of the device (cmake/make_device.py), ARM_TVM that of TVM for AArch64.
"""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler, rpc, te
from tvm.auto_scheduler.measure import MeasureErrorNo, PythonBasedMeasureCallback
from tvm.contrib import cc
from tvm.meta_schedule.testing import te_workload
from tvm.rpc.tracker import Tracker

DEVICE = Path(os.environ["ARM_DEVICE"])
TREE = Path(os.environ["ARM_TVM"])
DOCUMENT = Path(__file__).parents[2] / "docs" / "arm.md"
KEY = "arm"
NUM_EXPLORED = 8
NUM_TRIALS = 24
COMPILE = cc.cross_compiler("aarch64-linux-gnu-g++", options=["-shared", "-fPIC"])
COMPILE.output_format = "so"

# Keeps sampling and evolution short; what they find does not matter here.
FAST_SKETCH_PARAMS = {
    "sample_init_min_population": 8,
    "evolutionary_search_population": 32,
    "evolutionary_search_num_iters": 1,
}

CPUS = {
    "cortex-a72": "-mattr=+neon",
    "neoverse-n1": "-mattr=+neon,+dotprod,+fullfp16",
    "a64fx": "-mattr=+neon,+sve",
}


def on_device(*words, folder=None, **options):
    """Start Python on the device."""
    paths = (TREE / "python", DEVICE / "site")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TVM_NUM_THREADS": "1",
        **options,
    }
    return subprocess.Popen(
        [DEVICE / "bin" / "python", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def tracker():
    tracker = Tracker(host="127.0.0.1", port=9190, port_end=9290, silent=True)
    yield tracker
    tracker.terminate()


@pytest.fixture(scope="module")
def server(tracker):
    """The RPC server of the device. It needs TVM's runtime only."""
    words = ["-m", "tvm.exec.rpc_server", f"--tracker=127.0.0.1:{tracker.port}", f"--key={KEY}"]
    process = on_device(*words, TVM_USE_RUNTIME_LIB="1")
    wait_for_device(tracker)
    yield process
    process.terminate()
    process.wait()


def wait_for_device(tracker, seconds=120):
    end = time.time() + seconds
    connection = rpc.connect_tracker("127.0.0.1", tracker.port)
    while time.time() < end:
        if connection.summary()["queue_info"].get(KEY, {}).get("free", 0):
            return
        time.sleep(0.2)
    raise TimeoutError(f"the device did not register within {seconds} s")


def arm_target(cpu):
    return tvm.target.Target(f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu} {CPUS[cpu]}")


def make_task(target):
    # The processes that build and run need a workload of a module that they can import.
    auto_scheduler.register_workload(te_workload.matmul, override=True)
    return auto_scheduler.SearchTask(
        func=te_workload.matmul,
        args=(32, 32, 32),
        target=target,
        hardware_params=auto_scheduler.HardwareParams(num_cores=2, target=target),
    )


class Messages(PythonBasedMeasureCallback):
    """Keeps the messages of errors."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def callback(self, policy, inputs, results):
        self.messages += [str(result.error_msg) for result in results if result.error_no != 0]


def search(task, tracker, log, key=KEY, num_trials=NUM_TRIALS, build_func=COMPILE, **runner):
    policy = auto_scheduler.DropletSearchPolicy(
        task, params={**FAST_SKETCH_PARAMS, "explore_trials": NUM_EXPLORED}, seed=1, verbose=0
    )
    messages = Messages()
    options = auto_scheduler.TuningOptions(
        num_measure_trials=num_trials,
        builder=auto_scheduler.LocalBuilder(build_func=build_func),
        runner=auto_scheduler.RPCRunner(
            key,
            "127.0.0.1",
            tracker.port,
            **{"number": 1, "repeat": 1, "min_repeat_ms": 0, "timeout": 20, **runner},
        ),
        measure_callbacks=[auto_scheduler.RecordToFile(str(log)), messages],
        verbose=0,
    )
    task.tune(options, policy)
    errors = [json.loads(line)["r"][1] for line in log.read_text().splitlines()]
    assert len(errors) == policy.num_explored + policy.num_descended
    return policy, errors, messages.messages


@pytest.mark.parametrize("cpu", CPUS)
def test_tuning_over_rpc(cpu, tracker, server, tmp_path):
    log = tmp_path / "log.json"
    task = make_task(arm_target(cpu))
    policy, errors, _ = search(task, tracker, log)
    assert not any(errors)
    assert policy.num_descended > 0

    sch, args = task.apply_best(str(log))
    library = str(tmp_path / "matmul.so")
    tvm.build(sch, args, task.target).export_library(library, fcompile=COMPILE)
    remote = rpc.connect_tracker("127.0.0.1", tracker.port).request(KEY, session_timeout=60)
    remote.upload(library)
    func = remote.load_module("matmul.so")
    a, b = (np.random.uniform(size=(32, 32)).astype("float32") for _ in range(2))
    arrays = [tvm.nd.array(x, remote.cpu()) for x in (a, b, np.zeros((32, 32), "float32"))]
    func(*arrays)
    tvm.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-4)


def test_the_script_for_the_board(tmp_path):
    """What the document has the board run, on a smaller product."""
    (script,) = re.findall(r"```python\n(import numpy.*?)```", DOCUMENT.read_text(), re.DOTALL)
    args = te_workload.matmul(32, 32, 32)
    sch = te.create_schedule(args[-1].op)
    library = tvm.build(sch, args, arm_target("cortex-a72"))
    library.export_library(str(tmp_path / "matmul.so"), fcompile=COMPILE)
    small = script.replace("512", "32")
    process = on_device("-c", small, folder=tmp_path, TVM_USE_RUNTIME_LIB="1")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "mean (ms)" in output


def test_a_key_that_no_device_has(tracker, server, tmp_path):
    begin = time.time()
    task = make_task(arm_target("cortex-a72"))
    message = rf"of no-such-key from the tracker .*:{tracker.port}\. .* servers of: \['{KEY}'\]"
    with pytest.raises(RuntimeError, match=message):
        search(task, tracker, tmp_path / "log", key="no-such-key", timeout=2)
    assert time.time() - begin < 60


@pytest.mark.parametrize(
    "build_func, error, message",
    [
        (COMPILE, MeasureErrorNo.COMPILE_HOST, "file in wrong format"),
        (cc.create_shared, MeasureErrorNo.COMPILE_DEVICE, "cannot load tmp_func.so"),
    ],
)
def test_programs_for_another_machine(tracker, server, tmp_path, build_func, error, message):
    """What is not for the device fails, where it is linked or there, and says why."""
    task = make_task(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu"))
    _, errors, messages = search(
        task, tracker, tmp_path / "log.json", num_trials=2, build_func=build_func
    )
    assert errors == [error] * 2
    assert len(messages) == 2
    assert all(message in text for text in messages)


def test_a_run_that_hangs(tracker, server, tmp_path):
    begin = time.time()
    task = make_task(arm_target("cortex-a72"))
    _, errors, messages = search(
        task, tracker, tmp_path / "log.json", num_trials=2, min_repeat_ms=600_000, timeout=5
    )
    assert errors == [MeasureErrorNo.RUNTIME_DEVICE] * 2
    assert len(messages) == 2
    assert all("Your 5.0s session has expired" in text for text in messages)
    assert time.time() - begin < 120


def test_search_on_the_device():
    """The overlay's own C++, compiled for AArch64, descends there."""
    tests = TREE / "tests/python/auto_scheduler"
    process = on_device(
        *("-m", "pytest", "-p", "no:cacheprovider", "-q", "-k", "optimum"),
        tests / "test_auto_scheduler_coordinate_descent.py",
        tests / "test_auto_scheduler_droplet_search_policy.py",
    )
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert " passed" in output


if __name__ == "__main__":
    tvm.testing.main()
