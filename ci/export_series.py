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
"""Write the patch set as a `git am` series, one commit a logical change.

usage: export_series.sh <folder>

The folder is made if need be. Two exports of the same patch set by the same author are identical.
The author is the one that Git's settings name. Apply the series to a checkout of TVM v0.19.0 with
`git am --keep-non-patch <folder>/*.patch`: without the option, Git cuts the tags off the titles.
"""

import email.utils
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

from patchset import BrokenPatchSet, Commit, PatchSet, git, one_line

DEFAULT_AUTHOR = {"user.name": "DropletSearchPolicy", "user.email": "droplet-search@example.org"}
# One date for all, the month of the release they apply to, so that an export can be repeated.
DATE = "Wed, 1 Jan 2025 00:00:00 +0000"


def compose(patchset: PatchSet, author: str) -> Dict[str, bytes]:
    """The mails of the series by file name."""
    total = len(patchset.commits)
    return {
        file_name(number, commit): mail(patchset, commit, f"{number}/{total}", author)
        for number, commit in enumerate(patchset.commits, 1)
    }


def file_name(number: int, commit: Commit) -> str:
    """The file's name, in the manner of `git format-patch`."""
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", commit.title).strip("-.")[:52]
    return f"{number:04d}-{slug}.patch"


def mail(patchset: PatchSet, commit: Commit, position: str, author: str) -> bytes:
    """A commit as a mail that `git am` reads."""
    diff = b"".join(
        [added(patchset, path) for path in commit.new]
        + [only_diff(patchset.patch_text(name)) for name in commit.patches]
    )
    head = (
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\n"
        f"From: {author}\n"
        f"Date: {DATE}\n"
        f"Subject: [PATCH {position}] {commit.title}\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=UTF-8\n"
        "Content-Transfer-Encoding: 8bit\n"
        "\n"
        f"{commit.body}\n"
        "---\n"
    )
    stat = checked(git("apply", "--stat", "--summary", cwd=patchset.root, stdin=diff))
    return head.encode() + stat + b"\n" + diff + b"-- \n"


def added(patchset: PatchSet, path: str) -> bytes:
    """The diff that adds a new file."""
    arguments = ("diff", "--no-index", "--full-index", "--binary", "/dev/null", path)
    return checked(git(*arguments, cwd=patchset.root), differs=1)


def only_diff(patch: bytes) -> bytes:
    """The patch without text ahead of its first diff."""
    return patch[patch.index(b"diff --git ") :]


def checked(done: subprocess.CompletedProcess, differs: int = 0) -> bytes:
    """What a Git command printed, once it is known to have ended well."""
    if done.returncode not in (0, differs):
        raise BrokenPatchSet(one_line(done.stderr))
    return done.stdout


def configured_author() -> str:
    """The author that Git's settings name, as a mail's sender."""
    values = []
    for key, default in DEFAULT_AUTHOR.items():
        done = subprocess.run(["git", "config", key], capture_output=True, text=True, check=False)
        values.append(done.stdout.strip() or default)
    return email.utils.formataddr((values[0], values[1]))


def export(patchset: PatchSet, folder: Path, author: str) -> List[Path]:
    """Write the mails and return their paths."""
    mails = compose(patchset, author)
    folder.mkdir(parents=True, exist_ok=True)
    foreign = sorted({path.name for path in folder.glob("*.patch")} - set(mails))
    if foreign:
        raise BrokenPatchSet(f"{folder} holds other patches, remove them: {', '.join(foreign)}")
    for name, text in mails.items():
        (folder / name).write_bytes(text)
    return [folder / name for name in mails]


def main(arguments: List[str]) -> int:
    """The command line: returns the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        for path in export(PatchSet(), Path(arguments[0]), configured_author()):
            print(path)
    except (BrokenPatchSet, OSError) as error:
        print(f"export_series.sh: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
