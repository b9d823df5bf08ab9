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

from collections import Counter
from statistics import mean

from tvm.auto_scheduler.coordinate_descent import CoordinateDescent
from tvm.ir import structural_hash

from ..logging import get_logger
from ..utils import derived_object
from .search_strategy import PySearchStrategy, SearchStrategy
from .trace_coordinates import TraceCoordinates
from .trace_descent import TraceDescent

logger = get_logger(__name__)  # pylint: disable=invalid-name

# A descent decides after each batch.
MAX_BATCH = 16
# To read the coordinates of all schedules of a long search would take long.
MAX_PROGRAMS = 64
# Schedules of one structure often lead to the same minimum.
MAX_STARTS_OF_STRUCTURE = 2


@derived_object
class DropletSearch(PySearchStrategy):
    """Explores for a while, then exploits the best schedules: descends along their decisions.

    Schedules of the module that the database has already count as explored. When no descent has
    anything left to try, the search ends, however many trials remain.

    Parameters
    ----------
    explore_strategy : SearchStrategy.SearchStrategyType = "evolutionary"
        The strategy that explores.
    explore_trials : int = 300
        The number of schedules to explore before descending, at least 0. At most three eighths of
        the trials are spent on exploring, unless no schedule runs.
    num_starts : int = 2
        The number of schedules to descend from, at least 1. They are the best ones, at most two of
        which differ in decisions only.
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
        num_starts=2,
        radius=1,
        p_value=0.05,
        margin=0.01,
    ):
        if not isinstance(explore_strategy, SearchStrategy):
            explore_strategy = SearchStrategy.create(explore_strategy)
        _check_at_least("explore_trials", explore_trials, 0)
        _check_at_least("num_starts", num_starts, 1)
        self.options = {"radius": radius, "p_value": p_value, "margin": margin}
        CoordinateDescent([], [], [], [1.0], **self.options)  # checks them
        self.explore_strategy = explore_strategy
        self.explore_trials = explore_trials
        self.num_starts = num_starts
        self.context = None
        self.search = None

    def _initialize_with_tune_context(self, context):
        """Take the context, and hand it to the exploring strategy."""
        self.explore_strategy._initialize_with_tune_context(context)
        self.context = context

    def pre_tuning(
        self, max_trials, num_trials_per_iter, design_spaces, database=None, cost_model=None
    ):
        """Begin a search. See `SearchStrategy.pre_tuning`."""
        if self.search is not None:
            raise ValueError("pre_tuning was called a second time without post_tuning")
        self.search = _Search(self, max_trials, num_trials_per_iter, database, cost_model)
        self.explore_strategy.pre_tuning(
            max_trials, self.search.explore_batch_size, design_spaces, database, cost_model
        )

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
            self.explore_strategy.clone(), self.explore_trials, self.num_starts, **self.options
        )


class _Search:
    """One search, from pre_tuning to post_tuning."""

    def __init__(self, strategy, max_trials, num_trials_per_iter, database, cost_model):
        self.strategy = strategy
        self.context = strategy.context
        self.cost_model = cost_model
        self.batch_size = min(num_trials_per_iter, MAX_BATCH)
        self.num_left = max_trials
        self.num_explored = 0
        # Latencies in seconds by structural hash, none where the measurement failed.
        self.known = {}
        # Those that ran: their mean latencies, hashes and traces.
        self.ran = []
        self.remember_database(database)
        num_to_explore = min(strategy.explore_trials, max_trials * 3 // 8)
        # At least two rounds, so that a cost model may learn from the first one.
        self.explore_batch_size = min(num_trials_per_iter, max(num_to_explore // 2, 1))
        self.max_explored = num_to_explore - len(self.known)
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
        limit = self.max_explored - self.num_explored if self.ran else self.num_left
        if limit <= 0:
            return None
        candidates = self.strategy.explore_strategy.generate_measure_candidates()
        return candidates and list(candidates)[: min(limit, self.num_left)]

    def begin_descents(self):
        """Begin descents from the best schedules, few of which share a structure."""
        self.descents = []
        num_seen = Counter()
        for _, program, trace in sorted(self.ran, key=lambda entry: entry[:2])[:MAX_PROGRAMS]:
            coordinates = TraceCoordinates(self.context.mod, trace)
            num_seen[coordinates.structure] += 1
            if num_seen[coordinates.structure] <= MAX_STARTS_OF_STRUCTURE:
                self.descents.append(
                    TraceDescent(
                        coordinates,
                        program,
                        self.known[program],
                        self.context,
                        self.cost_model,
                        self.strategy.options,
                    )
                )
            if len(self.descents) == self.strategy.num_starts:
                break
        logger.info("DropletSearch: begins %d descents", len(self.descents))

    def descend(self):
        """What the descent proposes whose turn it is, None if all have converged."""
        while self.open_descents:
            # Each has a first batch, then the most successful one goes on.
            self.current = min(self.open_descents, key=lambda d: (d.has_begun, d.lowest_cost))
            candidates = self.current.propose(min(self.batch_size, self.num_left), self.known)
            if candidates:
                return candidates
        return None

    def learn(self, candidates, results):
        """Remember results, and let the descent learn that asked for them."""
        costs = [_costs_of(result.run_secs) for result in results]
        for candidate, samples in zip(candidates, costs):
            self.remember(candidate.sch.mod, candidate.sch.trace, samples)
        if self.descents is None:
            self.num_explored += len(results)
            self.strategy.explore_strategy.notify_runner_results(candidates, results)
            return
        move = self.current.learn(costs)
        if move:
            logger.info("DropletSearch: %.4f ms after %s", self.current.lowest_cost * 1e3, move)

    def remember(self, mod, trace, costs):
        """Keep what a schedule took."""
        program = structural_hash(mod)
        if program not in self.known:
            self.known[program] = costs
            if costs:
                self.ran.append((mean(costs), program, trace))

    def remember_database(self, database):
        """Keep what the best schedules took that were measured earlier."""
        if database is None or not database.has_workload(self.context.mod):
            return
        workload = database.commit_workload(self.context.mod)
        postprocs = self.context.space_generator.postprocs or []
        for record in database.get_top_k(workload, MAX_PROGRAMS):
            coordinates = TraceCoordinates(self.context.mod, record.trace)
            sch = coordinates.schedule_at(coordinates.origin, postprocs)
            if sch is not None:
                self.remember(sch.mod, record.trace, _costs_of(record.run_secs))


def _costs_of(run_secs):
    """The latencies in seconds, none if the measurement failed."""
    return [float(seconds) for seconds in run_secs or ()]


def _check_at_least(name, value, minimum):
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, but it is {value}")
