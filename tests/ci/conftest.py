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
"""What the tests of the scripts share: trees of the release, and pictures of trees."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PRISTINE = BUILD / "pristine"
OVERLAY = BUILD / "tvm"
sys.path.insert(0, str(ROOT / "ci"))


def picture(tree: Path) -> dict:
    """All that a tree holds but Git's own: content and mode by path, None for a folder."""
    found = {}
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if name.split("/")[0] != ".git":
            mode = path.lstat().st_mode
            found[name] = (path.read_bytes(), mode) if path.is_file() else (None, mode)
    return found


def git(tree: Path, *arguments: str) -> str:
    """Run Git in a tree, as a user without settings, and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def make_repository(tree: Path) -> None:
    """Make a Git repository of a tree, with the one commit that its users have."""
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "Release v0.19.0")


@pytest.fixture
def plain_tree(tmp_path):
    """The part of the release that the patch set has to do with, as a plain tree."""
    assert PRISTINE.is_dir(), f"no {PRISTINE}: build first"
    tree = tmp_path / "tvm"
    for folder in (
        "src/auto_scheduler/search_policy",
        "python/tvm/auto_scheduler",
        "python/tvm/meta_schedule/search_strategy",
        "python/tvm/driver/tvmc",
        "python/tvm/rpc",
        "python/tvm/_ffi",
    ):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PRISTINE / folder, tree / folder, ignore=ignored)
    shutil.copy2(PRISTINE / "CMakeLists.txt", tree)
    return tree


@pytest.fixture
def git_tree(plain_tree):
    """The same as a Git checkout."""
    make_repository(plain_tree)
    return plain_tree
