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
"""Report contests: a table and two plots."""

from collections import defaultdict

from result_files import origins_of, read_result, read_results

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

# Some that every contest has.
FIELDS = {"settings", "contenders", "winners"}
# Of Okabe and Ito's palette, which the color-blind can tell apart.
COLORS = {"droplet": "#0072B2", "sketch": "#E69F00", "sketch+": "#009E73"}
RIVAL_COLORS = {"sketch": "#E69F00", "sketch@droplet": "#CC79A7", "sketch+": "#009E73"}
LABELS = {
    "droplet": "DropletSearchPolicy",
    "sketch": "SketchPolicy",
    "sketch+": "SketchPolicy, continued from what droplet explored",
}
RIVALS = tuple(RIVAL_COLORS)
# Before this many seconds, who is ahead depends on when the first batches end.
MIN_EQUAL_SECONDS = 60

NOTES = """\
- droplet: DropletSearchPolicy. sketch: SketchPolicy with all its trials. sketch@droplet: the best
  of sketch at the wall-clock time at which droplet ended. sketch+: SketchPolicy continued from what
  droplet explored, with as many trials as the descent had.
- Latencies are medians of the winners measured again in fresh processes. A ratio is the latency of
  droplet over that of the other: the median over the rounds in which both were measured, in
  brackets the 10th and 90th percentile. Below 1, droplet's kernel is the faster one. Means are over
  kernels, and for each of them over its seeds.
- Trials of droplet, and those that failed: explored + descended.
- own code: the search itself without building and running candidates, in the descent. evolution:
  the same while exploring, thus evolutionary search and training of the cost model."""


def read(path):
    """Read the results of a contest. Exits if the file does not hold any.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    result : Dict[str, object]
        The results.
    """
    return read_result(path, "contest", FIELDS)


def read_all(folder):
    """Read the results of all contests of a folder. Exits if there is none.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    results : List[Dict[str, object]]
        The results.
    """
    return read_results(folder, "*-seed*.json", "contest", FIELDS)


def write(folder):
    """Write and print the report of a folder's contests.

    Parameters
    ----------
    folder : Path
        The folder.
    """
    results = read_all(folder)
    results.sort(key=lambda result: (result["kernel"], result["seed"]))
    text = table(results)
    (folder / "table.md").write_text(text + "\n")
    print(f"\n{text}\n")
    plot_curves(results, folder / "curves.png")
    plot_ratios(results, folder / "ratios.png")
    print(f"Table, plots and results: {folder}")


def geometric_mean(values):
    """The geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(values))))


def mean_over_kernels(ratios):
    """The geometric mean over kernels, each with the geometric mean of its seeds.

    Parameters
    ----------
    ratios : Dict[str, List[float]]
        The ratios of each kernel.

    Returns
    -------
    cell : str
        The mean as a cell of a table.
    """
    if not ratios:
        return "-"
    return f"{geometric_mean([geometric_mean(seeds) for seeds in ratios.values()]):.3f}"


def best_so_far(trials, start=None):
    """The curve of a search.

    Parameters
    ----------
    trials : List[Dict[str, object]]
        Its trials, in order.
    start : Optional[float]
        A latency that is known before the first trial.

    Returns
    -------
    seconds : numpy.ndarray
        When the batches ended.
    best : numpy.ndarray
        The lowest latency then, infinite if none ran yet.
    """
    best, known = {}, np.inf if start is None else start
    for trial in trials:
        if trial["latency"] is not None:
            known = min(known, trial["latency"])
        best[trial["seconds"]] = known
    return np.array(list(best)), np.array(list(best.values()))


def worst_ratio(droplet, sketch, begin, end):
    """The worst ratio of two searches' curves at equal wall-clock times.

    Parameters
    ----------
    droplet : List[Dict[str, object]]
        The trials of the search in the numerator.
    sketch : List[Dict[str, object]]
        Those of the other one.
    begin : float
        The first time that counts.
    end : float
        The last one. A search that has ended by then keeps its last value.

    Returns
    -------
    ratio : Optional[float]
        The highest of the ratios at the ends of batches, and at `begin` and `end`. None if `end` is
        before `begin`, or if the second search had nothing by then.
    """
    if end < begin:
        return None
    curves = [best_so_far(trials) for trials in (droplet, sketch)]
    times = np.unique(np.concatenate([seconds for seconds, _ in curves] + [[begin, end]]))
    times = times[(times >= begin) & (times <= end)]
    own, other = (
        np.concatenate([[np.inf], best])[np.searchsorted(seconds, times, side="right")]
        for seconds, best in curves
    )
    comparable = np.isfinite(other)
    return float(np.max(own[comparable] / other[comparable])) if comparable.any() else None


def equal_time_ratios(result):
    """The worst ratios of a contest at equal wall-clock times.

    Parameters
    ----------
    result : Dict[str, object]
        The contest.

    Returns
    -------
    ratios : List[Optional[float]]
        Until droplet ends, and until both have ended.
    """
    droplet, sketch = (result["contenders"][name] for name in ("droplet", "sketch"))
    ends = (droplet["seconds"], max(droplet["seconds"], sketch["seconds"]))
    return [
        worst_ratio(droplet["trials"], sketch["trials"], MIN_EQUAL_SECONDS, end) for end in ends
    ]


def table(results):
    """The results as text.

    Parameters
    ----------
    results : List[Dict[str, object]]
        The contests.

    Returns
    -------
    text : str
        Tables in Markdown, with what they show.
    """
    sections = [
        ("Winners, measured again", latency_rows(results)),
        ("What the searches took", search_rows(results)),
        ("Where the seconds went", split_rows(results)),
        (
            f"Worst ratio droplet/sketch of the best so far at equal wall-clock from "
            f"{MIN_EQUAL_SECONDS} s on (logged latencies, not re-measured)",
            equal_time_rows(results),
        ),
    ]
    spread = spread_rows(results)
    if spread:
        sections.append(("Spread of the ratios over the seeds: min / median / max", spread))
    lines = []
    for title, rows in sections:
        lines += [f"### {title}", "", *markdown(rows), ""]
    machines, commits = origins_of(results)
    settings = {
        "{explore_trials} + {descend_trials} trials of droplet against {sketch_trials} of "
        "sketch".format(**result["settings"])
        for result in results
    }
    lines += [NOTES]
    lines += [f"- {'; '.join(sorted(facts))}" for facts in (settings, machines, commits)]
    return "\n".join(lines)


def markdown(rows):
    """Lines of a table in Markdown, whose first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
    return lines


