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
"""Check the log of an earlier search before another one goes on from it."""

import json
import logging
import os

from .measure_record import RecordReader

logger = logging.getLogger("auto_scheduler")

_RECORD_BEGIN = b'{"i": [['


def mend_log(log_file):
    """End the last line of a log, so that the log can be read and appended to.

    A writer that was killed may leave a part of a record. TVM does not read a log with that, or
    reads the part as if it were a record, and the next record would go on in the same line. Here
    the part becomes a comment, with a warning.

    Parameters
    ----------
    log_file : str
        The log.

    Raises
    ------
    FileNotFoundError
        If there is no such log.
    """
    if not os.path.isfile(log_file):
        raise FileNotFoundError(f"There is no log {log_file}")
    with open(log_file, "rb") as log:
        content = log.read()
    begin = content.rfind(b"\n") + 1
    line = content[begin:]
    is_comment = line.startswith((b"#", b" "))
    is_record = _RECORD_BEGIN.startswith(line[: len(_RECORD_BEGIN)])
    if not line or not (is_comment or is_record):  # not the work of a killed writer
        return
    with open(log_file, "r+b") as log:
        if is_record and not _is_json(line):
            logger.warning("The last record of the log %s was cut: it does not count", log_file)
            # To drop the part from the file would be as simple. But this way nothing is destroyed,
            # and if this writer is killed, too, the next one finds a comment without an end.
            log.seek(begin)
            log.write(b"#")
        log.seek(0, os.SEEK_END)
        log.write(b"\n")


def check_log(log_file, tasks):
    """Check a log before tasks are tuned from where it ends. Mends it.

    Warns if it has no record of any of the tasks.

    Parameters
    ----------
    log_file : str
        The log.
    tasks : List[SearchTask]
        The tasks.

    Raises
    ------
    FileNotFoundError
        If there is no such log.
    """
    mend_log(log_file)
    keys = {key_of(inp.task) for inp, _ in RecordReader(log_file)}
    if not any(key_of(task) in keys for task in tasks):
        logger.warning("%s", no_records_message(log_file, tasks, keys))


def key_of(task):
    """What tells tasks apart in a log.

    Parameters
    ----------
    task : SearchTask
        The task.

    Returns
    -------
    key : Tuple[str, str]
        Its workload key and its target.
    """
    return task.workload_key, str(task.target)


def no_records_message(log_file, tasks, keys):
    """What to say of a log that has no valid record of any of the tasks.

    Parameters
    ----------
    log_file : str
        The log.
    tasks : List[SearchTask]
        The tasks.
    keys : Iterable[Tuple[str, str]]
        The keys of the tasks that the log has records of.

    Returns
    -------
    message : str
        The message, which names the targets.
    """
    wanted = "; ".join(sorted({str(task.target) for task in tasks}))
    targets = "; ".join(sorted({target for _, target in keys}))
    found = f"Its records are for the target {targets}" if targets else "It has no records"
    return (
        f"The log {log_file} has no valid record of any of the {len(tasks)} tasks on {wanted}. "
        f"{found}"
    )


def _is_json(line):
    """Whether a line is complete, for a part of a JSON object is none itself."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
