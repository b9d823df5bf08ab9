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
"""What every file of results says of its origin, and how it is written and read."""

import json
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import tvm
import xgboost
from tvm.target import codegen


def describe_origin(target, num_cores):
    """Where, when and with what results were made.

    Parameters
    ----------
    target : tvm.target.Target
        The target.
    num_cores : int
        The number of threads of kernels.

    Returns
    -------
    origin : Dict[str, object]
        The machine, the versions of the software and the time.
    """
    return {
        "machine": describe_machine(target, num_cores),
        "versions": describe_versions(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def describe_machine(target, num_cores):
    """The machine that a contest is held on.

    Parameters
    ----------
    target : tvm.target.Target
        The target.
    num_cores : int
        The number of threads of kernels.

    Returns
    -------
    machine : Dict[str, object]
        Its description.
    """
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else ())
        if line.startswith("model name")
    ]
    cpu = models[0] if models else platform.machine()
    device = tvm.device(target.kind.name)
    gpu = {} if device == tvm.cpu() else {"device": str(device.device_name)}
    return {"cpu": cpu, **gpu, "threads": num_cores, "target": str(target)}


def describe_versions():
    """The software that a contest is held with.

    Returns
    -------
    versions : Dict[str, object]
        The version of each, of this patch set its commit.
    """
    # A commit's name ends in "-dirty" where files differ from it.
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
        commit = done.stdout.strip() or "unknown"
    except FileNotFoundError:
        commit = "unknown"
    return {
        "commit": commit,
        "tvm": tvm.__version__,
        "llvm": codegen.llvm_version_major(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "xgboost": xgboost.__version__,
    }


def write_json(path, content):
    """Write a file as a whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    content : object
        Its content.
    """
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content) + "\n")
    unfinished.replace(path)


def read_result(path, kind, fields):
    """Read a file of results. Exits if it cannot be read or does not hold any.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        What the results are of.
    fields : Set[str]
        Some that they have.

    Returns
    -------
    result : Dict[str, object]
        The results.
    """
    try:
        result = json.loads(path.read_text())
    except OSError as error:
        sys.exit(f"{path} cannot be read: {error.strerror}.")
    except ValueError:
        result = None
    if not isinstance(result, dict) or not fields <= set(result):
        sys.exit(f"{path} does not hold the results of a {kind}: move it away.")
    return result


def read_results(folder, pattern, kind, read):
    """Read all files of results in a folder. Exits if there is none.

    Parameters
    ----------
    folder : Path
        The folder.
    pattern : str
        That of the files' names.
    kind : str
        What the results are of.
    read : Callable
        From a file to its results.

    Returns
    -------
    results : List[Dict[str, object]]
        The results, sorted by the files' names.
    """
    results = [read(path) for path in sorted(folder.glob(pattern))]
    if not results:
        sys.exit(f"{folder} does not hold the results of any {kind}.")
    return results


def origins_of(results):
    """The machines and the commits that results are from.

    Parameters
    ----------
    results : List[Dict[str, object]]
        The results.

    Returns
    -------
    origins : Tuple[Set[str], Set[str]]
        Descriptions of the machines, and the commits.
    """
    machines = {
        "{cpu}, {threads} threads, `{target}`".format(**result["machine"]) for result in results
    }
    return machines, {result["versions"]["commit"] for result in results}