def head_of(result):
    """The first cells of a contest's row."""
    return [result["kernel"], str(result["seed"])]


def latency_rows(results):
    """Latencies and ratios of the winners."""
    names = ("droplet", *RIVALS)
    rows = [["kernel", "seed", *(f"{n} ms" for n in names), *(f"droplet/{n}" for n in RIVALS)]]
    ratios = {name: defaultdict(list) for name in RIVALS}
    for result in results:
        winners = result["winners"]
        row = head_of(result)
        row += [f"{winners[n]['latency'] * 1e3:.4f}" if winners[n] else "-" for n in names]
        for name in RIVALS:
            if winners[name]:
                ratio = winners[name]["ratio"]
                ratios[name][result["kernel"]].append(ratio["median"])
                row.append("{median:.3f} [{p10:.3f}, {p90:.3f}]".format(**ratio))
            else:
                row.append("-")
        rows.append(row)
    means = [mean_over_kernels(ratios[name]) for name in RIVALS]
    rows.append(["geometric mean", "", *[""] * len(names), *means])
    return rows


def num_failed(trials):
    """How many trials failed."""
    return sum(trial["latency"] is None for trial in trials)


def search_rows(results):
    """Wall-clock times, trials and failures."""
    rows = [
        ["kernel", "seed", "droplet s", "sketch s", "sketch+ s", "droplet/sketch"]
        + ["droplet trials", "sketch trials", "sketch+ trials"]
        + ["droplet failed", "sketch failed", "sketch+ failed"]
    ]
    ratios = defaultdict(list)
    for result in results:
        droplet, sketch, continued = (result["contenders"][name] for name in COLORS)
        explored = droplet["explored"]
        explore, descend = droplet["trials"][:explored], droplet["trials"][explored:]
        ratio = droplet["seconds"] / sketch["seconds"]
        ratios[result["kernel"]].append(ratio)
        rows.append(
            head_of(result)
            + [f"{contender['seconds']:.1f}" for contender in (droplet, sketch, continued)]
            + [f"{ratio:.3f}", f"{len(explore)} + {len(descend)}"]
            + [str(len(contender["trials"])) for contender in (sketch, continued)]
            + [f"{num_failed(explore)} + {num_failed(descend)}"]
            + [str(num_failed(contender["trials"])) for contender in (sketch, continued)]
        )
    rows.append(["geometric mean", "", "", "", "", mean_over_kernels(ratios), *[""] * 6])
    return rows


def split_rows(results):
    """Where droplet and sketch spent their time."""
    rows = [
        ["kernel", "seed", "droplet evolution", "droplet own code", "droplet build", "droplet run"]
        + ["sketch evolution", "sketch build", "sketch run"]
    ]
    for result in results:
        droplet, sketch = (result["contenders"][name]["split"] for name in ("droplet", "sketch"))
        seconds = [droplet.get(phase, {}).get("search", 0) for phase in ("explore", "descend")]
        seconds += [sum(phase[name] for phase in droplet.values()) for name in ("build", "run")]
        seconds += [sketch["all"][name] for name in ("search", "build", "run")]
        rows.append(head_of(result) + [f"{value:.2f}" for value in seconds])
    return rows


