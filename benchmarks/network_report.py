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
"""Tables and plots of tuned networks."""

from contest_report import DROPLET_COLOR, RIVAL_COLORS, geometric_mean, markdown
from network_latency import UNTUNED
from result_files import origins_of, read_result, read_results

import numpy as np
from matplotlib.figure import Figure

# Some that every network has.
FIELDS = {"settings", "searches", "latencies"}
REFERENCE = "sketch"
NAMES = (REFERENCE, "droplet", "droplet-third")
STYLES = {
    REFERENCE: {"color": RIVAL_COLORS[0], "label": "TaskScheduler, sketch.xgb"},
    "droplet": {"color": DROPLET_COLOR, "label": "TaskScheduler, droplet.xgb"},
    "droplet-third": {
        "color": DROPLET_COLOR,
        "linestyle": "--",
        "label": "TaskScheduler, droplet.xgb, a third of the time",
    },
}

NOTES = """\
- sketch: TaskScheduler with sketch.xgb. droplet: with droplet.xgb and the same wall-clock time.
  droplet-third: with a third of it. untuned: TOPI's schedules.
- Latencies are those of the whole network: medians of measurements in turns, in fresh processes,
  after the outputs were compared with those of the untuned network. A ratio is the median over the
  rounds, in brackets the 10th and 90th percentile. Below 1, the first one is faster.
- What is measured after the time of a search does not count."""


def write(folder):
    """Write and print the report of a folder's networks.

    Parameters
    ----------
    folder : Path
        The folder.
    """
    results = read_results(
        folder, "*-network.json", "network", lambda path: read_result(path, "network", FIELDS)
    )
    text = table(results)
    (folder / "table.md").write_text(text + "\n")
    print(f"\n{text}\n")
    plot_curves(results, folder / "curves.png")
    print(f"Table, plot and results: {folder}")


def table(results):
    """The results as text.

    Parameters
    ----------
    results : List[Dict[str, object]]
        Those of each network.

    Returns
    -------
    text : str
        Tables in Markdown, with what they show.
    """
    lines = []
    for title, rows in (
        ("Latencies of the whole networks", latency_rows(results)),
        ("What the searches took", search_rows(results)),
    ):
        lines += [f"### {title}", "", *markdown(rows), ""]
    machines, commits = origins_of(results)
    lines += [NOTES]
    lines += [f"- {'; '.join(sorted(facts))}" for facts in (machines, commits)]
    return "\n".join(lines)


def latency_rows(results):
    """Latencies and their ratios."""
    pairs = (("droplet", REFERENCE), ("droplet-third", REFERENCE), (REFERENCE, UNTUNED))
    rows = [
        ["network", *(f"{name} ms" for name in (UNTUNED, *NAMES))]
        + [f"{name}/{other}" for name, other in pairs]
    ]
    for result in results:
        latencies, ratios = result["latencies"], result["ratios"]
        rows.append(
            [result["network"]]
            + [f"{latencies[name]['median'] * 1e3:.3f}" for name in (UNTUNED, *NAMES)]
            + [
                "{median:.3f} [{p10:.3f}, {p90:.3f}]".format(**ratios[f"{name}/{other}"])
                for name, other in pairs
            ]
        )
    means = [
        geometric_mean([result["ratios"][f"{name}/{other}"]["median"] for result in results])
        for name, other in pairs
    ]
    rows.append(["geometric mean", *[""] * (1 + len(NAMES)), *(f"{mean:.3f}" for mean in means)])
    return rows


def search_rows(results):
    """Tasks, wall-clock times, trials, and how many tasks have a program that ran."""
    quantities = ("s", "trials", "tuned")
    rows = [["network", "tasks", *(f"{name} {what}" for what in quantities for name in NAMES)]]
    for result in results:
        searches = [result["searches"][name] for name in NAMES]
        rows.append(
            [result["network"], str(result["num_tasks"])]
            + [f"{min(s['seconds'], s['limit']):.0f}" for s in searches]
            + [str(s["num_records"]) for s in searches]
            + [str(s["num_tuned"]) for s in searches]
        )
    return rows


def plot_curves(results, path):
    """Plot the sum of the tasks' latencies against the wall-clock time, a panel for each network.

    Parameters
    ----------
    results : List[Dict[str, object]]
        Those of each network.
    path : Path
        The image to write.
    """
    num_columns = min(len(results), 3)
    num_rows = -(-len(results) // num_columns)
    figure = Figure(figsize=(max(4.5 * num_columns, 7), 3.4 * num_rows + 0.8), layout="constrained")
    panels = figure.subplots(num_rows, num_columns, squeeze=False).flat
    for result, axes in zip(results, panels):
        for name in NAMES:
            curve = [(s, latency) for s, _, latency in result["searches"][name]["curve"] if latency]
            seconds, latencies = np.reshape(curve, (-1, 2)).T
            axes.step(seconds, latencies * 1e3, where="post", linewidth=1.2, **STYLES[name])
        axes.set(
            title=result["network"],
            xlabel="own wall-clock (s)",
            ylabel="tasks' best latencies,\nweighted sum (ms)",
            yscale="log",
        )
        axes.grid(alpha=0.3, which="both")
    for axes in panels:  # those that are left
        axes.remove()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small")
    figure.savefig(path, dpi=120)
