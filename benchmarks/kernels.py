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
"""Compare the searches of TVM with droplet search, kernel by kernel, at equal conditions: for the
AutoScheduler SketchPolicy with DropletSearchPolicy, for MetaSchedule EvolutionarySearch with
DropletSearch.

A contest is a kernel and a seed. Its results go to a file of its own in the output folder, which
also gets a table and plots of all results that it holds. A contest that is there already is not
held again.
"""

import argparse
import os
import signal
import sys
from dataclasses import asdict

import contest_report
from contest import Settings, hold_contest
from machine import GPU_TARGETS, detect_gpu, detect_target, use_all_cores
from options import at_least, make_folder, parse_seed
from result_files import describe_machine, describe_origin, write_json
from schedulers import SCHEDULERS
from winners import MeasureFailed
from workers import keep_workers
from workloads import KERNELS

DEFAULT_KERNELS = (
    "matmul",
    "conv2d",
    "conv2d_1x1",
    "depthwise",
    "dense",
    "batch_matmul",
    "pooling",
    "softmax",
)
QUICK_KERNELS = ("matmul", "softmax")
# Trials explored, descended, and of the rival.
DEFAULT_TRIALS = {"auto": (48, 80, 512), "meta": (64, 128, 512)}
QUICK_TRIALS = (16, 32, 64)


def parse_args(arguments=None):
    """Read the options.

    Parameters
    ----------
    arguments : Optional[List[str]]
        The words of the command line, by default those of this process.

    Returns
    -------
    args : argparse.Namespace
        The options, with `settings`.
    """
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS)
    parser.add_argument(
        "--output",
        type=make_folder,
        help="a folder, of contests with the same settings (default: build/kernels, or "
        "build/kernels-quick with --quick)",
    )
    parser.add_argument("--kernels", nargs="+", choices=KERNELS)
    parser.add_argument("--target", choices=("llvm", *GPU_TARGETS), default="llvm")
    parser.add_argument("--seeds", nargs="+", type=parse_seed, default=[0])
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="auto")
    parser.add_argument("--explore-trials", type=at_least(1), help="of droplet search")
    parser.add_argument("--descend-trials", type=at_least(1), help="of droplet search")
    parser.add_argument("--rival-trials", type=at_least(1), help="of the other search")
    parser.add_argument(
        "--quick", action="store_true", help="other defaults: two kernels, few trials, minutes"
    )
    parser.add_argument(
        "--report", action="store_true", help="only report what is in the output folder"
    )
    args = parser.parse_args(arguments)
    args.output = args.output or make_folder(f"build/kernels{'-quick' if args.quick else ''}")
    defaults = QUICK_TRIALS if args.quick else DEFAULT_TRIALS[args.scheduler]
    given = (args.explore_trials, args.descend_trials, args.rival_trials)
    args.settings = Settings(args.scheduler, *(g or d for g, d in zip(given, defaults)))
    check_share(parser, args.settings)
    kernels = args.kernels or (QUICK_KERNELS if args.quick else DEFAULT_KERNELS)
    args.kernels = list(dict.fromkeys(kernels))
    args.seeds = list(dict.fromkeys(args.seeds))
    return args


def check_share(parser, settings):
    """Exit if DropletSearch would explore less than it is asked for."""
    num_trials = settings.explore_trials + settings.descend_trials
    if settings.scheduler == "meta" and settings.explore_trials * 8 > num_trials * 3:
        parser.error(
            f"--explore-trials is {settings.explore_trials}, but DropletSearch spends at most "
            f"three eighths of its {num_trials} trials on exploring"
        )


def contests_to_hold(args):
    """The contests that are not finished yet. Exits if those of the folder were held with other
    settings or for a target of another kind.

    Parameters
    ----------
    args : argparse.Namespace
        The options.

    Returns
    -------
    contests : List[Tuple[str, int, Path]]
        Kernel, seed and the file of the results.
    """
    held = held_before(args.output)
    if held:
        kind = held["machine"]["target"].partition(" ")[0]
        found = {**held["settings"], "target": kind}
        wanted = {**asdict(args.settings), "target": args.target}
        if found != wanted:
            sys.exit(
                f"{args.output} has contests with {found}, not with {wanted}: "
                "name another --output."
            )
    contests = []
    for seed in args.seeds:
        for name in args.kernels:
            path = args.output / contest_report.file_name(name, seed)
            if path.exists():
                print(f"{name}, seed {seed}: finished already, see {path}")
            else:
                contests.append((name, seed, path))
    return contests


def held_before(folder):
    """The results of a contest in the folder, None if there is none."""
    held = any(folder.glob(contest_report.PATTERN))
    return contest_report.read_all(folder)[0] if held else None


def check_machine(folder, here):
    """Exit if the contests of a folder were held on another machine.

    Parameters
    ----------
    folder : Path
        The folder.
    here : Dict[str, object]
        The description of this machine.
    """
    held = held_before(folder)
    if held and held["machine"] != here:
        sys.exit(
            f"{folder} has contests of another machine, {held['machine']}, but this is {here}: "
            "name another --output."
        )


def leave(*_):
    """On Ctrl-C, say so and leave."""
    print("\nInterrupted: the contest that was going on begins anew next time.", flush=True)
    # Not by an exception: TVM would take it for the failure of a candidate.
    os._exit(128 + signal.SIGINT)


def hold(contests, args):
    """Hold contests, and report all results after each.

    Parameters
    ----------
    contests : List[Tuple[str, int, Path]]
        Kernel, seed and the file of the results.
    args : argparse.Namespace
        The options.
    """
    num_cores = use_all_cores()
    target = detect_target() if args.target == "llvm" else detect_gpu(args.target)
    check_machine(args.output, describe_machine(target, num_cores))
    keep_workers()
    signal.signal(signal.SIGINT, leave)
    failed = []
    for name, seed, path in contests:
        print(f"\n{name}, seed {seed}: {KERNELS[name].description}")
        origin = describe_origin(target, num_cores)
        kernel = KERNELS[name]
        try:
            result = hold_contest(kernel, target, seed, args.settings, args.output, num_cores)
        except MeasureFailed as error:
            print(f"{name}, seed {seed}: {error}")
            failed.append(f"{name} with seed {seed}")
            continue
        write_json(path, {**result, **origin})
        contest_report.write(args.output)
    if failed:
        sys.exit(f"No result of {', '.join(failed)}. The logs are in {args.output / 'records'}.")


def main():
    """Hold the contests and report them."""
    args = parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    contests = [] if args.report else contests_to_hold(args)
    if contests:
        hold(contests, args)
    else:
        contest_report.write(args.output)


if __name__ == "__main__":
    main()