def equal_time_rows(results):
    """The worst ratios at equal wall-clock times."""
    rows = [["kernel", "seed", "until droplet ends", "until both have ended"]]
    for result in results:
        ratios = equal_time_ratios(result)
        rows.append(head_of(result) + ["-" if r is None else f"{r:.3f}" for r in ratios])
    return rows


def spread_rows(results):
    """The ratios of kernels with several seeds. No rows if there are none."""
    by_kernel = defaultdict(list)
    for result in results:
        by_kernel[result["kernel"]].append(result["winners"])
    rows = [["kernel", "seeds", *(f"droplet/{name}" for name in RIVALS)]]
    for kernel, contests in by_kernel.items():
        if len(contests) > 1:
            row = [kernel, str(len(contests))]
            for name in RIVALS:
                ratios = [winners[name]["ratio"]["median"] for winners in contests if winners[name]]
                spread = np.percentile(ratios, [0, 50, 100]) if ratios else []
                row.append(" / ".join(f"{ratio:.3f}" for ratio in spread) or "-")
            rows.append(row)
    return rows if len(rows) > 1 else []


def plot_curves(results, path):
    """Plot the best latency so far against the wall-clock time, a panel for each kernel.

    Parameters
    ----------
    results : List[Dict[str, object]]
        The contests.
    path : Path
        The image to write.
    """
    kernels = list(dict.fromkeys(result["kernel"] for result in results))
    num_columns = min(len(kernels), 4)
    num_rows = -(-len(kernels) // num_columns)
    figure = Figure(figsize=(max(4 * num_columns, 7), 3.2 * num_rows + 0.8), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).flat
    for kernel, axes in zip(kernels, panels):
        for result in results:
            if result["kernel"] == kernel:
                plot_contest(result, axes)
        axes.set(title=kernel, xlabel="own wall-clock (s)", ylabel="best latency so far (ms)")
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.3)
    for axes in panels:  # those that are left
        axes.remove()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    legend = dict(zip(labels, handles))
    figure.legend(legend.values(), legend, loc="outside lower center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=120)


def plot_contest(result, axes):
    """Plot the curves of a contest."""
    contenders = result["contenders"]
    droplet = contenders["droplet"]
    seconds, best = best_so_far(droplet["trials"][: droplet["explored"]])
    turn, turn_latency = seconds[-1], best[-1]
    for name in ("sketch", "sketch+", "droplet"):
        start = turn_latency if name == "sketch+" else None
        seconds, best = best_so_far(contenders[name]["trials"], start)
        if name == "sketch+":
            seconds, best = np.append(turn, seconds), np.append(turn_latency, best)
        axes.step(
            np.append(seconds, contenders[name]["seconds"]),
            np.append(best, best[-1]) * 1e3,
            where="post",
            color=COLORS[name],
            linewidth=1.2,
            label=LABELS[name],
        )
    axes.plot(
        turn,
        turn_latency * 1e3,
        "o",
        markersize=5,
        color=COLORS["droplet"],
        label="DropletSearchPolicy begins to descend",
    )


def plot_ratios(results, path):
    """Plot the ratios of the winners' latencies.

    Parameters
    ----------
    results : List[Dict[str, object]]
        The contests.
    path : Path
        The image to write.
    """
    several = len({result["seed"] for result in results}) > 1
    ticks = [
        f"{result['kernel']}\nseed {result['seed']}" if several else result["kernel"]
        for result in results
    ]
    figure = Figure(figsize=(max(1.3 * len(results) + 1, 7), 4.5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(RIVALS)
    for index, name in enumerate(RIVALS):
        found = [
            (i, r["winners"][name]["ratio"]) for i, r in enumerate(results) if r["winners"][name]
        ]
        places = [i + (index - (len(RIVALS) - 1) / 2) * width for i, _ in found]
        medians = [ratio["median"] for _, ratio in found]
        whiskers = [
            [ratio["median"] - ratio["p10"] for _, ratio in found],
            [ratio["p90"] - ratio["median"] for _, ratio in found],
        ]
        axes.bar(
            places,
            medians,
            width,
            yerr=whiskers,
            capsize=2,
            color=RIVAL_COLORS[name],
            label=f"droplet/{name}",
        )
    axes.axhline(1, color="black", linewidth=1)
    axes.set_xticks(range(len(results)), ticks)
    axes.set_ylabel("ratio of latencies (below 1: droplet is faster)")
    axes.margins(x=0.01)
    figure.legend(loc="outside upper center", ncols=len(RIVALS), fontsize="small")
    figure.savefig(path, dpi=120)
