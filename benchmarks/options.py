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
"""Types of command line options. A bad value is refused in one line that names it."""

import argparse
from pathlib import Path

_MAX_INT32 = (1 << 31) - 1


def at_least(minimum):
    """The type of an option that is a 32 bit integer.

    Parameters
    ----------
    minimum : int
        Its lowest value.

    Returns
    -------
    parse : Callable
        From text to the integer.
    """

    def parse(text):
        if not text.isdecimal() or not minimum <= int(text) <= _MAX_INT32:
            raise argparse.ArgumentTypeError(
                f"must be an integer from {minimum} to {_MAX_INT32}, but it is {text}"
            )
        return int(text)

    return parse


def make_folder(text):
    """The type of an option that is a folder to write to, which is made.

    Parameters
    ----------
    text : str
        The folder.

    Returns
    -------
    folder : Path
        The folder.
    """
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"must be a folder to write to, but {text} cannot be made: {error.strerror}"
        ) from None
    return folder
