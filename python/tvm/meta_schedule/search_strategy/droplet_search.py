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
"""Search strategy that explores with another one, then descends along the decisions of traces."""

from statistics import mean

from tvm.auto_scheduler.coordinate_descent import CoordinateDescent
from tvm.ir import structural_hash

from ..logging import get_logger
from ..utils import derived_object
from .search_strategy import PySearchStrategy, SearchStrategy
from .store_count import count_stores
from .trace_coordinates import REPLAY_ERRORS, TraceCoordinates
from .trace_descent import TraceDescent

logger = get_logger(__name__)  # pylint: disable=invalid-name

# A descent decides after each batch.
MAX_BATCH = 16
# Random schedules of which those with the fewest stores are measured.
POPULATION = 512
# Batches of what is known already after which the exploring strategy counts as having nothing left.
MAX_KNOWN_BATCHES = 8
# To rebuild all schedules of a long search would take long.
MAX_REBUILT = 1024


@derived_object
class DropletSearch(PySearchStrategy):
    """Explores for a while, then exploits the best schedules: descends along their decisions.

    Schedules of the module that the database has already, for the same target, count as explored.
    When no descent has anything left to try, the search ends, however many trials remain.

    Parameters
    ----------
    explore_strategy : SearchStrategy.SearchStrategyType = "evolutionary"
        The strategy that explores. Only this one uses the cost model.
    explore_trials : int = 300
        The number of schedules to explore before descending, at least 0. At most three eighths of
        the trials are spent on exploring, unless no schedule runs. In a search of several tasks,
        the trials are those that each task may have at most, `max_trials_per_task`, which is all
        by default: choose a number that leaves most of a task's share to its descents.
    sample_trials : int = 64
        How many of the first schedules to explore are, on CPU, those of a random sample that
        execute the fewest stores, at least 0. After that, the exploring strategy takes over. Set
        this to 0 if the cost model is trained already.
    num_starts : int = 2
        The number of schedules to descend from, the best ones, at least 1.
    radius : int = 1
        The longest step along a direction that is tried before a schedule counts as a minimum, at
        least 1. One step moves one prime factor from one tile to another, or another decision to
        the next of its values.
    p_value : float = 0.05
        Between 0 and 1. Significance level of the one-sided Welch's t-test that decides whether a
        schedule is faster, where the runner gives at least two samples of the latency.
    margin : float = 0.01
        At least 0 and below 1. The relative gain in latency that counts where the runner gives one
        sample. Before such a gain counts, both schedules are measured once more.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    M. Canesche, G. Verma, F. Quintao Pereira. "Explore as a Storm, Exploit as a Raindrop: On the
    Benefit of Fine-Tuning Kernel Schedulers with Coordinate Descent." (arXiv 2406.20037, 2024),
    Section 3.
    """

    def __init__(
        self,
        explore_strategy="evolutionary",
        explore_trials=300,
        sample_trials=64,
        num_starts=2,
        radius=1,
        p_value=0.05,
        margin=0.01,
    ):
        if not isinstance(explore_strategy, SearchStrategy):
            explore_strategy = SearchStrategy.create(explore_strategy)
        _check_at_least("explore_trials", explore_trials, 0)
        _check_at_least("sample_trials", sample_trials, 0)
        _check_at_least("num_starts", num_starts, 1)
        self.options = {"radius": radius, "p_value": p_value, "margin": margin}
        CoordinateDescent([], [], [], [1.0], **self.options)  # checks them
        self.explore_strategy = explore_strategy
        self.explore_trials = explore_trials
        self.sample_trials = sample_trials
        self.num_starts = num_starts
        self.sampler = SearchStrategy.create("replay-trace")
        self.task = None
        self.search = None

    def _initialize_with_tune_context(self, context):
        """Take what is to be searched, and hand the context to the exploring strategy."""
        self.sampler._initialize_with_tune_context(context)
        self.explore_strategy._initialize_with_tune_context(context)
        self.task = _Task(context)

    def pre_tuning(
        self, max_trials, num_trials_per_iter, design_spaces, database=None, cost_model=None
    ):
        """Begin a search. See `SearchStrategy.pre_tuning`."""
        # TuneContext makes these for EvolutionarySearch alone. Both import this package.
        # pylint: disable=import-outside-toplevel
        from ..cost_model import RandomModel  # noqa: PLC0415
        from ..database import MemoryDatabase  # noqa: PLC0415

        # pylint: enable=import-outside-toplevel

        if self.search is not None:
            raise ValueError("pre_tuning was called a second time without post_tuning")
        database = MemoryDatabase() if database is None else database
        cost_model = RandomModel() if cost_model is None else cost_model
        search = _Search(self, max_trials, num_trials_per_iter, design_spaces, database)
        # Of the last batch that it proposes before the descents, a part is not measured.
        self.explore_strategy.pre_tuning(
            max_trials + num_trials_per_iter,
            num_trials_per_iter,
            design_spaces,
            database,
            cost_model,
        )
        self.search = search

    def post_tuning(self):
        """End the search."""
        self.explore_strategy.post_tuning()
        self.search = None

    def generate_measure_candidates(self):
        """Propose schedules to measure.

        Returns
        -------
        measure_candidates : Optional[List[MeasureCandidate]]
            The candidates. None if nothing is left to try.
        """
        return self.search.propose()

    def notify_runner_results(self, measure_candidates, results):
        """Learn what came of the candidates proposed last.

        Parameters
        ----------
        measure_candidates : List[MeasureCandidate]
            The candidates.
        results : List[RunnerResult]
            The result of each.
        """
        self.search.learn(measure_candidates, results)

    @property
    def phase(self):
        """str: What the search does: "explore" at first, then "descend", then "done"."""
        return self.search.phase if self.search else "explore"

    @property
    def num_explored(self):
        """int: The number of schedules that the search has explored."""
        return self.search.num_explored if self.search else 0

    def clone(self):
        """Make a strategy with the same parameters that has not begun.

        Returns
        -------
        cloned : DropletSearch
            The strategy.
        """
        return DropletSearch(
            self.explore_strategy.clone(),
            self.explore_trials,
            self.sample_trials,
            self.num_starts,
            **self.options,
        )


