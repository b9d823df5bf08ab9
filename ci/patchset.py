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
"""The patch set as data: which files it adds to TVM, which it edits, and in which commits."""

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
TVM_VERSION = "0.19.0"
# The folders whose files have their place in TVM; any other belongs to this repository alone.
TVM_FOLDERS = ("src", "python", "tests/cpp", "tests/python")

EDIT_HEADER = re.compile(
    rb"^diff --git a/(?P<path>\S+) b/(?P=path)\n"
    rb"index (?P<before>[0-9a-f]{40})\.\.(?P<after>[0-9a-f]{40}) [0-7]{6}\n",
    re.MULTILINE,
)


class BrokenPatchSet(Exception):
    """The patch set itself is at fault, whatever it is applied to."""


class Commit(NamedTuple):
    """A logical change: `new` are paths in TVM, `patches` names in the folder of patches."""

    title: str
    body: str
    new: List[str]
    patches: List[str]


class Edit(NamedTuple):
    """What a patch does to one file, with the Git blob names of its text before and after."""

    path: str
    before: str
    after: str


class PatchSet:
    """The patches, the new files and the series that orders them into commits."""

    def __init__(self, root: Path = REPOSITORY):
        self.root = root
        self.commits = read_series(root / "patches" / "series")

    @property
    def new(self) -> List[str]:
        """Paths of the new files, in the order of the series."""
        return [path for commit in self.commits for path in commit.new]

    @property
    def patches(self) -> List[str]:
        """Names of the patches, in the order of the series."""
        return [name for commit in self.commits for name in commit.patches]

    def new_text(self, path: str) -> bytes:
        """The content of a new file."""
        return self._read(path)

    def patch_text(self, name: str) -> bytes:
        """The content of a patch."""
        return self._read(f"patches/{name}")

    def edits(self, name: str) -> List[Edit]:
        """What the patch called `name` does to each of its files."""
        text = self.patch_text(name)
        edits = [Edit(*(g.decode() for g in m.groups())) for m in EDIT_HEADER.finditer(text)]
        if not edits or len(edits) != len(re.findall(rb"^diff ", text, re.MULTILINE)):
            raise BrokenPatchSet(
                f"patches/{name}: expected edits as `git diff --full-index` prints them, "
                "with no file created, deleted or renamed"
            )
        return edits

    def patched(self, texts: Dict[str, bytes]) -> Dict[str, bytes]:
        """What becomes of `texts`, some of the patched files by path, after all patches."""
        for name in self.patches:
            texts = self.patched_by(name, texts)
        return texts

    def patched_by(self, name: str, texts: Dict[str, bytes]) -> Dict[str, bytes]:
        """What becomes of `texts` after the patch called `name`."""
        edits = [edit for edit in self.edits(name) if edit.path in texts]
        if not edits:
            return texts
        with tempfile.TemporaryDirectory() as folder:
            for edit in edits:
                put(Path(folder, edit.path), texts[edit.path])
            include = [f"--include={edit.path}" for edit in edits]
            done = git("apply", *include, "-", cwd=folder, stdin=self.patch_text(name))
            if done.returncode:
                raise BrokenPatchSet(f"patches/{name} does not apply: {one_line(done.stderr)}")
            after = {edit.path: Path(folder, edit.path).read_bytes() for edit in edits}
        for edit in edits:
            if blob_name(after[edit.path]) != edit.after:
                raise BrokenPatchSet(f"patches/{name}: the index line of {edit.path} is wrong")
        return {**texts, **after}

    def _read(self, path: str) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except OSError as error:
            raise BrokenPatchSet(f"{path}, which patches/series lists: {error.strerror}") from error


def new_files(root: Path = REPOSITORY) -> Iterator[str]:
    """The files of the repository that have their place in TVM, listed in the series or not."""
    for folder in TVM_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            made = any(part.startswith((".", "__pycache__")) for part in relative.parts)
            if path.is_file() and not made:
                yield relative.as_posix()


def read_series(path: Path) -> List[Commit]:
    """Parse a series file, whose head comment describes the format."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BrokenPatchSet(f"{path}: {error.strerror}") from error
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return [_read_commit(part) for part in re.split(r"^-{3,}\n", text, flags=re.MULTILINE) if part]


def _read_commit(text: str) -> Commit:
    trailer = re.compile(r"^(New|Patch): *(.+)\n", re.MULTILINE)
    named = [(m[1], m[2].strip()) for m in trailer.finditer(text)]
    title, _, body = trailer.sub("", text).strip().partition("\n")
    return Commit(
        title,
        body.strip(),
        [value for kind, value in named if kind == "New"],
        [value for kind, value in named if kind == "Patch"],
    )


def put(path: Path, text: bytes) -> None:
    """Write a file, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def blob_name(text: bytes) -> str:
    """The name under which Git stores `text`."""
    return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()


def one_line(message: bytes) -> str:
    """What a command complained about, as one line."""
    return "; ".join(message.decode(errors="replace").splitlines())


def git(*arguments: str, cwd, stdin: bytes = b"") -> subprocess.CompletedProcess:
    """Run Git on the files of `cwd` alone: neither settings nor a repository around it matter."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment.update(
        LC_ALL="C",
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CEILING_DIRECTORIES=os.path.realpath(os.path.dirname(os.path.abspath(cwd))),
    )
    command = ["git", *arguments]
    try:
        return subprocess.run(
            command, cwd=cwd, env=environment, input=stdin, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise BrokenPatchSet("git was not found: install it") from error
