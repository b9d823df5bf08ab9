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
"""Test the kernels of the benchmarks, and their contests without building or running candidates."""

import importlib
import itertools
import json
import sys
from dataclasses import asdict
from pathlib import Path
from unittest.mock import MagicMock

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import ansor_searches
import contest
import contest_report
import kernels
import machine
import meta_searches
import winners
from workloads import KERNELS, relative_error

import numpy as np
import tvm
from tvm import auto_scheduler
from tvm import meta_schedule as ms
from tvm.auto_scheduler.measure import BuildResult

LLVM = tvm.target.Target("llvm")
SETTINGS = contest.Settings("auto", explore_trials=6, descend_trials=20, rival_trials=70)
META_SETTINGS = contest.Settings("meta", explore_trials=6, descend_trials=10, rival_trials=20)


def trial(seconds, latency):
    return {"seconds": seconds, "latency": latency, "error_no": 0 if latency else 2}


def ratio(value):
    return {"median": value, "p10": value / 2, "p90": value * 2}


def make_result(kernel="matmul", seed=0, value=0.5, settings=SETTINGS, rival="sketch"):
    """The results of a contest in which droplet ends after 100 s."""
    split = {"search": 1.0, "build": 2.0, "run": 3.0, "train": 4.0}
    droplet = [trial(10, None), trial(50, 4e-3), trial(70, 3e-3), trial(100, 1e-3)]
    sketch = [trial(20, 5e-3), trial(65, 2e-3), trial(200, 1.5e-3)]
    names = ("droplet", rival, f"{rival}@droplet", f"{rival}+")
    return {
        "kernel": kernel,
        "description": "",
        "seed": seed,
        "settings": asdict(settings),
        "machine": {"cpu": "a CPU", "threads": 2, "target": "llvm"},
        "versions": {"commit": "unknown"},
        "contenders": {
            "droplet": {
                "seconds": 100,
                "split": {"explore": split, "descend": split},
                "trials": droplet,
                "explored": 2,
            },
            rival: {"seconds": 200, "split": {"all": split}, "trials": sketch},
            f"{rival}+": {"seconds": 120, "split": {"all": split}, "trials": []},
        },
        "winners": {name: {"latency": 1e-3, "ratio": ratio(value)} for name in names},
    }


def keep(folder, result):
    path = folder / contest_report.file_name(result["kernel"], result["seed"])
    path.write_text(json.dumps(result))


@pytest.mark.parametrize("name", KERNELS)
def test_reference(name):
    kernel = KERNELS[name]
    dag = kernel.task(LLVM).compute_dag
    arrays = kernel.random_inputs(0)
    expected = kernel.reference(*arrays)
    assert [array.shape for array in arrays] == list(kernel.shapes)
    assert expected.dtype == "float32"
    buffers = [tvm.nd.array(array) for array in (*arrays, np.full_like(expected, np.nan))]
    tvm.build(*dag.apply_steps_from_state(dag.get_init_state()), target=LLVM)(*buffers)
    assert relative_error(buffers[-1].numpy(), expected) < 1e-5


def test_relative_error_of_not_a_number_is_not_small():
    assert not relative_error(np.array([1.0, np.nan]), np.ones(2)) < 1e-4


def test_geometric_mean():
    assert contest_report.geometric_mean([0.5, 2, 8]) == pytest.approx(2)
    assert contest_report.mean_over_kernels({"a": [1, 4], "b": [8]}) == "4.000"
    assert contest_report.mean_over_kernels({}) == "-"


def test_best_so_far():
    trials = [trial(1, None), trial(2, 5.0), trial(2, 3.0), trial(4, 4.0), trial(5, None)]
    seconds, best = contest_report.best_so_far(trials)
    assert list(seconds) == [1, 2, 4, 5]
    assert list(best) == [np.inf, 3, 3, 3]
    assert list(contest_report.best_so_far(trials, start=4.0)[1]) == [4, 3, 3, 3]


