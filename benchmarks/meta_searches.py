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
"""The searches of MetaSchedule in a contest."""

import contextlib
import json
import time

from machine import BUILD_TIMEOUT, REPEATS, num_builders

import numpy as np
import tvm
from tvm import meta_schedule as ms
from tvm.auto_scheduler.measure import MeasureErrorNo
from tvm.meta_schedule.builder import BuilderInput
from tvm.meta_schedule.runner import RunnerInput, RunnerResult
from tvm.meta_schedule.utils import remove_build_dir

# Trials that a strategy is asked for at a time, unless it gives fewer itself.
TRIALS_PER_ITER = 64
# The latency in seconds that databases have of a candidate that failed.
FAILED = 1e10


class MetaSearch:
    """A search strategy with a database of its own.

    It is driven by hand and not by MetaSchedule's task scheduler, so that searches can take turns.

    Parameters
    ----------
    strategy : meta_schedule.SearchStrategy
        The strategy.
    context : meta_schedule.TuneContext
        The context with it.
    cost_model : meta_schedule.CostModel
        The cost model.
    max_trials : int
        The trials that the strategy is told.
    log : Path
        The records of the database.
    keep : Callable
        Called with the latency and the error number of each candidate of a batch.
    measurer : Measurer
        What measures candidates.
    """

    def __init__(self, strategy, context, cost_model, max_trials, log, keep, measurer):
        self.strategy = strategy  # that of the context is a handle without attributes of Python
        self.context = context
        self.cost_model = cost_model
        self.max_trials = max_trials
        self.keep = keep
        self.measurer = measurer
        workloads = log.with_suffix(".workloads.json")
        workloads.unlink(missing_ok=True)
        self.database = ms.database.JSONDatabase(str(workloads), str(log))
        self.workload = self.database.commit_workload(context.mod)
        # What another search measured: results by structural hash.
        self.explored = {}
        self.has_begun = False

    @property
    def phase(self):
        """What DropletSearch does, "all" of another strategy."""
        return getattr(self.strategy, "phase", "all")

    @property
    def num_explored(self):
        """The trials that DropletSearch explored."""
        return self.strategy.num_explored

    def advance(self, num_trials):
        """Search for one round."""
        if not self.has_begun:
            self.has_begun = True
            self.context.pre_tuning(
                self.max_trials, TRIALS_PER_ITER, database=self.database, cost_model=self.cost_model
            )
        candidates = list(self.context.generate_measure_candidates() or ())[:num_trials]
        if not candidates:
            return
        # The strategy itself would have them measured once more.
        known = [self.explored.get(program_hash(candidate)) for candidate in candidates]
        fresh = [candidate for candidate, result in zip(candidates, known) if result is None]
        measured = iter(self.measure(fresh) if fresh else ())
        results = [result or next(measured) for result in known]
        self.context.notify_runner_results(candidates, results)

    def measure(self, candidates):
        """Measure candidates, and learn what comes of it."""
        results = self.measurer.measure(candidates, self.context.target)
        self.learn(candidates, results)
        self.keep([outcome_of(result) for result in results])
        return results

    def learn(self, candidates, results):
        """Put results into the database, as MetaSchedule does, and into the cost model."""
        for candidate, result in zip(candidates, results):
            self.database.commit_tuning_record(
                ms.database.TuningRecord(
                    candidate.sch.trace,
                    self.workload,
                    result.run_secs or [FAILED],
                    self.context.target,
                    candidate.args_info,
                )
            )
        with self.measurer.timed("train"):
            self.cost_model.update(self.context, candidates, results)

    def take_over(self, records):
        """Learn what another search explored, from its records."""
        found = [
            ms.database.TuningRecord.from_json(json.loads(record)[1], self.workload)
            for record in records
        ]
        candidates = [record.as_measure_candidate() for record in found]
        results = [result_of(record) for record in found]
        self.explored = dict(zip(map(program_hash, candidates), results))
        self.learn(candidates, results)


