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

import copy
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import ansor_searches
import replay
from measured_space import MeasuredSpace, key_of

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.measure import BuildResult

VARIANTS = ("default", "no-prior")
NUM_TRIALS = 20
OTHER_CPU = "skylake"
OTHER_TARGET = f"llvm -mcpu={OTHER_CPU}"


def run_one(measured):
    """Some programs fail, and the latency of others follows from their text."""
    number = sum(str(measured.state).encode())
    if number % 7 == 0:
        return auto_scheduler.MeasureResult([1e10], 4, "no", 0.0, 0.0)
    return auto_scheduler.MeasureResult([1e-3 + 1e-6 * (number % 997)], 0, "", 0, 0)


@pytest.fixture(scope="module")
def measured():
    """Candidates are neither built nor run. The list of those that would have been."""
    programs = []

    def build(inputs, *_):
        return [BuildResult("", [], 0, "", 0.0) for _ in inputs]

    def run(inputs, *_):
        programs.extend(str(one.state) for one in inputs)
        return [run_one(one) for one in inputs]

    originals = {path: tvm.get_global_func(path) for path in ansor_searches.MEASURING.values()}
    for path, function in zip(originals, (build, run)):
        tvm.register_func(path, function, override=True)
    with pytest.MonkeyPatch.context() as patch:
        defaults = auto_scheduler.SketchPolicy.DEFAULT_PARAMS
        patch.setitem(defaults, "evolutionary_search_population", 64)
        patch.setitem(defaults, "sample_init_min_population", 8)
        patch.setattr(replay, "detect_target", lambda: tvm.target.Target("llvm"))
        patch.setattr(replay, "keep_workers", lambda: None)
        yield programs
    for path, function in originals.items():
        tvm.register_func(path, function, override=True)


@pytest.fixture(scope="module")
def made(measured, tmp_path_factory):
    """The text of a space that was begun and descended through, and the outcomes."""
    path = tmp_path_factory.mktemp("made") / "new" / "space.json"
    space = open_space(path, "--kernel", "matmul", "--explore", 8)
    outcomes = [descend(space, variant) for variant in VARIANTS]
    assert 8 + NUM_TRIALS <= len(measured) == 8 + space.num_measured
    assert space.num_measured < sum(outcome.num_trials for outcome in outcomes)  # they share some
    return path.read_text(), outcomes


@pytest.fixture
def path(made, tmp_path):
    """A copy of the space."""
    copied = tmp_path / "space.json"
    copied.write_text(made[0])
    return copied


def parse(path, *words):
    options = ["--trials", NUM_TRIALS, "--seeds", 0, "--variants", *VARIANTS, *words]
    return replay.parse_args([str(path), *map(str, options)])


def open_space(path, *words):
    return replay.open_space(parse(path, *words))


def descend(space, variant):
    return replay.Descent(space, replay.VARIANTS[variant], 0).run(NUM_TRIALS)


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_space_holds_all_that_was_measured(made):
    content = json.loads(made[0])
    assert content["kernel"] == "matmul"
    assert content["shapes"] == [[512, 512], [512, 512]]
    assert content["machine"]["target"] == str(tvm.target.Target("llvm"))
    assert content["machine"]["cpu"]
    assert len(content["records"]) == 8
    samples = content["samples"].values()
    assert None in sum(samples, [])
    assert {len(own) for own in samples} == {1, 2}  # some were confirmed


def test_offline_is_the_same_without_measuring(made, measured, path):
    measured.clear()
    space = open_space(path, "--offline")
    for variant, before in zip(VARIANTS, made[1]):
        after = descend(space, variant)
        assert after.curve == before.curve
        assert after.converged == before.converged
        assert after.num_missing == 0
        assert 0 < after.num_trials <= NUM_TRIALS
    assert measured == []
    assert path.read_text() == made[0]


def test_report(made, path, capsys):
    replay.replay(parse(path, "--variants", "no-prior"))
    output = capsys.readouterr().out
    best = made[1][1].curve[-1][1]
    assert f"no-prior   seed 0: {best * 1e3:8.4f} ms after {NUM_TRIALS} trials, 0 of" in output
    assert "| after 16 | after 20 |" in output
    assert "\n0 samples measured, " in output


def test_missing_program_is_measured_online(made, measured, path):
    space = open_space(path, "--offline")
    batch = replay.Descent(space, replay.VARIANTS["no-prior"], 0).propose(8)
    text, _, nth = batch[-1][1]
    assert nth == 0
    lost = space.samples[key_of(text)]
    edit(path, lambda content: content["samples"].pop(key_of(text)))

    assert descend(open_space(path, "--offline"), "no-prior").num_missing >= 1

    measured.clear()
    space = open_space(path)
    outcome = descend(space, "no-prior")
    assert outcome.curve == made[1][1].curve
    assert outcome.num_missing == 0
    assert set(measured) == {text}
    assert space.num_measured == len(measured)
    added = MeasuredSpace.read(path).samples[key_of(text)]
    assert added == lost[: len(measured)]


