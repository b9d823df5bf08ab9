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
"""The exported series makes of the release what the overlay makes of it."""

import subprocess
from pathlib import Path

from conftest import OVERLAY, PRISTINE, ROOT, git
from patchset import PatchSet

SCRIPT = ROOT / "ci" / "export_series.sh"
COMPARED = ("src", "python", "tests")


def export(folder: Path) -> list:
    """The mails that the script writes."""
    subprocess.run([SCRIPT, folder], check=True, stdin=subprocess.DEVNULL)
    return sorted(folder.iterdir())


def apply_series(tree: Path, folder: Path) -> list:
    """Apply an exported series to a checkout and return the new commits, oldest first."""
    release = git(tree, "rev-parse", "HEAD").strip()
    printed = git(tree, "am", "--keep-non-patch", *map(str, export(folder)))
    assert "warning" not in printed
    return git(tree, "rev-list", "--reverse", f"{release}..HEAD").split()


def files(tree: Path) -> set:
    """The paths of the files that a checkout holds where the patch set works."""
    return {
        path.relative_to(tree).as_posix()
        for folder in COMPARED
        for path in (tree / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def changed(tree: Path) -> dict:
    """The files of a tree that are new or other than in the release, by path."""
    texts = {path: (tree / path).read_bytes() for path in files(tree)}
    pristine = {path: PRISTINE / path for path in texts}
    return {
        path: text
        for path, text in texts.items()
        if not pristine[path].is_file() or pristine[path].read_bytes() != text
    }


def test_result_is_the_overlay(git_tree, tmp_path):
    apply_series(git_tree, tmp_path / "series")
    assert git(git_tree, "status", "--porcelain") == ""
    by_series, by_overlay = changed(git_tree), changed(OVERLAY)
    assert by_series.keys() == by_overlay.keys()
    assert [path for path in by_series if by_series[path] != by_overlay[path]] == []
    assert files(PRISTINE) - files(OVERLAY) == set()


def test_one_commit_a_change(git_tree, tmp_path):
    patchset = PatchSet()
    hashes = apply_series(git_tree, tmp_path / "series")
    assert len(hashes) == len(patchset.commits) > 1
    for name, commit in zip(hashes, patchset.commits):
        assert git(git_tree, "log", "-1", "--format=%s", name).strip() == commit.title
        assert git(git_tree, "log", "-1", "--format=%b", name).strip() == commit.body
        edited = [edit.path for patch in commit.patches for edit in patchset.edits(patch)]
        touched = git(git_tree, "show", "--name-only", "--format=", name).split()
        assert sorted(touched) == sorted(commit.new + edited)


def test_diffstat_of_the_mails_is_right(git_tree, tmp_path):
    hashes = apply_series(git_tree, tmp_path / "series")
    for name, mail in zip(hashes, export(tmp_path / "series")):
        summary = git(git_tree, "show", "--shortstat", "--format=", name).strip()
        assert summary in mail.read_text(encoding="utf-8").partition("\n---\n")[2]


def test_two_exports_are_identical(tmp_path):
    first, second = export(tmp_path / "first"), export(tmp_path / "second")
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_export_keeps_foreign_patches_out(tmp_path):
    (tmp_path / "0001-other.patch").write_text("")
    done = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "0001-other.patch" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["0001-other.patch"]
