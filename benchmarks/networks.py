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
"""Compare Ansor with DropletSearchPolicy on whole networks, at equal wall-clock time.

Each network is tuned three times: by TaskScheduler with sketch.xgb, with droplet.xgb, and with
droplet.xgb in a third of the time. Then it is compiled with each log and measured end to end. What
is finished is not done again, and a search that was interrupted goes on from its log.
"""

import argparse
import functools
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import network_report
from machine import detect_target, measure_options, use_all_cores
from models import MODELS
from network import NetworkError, load_model, load_onnx
from network_latency import UNTUNED, measure_network
from network_search import Contender, count_tuned, load_progress, search
from options import at_least, make_folder, parse_seed
from result_files import describe_origin, write_json
from winners import MeasureFailed, compare
from workers import keep_workers

import numpy as np

DEFAULT_MODELS = ("squeezenet-1.0", "mobilenet-v2", "resnet-18")


def parse_args(arguments=None):
    """Read the options.

    Parameters
    ----------
    arguments : Optional[List[str]]
        The words of the command line, by default those of this process.

    Returns
    -------
    args : argparse.Namespace
        The options.
    """
    parser = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="only list the models")
    parser.add_argument("--models", nargs="+", choices=MODELS, metavar="MODEL", default=[])
    parser.add_argument("--onnx", nargs="+", type=Path, metavar="FILE", default=[])
    parser.add_argument("--output", type=make_folder, default="build/networks", help="a folder")
    parser.add_argument(
        "--seconds",
        type=at_least(3),
        default=1200,
        help="of wall-clock time for a search",
    )
    parser.add_argument("--seed", type=parse_seed, default=0, help="of the searches")
    parser.add_argument(
        "--report", action="store_true", help="only report what is in the output folder"
    )
    args = parser.parse_args(arguments)
    if not args.models and not args.onnx:
        args.models = DEFAULT_MODELS
    return args


def list_models():
    """Print the names of the models, with their sizes."""
    for model in MODELS.values():
        shape = "x".join(map(str, model.input_shape))
        print(f"{model.name:18} {model.num_parameters / 1e6:7.2f} million parameters, {shape}")


def contenders(seconds):
    """The searches to compare.

    Parameters
    ----------
    seconds : int
        The wall-clock time of a search.

    Returns
    -------
    contenders : List[Contender]
        The searches.
    """
    return [
        Contender("sketch", "sketch.xgb", seconds),
        Contender("droplet", "droplet.xgb", seconds),
        Contender("droplet-third", "droplet.xgb", seconds / 3),
    ]


def find_networks(args):
    """The networks to tune.

    Parameters
    ----------
    args : argparse.Namespace
        The options.

    Returns
    -------
    loaders : Dict[str, Callable]
        From the name of each network to what loads it.
    """
    loaders = {name: functools.partial(load_model, name) for name in args.models}
    for path in args.onnx:
        if path.stem in loaders:
            raise NetworkError(f"{path}: another network is named {path.stem}, too. Rename one.")
        network = load_onnx(path)  # now, so that a bad file is found before hours of tuning
        loaders[network.name] = lambda network=network: network
    return loaders


def result_of(name, args):
    """The file with the results of a network."""
    return args.output / f"{name}-network.json"


def log_of(name, contender, args):
    """The log of a search."""
    return args.output / "records" / f"{name}-{contender.name}.json"


def minutes_left(names, args):
    """The minutes that the searches of all networks still need at most."""
    seconds = 0
    for name in names:
        for contender in contenders(args.seconds):
            progress = load_progress(log_of(name, contender, args))
            if not progress.finished:
                seconds += max(contender.seconds - progress.seconds, 0)
    return seconds / 60


