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
"""Test DropletSearchPolicy with devices that a tracker hands out."""

import json
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

import tvm
import tvm.testing
from tvm import auto_scheduler, relay
from tvm.auto_scheduler.measure import MeasureErrorNo, PythonBasedMeasureCallback
from tvm.meta_schedule.testing import te_workload
from tvm.rpc import Server
from tvm.rpc.tracker import Tracker

from test_auto_scheduler_droplet_common import FAST_SKETCH_PARAMS

KEY = "droplet-test"
NUM_TRIALS = 40


@pytest.fixture
def tracker():
    tracker = Tracker(host="127.0.0.1", port=9200, port_end=9300, silent=True)
    yield tracker
    tracker.terminate()


@pytest.fixture
def servers(tracker):
    """Two servers of the same key."""
    address = ("127.0.0.1", tracker.port)
    servers = [
        Server("127.0.0.1", 9300, 9400, key=KEY, tracker_addr=address, silent=True)
        for _ in range(2)
    ]
    yield servers
    for server in servers:
        server.terminate()


def process_of(server):
    """The process of a server, whose sessions are processes of their own."""
    return psutil.Process(server.proc._proc.pid)


def search(tracker, log, *callbacks, num_trials=NUM_TRIALS, **runner):
    # The processes that build and run need a workload of a module that they can import.
    auto_scheduler.register_workload(te_workload.matmul, override=True)
    task = auto_scheduler.SearchTask(func=te_workload.matmul, args=(64, 64, 64), target="llvm")
    policy = auto_scheduler.DropletSearchPolicy(
        task, params={**FAST_SKETCH_PARAMS, "explore_trials": 8}, seed=1, verbose=0
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=num_trials,
        builder=auto_scheduler.LocalBuilder(timeout=60, n_parallel=2),
        runner=auto_scheduler.RPCRunner(
            KEY,
            "127.0.0.1",
            tracker.port,
            n_parallel=2,
            **{"number": 1, "min_repeat_ms": 20, **runner},
        ),
        measure_callbacks=[auto_scheduler.RecordToFile(str(log)), *callbacks],
        verbose=0,
    )
    task.tune(options, policy)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return policy, [error_no for _, error_no, _, _ in (record["r"] for record in records)]


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_batches_spread_over_the_devices(tracker, servers, tmp_path):
    policy, errors = search(tracker, tmp_path / "log.json")
    assert policy.num_descended > 0
    assert len(errors) == policy.num_explored + policy.num_descended
    assert not any(errors)
    # The CPU time of sessions that have ended.
    assert all(process_of(server).cpu_times().children_user > 0 for server in servers)


class Killer(PythonBasedMeasureCallback):
    """Kills a server while it runs a program of the third batch."""

    def __init__(self, server, kill=Server.terminate):
        super().__init__()
        self.server = server
        self.kill = kill
        self.num_batches = 0
        self.num_before = 0
        self.thread = threading.Thread(target=self.kill_in_session, daemon=True)

    def callback(self, policy, inputs, results):
        self.num_batches += 1
        if self.num_batches <= 2:
            self.num_before += len(results)
        if self.num_batches == 2:
            self.thread.start()

    def kill_in_session(self):
        process = process_of(self.server)
        while not process.children():
            time.sleep(0.001)
        self.kill(self.server)


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_a_server_dies(tracker, servers, tmp_path):
    killer = Killer(servers[0])
    policy, errors = search(tracker, tmp_path / "log.json", killer)
    killer.thread.join()
    assert killer.num_batches > 3
    assert policy.num_descended > 0
    # Every trial has its record, and the other server goes on. It may have taken over what the
    # first one had just been asked to run.
    assert len(errors) == policy.num_explored + policy.num_descended
    assert not any(errors[: killer.num_before])
    assert sum(error != 0 for error in errors) <= 2
    assert not any(errors[-8:])


def freeze(server):
    """Stop a server, whose connections stay open, so nobody is told."""
    process = process_of(server)
    for frozen in (process, *process.children(recursive=True)):
        frozen.suspend()


@tvm.testing.slow
@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_a_server_freezes(tracker, servers, tmp_path):
    killer = Killer(servers[0], freeze)
    policy, errors = search(
        tracker, tmp_path / "log.json", killer, num_trials=24, min_repeat_ms=200, timeout=3
    )
    killer.thread.join()
    assert len(errors) == policy.num_explored + policy.num_descended
    # Its run is given up, and the other server goes on.
    assert [error for error in errors if error != 0] == [MeasureErrorNo.RUN_TIMEOUT]
    assert not any(errors[-4:])


class Terminator(PythonBasedMeasureCallback):
    """Terminates servers after the first batch, and keeps the messages of errors."""

    def __init__(self, servers, terminate=Server.terminate):
        super().__init__()
        self.servers = servers
        self.terminate = terminate
        self.messages = []

    def callback(self, policy, inputs, results):
        self.messages += [str(result.error_msg) for result in results if result.error_no != 0]
        for server in self.servers:
            self.terminate(server)


def check_errors(errors, messages, error_no):
    """Some programs are measured, then all fail with one error, each with its message."""
    num_measured = len(errors) - len(messages)
    assert 0 < num_measured < len(errors)
    assert errors[:num_measured] == [MeasureErrorNo.NO_ERROR] * num_measured
    assert errors[num_measured:] == [error_no] * len(messages)


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_all_servers_are_gone(tracker, servers, tmp_path):
    """What was measured before keeps its records, and the search does not wait for ever."""
    begin = time.time()
    terminator = Terminator(servers)
    policy, errors = search(tracker, tmp_path / "log.json", terminator, num_trials=12, timeout=3)
    messages = terminator.messages
    check_errors(errors, messages, MeasureErrorNo.COMPILE_DEVICE)
    assert len(errors) == policy.num_explored + policy.num_descended
    assert all("for 3 seconds, the tracker" in message for message in messages)
    assert time.time() - begin < 120


