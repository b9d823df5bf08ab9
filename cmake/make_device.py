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
"""Make an AArch64 device that qemu-aarch64 emulates: Debian's Python, and what TVM imports.

usage: python make_device.py FOLDER

  FOLDER/sysroot       what Debian's packages for arm64 hold
  FOLDER/site          the packages of requirements/overlay.txt for AArch64
  FOLDER/bin/python    runs Python on the device: a script that the host can run
  FOLDER/bin/version   the version of that Python

The packages are those of this machine's Debian release and come from its package sources. Neither
root nor a change of this machine is needed.
"""

import argparse
import shutil
import sys
from pathlib import Path

from assemble_tvm import AARCH64_PLATFORMS, REQUIREMENTS, make
from steps import StepError, fingerprint, main, report, run

EMULATOR = "qemu-aarch64-static"
# Python with all of its standard library, and the C++ runtime of TVM.
DEBIAN_PACKAGES = ("python3", "libpython3-stdlib", "libstdc++6")

PYTHON = """\
#!/bin/sh
# Python, as this device runs it. It calls itself by the name of this script when it starts a
# process, so that the process is emulated, too.
exec {emulator} -0 "$0" -L {root} {python} "$@"
"""


def apt(state: Path, *words: str) -> list:
    """A call of apt-get for arm64 that leaves the packages of this machine alone."""
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
        "Dir::Cache": state / "cache",
        "Dir::State": state / "state",
        "Dir::State::status": state / "status",
    }
    return ["apt-get", *(f"-o{key}={value}" for key, value in options.items()), *words]


def fill_root(root: Path) -> None:
    """Extract Debian's packages, with all that they depend on."""
    report("Fetching Debian's packages for arm64")
    state = root / ".apt"
    for folder in ("cache/archives/partial", "state/lists/partial"):
        (state / folder).mkdir(parents=True)
    (state / "status").touch()  # as if nothing was installed
    log = root.with_suffix(".log")
    run("Listing packages for arm64", apt(state, "update"), log)
    words = ("install", "--download-only", "--yes", "--no-install-recommends")
    run("Fetching packages for arm64", apt(state, *words, *DEBIAN_PACKAGES), log)
    for package in sorted((state / "cache/archives").glob("*.deb")):
        run(f"Extracting {package.name}", ["dpkg-deb", "--extract", package, root], log)
    shutil.rmtree(state)


def python_of(root: Path) -> Path:
    """The Python of the device."""
    (python,) = root.glob("usr/bin/python3.[0-9]*[0-9]")
    return python


def fill_site(site: Path, version: str) -> None:
    """Install the packages that TVM imports, and those of its tests."""
    report("Fetching Python packages for AArch64")
    run(
        "Fetching Python packages for AArch64",
        [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        + ["--require-hashes", "--only-binary=:all:", "--no-deps", "--no-compile"]
        + [*AARCH64_PLATFORMS, "--implementation=cp", f"--python-version={version}"]
        + ["--requirement", REQUIREMENTS / "overlay.txt", "--target", site],
        site.with_suffix(".log"),
    )


def fill_bin(folder: Path, root: Path) -> None:
    """Write the script that runs Python."""
    python = python_of(root)
    script = folder / "python"
    script.write_text(PYTHON.format(emulator=EMULATOR, root=root, python=python))
    script.chmod(0o755)
    (folder / "version").write_text(python.name[len("python") :])


def make_device(device: Path) -> None:
    """The step: see the module's docstring."""
    for tool in (EMULATOR, "apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise StepError(f"{tool} was not found (Debian: qemu-user-static, apt, dpkg)")
    this = Path(__file__)
    root = device / "sysroot"
    make(root, fingerprint(this), fill_root)
    make(device / "bin", fingerprint(this, str(root)), lambda folder: fill_bin(folder, root))
    version = (device / "bin" / "version").read_text()
    key = fingerprint(this, REQUIREMENTS / "overlay.txt", version)
    make(device / "site", key, lambda site: fill_site(site, version))


def step() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    make_device(parser.parse_args().folder.absolute())


if __name__ == "__main__":
    sys.exit(main(step))
