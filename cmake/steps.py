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
"""What the steps that prepare the overlay share: logged commands, one-line errors, stamps."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

STAMP = ".complete"

# What a log says when a step fails, and what to tell the user. The first that matches wins.
CAUSES = [
    (r"No space left on device|Disk quota exceeded", "the disk is full, free some space"),
    (
        r"DO NOT MATCH THE HASHES(?:.*\n)*? +(?P<what>\S+).* from ",
        "{what}: the file does not match its pinned hash, check the package index in use",
    ),
    (
        r"NewConnectionError|Connection\w*Error|Name\w*ResolutionError|ConnectTimeout|ReadTimeout"
        r"|ProxyError|SSLError|Network is unreachable|Temporary failure in name resolution",
        "the package index cannot be reached, check the network",
    ),
    (
        r"No matching distribution found for (?P<what>\S+)",
        "{what}: the package index has no file for this Python and platform",
    ),
]


class StepError(Exception):
    """A step failed; the message is one line that says what to do."""


def run(what: str, command: list, log: Path) -> None:
    """Run a command with its output in `log`; when it fails, say why in one line."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise StepError(f"{what} failed: {cause(log.read_text(errors='replace'))} (log: {log})")


def cause(log: str) -> str:
    """The reason for a failure that a log shows."""
    for pattern, advice in CAUSES:
        found = re.search(pattern, log)
        if found:
            return advice.format(**found.groupdict())
    return (log.strip().splitlines() or ["it printed nothing"])[-1]


def fingerprint(*parts) -> str:
    """A name for what a step's result depends on: strings, and the contents of paths."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else str(part).encode()
        digest.update(b"%d\0" % len(content) + content)
    return digest.hexdigest()


def is_complete(folder: Path, key: str) -> bool:
    """Whether `folder` was finished by a step with this key."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == key


def complete(folder: Path, key: str) -> None:
    """Mark `folder` as finished; always a step's last act, so that a broken one is done again."""
    (folder / STAMP).write_text(key, encoding="utf-8")


def report(message: str) -> None:
    """Tell the user what takes time."""
    print(f"-- {message}", flush=True)


def main(step) -> int:
    """Run a step; turn what the user can mend into one line and exit code 1."""
    try:
        step()
    except StepError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(cause(str(error)), file=sys.stderr)
        return 1
    return 0
