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
"""Check that the patch set is sound: complete, minimal, and made for TVM v0.19.0 exactly.

usage: check_patchset.py <tree of the release>

The build lays the release out in build/pristine. Prints one line a fault.
"""

import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List

from patchset import TVM_FOLDERS, BrokenPatchSet, Commit, PatchSet, git, new_files, put

TITLE = re.compile(r"\[[A-Z]\w+\] [A-Z][ -~]{1,60}[^.\s]")


def faults(patchset: PatchSet, pristine: Path) -> Iterator[str]:
    """What is wrong with the patch set, a line each."""
    yield from series_faults(patchset)
    for commit in patchset.commits:
        yield from commit_faults(commit)
    for path in patchset.new:
        yield from new_file_faults(patchset, pristine, path)
    yield from patch_faults(patchset, pristine)


def series_faults(patchset: PatchSet) -> Iterator[str]:
    """Files in no commit, in several, or in one but missing."""
    on_disk = set(new_files(patchset.root))
    on_disk |= {f"patches/{path.name}" for path in (patchset.root / "patches").glob("*.patch")}
    listed = Counter(patchset.new + [f"patches/{name}" for name in patchset.patches])
    for path in sorted(on_disk - set(listed)):
        yield f"{path}: in no commit of patches/series"
    for path in sorted(set(listed) - on_disk):
        yield f"{path}: listed in patches/series, but there is no such file"
    for path in sorted(path for path, times in listed.items() if times > 1):
        yield f"{path}: listed {listed[path]} times in patches/series"


def commit_faults(commit: Commit) -> Iterator[str]:
    """A title, body or file list that upstream would not take."""
    if not TITLE.fullmatch(commit.title):
        yield f"patches/series: {commit.title!r}: expected a title like '[AutoScheduler] Add this'"
    if not commit.body:
        yield f"patches/series: {commit.title!r} has no body"
    if any(len(line) > 80 for line in commit.body.splitlines()) or not commit.body.isascii():
        yield f"patches/series: {commit.title!r}: the body has to be ASCII of at most 80 columns"
    if not commit.new and not commit.patches:
        yield f"patches/series: {commit.title!r} has no file"


def new_file_faults(patchset: PatchSet, pristine: Path, path: str) -> Iterator[str]:
    """A file that is not new, or not clean text."""
    if not path.startswith(tuple(f"{folder}/" for folder in TVM_FOLDERS)):
        yield f"{path}: new files go below {', '.join(TVM_FOLDERS)}"
    if (pristine / path).exists():
        yield f"{path}: the release has this file already, make it a patch"
    if not (patchset.root / path).is_file():
        return
    text = patchset.new_text(path)
    if os.access(patchset.root / path, os.X_OK):
        yield f"{path}: is executable"
    yield from text_faults(path, text.split(b"\n"))


def text_faults(name: str, lines: List[bytes]) -> Iterator[str]:
    """Blanks at the end of lines, a last line without end, or empty last lines."""
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f"{name}:{number}: white space at the end of the line"
    if lines[-1] or len(lines) < 2 or not lines[-2]:
        yield f"{name}: expected text that ends in exactly one newline"


def patch_faults(patchset: PatchSet, pristine: Path) -> Iterator[str]:
    """Patches that are not exactly the least difference that Git finds in the release's files."""
    edited = {edit.path for name in patchset.patches for edit in patchset.edits(name)}
    missing = sorted(path for path in edited if not (pristine / path).is_file())
    if missing:
        yield from (f"{path}: patched, but the release has no such file" for path in missing)
        return
    before = {path: (pristine / path).read_bytes() for path in edited}
    for name in patchset.patches:
        text = patchset.patch_text(name)
        after = patchset.patched_by(name, before)
        if text != minimal_diff(before, after):
            yield f"patches/{name}: not what `git diff -U1 --full-index` prints for its edits"
        added = [line for line in text.split(b"\n") if line.startswith(b"+")]
        if any(line != line.rstrip() for line in added):
            yield f"patches/{name}: white space at the end of an added line"
        if b"\n\\ No newline" in text:
            yield f"patches/{name}: a last line without end"
        before = after


def minimal_diff(before: Dict[str, bytes], after: Dict[str, bytes]) -> bytes:
    """The difference of two sets of files with a single line of context."""
    with tempfile.TemporaryDirectory() as folder:
        git("init", "--quiet", cwd=folder)
        for path, text in before.items():
            put(Path(folder, path), text)
        git("add", "--all", cwd=folder)
        for path, text in after.items():
            put(Path(folder, path), text)
        return git("diff", "-U1", "--full-index", cwd=folder).stdout


def main(arguments: List[str]) -> int:
    """The command line: returns the exit code."""
    if len(arguments) != 1:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    pristine = Path(arguments[0])
    try:
        if not (pristine / "src/auto_scheduler").is_dir():
            raise BrokenPatchSet(f"{pristine} is no tree of the release: build first")
        found = list(faults(PatchSet(), pristine))
    except (BrokenPatchSet, OSError) as error:
        found = [str(error)]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