class Measurer:
    """Builds and runs candidates on the clock.

    Parameters
    ----------
    num_cores : int
        The number of cores that kernels run on.
    clock : Dict[str, float]
        The seconds spent on building, on running and on whatever else is timed, to which it adds.
    """

    def __init__(self, num_cores, clock):
        self.clock = clock
        self.builder = ms.builder.LocalBuilder(
            max_workers=num_builders(num_cores), timeout_sec=BUILD_TIMEOUT
        )
        self.runner = ms.runner.LocalRunner(evaluator_config=ms.runner.EvaluatorConfig(**REPEATS))

    def measure(self, candidates, target):
        """Measure candidates.

        Parameters
        ----------
        candidates : List[meta_schedule.MeasureCandidate]
            The candidates.
        target : tvm.target.Target
            Their target.

        Returns
        -------
        results : List[meta_schedule.runner.RunnerResult]
            The result of each.
        """
        with self.timed("build"):
            built = self.builder.build(
                [BuilderInput(candidate.sch.mod, target) for candidate in candidates]
            )
        with self.timed("run"):
            return [
                self.run(candidate, artifact, target)
                for candidate, artifact in zip(candidates, built)
            ]

    def run(self, candidate, artifact, target):
        """Run a candidate, if it was built."""
        if artifact.error_msg is not None:
            return RunnerResult(None, artifact.error_msg)
        device = tvm.runtime.Device.MASK2STR[tvm.device(target.kind.name).device_type]
        inputs = RunnerInput(artifact.artifact_path, device, candidate.args_info)
        try:
            (future,) = self.runner.run([inputs])
            return future.result()
        finally:
            remove_build_dir(artifact.artifact_path)

    @contextlib.contextmanager
    def timed(self, name):
        """Count the time as spent on an activity."""
        begin = time.perf_counter()
        yield
        self.clock[name] += time.perf_counter() - begin


class MetaSearches:
    """Makes the searches of a contest of evolutionary search and DropletSearch.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    seed : int
        The seed of all searches.
    settings : contest.Settings
        How many trials there are.
    num_cores : int
        The number of cores that kernels run on.
    clock : Dict[str, float]
        The seconds spent on each of the `activities`, to which it adds.
    """

    activities = ("build", "run", "train")
    rival = "evolution"
    searches = "droplet: DropletSearch. evolution: EvolutionarySearch"

    def __init__(self, kernel, target, seed, settings, num_cores, clock):
        self.kernel = kernel
        self.target = with_num_cores(target, num_cores)
        self.seed = seed + 1  # 0 is taken for none
        self.settings = settings
        self.num_cores = num_cores
        self.measurer = Measurer(num_cores, clock)

    def make_rival(self, log, keep):
        """Evolutionary search."""
        strategy = ms.search_strategy.EvolutionarySearch()
        return self.search(strategy, self.settings.rival_trials, log, keep)

    def make_droplet(self, log, keep):
        """Evolutionary search, then coordinate descent."""
        strategy = ms.search_strategy.DropletSearch(explore_trials=self.settings.explore_trials)
        max_trials = self.settings.explore_trials + self.settings.descend_trials
        return self.search(strategy, max_trials, log, keep)

    def make_continued(self, log, keep, explored):
        """Evolutionary search, continued from records."""
        strategy = ms.search_strategy.EvolutionarySearch()
        # The strategy counts what it proposes again of those.
        max_trials = self.settings.descend_trials + len(explored)
        search = self.search(strategy, max_trials, log, keep)
        search.take_over(explored)
        return search

    def search(self, strategy, max_trials, log, keep):
        """A search with an untrained cost model."""
        context = ms.TuneContext(
            mod=self.kernel.module(),
            target=self.target,
            space_generator="post-order-apply",
            search_strategy=strategy,
            task_name=self.kernel.name,
            rand_state=self.seed,
            num_threads=self.num_cores,
        )
        cost_model = ms.cost_model.XGBModel(
            num_warmup_samples=self.settings.warmup_trials, num_tuning_cores=self.num_cores
        )
        return MetaSearch(strategy, context, cost_model, max_trials, log, keep, self.measurer)

    @staticmethod
    def program_of(kernel, _, record):
        """Rebuild a candidate. See `AnsorSearches.program_of`."""
        sch = tvm.tir.Schedule(kernel.module())
        tvm.tir.schedule.Trace.apply_json_to_schedule(json.loads(record)[1][0], sch)
        return sch.mod.script(), (sch.mod,)

    def timed(self):
        """A context in which the clock counts: here it counts in any."""
        return contextlib.nullcontext()


def with_num_cores(target, num_cores):
    """The target, with what a CPU's says of how many iterations of a loop may run in parallel.

    Parameters
    ----------
    target : tvm.target.Target
        The target.
    num_cores : int
        The number of cores that kernels run on.

    Returns
    -------
    target : tvm.target.Target
        The target that MetaSchedule is given.
    """
    config = dict(target.export())
    if target.kind.name == "llvm":
        config["num-cores"] = num_cores
    return tvm.target.Target(config)


def program_hash(candidate):
    """What is equal for equal programs."""
    return tvm.ir.structural_hash(candidate.sch.mod)


def result_of(record):
    """The result that a record keeps."""
    if float(record.run_secs[0]) >= FAILED:
        return RunnerResult(None, "failed")
    return RunnerResult(record.run_secs, None)


def outcome_of(result):
    """The latency of a result in seconds, None if it failed, and its error number."""
    if result.run_secs:
        return float(np.mean([float(seconds) for seconds in result.run_secs])), 0
    return None, int(MeasureErrorNo.UNKNOWN_ERROR)
