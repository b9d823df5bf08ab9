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
"""The checks of the patch set and of the licence headers find what they are there to find."""

import shutil
from pathlib import Path

import check_license_headers
import pytest
from check_patchset import faults
from conftest import PRISTINE, ROOT
from patchset import TVM_FOLDERS, BrokenPatchSet, PatchSet

NEW = PatchSet().new[0]
PATCH = PatchSet().patches[0]
EDITED = PatchSet().edits(PATCH)[0].path


@pytest.fixture
def copy(tmp_path):
    """A copy of the patch set, to be spoilt."""
    for folder in ("patches", *TVM_FOLDERS):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    return tmp_path


def found(root: Path) -> str:
    """The faults of the patch set in a copy, one a line."""
    return "\n".join(faults(PatchSet(root), PRISTINE))


def replace(path: Path, old: str, new: str) -> None:
    """Edit a file; what is replaced has to be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_patch_set_is_sound(copy):
    assert found(copy) == ""


@pytest.mark.parametrize("folder", TVM_FOLDERS)
def test_new_file_in_no_commit(copy, folder):
    (copy / folder / "stray.py").write_text("STRAY = 1\n")
    assert found(copy) == f"{folder}/stray.py: in no commit of patches/series"


def test_patch_in_no_commit(copy):
    shutil.copy(copy / "patches" / PATCH, copy / "patches" / "0009-stray.patch")
    assert found(copy) == "patches/0009-stray.patch: in no commit of patches/series"


def test_file_in_two_commits(copy):
    replace(copy / "patches/series", f"Patch: {PATCH}\n", f"Patch: {PATCH}\nNew: {NEW}\n")
    assert f"{NEW}: listed 2 times" in found(copy)


def test_listed_file_is_missing(copy):
    (copy / NEW).unlink()
    assert found(copy).startswith(f"{NEW}: listed in patches/series, but there is no such file")


@pytest.mark.parametrize(
    "title", ["Add an engine", "[AutoScheduler] add it", "[AutoScheduler] It."]
)
def test_title(copy, title):
    replace(copy / "patches/series", PatchSet().commits[0].title, title)
    assert f"patches/series: {title!r}: expected a title" in found(copy)


def test_commit_without_body(copy):
    replace(copy / "patches/series", PatchSet().commits[0].body, "")
    assert "has no body" in found(copy)


def test_commit_without_files(copy):
    with (copy / "patches/series").open("a") as series:
        series.write("[AutoScheduler] Add nothing\n\nReally.\n---\n")
    assert found(copy) == "patches/series: '[AutoScheduler] Add nothing' has no file"


@pytest.mark.parametrize("text", [b"int a; \n", b"int a;", b"int a;\n\n", b"int a;\r\n", b""])
def test_unclean_text(copy, text):
    (copy / NEW).write_bytes(text)
    assert found(copy).startswith(NEW)


def test_executable(copy):
    (copy / NEW).chmod(0o755)
    assert found(copy) == f"{NEW}: is executable"


def test_new_file_is_in_the_release(copy):
    shutil.copy(PRISTINE / EDITED, copy / EDITED)
    replace(copy / "patches/series", f"New: {NEW}\n", f"New: {NEW}\nNew: {EDITED}\n")
    assert found(copy) == f"{EDITED}: the release has this file already, make it a patch"


def test_patch_of_another_text(copy):
    replace(copy / "patches" / PATCH, "index ", "index 0" + "0" * 6)
    with pytest.raises(BrokenPatchSet, match="expected edits"):
        found(copy)


def test_patch_with_offset(copy):
    replace(copy / "patches" / PATCH, "@@ -", "@@ -1")
    assert f"patches/{PATCH}: not what `git diff -U1 --full-index` prints" in found(copy)


def test_patch_that_does_not_apply(copy):
    replace(copy / "patches" / PATCH, "\n ", "\n something else")
    with pytest.raises(BrokenPatchSet, match="does not apply"):
        found(copy)


def test_patch_of_a_missing_file(copy):
    patch = copy / "patches" / PATCH
    patch.write_text(patch.read_text().replace(EDITED, "python/tvm/absent.py"))
    assert found(copy) == "python/tvm/absent.py: patched, but the release has no such file"


def test_patch_that_adds_white_space(copy):
    patch = copy / "patches" / PATCH
    lines = patch.read_text().splitlines()
    added = next(line for line in lines if line.startswith("+") and line[1:2] != "+")
    replace(patch, added, f"{added} ")
    with pytest.raises(BrokenPatchSet, match="the index line"):
        found(copy)


HEADER = (ROOT / "ci" / "patchset.py").read_text(encoding="utf-8").partition('"""')[0]


def test_licence_header(tmp_path):
    good = tmp_path / "good.py"
    good.write_text(f"#!/usr/bin/env python3\n{HEADER}")
    assert check_license_headers.main([str(good)]) == 0


@pytest.mark.parametrize("name", ["bad.py", "bad.cc", "bad.cmake", "CMakeLists.txt", "script"])
@pytest.mark.parametrize("text", ["", HEADER.replace("2.0", "3.0"), "#\n" * 20 + HEADER])
def test_no_licence_header(tmp_path, capsys, name, text):
    bad = tmp_path / name
    bad.write_text(f"#!/bin/sh\n{text}")
    assert check_license_headers.main([str(bad)]) == 1
    assert str(bad) in capsys.readouterr().err