def tune(network, target, measure, names, args):
    """Tune a network with each contender.

    Parameters
    ----------
    network : network.Network
        The network.
    target : tvm.target.Target
        The target.
    measure : Dict[str, object]
        The builder and the runner.
    names : List[str]
        All networks of this run.
    args : argparse.Namespace
        The options.

    Returns
    -------
    searches : Dict[str, Dict[str, object]]
        How each search went, ready for JSON.
    """
    print(f"\n{network.name}: extracting the tasks ...")
    tasks, weights = network.extract_tasks(target)
    print(f"{network.name}: {len(tasks)} distinct tasks, which occur {sum(weights)} times")
    searches = {}
    for contender in contenders(args.seconds):

        def report(progress, contender=contender):
            _, num_records, latency = progress.curve[-1]
            estimate = "not all tasks yet" if latency is None else f"{latency * 1e3:9.3f} ms"
            print(
                f"{network.name} {contender.name:13} {num_records:5} trials {estimate:>17} "
                f"{progress.seconds:5.0f} of {contender.seconds:.0f} s, "
                f"{minutes_left(names, args):.0f} min left in all"
            )

        log = log_of(network.name, contender, args)
        progress = search(contender, tasks, weights, log, measure, args.seed, report)
        searches[contender.name] = {
            "limit": contender.seconds,
            "num_tuned": count_tuned(tasks, log, progress.num_records),
            **asdict(progress),
        }
    return {"num_tasks": len(tasks), "searches": searches}


def measure_again(network, target, args):
    """Compile a network as each contender tuned it, and measure it end to end.

    Parameters
    ----------
    network : network.Network
        The network.
    target : tvm.target.Target
        The target.
    args : argparse.Namespace
        The options.

    Returns
    -------
    latencies : Dict[str, object]
        The latencies in seconds and their ratios, ready for JSON.
    """
    print(f"{network.name}: compiling and measuring it ...")
    logs = {contender.name: log_of(network.name, contender, args) for contender in contenders(0)}
    logs = {name: (log, load_progress(log).num_records) for name, log in logs.items()}
    samples = measure_network(network, target, logs, args.seed)
    return {
        "latencies": {
            name: {"median": float(np.median(own)), "samples": own} for name, own in samples.items()
        },
        "ratios": {
            f"{name}/{other}": compare(samples[name], samples[other])
            for name in logs
            for other in (network_report.REFERENCE, UNTUNED)
        },
    }


def check_settings(settings, folder):
    """Keep the settings of a folder, so that it does not come to hold searches that differ.

    Parameters
    ----------
    settings : Dict[str, object]
        Those of this run. Exits if the folder has other ones.
    folder : Path
        The output folder.
    """
    path = folder / "settings.json"
    found = json.loads(path.read_text()) if path.exists() else settings
    if found != settings:
        sys.exit(f"{folder} was begun with {found}, not with {settings}: name another --output.")
    write_json(path, settings)


def leave(*_):
    """On Ctrl-C, say so and leave."""
    print("\nInterrupted: the same command goes on from the records so far.", flush=True)
    # Not by an exception: TVM would take it for the failure of a candidate.
    os._exit(128 + signal.SIGINT)


def hold(loaders, args):
    """Tune and measure networks, and report all results after each.

    Parameters
    ----------
    loaders : Dict[str, Callable]
        From the name of each network to what loads it.
    args : argparse.Namespace
        The options.
    """
    num_cores = use_all_cores()
    target = detect_target()
    settings = {"seconds": args.seconds, "seed": args.seed, "target": str(target)}
    check_settings(settings, args.output)
    (args.output / "records").mkdir(exist_ok=True)
    keep_workers()
    signal.signal(signal.SIGINT, leave)
    failed = []
    for name, load in loaders.items():
        if result_of(name, args).exists():
            print(f"{name}: finished already, see {result_of(name, args)}")
            continue
        origin = describe_origin(target, num_cores)
        network = load()
        searches = tune(network, target, measure_options(num_cores), list(loaders), args)
        try:
            latencies = measure_again(network, target, args)
        except MeasureFailed as error:
            print(f"{name}: {error}")
            failed.append(name)
            continue
        write_json(
            result_of(name, args),
            {"network": name, "settings": settings, **searches, **latencies, **origin},
        )
        network_report.write(args.output)
    if failed:
        sys.exit(f"No result of {', '.join(failed)}. The same command measures again.")


def main():
    """Do what the options say."""
    args = parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    if args.list:
        list_models()
    elif args.report:
        network_report.write(args.output)
    else:
        try:
            hold(find_networks(args), args)
        except NetworkError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
