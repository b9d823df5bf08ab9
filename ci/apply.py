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
"""Put the patch set into a checkout of TVM v0.19.0: everything, or nothing at all.

usage: apply.sh <TVM checkout>

The checkout may be a Git one or a plain tree. What has to be written is worked out first, then
staged inside the checkout, and only then moved into place; a failure, a full disk included,
undoes what was moved. A run that was killed is finished by running again. Exit codes:

  0  applied: build TVM as always
  1  could not be carried out (the system or the patch set is at fault; the message says how)
  2  wrong usage
  3  not a TVM checkout
  4  a TVM of another version
  5  already applied
  6  a file that a patch edits is not as in the release
  7  a new file's path is taken by something else
"""

import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Dict, List, Optional

from patchset import TVM_VERSION, BrokenPatchSet, PatchSet, blob_name, put

FAILED, USAGE, NOT_TVM, WRONG_VERSION, ALREADY_APPLIED, MODIFIED, TAKEN = range(1, 8)
VERSION_FILE = "python/tvm/_ffi/libinfo.py"
STAGE = ".apply-stage"


class Refusal(Exception):
    """The checkout cannot take the patch set; `code` is the exit code that says why."""

    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code = code


def apply(patchset: PatchSet, tree: Path) -> List[str]:
    """Apply to `tree` and return the paths written."""
    check_version(tree)
    texts = plan(patchset, tree)
    write(tree, texts)
    return list(texts)


def check_version(tree: Path) -> None:
    """Refuse anything but a checkout of the release."""
    expected = f"a checkout of TVM v{TVM_VERSION}"
    for path in (VERSION_FILE, "src/auto_scheduler", "CMakeLists.txt"):
        if not (tree / path).exists():
            raise Refusal(NOT_TVM, f"{tree} is not {expected}: it has no {path}")
    libinfo = (tree / VERSION_FILE).read_text(encoding="utf-8", errors="replace")
    version = re.search(r'^__version__ = "(.*)"', libinfo, re.MULTILINE)
    found = version[1] if version else "unknown"
    if found != TVM_VERSION:
        raise Refusal(WRONG_VERSION, f"{tree} is TVM {found}, expected {expected}")


def plan(patchset: PatchSet, tree: Path) -> Dict[str, bytes]:
    """The text of each path that has to be written; refuses when not all of them can be."""
    new = {path: patchset.new_text(path) for path in patchset.new}
    taken = [p for p, text in new.items() if is_taken(tree, p) and read(tree, p) != text]

    first, last = {}, {}
    for name in patchset.patches:
        for edit in patchset.edits(name):
            first.setdefault(edit.path, edit.before)
            last[edit.path] = edit.after
    found = {path: blob_name(read(tree, path) or b"") for path in first}
    modified = [p for p in first if found[p] not in (first[p], last[p])]
    if modified:
        raise Refusal(MODIFIED, f"not as in TVM v{TVM_VERSION}, restore: {', '.join(modified)}")
    if taken:
        raise Refusal(TAKEN, f"there already with other content, move away: {', '.join(taken)}")

    texts = {path: text for path, text in new.items() if not is_taken(tree, path)}
    texts.update(patchset.patched({p: read(tree, p) for p in first if found[p] == first[p]}))
    if not texts:
        raise Refusal(ALREADY_APPLIED, f"{tree} has the patch set already")
    return texts


def is_taken(tree: Path, path: str) -> bool:
    """Whether something stands at `path`, or where a folder above it has to be."""
    above = [tree / parent for parent in Path(path).parents]
    return os.path.lexists(tree / path) or any(os.path.lexists(p) and not p.is_dir() for p in above)


def read(tree: Path, path: str) -> Optional[bytes]:
    """The text at `path`, None when there is no such file."""
    return (tree / path).read_bytes() if (tree / path).is_file() else None


def write(tree: Path, texts: Dict[str, bytes]) -> None:
    """Write all of `texts`, or leave the tree as it was.

    Staging within the tree means that what may run out of space does so before anything changes,
    and that each move is a rename, which is done or not done.
    """
    stage = tree / STAGE
    undo = []
    try:
        shutil.rmtree(stage, ignore_errors=True)
        for path, text in texts.items():
            put(stage / "new" / path, text)
            if (tree / path).exists():
                put(stage / "old" / path, read(tree, path))
                shutil.copystat(tree / path, stage / "old" / path)
                shutil.copymode(tree / path, stage / "new" / path)
        for path in texts:
            target, backup = tree / path, stage / "old" / path
            for folder in [p for p in reversed(target.parents) if not p.exists()]:
                undo.append((remove_folder, folder))
                folder.mkdir()
            undo.append((os.replace, backup, target) if backup.exists() else (remove_file, target))
            os.replace(stage / "new" / path, target)
    except BaseException:
        roll_back(undo, stage)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def roll_back(undo: List[tuple], stage: Path) -> None:
    """Undo, last step first; should that fail as well, the originals stay in the stage."""
    try:
        for step, *arguments in reversed(undo):
            step(*arguments)
    except OSError as error:
        raise Refusal(FAILED, f"cannot undo ({error}); the originals are in {stage}") from error
    shutil.rmtree(stage, ignore_errors=True)


def remove_file(path: Path) -> None:
    """Remove a file if it is there."""
    path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove an empty folder if it is there."""
    if path.exists():
        path.rmdir()


def main(arguments: List[str]) -> int:
    """The command line: returns the exit code."""
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return USAGE
    if arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    tree = Path(arguments[0])
    try:
        for signum in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, interrupt)
        paths = apply(PatchSet(), tree)
    except Refusal as refusal:
        return fail(refusal.code, refusal)
    except (BrokenPatchSet, OSError) as error:
        return fail(FAILED, f"{error}; {tree} is unchanged")
    except KeyboardInterrupt:
        return fail(FAILED, f"interrupted; {tree} is unchanged")
    print(f"applied to {tree}: {len(paths)} files written, build TVM as always")
    return 0


def interrupt(*_) -> None:
    """Turn a signal into the exception that undoes."""
    raise KeyboardInterrupt


def fail(code: int, message) -> int:
    """Print one line and return `code`."""
    print(f"apply.sh: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
