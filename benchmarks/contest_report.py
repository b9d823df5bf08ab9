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

import json
import sys
from collections import defaultdict

from result_files import origins_of, read_result, read_results
from schedulers import SCHEDULERS

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

# Of the files in a folder.
PATTERN = "*-seed*.json"
# Some that every contest has.
FIELDS = {"kernel", "seed", "settings", "contenders", "winners", "machine", "versions"}
# Of Okabe and Ito's palette, which the color-blind can tell apart.
DROPLET_COLOR = "#0072B2"
RIVAL_COLORS = ("#E69F00", "#CC79A7", "#009E73")  # in the order of `rivals_of`
# Before this many seconds, who is ahead depends on when the first batches end.
MIN_EQUAL_SECONDS = 60

NOTES = """\
- {searches}. {rival}@droplet: the best of {rival} at the
  wall-clock time at which droplet ended. {rival}+: {rival} continued from what droplet explored,
  with as many trials as the descent had.
- Latencies are medians of the winners measured again in fresh processes. A ratio is the latency of
  droplet over that of the other: the median over the rounds in which both were measured, in
  brackets the 10th and 90th percentile. Below 1, droplet's kernel is the faster one. Means are over
  kernels, and for each of them over its seeds.
- Trials of droplet, and those that failed: explored + descended. {rival}@droplet trials: those of
  {rival} by the time at which droplet ended.
- own code: the search itself in the descent, without what has a column of its own; ms a trial: the
  same for each trial of the descent. evolution: the same while exploring, thus evolutionary search
  and, where that has no column, training of the cost model."""


def file_name(kernel, seed):
    """The file of a contest's results."""
    return f"{kernel}-seed{seed}.json"


def read(path):
    """Read the results of a contest. Exits if the file does not hold any, or not those of the
    contest that it is named after.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    result : Dict[str, object]
        The results.
    """
    result = read_result(path, "contest", FIELDS)
    name = file_name(result["kernel"], result["seed"])
    if path.name != name:
        sys.exit(f"{path} holds another contest: rename it to {name}, or move it away.")
    return result


def read_all(folder):
    """Read the results of all contests of a folder. Exits if there is none, or if they do not
    compare: those of different settings or machines.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    results : List[Dict[str, object]]
        The results.
    """
    results = read_results(folder, PATTERN, "contest", read)
    for name in ("settings", "machine"):
        found = sorted({json.dumps(result[name], sort_keys=True) for result in results})
        if len(found) > 1:
            sys.exit(f"{folder} has contests whose {name} differ: {' and '.join(found)}.")
    return results


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


def scheduler_of(result):
    """The scheduler whose searches a contest was of."""
    return SCHEDULERS[result["settings"]["scheduler"]]


def rivals_of(result):
    """What droplet is compared with: its rival, that at droplet's time, and that continued."""
    rival = scheduler_of(result).rival
    return rival, f"{rival}@droplet", f"{rival}+"


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