def test_nothing_known_offline(path):
    edit(path, lambda content: content["samples"].clear())
    outcome = descend(open_space(path, "--offline"), "no-prior")
    assert outcome.num_trials == 0
    assert outcome.num_missing > 0
    assert outcome.converged


def test_program_of_another_point_is_a_wall(path):
    descent = replay.Descent(open_space(path, "--offline"), replay.VARIANTS["no-prior"], 0)
    _, point, *_ = descent.walk.ask(8)  # the first one is the start
    descent.points[str(descent.coordinates.state_at(point))] = descent.coordinates.origin
    assert descent.sample_wanted(point) is None
    assert tuple(point) not in descent.num_samples
    descent.walk.withdraw()
    assert point not in descent.walk.ask(1000)


def test_table():
    outcomes = {
        "slow": [replay.Outcome([(0, 2.0), (8, 1.0), (20, 0.5)], True, 0.02, 3)] * 2,
        "fast": [
            replay.Outcome([(0, 2.0), (16, 0.8), (40, 0.4)], False, 0.4),
            replay.Outcome([(0, 2.0), (16, 0.2), (40, 0.1)], True, 0.4),
        ],
    }
    rows = [line.replace(" ", "") for line in replay.table(outcomes, 2.0, 40)]
    assert rows[0].startswith("|variant|after16|after32|after40|")
    assert rows[2:] == [
        "|fast|0.200|0.200|0.100|>40|10.0|0|",
        "|slow|0.500|0.250|0.250|20.0|1.0|6|",
    ]


def refusal(*words):
    with pytest.raises(SystemExit) as error:
        replay.open_space(parse(*words))
    assert isinstance(error.value.code, str)
    assert "\n" not in error.value.code
    return error.value.code


@pytest.mark.parametrize(
    "field, value, reason",
    [
        ("kernel", "nothing", "its kernel is nothing, not one of matmul, "),
        ("kernel", "softmax", r"its shapes are .* but those of softmax are \[\[1024, 1024\]\]"),
        ("machine", {"cpu": "a CPU"}, "its machine needs the fields cpu, threads, target"),
        ("machine", {"cpu": "", "threads": 1, "target": "nothing"}, "its target is nothing"),
        ("machine", {"cpu": "", "threads": 1, "target": OTHER_TARGET}, "a record of the target"),
        ("records", None, "its records are not a list"),
        ("records", [], "none of its records is of a program that ran"),
        ("records", ["{}"], "its record {} cannot be read"),
        ("records", ["nothing"], "its record nothing cannot be read"),
        ("records", ['{"i": [['], "its record .* cannot be read"),
        ("records", [1], "its record 1 cannot be read"),
        ("samples", [], "its samples are not a dictionary"),
        ("samples", {"0": [1e-3, "1"]}, "the samples of 0 are .* not positive numbers or null"),
        ("samples", {"0": [-1.0]}, "the samples of 0 are"),
    ],
)
def test_bad_content_is_refused(path, field, value, reason):
    edit(path, lambda content: content.update({field: copy.deepcopy(value)}))
    message = refusal(path, "--offline")
    assert message.startswith(f"{path} does not hold a measured space: ")
    pytest.raises(SystemExit, open_space, path, "--offline").match(reason)


def test_bad_file_is_refused(path, tmp_path):
    for text, reason in [("{", "it is not JSON"), ("[]", "it needs the fields kernel, shapes")]:
        path.write_text(text)
        assert f"{path} does not hold a measured space: {reason}" in refusal(path, "--offline")
    assert f"{tmp_path} cannot be read: Is a directory." in refusal(tmp_path, "--offline")


def test_wrong_space_is_refused(measured, path, tmp_path, monkeypatch):
    new = tmp_path / "new.json"
    assert f"{new} does not exist: begin it with" in refusal(new)
    begin = ("--kernel", "matmul", "--explore", "8")
    assert f"{path} exists already" in refusal(path, *begin)
    assert "is a space of matmul, not of relu." in refusal(path, "--kernel", "relu")
    monkeypatch.setattr(replay, "detect_target", lambda: tvm.target.Target(OTHER_TARGET))
    message = refusal(path)
    assert "only --offline can replay it here" in message
    assert OTHER_CPU in message
    open_space(path, "--offline")


def test_contradicting_options_are_refused(path, capsys):
    for words in (["--explore", "8"], ["--explore", "8", "--kernel", "matmul", "--offline"]):
        with pytest.raises(SystemExit):
            parse(path, *words)
        assert "--explore N needs --kernel NAME, and no --offline" in capsys.readouterr().err


def test_interrupted_write_leaves_the_old_file(made, measured, path, monkeypatch):
    space = open_space(path)
    space.samples.clear()
    write = Path.write_text

    def write_half(self, text):
        write(self, text[: len(text) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises(OSError, match="no space left"):
        descend(space, "no-prior")
    monkeypatch.undo()
    assert path.read_text() == made[0]
    open_space(path, "--offline")
