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
"""Test how long one waits for a device when servers or their tracker are gone."""

import socket
import subprocess
import sys
import threading
import time

import pytest

import tvm.testing
from tvm import auto_scheduler, rpc
from tvm.auto_scheduler.utils import check_remote
from tvm.rpc import Server
from tvm.rpc.tracker import Tracker

KEY = "timeout-test"


@pytest.fixture
def tracker():
    tracker = Tracker(host="127.0.0.1", port=9400, port_end=9500, silent=True)
    yield tracker
    tracker.terminate()


@pytest.fixture
def dead_address():
    """An address that nobody listens at, and nobody else can take."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()


def start_server(tracker, key=KEY):
    address = ("127.0.0.1", tracker.port)
    return Server("127.0.0.1", 9500, 9600, key=key, tracker_addr=address, silent=True)


def connect(tracker):
    return rpc.connect_tracker("127.0.0.1", tracker.port)


def wait_for_pending_requests(tracker, number):
    session = connect(tracker)
    while session.summary()["queue_info"].get(KEY, {"pending": 0})["pending"] != number:
        time.sleep(0.05)


@tvm.testing.requires_rpc
def test_no_server(tracker):
    other = start_server(tracker, "other")
    with pytest.raises(RuntimeError, match=rf"Cannot request {KEY}: for 1 seconds.*\['other'\]"):
        connect(tracker).request(KEY, server_timeout=1)
    other.terminate()


@tvm.testing.requires_rpc
def test_server_is_gone_while_waiting(tracker):
    server = start_server(tracker)
    holder = connect(tracker).request(KEY)
    outcome = []

    def request():
        try:
            connect(tracker).request(KEY, server_timeout=1)
        except RuntimeError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    wait_for_pending_requests(tracker, 1)
    time.sleep(2)
    assert not outcome  # for there is a server, only busy
    del holder
    server.terminate()
    thread.join(30)
    assert len(outcome) == 1
    assert "It has servers of: []" in outcome[0]


@tvm.testing.requires_rpc
def test_server_comes_in_time(tracker):
    sessions = []

    def request():
        sessions.append(connect(tracker).request(KEY, server_timeout=60))

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    wait_for_pending_requests(tracker, 1)
    server = start_server(tracker)
    thread.join(30)
    assert sessions[0].cpu().exist
    sessions.clear()
    server.terminate()


@tvm.testing.requires_rpc
def test_given_up_request_takes_no_device(tracker):
    with pytest.raises(RuntimeError, match="Cannot request"):
        connect(tracker).request(KEY, server_timeout=0)
    server = start_server(tracker)
    assert connect(tracker).request(KEY, server_timeout=30).cpu().exist
    server.terminate()


@tvm.testing.requires_rpc
def test_no_tracker(dead_address):
    with pytest.raises(RuntimeError, match=f"Failed to connect to tracker .*{dead_address[1]}"):
        rpc.connect_tracker(*dead_address, timeout=0)


@tvm.testing.requires_rpc
def test_tracker_is_gone_while_waiting(tracker):
    session = rpc.connect_tracker("127.0.0.1", tracker.port, timeout=0)
    outcome = []

    def request():
        try:
            session.request(KEY, server_timeout=60)
        except RuntimeError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    wait_for_pending_requests(tracker, 1)
    tracker.terminate()
    thread.join(30)
    assert len(outcome) == 1
    assert "Failed to connect to tracker" in outcome[0]


def make_runner(host, port, key=KEY):
    return auto_scheduler.RPCRunner(key, host, port, timeout=1)


@tvm.testing.requires_rpc
def test_runner_has_a_device(tracker):
    server = start_server(tracker)
    make_runner("127.0.0.1", tracker.port)
    assert check_remote(KEY, "127.0.0.1", tracker.port)
    server.terminate()


@tvm.testing.requires_rpc
def test_runner_without_server(tracker):
    server = start_server(tracker)
    num_threads = threading.active_count()
    message = (
        rf"devices of other from the tracker at 127.0.0.1:{tracker.port}\. .*"
        rf"for 1 seconds, .* had no server of this key. It has servers of: \['{KEY}'\]"
    )
    with pytest.raises(RuntimeError, match=message):
        make_runner("127.0.0.1", tracker.port, "other")
    assert threading.active_count() <= num_threads  # nobody waits any longer
    assert not check_remote("other", "127.0.0.1", tracker.port, timeout=0)
    server.terminate()


@tvm.testing.requires_rpc
def test_runner_without_tracker(dead_address):
    host, port = dead_address
    with pytest.raises(RuntimeError, match=f"tracker at {host}:{port}. Failed to connect"):
        make_runner(host, port)
    assert not check_remote(KEY, host, port, timeout=0)


MAKE_RUNNER = """
from tvm import auto_scheduler

try:
    auto_scheduler.RPCRunner({key!r}, "127.0.0.1", {port}, timeout=1)
except RuntimeError as error:
    print(error)
"""


@tvm.testing.requires_rpc
@pytest.mark.parametrize(
    "key, reason", [("other", "no server of this key"), (KEY, "no device was free")]
)
def test_process_that_got_no_device_ends(tracker, key, reason):
    server = start_server(tracker)
    holder = connect(tracker).request(KEY)
    done = subprocess.run(
        [sys.executable, "-c", MAKE_RUNNER.format(key=key, port=tracker.port)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"Cannot get remote devices of {key}" in done.stdout
    assert reason in done.stdout
    del holder
    server.terminate()


if __name__ == "__main__":
    tvm.testing.main()