def worst_ratio(droplet, rival, begin, end):
    """The worst ratio of two searches' curves at equal wall-clock times.

    Parameters
    ----------
    droplet : List[Dict[str, object]]
        The trials of the search in the numerator.
    rival : List[Dict[str, object]]
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
    curves = [best_so_far(trials) for trials in (droplet, rival)]
    times = np.unique(np.concatenate([seconds for seconds, _ in curves] + [[begin, end]]))
    times = times[(times >= begin) & (times <= end)]
    own, other = (
        np.concatenate([[np.inf], best])[np.searchsorted(seconds, times, side="right")]
        for seconds, best in curves
    )
    comparable = np.isfinite(other)
    return float(np.max(own[comparable] / other[comparable])) if comparable.any() else None


def contenders_of(result):
    """The rival, droplet and the continued rival."""
    rival, _, continued = rivals_of(result)
    return [result["contenders"][name] for name in (rival, "droplet", continued)]


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
    rival, droplet, _ = contenders_of(result)
    ends = (droplet["seconds"], max(droplet["seconds"], rival["seconds"]))
    return [worst_ratio(droplet["trials"], rival["trials"], MIN_EQUAL_SECONDS, end) for end in ends]


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
    rival = scheduler_of(results[0]).rival
    sections = [
        ("Winners, measured again", latency_rows(results)),
        ("What the searches took", search_rows(results)),
        ("Where the seconds went", split_rows(results)),
        (
            f"Worst ratio droplet/{rival} of the best so far at equal wall-clock from "
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
        "{explore_trials} + {descend_trials} trials of droplet against {rival_trials} of ".format(
            **result["settings"]
        )
        + rival
        for result in results
    }
    lines += [NOTES.format(rival=rival, searches=scheduler_of(results[0]).searches)]
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
    rivals = rivals_of(results[0])
    names = ("droplet", *rivals)
    rows = [["kernel", "seed", *(f"{n} ms" for n in names), *(f"droplet/{n}" for n in rivals)]]
    ratios = {name: defaultdict(list) for name in rivals}
    for result in results:
        winners = result["winners"]
        row = head_of(result)
        row += [f"{winners[n]['latency'] * 1e3:.4f}" if winners[n] else "-" for n in names]
        for name in rivals:
            if winners[name]:
                ratio = winners[name]["ratio"]
                ratios[name][result["kernel"]].append(ratio["median"])
                row.append("{median:.3f} [{p10:.3f}, {p90:.3f}]".format(**ratio))
            else:
                row.append("-")
        rows.append(row)
    means = [mean_over_kernels(ratios[name]) for name in rivals]
    rows.append(["geometric mean", "", *[""] * len(names), *means])
    return rows


def num_failed(trials):
    """How many trials failed."""
    return sum(trial["latency"] is None for trial in trials)


def search_rows(results):
    """Wall-clock times, trials and failures."""
    rival, _, continued = rivals_of(results[0])
    names = ("droplet", rival, continued)
    rows = [
        ["kernel", "seed", *(f"{name} s" for name in names), f"droplet/{rival}"]
        + [f"{name} {what}" for what in ("trials", "failed") for name in names]
        + [f"{rival}@droplet trials"]
    ]
    ratios = defaultdict(list)
    for result in results:
        rival, droplet, continued = contenders_of(result)
        explored = droplet["explored"]
        explore, descend = droplet["trials"][:explored], droplet["trials"][explored:]
        ratio = droplet["seconds"] / rival["seconds"]
        ratios[result["kernel"]].append(ratio)
        rows.append(
            head_of(result)
            + [f"{contender['seconds']:.1f}" for contender in (droplet, rival, continued)]
            + [f"{ratio:.3f}", f"{len(explore)} + {len(descend)}"]
            + [str(len(contender["trials"])) for contender in (rival, continued)]
            + [f"{num_failed(explore)} + {num_failed(descend)}"]
            + [str(num_failed(contender["trials"])) for contender in (rival, continued)]
            + [str(sum(trial["seconds"] <= droplet["seconds"] for trial in rival["trials"]))]
        )
    rows.append(["geometric mean", "", "", "", "", mean_over_kernels(ratios), *[""] * 7])
    return rows


def split_rows(results):
    """Where droplet and its rival spent their time."""
    rival = scheduler_of(results[0]).rival
    activities = scheduler_of(results[0]).activities
    rows = [
        ["kernel", "seed", "droplet evolution", "droplet own code", "ms a trial"]
        + [f"droplet {what}" for what in activities]
        + [f"{rival} {what}" for what in ("evolution", *activities)]
    ]
    for result in results:
        rival, droplet, _ = contenders_of(result)
        num_descended = len(droplet["trials"]) - droplet["explored"]
        explore, descend = (
            droplet["split"].get(phase, dict.fromkeys(("search", *activities), 0.0))
            for phase in ("explore", "descend")
        )
        own_ms = descend["search"] / num_descended * 1e3 if num_descended else 0.0
        seconds = [explore["search"], descend["search"], own_ms]
        seconds += [explore[name] + descend[name] for name in activities]
        seconds += [rival["split"]["all"][name] for name in ("search", *activities)]
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
    rivals = rivals_of(results[0])
    rows = [["kernel", "seeds", *(f"droplet/{name}" for name in rivals)]]
    for kernel, contests in by_kernel.items():
        if len(contests) > 1:
            row = [kernel, str(len(contests))]
            for name in rivals:
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
    rival, droplet, continued = contenders_of(result)
    name, _, continued_name = rivals_of(result)
    seconds, best = best_so_far(droplet["trials"][: droplet["explored"]])
    turn, turn_latency = seconds[-1], best[-1]
    seconds, best = best_so_far(continued["trials"], turn_latency)
    continued_curve = np.append(turn, seconds), np.append(turn_latency, best)
    for contender, (seconds, best), color, label in (
        (rival, best_so_far(rival["trials"]), RIVAL_COLORS[0], name),
        (continued, continued_curve, RIVAL_COLORS[2], continued_name),
        (droplet, best_so_far(droplet["trials"]), DROPLET_COLOR, "droplet"),
    ):
        axes.step(
            np.append(seconds, contender["seconds"]),
            np.append(best, best[-1]) * 1e3,
            where="post",
            color=color,
            linewidth=1.2,
            label=label,
        )
    axes.plot(
        turn,
        turn_latency * 1e3,
        "o",
        markersize=5,
        color=DROPLET_COLOR,
        label="droplet begins to descend",
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
    rivals = rivals_of(results[0])
    width = 0.8 / len(rivals)
    for index, (name, color) in enumerate(zip(rivals, RIVAL_COLORS)):
        found = [
            (i, r["winners"][name]["ratio"]) for i, r in enumerate(results) if r["winners"][name]
        ]
        places = [i + (index - (len(rivals) - 1) / 2) * width for i, _ in found]
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
            color=color,
            label=f"droplet/{name}",
        )
    axes.axhline(1, color="black", linewidth=1)
    axes.set_xticks(range(len(results)), ticks)
    axes.set_ylabel("ratio of latencies (below 1: droplet is faster)")
    axes.margins(x=0.01)
    figure.legend(loc="outside upper center", ncols=len(rivals), fontsize="small")
    figure.savefig(path, dpi=120)
