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
"""Test benchmarks/networks.py."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "auto_scheduler"))

import network_latency
import network_report
import network_search
import networks
from models import MODELS
from network import Network, NetworkError, load_onnx
from network_search import Contender, load_progress, search

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper
from test_auto_scheduler_droplet_common import FAST_SKETCH_PARAMS, fake_measuring
from tvm import auto_scheduler

CONTENDER = Contender("droplet", "droplet.xgb", 30)


def write_onnx(path, height=8, operator="Conv", seed=0):
    """A convolution with a bias as an ONNX file."""
    random = np.random.default_rng(seed)
    arrays = {"weight": random.normal(size=(8, 4, 3, 3)), "bias": random.normal(size=8)}
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, array.shape, array.ravel())
        for name, array in arrays.items()
    ]
    domain = {} if operator == "Conv" else {"domain": "somewhere"}
    graph = helper.make_graph(
        [helper.make_node(operator, ["data", *arrays], ["output"], **domain)],
        "network",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, (1, 4, height, 8))],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ("n", "c", "h", "w"))],
        weights,
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("somewhere", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


@pytest.fixture
def network(tmp_path):
    return load_onnx(write_onnx(tmp_path / "tiny.onnx"))


def test_list(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["networks.py", "--list", "--output", str(tmp_path)])
    networks.main()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(MODELS)


def test_unknown_model(capsys):
    with pytest.raises(SystemExit):
        networks.parse_args(["--models", "resnet-19"])
    error = capsys.readouterr().err
    assert "resnet-19" in error and "squeezenet-1.0" in error


def test_onnx(network):
    assert network.name == "tiny"
    inputs = network.random_inputs(0)
    assert {name: array.shape for name, array in inputs.items()} == {"data": (1, 4, 8, 8)}
    tasks, weights = network.extract_tasks(tvm.target.Target("llvm"))
    assert len(tasks) == len(weights) == 1
    assert "conv2d" in tasks[0].desc


@pytest.mark.parametrize("content", [None, b"", b"not a network"])
def test_unreadable_onnx(tmp_path, content):
    path = tmp_path / "bad.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NetworkError, match="bad.onnx cannot be read as ONNX: ."):
        load_onnx(path)


def test_onnx_of_unknown_shape(tmp_path):
    path = write_onnx(tmp_path / "any.onnx", height="height")
    with pytest.raises(NetworkError, match=r"an input data of shape \(1, 4, height, 8\)"):
        load_onnx(path)


def test_onnx_with_an_unknown_operator(tmp_path):
    path = write_onnx(tmp_path / "odd.onnx", operator="Odd")
    with pytest.raises(NetworkError, match="odd.onnx cannot be imported: .*Odd"):
        load_onnx(path)


def test_networks_of_one_name(tmp_path):
    args = networks.parse_args(["--models", "vgg-11", "--onnx", str(tmp_path / "vgg-11.onnx")])
    with pytest.raises(NetworkError, match="another network is named vgg-11"):
        networks.find_networks(args)


def test_network_without_tasks():
    relu = tvm.relay.nn.relu(tvm.relay.var("data", shape=(1, 4)))
    module = tvm.relay.transform.InferType()(tvm.IRModule.from_expr(relu))
    with pytest.raises(NetworkError, match="flat has no operator"):
        Network("flat", module, {}).extract_tasks(tvm.target.Target("llvm"))


class Clock:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self):
        self.now = 0

    def perf_counter(self):
        self.now += 1
        return self.now


@pytest.fixture(autouse=True)
def fast_sketch_policy(monkeypatch):
    for name, value in FAST_SKETCH_PARAMS.items():
        monkeypatch.setitem(auto_scheduler.SketchPolicy.DEFAULT_PARAMS, name, value)


@pytest.fixture
def measurer(monkeypatch):
    monkeypatch.setattr(network_search, "time", Clock())
    with fake_measuring() as fake:
        yield fake


@pytest.fixture
def tasks(network):
    return network.extract_tasks(tvm.target.Target("llvm"))


def run_search(tasks, log, contender=CONTENDER, report=lambda progress: None):
    measure = {"builder": auto_scheduler.LocalBuilder(n_parallel=2)}
    return search(contender, *tasks, log, measure, 0, report)


@pytest.mark.parametrize("name", ["droplet.xgb", "sketch.xgb"])
def test_search_ends_with_its_time(measurer, tasks, tmp_path, name):
    log = tmp_path / "log.json"
    reported = []
    progress = run_search(
        tasks, log, Contender("any", name, 30), lambda p: reported.append(p.curve[-1])
    )
    assert progress.finished and progress.seconds >= 30
    # It ends with the round in which the time was up, and what came too late does not count.
    assert all(seconds < 30 for seconds, _, _ in progress.curve[:-1])
    num_lines = len(log.read_text().splitlines())
    assert 0 < progress.num_records <= num_lines == len(measurer.inputs)
    assert reported == progress.curve
    latencies = [latency for _, _, latency in progress.curve]
    assert latencies == sorted(latencies, reverse=True)
    assert load_progress(log).num_records == progress.num_records


@pytest.mark.parametrize("name", ["droplet.xgb", "sketch.xgb"])
def test_rounds_are_short(measurer, tasks, tmp_path, name):
    """However many trials the time is for."""
    progress = run_search(tasks, tmp_path / "log.json", Contender("any", name, 200))
    counts = [0, *(num_records for _, num_records, _ in progress.curve)]
    assert np.max(np.diff(counts)) == network_search.ROUND < 64


def test_tuned_tasks_are_counted(measurer, tasks, tmp_path):
    log = tmp_path / "log.json"
    fails = itertools.chain([True, True], itertools.repeat(False))
    measurer.fails = lambda measure_input: next(fails)
    num_records = run_search(tasks, log).num_records
    counts = [network_search.count_tuned(tasks[0], log, n) for n in (0, 2, num_records)]
    assert counts == [0, 0, 1]


def test_late_records_do_not_count(measurer, tasks, tmp_path):
    log = tmp_path / "log.json"
    progress = run_search(tasks, log, Contender("any", "sketch.xgb", 4))
    assert progress.num_records < len(measurer.inputs)


def test_search_ends_when_nothing_is_left(measurer, tasks, tmp_path):
    measurer.cost = lambda measure_input: 1e-3
    progress = run_search(tasks, tmp_path / "log.json", Contender("any", "droplet.xgb", 100000))
    assert progress.finished and progress.seconds < 100000


class Interrupted(Exception):
    pass


def run_interrupted_search(tasks, log):
    def interrupt(progress):
        if len(progress.curve) == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        run_search(tasks, log, report=interrupt)


def test_goes_on_after_an_interruption(measurer, tasks, tmp_path):
    log = tmp_path / "log.json"
    run_interrupted_search(tasks, log)
    before, records = load_progress(log), log.read_text()
    assert not before.finished and before.num_records == len(records.splitlines())
    assert len(before.curve) == 2
    first_programs = set(measurer.programs)
    measurer.inputs.clear()
    progress = run_search(tasks, log)
    assert progress.finished and progress.seconds >= CONTENDER.seconds
    assert log.read_text().startswith(records)
    assert progress.num_records > before.num_records
    assert not first_programs & set(measurer.programs)
    # Once it is finished, nothing is done again.
    measurer.inputs.clear()
    assert run_search(tasks, log) == progress
    assert not measurer.inputs


def test_goes_on_from_a_record_that_was_cut(measurer, tasks, tmp_path, caplog):
    log = tmp_path / "log.json"
    run_interrupted_search(tasks, log)
    log.write_bytes(log.read_bytes()[:-40])
    others = log.read_text().splitlines()[:-1]
    progress = run_search(tasks, log)
    assert "log.json was cut" in caplog.text
    assert progress.finished
    assert log.read_text().splitlines()[: len(others)] == others
    num_records = len(list(auto_scheduler.load_records(str(log))))
    assert progress.curve[-1][1] == num_records == len(measurer.inputs) - 1


@pytest.fixture
def one_thread(monkeypatch):
    """What waits for other threads takes long on a busy machine."""
    monkeypatch.setenv("TVM_NUM_THREADS", "1")


def test_real_run(one_thread, network, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(network_latency, "NUM_PROCESSES", 1)
    output = tmp_path / "output"
    args = networks.parse_args(["--onnx", str(tmp_path / "tiny.onnx"), "--output", str(output)])
    args.seconds = 6
    networks.hold(networks.find_networks(args), args)
    result = json.loads((output / "tiny-network.json").read_text())
    assert set(result["searches"]) == {"sketch", "droplet", "droplet-third"}
    for name in ("untuned", *result["searches"]):
        assert result["latencies"][name]["median"] > 0
    assert result["ratios"]["sketch/sketch"] == {"median": 1, "p10": 1, "p90": 1}
    text = capsys.readouterr().out
    assert "min left in all" in text and "geometric mean" in text
    assert (output / "curves.png").stat().st_size > 0

    networks.hold(networks.find_networks(args), args)
    assert "tiny: finished already" in capsys.readouterr().out
    args.seconds = 7
    with pytest.raises(SystemExit, match="name another --output"):
        networks.hold(networks.find_networks(args), args)


def test_wrong_output_is_refused(network, tmp_path):
    other = load_onnx(write_onnx(tmp_path / "other.onnx", seed=1))
    libraries = {"untuned": str(tmp_path / "untuned.so"), "wrong": str(tmp_path / "wrong.so")}
    for compiled, library in zip((network, other), libraries.values()):
        compiled.compile(tvm.target.Target("llvm")).export_library(library)
    inputs = str(tmp_path / "inputs.npz")
    np.savez(inputs, **network.random_inputs(0))
    with pytest.raises(SystemExit, match="wrong: the network is WRONG"):
        network_latency._measure({"libraries": libraries, "inputs": inputs})


QUICK_MAIN = f"""
import network_latency, networks
from tvm import auto_scheduler

