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
"""Test how long a request waits for a device when its servers are gone."""

import threading
import time

import pytest

import tvm.testing
from tvm import rpc
from tvm.rpc import Server
from tvm.rpc.tracker import Tracker

KEY = "timeout-test"


@pytest.fixture
def tracker():
    tracker = Tracker(host="127.0.0.1", port=9400, port_end=9500, silent=True)
    yield tracker
    tracker.terminate()


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


if __name__ == "__main__":
    tvm.testing.main()