@tvm.testing.slow
@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_all_servers_freeze(tracker, servers, tmp_path):
    """Neither those that are connected to one nor those that wait for one do so for ever."""
    terminator = Terminator(servers, freeze)
    _, errors = search(tracker, tmp_path / "log.json", terminator, num_trials=6, timeout=3)
    messages = terminator.messages
    check_errors(errors, messages, MeasureErrorNo.RUN_TIMEOUT)
    assert len(messages) > len(servers)
    assert all(f"No device of {KEY} was free" in message for message in messages)


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_the_tracker_is_gone(tracker, servers, tmp_path):
    terminator = Terminator([tracker], Tracker.terminate)
    _, errors = search(tracker, tmp_path / "log.json", terminator, num_trials=6, timeout=3)
    messages = terminator.messages
    check_errors(errors, messages, MeasureErrorNo.COMPILE_DEVICE)
    reason = f"Failed to connect to tracker ('127.0.0.1', {tracker.port})"
    assert all(reason in message for message in messages)


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_runs_that_do_not_end(tracker, servers, tmp_path):
    begin = time.time()
    terminator = Terminator([])
    _, errors = search(
        tracker,
        tmp_path / "log.json",
        terminator,
        num_trials=6,
        min_repeat_ms=600_000,
        timeout=3,
    )
    assert errors == [MeasureErrorNo.RUNTIME_DEVICE] * 6
    assert len(terminator.messages) == 6
    assert all("Your 3.0s session has expired" in message for message in terminator.messages)
    assert time.time() - begin < 120


def run_script(name, tracker, work_dir, **options):
    """Run one of TVM's own scripts on the devices. Returns what it printed and the records."""
    options = {
        "target": "llvm -num-cores 2",
        "rpc_host": "127.0.0.1",
        "rpc_port": tracker.port,
        "rpc_key": KEY,
        "work_dir": work_dir,
        "cpu_flush": False,
        "min_repeat_ms": 10,
        "search_policy": "droplet.random",
        **options,
    }
    command = [sys.executable, "-m", f"tvm.auto_scheduler.testing.{name}"]
    command += [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
    done = subprocess.run(command, cwd=work_dir, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (log,) = work_dir.glob("*.json")
    return done.stdout, [json.loads(line) for line in log.read_text().splitlines()]


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_tuning_script(tracker, servers, tmp_path):
    text, records = run_script("tune_te", tracker, tmp_path, workload="GMM", num_trials=12)
    assert "Descent 1" in text
    assert 0 < len(records) <= 12


def write_onnx(path):
    """A network of two convolutions."""
    onnx = pytest.importorskip("onnx")
    random = np.random.default_rng(0)
    weights = {
        name: random.normal(size=(8, num_inputs, 3, 3)) for name, num_inputs in (("a", 4), ("b", 8))
    }
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Conv", ["data", "a"], ["features"]),
            onnx.helper.make_node("Conv", ["features", "b"], ["output"]),
        ],
        "network",
        [onnx.helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, (1, 4, 8, 8))],
        [onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, (1, 8, 4, 4))],
        [
            onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, array.shape, array.ravel())
            for name, array in weights.items()
        ],
    )
    opsets = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))


def check_network(text, records, num_trials, num_tasks):
    """Check that a script tuned the tasks and ran the network."""
    assert "| descend |" in text and "Descent 1" in text
    assert "Median (ms)" in text
    assert len(records) <= num_trials
    valid = [record for record in records if record["r"][1] == 0]
    assert len({record["i"][0][0] for record in valid}) == num_tasks


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_tuning_script_for_onnx(tracker, servers, tmp_path):
    write_onnx(tmp_path / "tiny.onnx")
    text, records = run_script(
        "tune_onnx",
        tracker,
        tmp_path,
        model_name="tiny",
        onnx_path=tmp_path / "tiny.onnx",
        input_shape='[{"name": "data", "dtype": "float32", "shape": [1, 4, 8, 8]}]',
        num_trials=16,
        backend="graph",
    )
    check_network(text, records, num_trials=16, num_tasks=2)
    assert all(process_of(server).cpu_times().children_user > 0 for server in servers)


@tvm.testing.slow
@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_tuning_script_for_relay(tracker, servers, tmp_path):
    """The network is in the cache, so no framework has to make it."""
    shape = [1, 4, 8, 8]
    data, weight = relay.var("data", shape=shape), relay.var("weight", shape=(8, 4, 3, 3))
    conv2d = relay.nn.conv2d(data, weight, channels=8, kernel_size=3)
    module = relay.transform.InferType()(tvm.IRModule.from_expr(conv2d))
    params = {"weight": tvm.nd.array(np.random.normal(size=(8, 4, 3, 3)).astype("float32"))}
    cache = tmp_path / "cache"
    cache.mkdir()
    network = [module, tvm.runtime.save_param_dict(params), ("data", shape, "float32")]
    (cache / "relay-tiny-None-1,4,8,8.json").write_bytes(pickle.dumps(network))
    text, records = run_script(
        "tune_relay",
        tracker,
        tmp_path,
        workload="tiny",
        input_shape=shape,
        cache_dir=cache,
        num_trials=4,
        backend="graph",
    )
    check_network(text, records, num_trials=4, num_tasks=1)


if __name__ == "__main__":
    tvm.testing.main()