class _Task:
    """What is to be searched. The context itself holds the strategy, and would never be freed."""

    def __init__(self, context):
        self.mod = context.mod
        self.target = context.target
        self.is_cpu = "cpu" in context.target.keys
        self.postprocs = list(context.space_generator.postprocs or [])
        self.seed = int(context.rand_state)
        self.num_threads = int(context.num_threads)

    def rebuild(self, trace):
        """The schedule of a trace. None if it does not apply, or if a postprocessor rejects it."""
        try:
            coordinates = TraceCoordinates(self.mod, trace)
        except REPLAY_ERRORS:  # what recorded it may have had other primitives
            return None
        return coordinates.schedule_at(coordinates.origin, self.postprocs)


class _Search:
    """One search, from pre_tuning to post_tuning."""

    def __init__(self, strategy, max_trials, num_trials_per_iter, design_spaces, database):
        self.strategy = strategy
        self.task = strategy.task
        self.design_spaces = design_spaces
        self.num_trials_per_iter = num_trials_per_iter
        self.batch_size = min(num_trials_per_iter, MAX_BATCH)
        self.num_left = max_trials
        self.num_explored = 0
        # Latencies in seconds by structural hash, none where the measurement failed.
        self.known = {}
        # The traces of those that ran.
        self.traces = {}
        num_recorded = self.remember_database(database)
        self.max_explored = min(strategy.explore_trials, max_trials * 3 // 8) - num_recorded
        self.max_sampled = strategy.sample_trials - num_recorded if self.task.is_cpu else 0
        # Samples to measure, in this order. None before they are drawn.
        self.samples = None if self.max_sampled > 0 else []
        # Whether the exploring strategy waits for results.
        self.is_explorer_waiting = False
        # None while exploring.
        self.descents = None
        self.current = None

    @property
    def phase(self):
        """The phase."""
        if self.num_left <= 0:
            return "done"
        if self.descents is None:
            return "explore"
        return "descend" if self.open_descents else "done"

    @property
    def open_descents(self):
        """The descents that have not converged."""
        return [descent for descent in self.descents if not descent.has_converged]

    def propose(self):
        """The next candidates, None if nothing is left to try."""
        if self.num_left <= 0:
            return None
        candidates = self.explore() if self.descents is None else None
        if not candidates:
            if self.descents is None:
                self.begin_descents()
            candidates = self.descend()
        self.num_left -= len(candidates or ())
        return candidates

    def explore(self):
        """What the exploring strategy proposes, None if the time has come to descend."""
        limit = self.max_explored - self.num_explored
        if limit <= 0 and self.traces:
            return None
        if limit <= 0:  # without a schedule that runs, there is nothing to descend from
            limit = self.num_left
        candidates = self.sample() or self.ask_explorer()
        return candidates and candidates[: min(limit, self.num_left)]

    def sample(self):
        """Of many random schedules, the next ones with the fewest stores, as long as there are
        samples to measure."""
        if self.samples is None:
            self.samples = self.draw_samples()[: self.max_sampled]
        batch = self.samples[: self.num_trials_per_iter]
        self.samples = self.samples[len(batch) :]
        return batch

    def draw_samples(self):
        """Random schedules that were not measured, those with the fewest stores first."""
        sampler = self.strategy.sampler
        sampler.pre_tuning(POPULATION, POPULATION, self.design_spaces)
        samples = {
            structural_hash(candidate.sch.mod): candidate
            for candidate in sampler.generate_measure_candidates() or ()
        }
        sampler.post_tuning()
        fresh = [candidate for program, candidate in samples.items() if program not in self.known]
        return sorted(fresh, key=lambda candidate: count_stores(candidate.sch.mod))

    def ask_explorer(self):
        """What the exploring strategy proposes and was not measured. None if there is nothing."""
        for _ in range(MAX_KNOWN_BATCHES):
            candidates = self.strategy.explore_strategy.generate_measure_candidates()
            if candidates is None:
                break
            fresh = [c for c in candidates if structural_hash(c.sch.mod) not in self.known]
            if fresh:
                self.is_explorer_waiting = True
                return fresh
        return None

    def begin_descents(self):
        """Begin descents from the best schedules."""
        self.descents = []
        options = {**self.strategy.options, "seed": self.task.seed}
        ranked = sorted(self.traces, key=lambda program: (mean(self.known[program]), program))
        for program in ranked[: self.strategy.num_starts]:
            coordinates = TraceCoordinates(self.task.mod, self.traces[program])
            self.descents.append(
                TraceDescent(
                    coordinates,
                    program,
                    self.known,
                    self.task.postprocs,
                    self.task.num_threads,
                    options,
                )
            )
        logger.info("DropletSearch: begins %d descents", len(self.descents))

    def descend(self):
        """What the descent proposes whose turn it is, None if all have converged."""
        while self.open_descents:
            # Each has a first batch, then the most successful one goes on.
            self.current = min(self.open_descents, key=lambda d: (d.has_begun, d.lowest_cost))
            candidates = self.current.propose(min(self.batch_size, self.num_left))
            if candidates:
                return candidates
        return None

    def learn(self, candidates, results):
        """Remember results, and let the descent learn that asked for them."""
        costs = [_costs_of(result.run_secs) for result in results]
        if self.descents is None:
            self.num_explored += len(results)
            for candidate, samples in zip(candidates, costs):
                self.remember(candidate.sch, samples)
            if self.is_explorer_waiting:
                self.is_explorer_waiting = False
                self.strategy.explore_strategy.notify_runner_results(candidates, results)
            return
        move = self.current.learn(costs)
        if move:
            logger.info("DropletSearch: %.4f ms after %s", self.current.lowest_cost * 1e3, move)

    def remember(self, sch, costs):
        """Keep what a schedule took."""
        program = structural_hash(sch.mod)
        self.known[program] = self.known.get(program, []) + costs
        if costs:
            self.traces[program] = sch.trace

    def remember_database(self, database):
        """Keep what the best schedules took that were measured earlier. Returns the number of all
        that were."""
        if not database.has_workload(self.task.mod):
            return 0
        workload = database.commit_workload(self.task.mod)
        # A latency decides for itself, so it has to be from the same target.
        records = [
            record
            for record in database.get_top_k(workload, len(database))
            if str(record.target) == str(self.task.target)
        ]
        for record in records[:MAX_REBUILT]:
            sch = self.task.rebuild(record.trace)
            if sch is not None:
                self.remember(sch, _costs_of(record.run_secs))
        return len(records)


def _costs_of(run_secs):
    """The latencies in seconds, none if the measurement failed."""
    return [float(seconds) for seconds in run_secs or ()]


def _check_at_least(name, value, minimum):
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, but it is {value}")
