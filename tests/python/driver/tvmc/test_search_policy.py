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
"""Test that `tvmc tune` takes the search policy of the AutoScheduler by name."""

import json

import pytest

import tvm.testing
from tvm import auto_scheduler, relay
from tvm.driver.tvmc.main import _main


@pytest.fixture
def tune(tmp_path):
    """Tune a convolution with further arguments. Returns the exit code."""
    model = tmp_path / "conv2d.relay"
    data, weight = relay.var("data", shape=(1, 4, 8, 8)), relay.var("weight", shape=(8, 4, 3, 3))
    conv2d = relay.nn.conv2d(data, weight, padding=1, channels=8, kernel_size=3)
    model.write_text(tvm.IRModule.from_expr(conv2d).astext())
    log = tmp_path / "log.json"

    def run(*arguments):
        return _main(
            ["tune", "--target", "llvm", "--input-shapes", "data:[1,4,8,8]", "--trials", "12"]
            + ["--number", "1", "--output", str(log), *arguments, str(model)]
        )

    run.log = log
    return run


@pytest.fixture
def searched(monkeypatch):
    """The policies that TaskScheduler is asked for, instead of searching."""
    names = []

    def record(self, tune_option, search_policy="default", **_):
        names.append(search_policy)

    monkeypatch.setattr(auto_scheduler.TaskScheduler, "tune", record)
    return names


@pytest.mark.parametrize("name", ["droplet.xgb", "droplet.random", "sketch.random"])
def test_name_reaches_the_task_scheduler(tune, searched, name):
    assert not tune("--enable-autoscheduler", "--search-policy", name)
    assert searched == [name]


def test_default(tune, searched):
    assert not tune("--enable-autoscheduler")
    assert searched == ["default"]


def test_rejected_without_the_autoscheduler(tune, capsys):
    assert tune("--search-policy", "droplet.xgb") == 4
    error = capsys.readouterr().err
    assert "Add --enable-autoscheduler" in error and "droplet.xgb" in error
    assert not tune.log.exists()


def test_unknown_name(tune, capsys):
    with pytest.raises(SystemExit):
        tune("--enable-autoscheduler", "--search-policy", "droplet")
    assert "invalid choice: 'droplet'" in capsys.readouterr().err


def test_help(capsys):
    with pytest.raises(SystemExit):
        _main(["tune", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "--search-policy {sketch.xgb,sketch.random,droplet.xgb,droplet.random}" in text
    assert "'droplet' explores a quarter of the trials like that, then descends" in text


@tvm.testing.requires_llvm
def test_real_search(tune, capfd):
    assert not tune("--enable-autoscheduler", "--search-policy", "droplet.random")
    assert "Descent 1" in capfd.readouterr().out
    records = [json.loads(line) for line in tune.log.read_text().splitlines()]
    assert 0 < len(records) <= 12
    assert any(record["r"][1] == 0 for record in records)


if __name__ == "__main__":
    tvm.testing.main()
