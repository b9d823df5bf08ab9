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
"""apply.sh applies everything or nothing, and says by its exit code which."""

import errno
import os
import resource
import shutil
import signal
import subprocess

import apply
import pytest
from conftest import ROOT, git, make_repository, picture
from patchset import PatchSet

PATCHSET = PatchSet()
NEW = PATCHSET.new
# A file may be edited by several patches.
EDITED = list(
    dict.fromkeys(edit.path for name in PATCHSET.patches for edit in PATCHSET.edits(name))
)


def run(*arguments, **options) -> subprocess.CompletedProcess:
    """Run the script."""
    return subprocess.run(
        [ROOT / "ci" / "apply.sh", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def assert_refused(tree, code, *named, **options):
    """The script must end with `code`, name things in one line, and leave the tree as it is."""
    before = picture(tree)
    done = run(tree, **options)
    assert done.returncode == code, done.stderr
    assert picture(tree) == before
    assert len(done.stderr.splitlines()) == 1
    for name in named:
        assert name in done.stderr


def applied(tree) -> bool:
    """Whether a tree has the patch set, and nothing that was left over."""
    expected = {path: PATCHSET.new_text(path) for path in NEW}
    texts = {path: found[0] for path, found in picture(tree).items()}
    edits = [edit for name in PATCHSET.patches for edit in PATCHSET.edits(name)]
    after = {edit.path: edit.after for edit in edits}
    return (
        all(texts.get(path) == text for path, text in expected.items())
        and all(apply.blob_name(texts[path]) == name for path, name in after.items())
        and apply.STAGE not in texts
    )


def test_apply(plain_tree):
    for path in EDITED:
        (plain_tree / path).chmod(0o750)
    before = picture(plain_tree)
    done = run(plain_tree)
    assert done.returncode == 0, done.stderr
    assert applied(plain_tree)
    after = picture(plain_tree)
    written = {path for path in after if after[path][0] is not None}
    written = {path for path in written if after[path] != before.get(path)}
    assert written == {*NEW, *EDITED}
    assert before.keys() <= after.keys()
    assert all(after[path][1] == before[path][1] for path in EDITED)


def test_same_result_as_the_series(git_tree, tmp_path):
    by_series = tmp_path / "by_series"
    shutil.copytree(git_tree, by_series)
    mails = tmp_path / "mails"
    subprocess.run([ROOT / "ci" / "export_series.sh", mails], check=True)
    git(by_series, "am", "--quiet", *map(str, sorted(mails.iterdir())))
    assert run(git_tree).returncode == 0
    git(git_tree, "add", "--all")
    assert git(git_tree, "write-tree") == git(by_series, "rev-parse", "HEAD^{tree}")


def test_path_of_any_kind(plain_tree):
    spaced = plain_tree.with_name("a TVM checkout")
    plain_tree.rename(spaced)
    assert run(spaced.name, cwd=spaced.parent).returncode == 0
    assert applied(spaced)


def test_repository_around_checkout_and_temporary_folder(plain_tree):
    make_repository(plain_tree.parent)
    around = {**os.environ, "TMPDIR": str(plain_tree.parent)}
    assert run(plain_tree, env=around).returncode == 0
    assert applied(plain_tree)


@pytest.mark.parametrize("arguments", [(), ("a", "b")])
def test_usage(arguments):
    done = run(*arguments)
    assert done.returncode == apply.USAGE
    assert done.stderr.startswith("Put the patch set into a checkout")


def test_not_tvm(tmp_path):
    (tmp_path / "README.md").write_text("something else\n")
    assert_refused(tmp_path, apply.NOT_TVM, str(tmp_path), "python/tvm/_ffi/libinfo.py")
    assert run(tmp_path / "absent").returncode == apply.NOT_TVM


@pytest.mark.parametrize("version", ["0.18.0", "0.19.dev0", "0.20.0"])
def test_wrong_version(plain_tree, version):
    libinfo = plain_tree / "python/tvm/_ffi/libinfo.py"
    libinfo.write_text(libinfo.read_text().replace('"0.19.0"', f'"{version}"'))
    assert_refused(plain_tree, apply.WRONG_VERSION, version, "v0.19.0")


def test_already_applied(git_tree):
    assert run(git_tree).returncode == 0
    assert_refused(git_tree, apply.ALREADY_APPLIED, str(git_tree))
    git(git_tree, "add", "--all")
    git(git_tree, "commit", "--message", "Apply")
    assert_refused(git_tree, apply.ALREADY_APPLIED, str(git_tree))


@pytest.mark.parametrize("path", EDITED)
@pytest.mark.parametrize("fixture", ["plain_tree", "git_tree"])
def test_modified(request, fixture, path):
    tree = request.getfixturevalue(fixture)
    with (tree / path).open("a") as file:
        file.write("# a local change\n")
    assert_refused(tree, apply.MODIFIED, path)
    (tree / path).unlink()
    assert_refused(tree, apply.MODIFIED, path)


@pytest.mark.parametrize("path", NEW)
def test_taken(plain_tree, path):
    (plain_tree / path).parent.mkdir(parents=True, exist_ok=True)
    (plain_tree / path).write_text("other content\n")
    assert_refused(plain_tree, apply.TAKEN, path)


def test_taken_by_no_file(plain_tree):
    (plain_tree / NEW[0]).mkdir()
    assert_refused(plain_tree, apply.TAKEN, NEW[0])
    (plain_tree / NEW[0]).rmdir()
    (plain_tree / NEW[0]).symlink_to("nowhere")
    assert_refused(plain_tree, apply.TAKEN, NEW[0])
    (plain_tree / NEW[0]).unlink()
    (plain_tree / "tests").write_text("no folder\n")
    assert_refused(plain_tree, apply.TAKEN, "tests/")


def test_several_conflicts_are_all_named(plain_tree):
    for path in NEW[:2]:
        (plain_tree / path).write_text("other content\n")
    assert_refused(plain_tree, apply.TAKEN, *NEW[:2])


def test_file_system_that_fails(plain_tree):
    largest = max(len(PATCHSET.new_text(path)) for path in NEW)

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, largest - 1))

    assert_refused(plain_tree, apply.FAILED, "unchanged", preexec_fn=limit_files)
    assert run(plain_tree).returncode == 0


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("moved", range(len(NEW + EDITED)))
def test_roll_back(plain_tree, monkeypatch, moved, failure):
    before = picture(plain_tree)
    replace, calls = os.replace, []

    def fail_once(source, target):
        calls.append(target)
        if len(calls) == moved + 1:
            raise failure
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_once)
    with pytest.raises(type(failure)):
        apply.apply(PATCHSET, plain_tree)
    assert len(calls) > moved
    assert picture(plain_tree) == before


def test_originals_survive_a_failed_roll_back(plain_tree, monkeypatch):
    originals = {path: (plain_tree / path).read_bytes() for path in EDITED}
    replace, calls = os.replace, []

    def fail_from_the_last_on(source, target):
        calls.append(target)
        if len(calls) >= len(NEW + EDITED):
            raise OSError(errno.ENOSPC, "disk full")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_from_the_last_on)
    with pytest.raises(apply.Refusal, match="cannot undo"):
        apply.apply(PATCHSET, plain_tree)
    kept = plain_tree / apply.STAGE / "old"
    assert {path: (kept / path).read_bytes() for path in EDITED} == originals


@pytest.mark.parametrize("moved", range(len(NEW + EDITED)))
def test_killed_run_is_finished_by_the_next(plain_tree, moved):
    child = os.fork()
    if child == 0:
        replace, calls = os.replace, []

        def die(source, target):
            calls.append(target)
            if len(calls) == moved + 1:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)

        os.replace = die
        try:
            apply.apply(PATCHSET, plain_tree)
        finally:
            os._exit(0)  # whatever happened: the rest of the tests is the parent's
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert (plain_tree / apply.STAGE).is_dir()
    assert run(plain_tree).returncode == 0
    assert applied(plain_tree)
