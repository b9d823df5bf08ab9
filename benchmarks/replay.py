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
"""Compare variants of the descent with each other, in seconds instead of minutes.

A descent spends nearly all of its time on building and running programs, and descents from the same
start come across many of the same ones. Here each is measured once and its latency kept in a file,
the measured space, so that the next descent through it takes little more than its own time. This is
for choosing the options of the engine, and for seeing what a change of it does.

It cannot tell

- what is noise: a program has the same few stored samples whenever it is reached, so that a lucky
  one misleads all variants alike, and a difference of a few percent may come from it. Nothing is
  measured again in the end. More kernels and spaces help, more seeds do not;
- wall-clock time: what a batch costs to build and run is not counted, so that small batches look
  better than they are;
- what DropletSearchPolicy finds as a whole: this is one descent from the best explored program, and
  the cost model has learned from the explored programs alone.

--explore N begins a space with a round of Ansor:

  benchmarks/replay.py build/matmul.json --kernel matmul --explore 64

From then on, programs that are missing in the file are measured and added to it. With --offline,
they are walls that cost no trial; the more of them there are, the less the result means.
"""

import argparse
import math
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Tuple

from contest_report import geometric_mean, markdown
from machine import detect_target, measure_options, use_all_cores
from measured_space import MeasuredSpace
from options import at_least, make_folder, parse_seed
from result_files import describe_machine
from workers import keep_workers
from workloads import KERNELS

from tvm.auto_scheduler.coordinate_descent import CoordinateDescent
from tvm.auto_scheduler.schedule_coordinates import ScheduleCoordinates

CHECKPOINT = 16  # trials between two columns of the table


@dataclass(frozen=True)
class Variant:
    """A way to descend.

    Parameters
    ----------
    help : str
        What is special about it, in a line.
    options : Dict[str, object]
        Options of CoordinateDescent.
    batch_size : int
        The number of programs that are measured at once.
    use_prior : bool
        Whether the cost model guesses how programs compare.
    """

    help: str
    options: Dict[str, object] = field(default_factory=dict)
    batch_size: int = 8
    use_prior: bool = True


# No variant has another p_value: it matters only where a measurement gives several samples.
VARIANTS = {
    "default": Variant("as DropletSearchPolicy on up to four cores"),
    "no-prior": Variant("without the cost model", use_prior=False),
    "radius-2": Variant("up to two steps along a direction", {"radius": 2}),
    "batch-4": Variant("decide twice as often", batch_size=4),
    "batch-16": Variant("decide half as often", batch_size=16),
    "margin-5%": Variant("only gains of 5 % count", {"margin": 0.05}),
}


@dataclass
class Outcome:
    """What a descent came to.

    Parameters
    ----------
    curve : List[Tuple[int, float]]
        The latency in seconds of the best program after each number of trials.
    converged : bool
        Whether nothing was left to try.
    seconds : float
        The time that the descent itself took, without measuring and reading samples.
    num_missing : int
        How often a sample was needed that neither was in the file nor could be measured.
    """

    curve: List[Tuple[int, float]]
    converged: bool = False
    seconds: float = 0.0
    num_missing: int = 0

    @property
    def num_trials(self):
        """The number of trials."""
        return self.curve[-1][0]

    def best_after(self, num_trials):
        """The latency of the best program after a number of trials."""
        return [latency for count, latency in self.curve if count <= num_trials][-1]