def test_worst_ratio_at_equal_times():
    droplet = [trial(10, 8.0), trial(30, 2.0)]
    sketch = [trial(5, 16.0), trial(20, 4.0), trial(50, 1.0)]
    for begin, end, expected in [
        (0, 15, np.inf),  # sketch has a candidate before droplet does
        (10, 19, 0.5),
        (10, 20, 2.0),
        (25, 25, 2.0),
        (30, 49, 0.5),
        (30, 60, 2.0),  # droplet keeps its last value
        (60, 59, None),
        (0, 4, None),
    ]:
        assert contest_report.worst_ratio(droplet, sketch, begin, end) == expected


def test_equal_times_count_from_a_minute_on():
    # 4/5 before the minute, 4/2 at 65 s, 3/2 at 70 s, 1/2 at last.
    assert contest_report.equal_time_ratios(make_result()) == [2.0, 2.0]
    result = make_result()
    result["contenders"]["droplet"]["seconds"] = 59
    assert contest_report.equal_time_ratios(result)[0] is None


def test_ratios_are_of_the_same_round():
    samples = {"droplet": [[1.0, 2.0], [4.0, 8.0]], "sketch": [[2.0, 4.0], [8.0, 16.0]]}
    records = {"droplet": "1", "sketch@droplet": None, "sketch": "2"}
    summary = winners.summarize(samples, records)
    assert summary["droplet"]["ratio"] == {"median": 1, "p10": 1, "p90": 1}
    assert summary["sketch"]["ratio"] == {"median": 0.5, "p10": 0.5, "p90": 0.5}
    assert summary["sketch"]["latency"] == 6
    assert summary["sketch@droplet"] is None


