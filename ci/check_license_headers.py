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
"""Check that the files named on the command line carry the ASF licence header.

Files of kinds that have no comments, or that are data, are passed over.
"""

import re
import sys
from pathlib import Path
from typing import List

SUFFIXES = {".cc", ".h", ".py", ".sh", ".cmake", ".toml", ".in"}
NAMES = {"CMakeLists.txt", ".clang-format"}
# The header ends within so many lines: a line with the interpreter may precede it.
HEAD = 20


def words(text: str) -> str:
    """The words of a text, whatever comment marks and line breaks they stand in."""
    return " ".join(re.findall(r"\w+", text))


# This file's own header is the one that all others have to carry.
HEADER = words(Path(__file__).read_text(encoding="utf-8").partition('"""')[0])


def is_source(path: Path) -> bool:
    """Whether a file has to carry the header."""
    if path.suffix in SUFFIXES or path.name in NAMES:
        return True
    return path.read_bytes().startswith(b"#!")


def has_header(path: Path) -> bool:
    """Whether a file carries the header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return HEADER in words("\n".join(lines[:HEAD]))


def main(arguments: List[str]) -> int:
    """The command line: returns the exit code."""
    without = [p for p in map(Path, arguments) if is_source(p) and not has_header(p)]
    for path in without:
        print(f"{path}: no ASF licence header", file=sys.stderr)
    return 1 if without else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
