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
"""The command line options of the benchmarks. A bad value is refused in one line that names it."""

import argparse
from pathlib import Path

_MAX_INT32 = (1 << 31) - 1

# Those of the demo and of the measurements of the search itself.
DEMO_KERNELS = ("matmul", "conv2d")


def at_least(minimum, maximum=_MAX_INT32):
    """The type of an option that is a 32 bit integer.

    Parameters
    ----------
    minimum : int
        Its lowest value.
    maximum : int
        Its highest value.

    Returns
    -------
    parse : Callable
        From text to the integer.
    """

    def parse(text):
        if not text.isdecimal() or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(
                f"must be an integer from {minimum} to {maximum}, but it is {text}"
            )
        return int(text)

    return parse


# Policies take the seed 0 for none, so they are given one more.
parse_seed = at_least(0, _MAX_INT32 - 1)


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


def parse_search_args(description, output, trials, explore_trials):
    """Read the options of a script that searches for schedules of the kernels.

    Parameters
    ----------
    description : str
        What the script does.
    output : str
        The default of the folder to write to.
    trials : int
        The default number of trials.
    explore_trials : int
        The default number of them that explore.

    Returns
    -------
    args : argparse.Namespace
        The options.
    """
    parser = argparse.ArgumentParser(description=description, usage=argparse.SUPPRESS)
    parser.add_argument("--output", type=make_folder, default=output, help="a folder")
    parser.add_argument("--trials", type=at_least(2), default=trials, help="at most, each kernel")
    parser.add_argument(
        "--explore-trials", type=at_least(1), default=explore_trials, help="of these trials"
    )
    parser.add_argument("--kernels", nargs="+", choices=DEMO_KERNELS, default=DEMO_KERNELS)
    parser.add_argument("--seed", type=parse_seed, default=0, help="of the search and the inputs")
    args = parser.parse_args()
    args.kernels = list(dict.fromkeys(args.kernels))
    return args