def test_report(tmp_path, capsys):
    results = [make_result(), make_result("softmax", 0, 0.25), make_result("softmax", 1, 1.0)]
    results[0]["winners"]["sketch@droplet"] = None
    for result in results:
        path = tmp_path / f"{result['kernel']}-seed{result['seed']}.json"
        path.write_text(json.dumps(result))
    contest_report.write(tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert text in capsys.readouterr().out + "\n"
    mean = next(line for line in text.splitlines() if "geometric mean" in line)
    assert [cell.strip() for cell in mean.split("|")[-4:-1]] == ["0.500"] * 3
    assert "0.250 / 0.625 / 1.000" in text
    assert "logged latencies, not re-measured" in text
    assert "1 + 0" in text  # failed candidates of droplet
    header, _, row = text.partition("What the searches took")[2].splitlines()[2:5]
    assert [line.split("|")[-2].strip() for line in (header, row)] == ["sketch@droplet trials", "2"]
    for name in ("curves.png", "ratios.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_report_of_meta_schedule(tmp_path):
    result = make_result(settings=META_SETTINGS, rival="evolution")
    (tmp_path / "matmul-seed0.json").write_text(json.dumps(result))
    contest_report.write(tmp_path)
    text = (tmp_path / "table.md").read_text()
    assert "droplet/evolution@droplet" in text
    assert "evolution: EvolutionarySearch" in text
    assert "droplet train" in text
    assert "sketch" not in text


@pytest.mark.parametrize("name", ["settings", "machine"])
def test_contests_that_do_not_compare_are_not_reported(tmp_path, name):
    keep(tmp_path, make_result())
    other = make_result(seed=1)
    other[name] = {**other[name], next(iter(other[name])): "another"}
    keep(tmp_path, other)
    with pytest.raises(SystemExit, match=f"has contests whose {name} differ: .*another"):
        contest_report.write(tmp_path)


def test_report_needs_results(tmp_path):
    with pytest.raises(SystemExit, match="does not hold the results of any contest"):
        contest_report.write(tmp_path)
    (tmp_path / "matmul-seed0.json").write_text("{")
    with pytest.raises(SystemExit, match=r"matmul-seed0\.json does not hold"):
        contest_report.write(tmp_path)


@pytest.mark.parametrize("field", sorted(contest_report.FIELDS))
def test_report_needs_whole_results(tmp_path, field):
    result = make_result()
    del result[field]
    (tmp_path / "matmul-seed0.json").write_text(json.dumps(result))
    with pytest.raises(SystemExit, match=r"matmul-seed0\.json does not hold"):
        contest_report.write(tmp_path)


def test_copied_contest_does_not_count(tmp_path):
    (tmp_path / "matmul-seed1.json").write_text(json.dumps(make_result()))
    with pytest.raises(SystemExit, match=r"matmul-seed1\.json holds .* to matmul-seed0\.json"):
        contest_report.write(tmp_path)


def test_results_that_cannot_be_read(tmp_path):
    (tmp_path / "matmul-seed0.json").mkdir()
    with pytest.raises(SystemExit, match=r"matmul-seed0\.json cannot be read: Is a directory"):
        contest_report.write(tmp_path)


def parse(folder, *words, settings=SETTINGS):
    trials = itertools.chain(
        *((f"--{key.replace('_', '-')}", str(value)) for key, value in asdict(settings).items())
    )
    return kernels.parse_args(["--output", str(folder), *trials, *words])


def test_finished_contests_are_skipped(tmp_path, capsys):
    (tmp_path / "matmul-seed1.json").write_text(json.dumps(make_result(seed=1)))
    args = parse(tmp_path, "--kernels", "matmul", "relu", "--seeds", "0", "1")
    assert [contest[:2] for contest in kernels.contests_to_hold(args)] == [
        ("matmul", 0),
        ("relu", 0),
        ("relu", 1),
    ]
    assert "matmul, seed 1: finished already" in capsys.readouterr().out


@pytest.mark.parametrize("option, value", [("--rival-trials", "71"), ("--target", "opencl")])
def test_contests_with_other_settings_are_refused(tmp_path, option, value):
    keep(tmp_path, make_result("relu"))  # of whatever kernel
    args = parse(tmp_path, option, value, "--kernels", "matmul")
    message = rf"has contests with .* not with .*{value}.*: name another --output"
    with pytest.raises(SystemExit, match=message):
        kernels.contests_to_hold(args)


def test_folder_of_another_machine_is_refused(tmp_path, monkeypatch):
    here = make_result()["machine"]
    kernels.check_machine(tmp_path, here)
    keep(tmp_path, make_result())
    kernels.check_machine(tmp_path, here)
    monkeypatch.setattr(kernels, "hold_contest", lambda *_: pytest.fail("It is held."))
    monkeypatch.setattr(kernels, "use_all_cores", lambda: 2)  # it outlasts this test
    args = parse(tmp_path, "--kernels", "relu")
    with pytest.raises(SystemExit, match="has contests of another machine, .*: name another"):
        kernels.hold(kernels.contests_to_hold(args), args)


def test_a_failure_ends_one_contest_only(tmp_path, monkeypatch, capsys):
    def hold_contest(kernel, *_):
        if kernel.name == "matmul":
            raise winners.MeasureFailed("they crash")
        return make_result(kernel.name)

    monkeypatch.setattr(kernels, "hold_contest", hold_contest)
    for name in ("keep_workers", "use_all_cores"):  # they outlast this test
        monkeypatch.setattr(kernels, name, lambda: 2)
    monkeypatch.setattr(kernels.signal, "signal", lambda *_: None)
    args = parse(tmp_path, "--kernels", "matmul", "relu")
    with pytest.raises(SystemExit, match="No result of matmul with seed 0"):
        kernels.hold(kernels.contests_to_hold(args), args)
    assert "matmul, seed 0: they crash" in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("*.json")] == ["relu-seed0.json"]


def test_a_script_that_fails(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit(3)")
    with pytest.raises(winners.MeasureFailed, match="could not be measured again"):
        winners.run_in_process(str(script), {})


@pytest.fixture
def onednn(monkeypatch):
    for name in ("torch", "torch.nn"):  # which need not be there
        monkeypatch.setitem(sys.modules, name, MagicMock(__version__="2"))
    for name in ("onednn", "onednn_latency"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("onednn")


def test_onednn_is_compared_on_the_same_machine(tmp_path, onednn):
    without_rival = make_result("softmax")
    without_rival["winners"]["sketch"] = None
    for result in (make_result(), make_result("relu"), without_rival):
        keep(tmp_path, result)
    here = without_rival["machine"]
    compared = onednn.contests_to_compare(tmp_path, here)
    assert [result["kernel"] for result in compared] == ["matmul"]
    with pytest.raises(SystemExit, match="matmul was held on another machine, or .*another CPU"):
        onednn.contests_to_compare(tmp_path, {**here, "cpu": "another CPU"})


def test_onednn_goes_on_after_a_failure(tmp_path, monkeypatch, onednn):
    def compare(result, _):
        if result["kernel"] == "matmul":
            raise winners.MeasureFailed("it crashes")
        return {"droplet": [1e-3], "sketch": [2e-3], "pytorch": [4e-3]}

    for name in ("matmul", "softmax"):
        keep(tmp_path, make_result(name))
    origin = {"machine": make_result()["machine"], "versions": {}}
    monkeypatch.setattr(onednn, "describe_origin", lambda *_: origin)
    monkeypatch.setattr(onednn.machine, "use_all_cores", lambda: 2)  # it outlasts this test
    monkeypatch.setattr(onednn, "compare", compare)
    monkeypatch.setattr(sys, "argv", ["onednn.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="Not compared: matmul, seed 0"):
        onednn.main()
    text = (tmp_path / "onednn.md").read_text()
    assert "matmul" not in text
    assert text.splitlines()[-1].split("|")[-2].strip() == "0.250"


def test_gpu_without_a_runtime(monkeypatch):
    monkeypatch.setattr(tvm.runtime, "enabled", lambda kind: False)
    with pytest.raises(SystemExit, match="without its opencl runtime: cmake --preset opencl"):
        machine.detect_gpu("opencl")


def pose_as_gpu(monkeypatch, **attributes):
    """Let each device have attributes, and TVM and nvcc be there for it."""
    monkeypatch.setattr(tvm.runtime, "enabled", lambda kind: True)
    monkeypatch.setattr(machine.shutil, "which", lambda name: name)
    for name, value in attributes.items():
        get = value if callable(value) else lambda _, value=value: value
        monkeypatch.setattr(tvm.runtime.Device, name, property(get))


def without_driver(_):
    raise tvm.TVMError("Error! Cannot open libOpenCL!")


@pytest.mark.parametrize("kind", machine.GPU_TARGETS)
@pytest.mark.parametrize("exist", [False, without_driver])
def test_gpu_that_is_not_there(monkeypatch, kind, exist):
    pose_as_gpu(monkeypatch, exist=exist)
    with pytest.raises(SystemExit, match=f"no {kind} device, or no driver"):
        machine.detect_gpu(kind)


def test_cuda_without_nvcc(monkeypatch):
    pose_as_gpu(monkeypatch, exist=True)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="nvcc, which is not in PATH"):
        machine.detect_gpu("cuda")


@pytest.mark.parametrize("kind, arch, warp_size", [("cuda", "sm_86", 32), ("opencl", "", 1)])
def test_meta_schedule_can_search_for_a_gpu(monkeypatch, tmp_path, kind, arch, warp_size):
    """The target says what MetaSchedule asks for before there is a candidate."""
    pose_as_gpu(
        monkeypatch,
        exist=True,
        compute_version="8.6",
        max_shared_memory_per_block=49152,
        max_threads_per_block=1024,
        warp_size=32,
    )
    monkeypatch.setattr(meta_searches, "Measurer", lambda *args: None)  # it would start processes
    target = machine.detect_gpu(kind)
    assert (target.arch, target.thread_warp_size) == (arch, warp_size)
    searches = meta_searches.MetaSearches(KERNELS["softmax"], target, 0, META_SETTINGS, 2, {})
    replay = ms.search_strategy.ReplayTrace()
    context = searches.search(replay, 4, tmp_path / "log.json", keep=None).context
    context.pre_tuning(4)
    assert len(context.generate_measure_candidates()) == 4


def test_options(tmp_path):
    args = kernels.parse_args(["--output", str(tmp_path)])
    assert args.settings == contest.Settings("auto", 48, 80, 512)
    assert len(args.kernels) == 8
    args = kernels.parse_args(["--output", str(tmp_path), "--scheduler", "meta"])
    assert args.settings == contest.Settings("meta", 64, 128, 512)
    args = kernels.parse_args(["--output", str(tmp_path), "--quick", "--rival-trials", "7"])
    assert args.settings == contest.Settings("auto", 16, 32, 7)
    assert args.kernels == ["matmul", "softmax"]


@pytest.mark.parametrize("words, folder", [((), "kernels"), (("--quick",), "kernels-quick")])
def test_quick_contests_have_their_own_folder(tmp_path, monkeypatch, words, folder):
    monkeypatch.chdir(tmp_path)
    assert kernels.parse_args(words).output == Path("build") / folder
    assert Path("build", folder).is_dir()


@pytest.mark.parametrize("seed", ["-1", "2147483647", "1.5"])
def test_seeds_that_policies_refuse(tmp_path, capsys, seed):
    with pytest.raises(SystemExit):
        kernels.parse_args(["--output", str(tmp_path), "--seeds", "0", seed])
    assert f"from 0 to 2147483646, but it is {seed}" in capsys.readouterr().err


def test_explores_no_more_than_the_strategy_does(tmp_path, capsys):
    options = ["--output", str(tmp_path), "--scheduler", "meta", "--descend-trials", "100"]
    kernels.parse_args([*options, "--explore-trials", "60"])
    with pytest.raises(SystemExit):
        kernels.parse_args([*options, "--explore-trials", "61"])
    assert "--explore-trials is 61, but DropletSearch spends" in capsys.readouterr().err


@pytest.fixture
def measuring():
    """Candidates are neither built nor run: a latency follows from the text of the program, and
    each seventh fails."""
    originals = {path: tvm.get_global_func(path) for path in ansor_searches.MEASURING.values()}
    counter = itertools.count(1)

    def build(inputs, *_):
        return [BuildResult("", [], 0, "", 0.0) for _ in inputs]

    def run(inputs, *_):
        return [run_one(measured) for measured in inputs]

    def run_one(measured):
        if next(counter) % 7 == 0:
            return auto_scheduler.MeasureResult([1e10], 4, "no", 0.0, 0.0)
        text = str(measured.state)
        return auto_scheduler.MeasureResult([1e-3 + 1e-6 * (sum(text.encode()) % 997)], 0, "", 0, 0)

    for path, function in zip(originals, (build, run)):
        tvm.register_func(path, function, override=True)
    yield
    for path, function in originals.items():
        tvm.register_func(path, function, override=True)


def test_contest(measuring, tmp_path, monkeypatch):
    for name, value in (("evolutionary_search_population", 64), ("sample_init_min_population", 8)):
        monkeypatch.setitem(auto_scheduler.SketchPolicy.DEFAULT_PARAMS, name, value)
    asked = {}

    def measure_again(kernel, target, seed, scheduler, records):
        asked.update(records)
        return {name: [[1.0]] for name, record in records.items() if record is not None}

    monkeypatch.setattr(winners, "measure_again", measure_again)
    monkeypatch.setattr(kernels, "detect_target", lambda: LLVM)
    args = parse(tmp_path, "--kernels", "matmul")
    kernels.hold(kernels.contests_to_hold(args), args)

    result = json.loads((tmp_path / "matmul-seed0.json").read_text())
    assert result["settings"] == asdict(SETTINGS)
    droplet, sketch, continued = (
        result["contenders"][name] for name in ("droplet", "sketch", "sketch+")
    )
    assert len(sketch["trials"]) == 70
    assert droplet["explored"] == 6
    num_descended = len(droplet["trials"]) - 6
    assert 0 < num_descended <= 20
    assert len(continued["trials"]) == num_descended
    assert set(droplet["split"]) == {"explore", "descend"}
    assert continued["start"] == droplet["trials"][5]["seconds"]
    for contender in (droplet, sketch, continued):
        times = [trial["seconds"] for trial in contender["trials"]]
        assert times == sorted(times)
        spent = sum(sum(phase.values()) for phase in contender["split"].values())
        assert contender["seconds"] == pytest.approx(contender["start"] + spent)
    failed = [trial for trial in sketch["trials"] if trial["latency"] is None]
    assert failed
    assert all(trial["error_no"] == 4 for trial in failed)

    logs = {
        name: (tmp_path / "records" / f"matmul-seed0-{name}.json").read_text().splitlines()
        for name in ("droplet", "sketch", "sketch+", "sketch+.explored")
    }
    assert logs["sketch+.explored"] == logs["droplet"][:6]
    assert len(logs["sketch+"]) == num_descended
    for name, known in [
        ("droplet", logs["droplet"]),
        ("sketch", logs["sketch"]),
        ("sketch+", logs["sketch+.explored"] + logs["sketch+"]),
    ]:
        assert cost_of(asked[name]) == min(map(cost_of, known))
        assert asked[name] in known
    assert kernels.contests_to_hold(args) == []


def test_contest_of_meta_schedule(tmp_path, monkeypatch):
    """Candidates are neither built nor run, and each seventh fails. The winners are measured."""
    counter = itertools.count(1)

    def measure(_, candidates, target):
        assert int(target.attrs["num-cores"]) > 0
        return [run_one(candidate) for candidate in candidates]

    def run_one(candidate):
        if next(counter) % 7 == 0:
            return ms.runner.RunnerResult(None, "no")
        latency = 1e-3 + 1e-6 * (tvm.ir.structural_hash(candidate.sch.mod) % 997)
        return ms.runner.RunnerResult([latency], None)

    monkeypatch.setattr(meta_searches.Measurer, "measure", measure)
    monkeypatch.setattr(winners, "NUM_PROCESSES", 1)
    monkeypatch.setattr(kernels, "detect_target", lambda: LLVM)
    args = parse(tmp_path, "--kernels", "softmax", settings=META_SETTINGS)
    kernels.hold(kernels.contests_to_hold(args), args)

    result = json.loads((tmp_path / "softmax-seed0.json").read_text())
    evolution, droplet, continued = (
        result["contenders"][name] for name in ("evolution", "droplet", "evolution+")
    )
    assert len(evolution["trials"]) == 20
    assert droplet["explored"] == 6
    num_descended = len(droplet["trials"]) - 6
    assert 0 < num_descended <= 10
    assert 0 < len(continued["trials"]) <= num_descended
    assert set(droplet["split"]) == {"explore", "descend"}
    assert any(trial["error_no"] for trial in evolution["trials"])
    for name in ("evolution", "droplet", "evolution+"):
        log = (tmp_path / "records" / f"softmax-seed0-{name}.json").read_text().splitlines()
        trials = result["contenders"][name]["trials"]
        costs = [json.loads(record)[1][1] for record in log[len(log) - len(trials) :]]
        assert costs == [[trial["latency"] or meta_searches.FAILED] for trial in trials]
        assert np.all(np.array(result["winners"][name]["samples"]) > 0)


def cost_of(record):
    return json.loads(record)["r"][0][0]