class Descent:
    """A descent through a measured space from its best explored program.

    Parameters
    ----------
    space : MeasuredSpace
        The space.
    variant : Variant
        How to descend.
    seed : int
        The seed of the engine.
    """

    def __init__(self, space, variant, seed):
        self.space = space
        self.batch_size = variant.batch_size
        self.coordinates = ScheduleCoordinates(space.task, space.start.state)
        origin = self.coordinates.origin
        self.walk = CoordinateDescent(
            self.coordinates.upper,
            self.coordinates.directions,
            origin,
            [space.start.latency],
            seed=seed,
            prior=make_prior(space, self.coordinates) if variant.use_prior else None,
            **variant.options,
        )
        self.points = {space.start.text: origin}
        # By point proposed, how many samples of it were asked of the space and told since.
        self.num_samples = {tuple(origin): 0}
        self.outcome = Outcome([(0, space.start.latency)])

    def run(self, max_trials):
        """Descend.

        Parameters
        ----------
        max_trials : int
            The number of programs that may be measured.

        Returns
        -------
        outcome : Outcome
            What came out.
        """
        outcome = self.outcome
        while outcome.num_trials < max_trials:
            begin = time.perf_counter()
            batch = self.propose(min(self.batch_size, max_trials - outcome.num_trials))
            outcome.seconds += time.perf_counter() - begin
            if not batch:
                break
            latencies = self.space.sample([wanted for _, wanted in batch])
            begin = time.perf_counter()
            for (point, _), latency in zip(batch, latencies):
                self.num_samples[tuple(point)] += 1
                self.tell(point, latency)
            outcome.seconds += time.perf_counter() - begin
            outcome.curve.append((outcome.num_trials + len(batch), self.walk.best_cost))
        outcome.converged = self.walk.converged
        # What is known from exploring costs no trial, and may still have led on.
        outcome.curve[-1] = (outcome.num_trials, self.walk.best_cost)
        return outcome

    def propose(self, size):
        """The programs to measure next.

        Parameters
        ----------
        size : int
            The number of programs wanted.

        Returns
        -------
        batch : List[Tuple[List[int], Tuple[str, StateObject, int]]]
            The point of each, and what is wanted of the space.
        """
        batch = []
        while len(batch) < size:
            points = self.walk.ask(size - len(batch))
            if not points:
                break
            for point in points:
                wanted = self.sample_wanted(point)
                if wanted is not None:
                    batch.append((point, wanted))
        return batch

    def sample_wanted(self, point):
        """What to measure for a point, None if that is not needed: then the outcome is told."""
        state = self.coordinates.state_at(point)
        text = None if state is None else str(state)
        # A program that another point gave before is a wall: comparing it with itself would tell
        # luck only.
        if text is None or self.points.setdefault(text, point) != point:
            self.walk.tell(point, [])
            return None
        is_new = tuple(point) not in self.num_samples
        nth = self.num_samples.setdefault(tuple(point), 0)
        if is_new and text in self.space.explored:
            self.tell(point, self.space.explored[text].latency)
            return None
        if not self.space.can_sample(text, nth):
            self.outcome.num_missing += 1
            self.walk.tell(point, [])
            return None
        return text, state, nth

    def tell(self, point, latency):
        """Tell the outcome of a point, None for a failure."""
        self.walk.tell(point, [] if latency is None else [latency])


def make_prior(space, coordinates):
    """How the cost model expects programs to compare, as DropletSearchPolicy asks it.

    Parameters
    ----------
    space : MeasuredSpace
        The space.
    coordinates : ScheduleCoordinates
        The coordinates of its programs.

    Returns
    -------
    prior : Callable[[List[List[int]]], List[float]]
        The prior of CoordinateDescent.
    """
    model = space.cost_model

    def prior(points):
        guesses = [math.inf] * len(points)
        states = {i: coordinates.state_at(point) for i, point in enumerate(points)}
        states = {i: state for i, state in states.items() if state is not None}
        if states:
            throughputs = model.predict(space.task, list(states.values()))
            for i, throughput in zip(states, throughputs):
                if math.isfinite(throughput):  # otherwise the program cannot be lowered
                    guesses[i] = -math.log(max(throughput, 0.01))
        return guesses

    return prior


def table(outcomes, start_latency, max_trials):
    """Compare the variants.

    Parameters
    ----------
    outcomes : Dict[str, List[Outcome]]
        The outcomes of each variant, one a seed.
    start_latency : float
        The latency in seconds of the start.
    max_trials : int
        The number of trials that each descent had at most.

    Returns
    -------
    lines : List[str]
        The lines of the table, those variants first whose best programs are fastest.
    """
    checkpoints = [*range(CHECKPOINT, max_trials, CHECKPOINT), max_trials]
    ratios = {
        name: [
            geometric_mean([outcome.best_after(count) / start_latency for outcome in own])
            for count in checkpoints
        ]
        for name, own in outcomes.items()
    }
    columns = [f"after {count}" for count in checkpoints]
    rows = [["variant", *columns, "converged after", "own ms a trial", "missing"]]
    for name in sorted(ratios, key=lambda name: ratios[name][-1]):
        cells = [f"{ratio:.3f}" for ratio in ratios[name]]
        rows.append([name, *cells, *_effort(outcomes[name], max_trials)])
    return markdown(rows)