network_latency.NUM_PROCESSES = 1
auto_scheduler.SketchPolicy.DEFAULT_PARAMS.update({FAST_SKETCH_PARAMS})
networks.main()
"""


def test_ctrl_c(one_thread, network, tmp_path):
    """In the second search. Ctrl-C reaches the workers, too."""
    output = tmp_path / "output"
    command = [sys.executable, "-c", QUICK_MAIN, "--onnx", str(tmp_path / "tiny.onnx")]
    command += ["--output", str(output), "--seconds", "6"]
    options = {
        "cwd": Path(networks.__file__).parent,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
    }
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        reported = next(line.split() for line in process.stdout if line.startswith("tiny droplet "))
        os.killpg(process.pid, signal.SIGINT)
        text = process.stdout.read()
    assert process.returncode == 130
    assert "Interrupted: the same command goes on" in text
    logs = [output / "records" / f"tiny-{name}.json" for name in ("sketch", "droplet")]
    sketch, droplet = (log.read_text() for log in logs)
    # All that was measured by then.
    assert len(droplet.splitlines()) >= int(reported[2]) > 0

    done = subprocess.run(command, check=False, **options)
    assert done.returncode == 0, done.stdout
    assert "tiny sketch " not in done.stdout
    assert logs[0].read_text() == sketch
    assert logs[1].read_text().startswith(droplet)
    assert (output / "tiny-network.json").exists()


def test_report_without_results(tmp_path):
    with pytest.raises(SystemExit, match="does not hold the results of any network"):
        network_report.write(tmp_path)
    (tmp_path / "odd-network.json").write_text("{}")
    with pytest.raises(SystemExit, match="odd-network.json does not hold"):
        network_report.write(tmp_path)
