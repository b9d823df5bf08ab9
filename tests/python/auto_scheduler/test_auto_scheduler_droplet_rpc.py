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
import subprocess
import sys
import threading
import time

import psutil
import pytest

import tvm.testing
from tvm import auto_scheduler
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
        builder=auto_scheduler.LocalBuilder(timeout=60, n_parallel=4),
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

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.num_batches = 0
        self.thread = threading.Thread(target=self.kill_in_session, daemon=True)

    def callback(self, policy, inputs, results):
        self.num_batches += 1
        if self.num_batches == 2:
            self.thread.start()

    def kill_in_session(self):
        process = process_of(self.server)
        while not process.children():
            time.sleep(0.001)
        self.server.terminate()


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
    assert not any(errors[:16])
    assert sum(error != 0 for error in errors) <= 2
    assert not any(errors[-8:])


class Terminator(PythonBasedMeasureCallback):
    """Terminates servers after the first batch, and keeps the messages of errors."""

    def __init__(self, servers):
        super().__init__()
        self.servers = servers
        self.messages = []

    def callback(self, policy, inputs, results):
        self.messages += [str(result.error_msg) for result in results if result.error_no != 0]
        for server in self.servers:
            server.terminate()


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_all_servers_are_gone(tracker, servers, tmp_path):
    """What was measured before keeps its records, and the search does not wait for ever."""
    begin = time.time()
    terminator = Terminator(servers)
    policy, errors = search(tracker, tmp_path / "log.json", terminator, num_trials=20, timeout=3)
    assert errors[:8] == [MeasureErrorNo.NO_ERROR] * 8
    assert set(errors[8:]) == {MeasureErrorNo.COMPILE_DEVICE}
    assert len(errors) == policy.num_explored + policy.num_descended
    assert len(terminator.messages) == len(errors) - 8
    assert all("for 3 seconds, the tracker" in message for message in terminator.messages)
    assert time.time() - begin < 120


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_runs_that_do_not_end(tracker, servers, tmp_path):
    begin = time.time()
    _, errors = search(
        tracker, tmp_path / "log.json", num_trials=6, min_repeat_ms=600_000, timeout=3
    )
    assert errors == [MeasureErrorNo.RUNTIME_DEVICE] * 6
    assert time.time() - begin < 120


@tvm.testing.requires_llvm
@tvm.testing.requires_rpc
def test_tuning_script(tracker, servers, tmp_path):
    options = {
        "workload": "GMM",
        "target": "llvm -num-cores 2",
        "num-trials": 12,
        "rpc-host": "127.0.0.1",
        "rpc-port": tracker.port,
        "rpc-key": KEY,
        "work-dir": tmp_path,
        "cpu-flush": False,
        "min-repeat-ms": 10,
        "search-policy": "droplet.random",
    }
    command = [sys.executable, "-m", "tvm.auto_scheduler.testing.tune_te"]
    command += [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Descent 1" in done.stdout
    assert 0 < len((tmp_path / "GMM.json").read_text().splitlines()) <= 12


if __name__ == "__main__":
    tvm.testing.main()
