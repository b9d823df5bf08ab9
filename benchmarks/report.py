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
"""Report searches: a table, a plot, and all their numbers."""

from dataclasses import asdict

from result_files import describe_origin

import numpy as np
from matplotlib.figure import Figure


def table(searches):
    """The results as a table.

    Parameters
    ----------
    searches : List[Search]
        The searches, compared.

    Returns
    -------
    text : str
        The lines of the table, with what they show.
    """
    rows = [
        ("", "best after", "best after", "trials", "failed", "seconds", "GFLOP/s", ""),
        ("kernel", "exploring", "descending", "of each", "of each", "of each", "at last", "gain"),
    ]
    for search in searches:
        explored, descended = search.phases
        rows.append(
            (
                search.kernel.name,
                f"{explored.latency * 1e3:.3f} ms",
                f"{descended.latency * 1e3:.3f} ms",
                f"{explored.trials} + {descended.trials}",
                f"{explored.failed} + {descended.failed}",
                f"{explored.seconds:.0f} + {descended.seconds:.0f}",
                f"{search.gflops(descended.latency):.1f}",
                f"{search.gain:.2f}x",
            )
        )
    lines = ["  ".join(f"{cell:>11}" for cell in row) for row in rows]
    lines += [
        f"Latencies are medians of {len(descended.samples)} measurements of the best candidate of",
        "each phase, taken in turns after the search. The gain is their ratio.",
    ]
    return "\n".join(lines)


def plot(searches, path):
    """Plot the best latency so far against time.

    Parameters
    ----------
    searches : List[Search]
        The searches.
    path : Path
        The image to write.
    """
    figure = Figure(figsize=(6 * len(searches), 4), layout="constrained")
    panels = figure.subplots(1, len(searches), squeeze=False)[0]
    for search, axes in zip(searches, panels):
        plot_search(search, axes)
    figure.savefig(path, dpi=120)


def plot_search(search, axes):
    """Plot one search.

    Parameters
    ----------
    search : Search
        The search.
    axes : matplotlib.axes.Axes
        Where to draw it.
    """
    latencies = [trial.latency or np.inf for trial in search.trials]
    best = np.minimum.accumulate(latencies) * 1e3
    seconds = [trial.seconds for trial in search.trials]
    turn = search.phases[0].seconds
    end = turn + search.phases[1].seconds
    axes.step([*seconds, end], [*best, best[-1]], where="post", color="black", label="best so far")
    axes.plot(
        seconds, np.multiply(latencies, 1e3), ".", color="gray", alpha=0.5, label="candidates"
    )
    axes.axvspan(0, turn, color="tab:blue", alpha=0.1, label="exploring")
    axes.axvspan(turn, end, color="tab:orange", alpha=0.2, label="descending")
    axes.set(
        title=f"{search.kernel.name}: {search.kernel.description}",
        xlabel="seconds of search",
        ylabel="latency as logged (ms)",
        xlim=(0, end),
        yscale="log",
    )
    axes.title.set_fontsize("medium")
    axes.legend(fontsize="small")


def summary(searches, target, num_cores, args):
    """All numbers of a run, with what they depend on.

    Parameters
    ----------
    searches : List[Search]
        The searches, compared.
    target : tvm.target.Target
        The target.
    num_cores : int
        The number of cores that kernels ran on.
    args : argparse.Namespace
        The options of the demo.

    Returns
    -------
    numbers : Dict[str, object]
        Latencies are in seconds.
    """
    kernels = {}
    for search in searches:
        explored, descended = search.phases
        kernels[search.kernel.name] = {
            "description": search.kernel.description,
            "gain": search.gain,
            "gflops": search.gflops(descended.latency),
            "explore": {"latency": explored.latency, **asdict(explored)},
            "descend": {"latency": descended.latency, **asdict(descended)},
            "history": [asdict(trial) for trial in search.trials],
        }
    return {
        **describe_origin(target, num_cores),
        "seed": args.seed,
        "max_trials": args.trials,
        "kernels": kernels,
    }
