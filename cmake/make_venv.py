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
"""Make a virtual environment with exactly the pinned, hash-checked packages of a requirement file.

Does nothing when it is there already. --import-path puts a folder on the environment's sys.path.
"""

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Optional

from steps import StepError, complete, fingerprint, is_complete, main, report, run


def make_venv(venv: Path, requirements: Path, import_path: Optional[Path] = None) -> None:
    """The step: see the module's docstring."""
    python = venv / "bin" / "python"
    parts = (sys.executable, sys.version, str(venv), str(import_path))
    key = fingerprint(requirements, Path(__file__), *parts)
    if is_complete(venv, key) and python.exists():
        return

    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise StepError(
                f"{sys.executable} has no {module} module: install it (Debian: python3-venv)"
            )
    report(f"Installing {requirements.name} into {venv}")
    shutil.rmtree(venv, ignore_errors=True)
    log = venv.with_name(f"{venv.name}.log")
    run(f"Making {venv}", [sys.executable, "-I", "-m", "venv", venv], log)
    run(
        f"Installing {requirements}",
        [python, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        + ["--require-hashes", "--only-binary=:all:", "--no-deps", "--requirement", requirements],
        log,
    )
    if import_path:
        site = next(venv.glob("lib/python3*/site-packages"))
        (site / "overlay.pth").write_text(f"{import_path}\n", encoding="utf-8")
    complete(venv, key)


def step() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("venv", type=Path)
    parser.add_argument("requirements", type=Path)
    parser.add_argument("--import-path", type=Path)
    arguments = parser.parse_args()
    make_venv(
        arguments.venv.absolute(),
        arguments.requirements.absolute(),
        arguments.import_path and arguments.import_path.absolute(),
    )


if __name__ == "__main__":
    sys.exit(main(step))