def _effort(outcomes, max_trials):
    """What the descents of a variant took, as cells of the table."""
    num_trials = sum(outcome.num_trials for outcome in outcomes)
    milliseconds = 1e3 * sum(outcome.seconds for outcome in outcomes)
    all_converged = all(outcome.converged for outcome in outcomes)
    return [
        f"{num_trials / len(outcomes):.1f}" if all_converged else f"> {max_trials}",
        f"{milliseconds / num_trials:.1f}" if num_trials else "-",
        str(sum(outcome.num_missing for outcome in outcomes)),
    ]


def space_file(text):
    """The type of the option that is the file of a space: its folder is made."""
    path = Path(text)
    make_folder(path.parent)
    return path


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
    variants = "\n".join(f"  {name:10} {variant.help}" for name, variant in VARIANTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        usage=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"variants:\n{variants}",
    )
    parser.add_argument("space", type=space_file, help="the file of the measured space")
    parser.add_argument("--kernel", choices=KERNELS, help="that the space is of")
    parser.add_argument(
        "--explore", type=at_least(1), metavar="N", help="begin a space of N explored programs"
    )
    parser.add_argument("--explore-seed", type=parse_seed, default=0, help="of that")
    parser.add_argument("--trials", type=at_least(1), default=64, help="at most, each descent")
    parser.add_argument(
        "--seeds", nargs="+", type=parse_seed, default=[0, 1, 2], help="of the descents"
    )
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="by default all"
    )
    parser.add_argument("--offline", action="store_true", help="measure nothing")
    args = parser.parse_args(arguments)
    if args.explore and (args.kernel is None or args.offline):
        parser.error("--explore N needs --kernel NAME, and no --offline")
    args.seeds = list(dict.fromkeys(args.seeds))
    args.variants = list(dict.fromkeys(args.variants))
    return args


def open_space(args):
    """Read the space, or begin it. Exits if that is not the one that the options speak of.

    Parameters
    ----------
    args : argparse.Namespace
        The options.

    Returns
    -------
    space : MeasuredSpace
        The space.
    """
    exists = args.space.exists()
    if args.explore and exists:
        sys.exit(f"{args.space} exists already: replay it without --explore, or name another file.")
    if not args.explore and not exists:
        sys.exit(f"{args.space} does not exist: begin it with --kernel NAME --explore N.")
    if args.offline:
        space = MeasuredSpace.read(args.space)
    else:
        num_cores = use_all_cores()
        machine = describe_machine(detect_target(), num_cores)
        measure = measure_options(num_cores)
        keep_workers()
        if args.explore:
            kernel = KERNELS[args.kernel]
            print(f"Ansor explores {args.explore} programs of {kernel.name} ...")
            return MeasuredSpace.explore(
                args.space, kernel, machine, measure, args.explore, args.explore_seed
            )
        space = MeasuredSpace.read(args.space, measure)
        space.require_machine(machine)
    if args.kernel not in (None, space.kernel.name):
        sys.exit(f"{args.space} is a space of {space.kernel.name}, not of {args.kernel}.")
    return space


def replay(args):
    """Let all variants descend, and print how they compare.

    Parameters
    ----------
    args : argparse.Namespace
        The options.
    """
    space = open_space(args)
    print(f"{space.kernel.name}: {space.kernel.description}. {len(space.records)} explored.")
    outcomes = {name: [] for name in args.variants}
    for name in args.variants:
        for seed in args.seeds:
            num_before = space.num_measured
            outcome = Descent(space, VARIANTS[name], seed).run(args.trials)
            outcomes[name].append(outcome)
            print(
                f"{name:10} seed {seed}: {outcome.curve[-1][1] * 1e3:8.4f} ms after "
                f"{outcome.num_trials} trials, {space.num_measured - num_before} of them measured"
            )
    latency = space.start_latency
    print(f"\nThe latency of the best program relative to the start, {latency * 1e3:.4f} ms:\n")
    print("\n".join(table(outcomes, latency, args.trials)))
    num_samples = sum(map(len, space.samples.values()))
    print(f"\n{space.num_measured} samples measured, {num_samples} in {space.path}.")


def leave(*_):
    """On Ctrl-C, say so and leave."""
    print("\nInterrupted: what was measured up to the last batch is in the file.", flush=True)
    # Not by an exception: TVM would take it for the failure of a program.
    os._exit(128 + signal.SIGINT)


def main():
    """Replay descents."""
    args = parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGINT, leave)
    replay(args)


if __name__ == "__main__":
    main()
