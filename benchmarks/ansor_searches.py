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
"""The searches of the AutoScheduler in a contest."""

import contextlib
import time

from machine import measure_options
from search import latency_of

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.measure import ProgramMeasurer, PythonBasedMeasureCallback
from tvm.auto_scheduler.measure_record import load_record_from_string

MEASURING = {
    "build": "auto_scheduler.local_builder.build",
    "run": "auto_scheduler.local_runner.run",
}


class AnsorSearch(PythonBasedMeasureCallback):
    """A search policy with a log of its own.

    Parameters
    ----------
    policy : auto_scheduler.SearchPolicy
        The policy.
    log : Path
        The log of its records.
    keep : Callable
        Called with the latency and the error number of each candidate of a batch.
    measure : Dict[str, object]
        The builder and the runner.
    """

    def __init__(self, policy, log, keep, measure):
        super().__init__()
        self.policy = policy
        self.keep = keep
        callbacks = [auto_scheduler.RecordToFile(str(log)), self]
        self.measurer = ProgramMeasurer(callbacks=callbacks, verbose=0, **measure)

    def callback(self, policy, inputs, results):
        """Keep a batch."""
        self.keep([(latency_of(result), int(result.error_no)) for result in results])

    @property
    def phase(self):
        """What DropletSearchPolicy does, "all" of another one."""
        return str(getattr(self.policy, "phase", "all"))

    @property
    def num_explored(self):
        """The trials that DropletSearchPolicy explored."""
        return int(self.policy.num_explored)

    def advance(self, num_trials):
        """Search for one round."""
        self.policy.continue_search_one_round(num_trials, self.measurer)


class AnsorSearches:
    """Makes the searches of a contest of SketchPolicy and DropletSearchPolicy.

    Parameters
    ----------
    kernel : workloads.Kernel
        The kernel.
    target : tvm.target.Target
        What to tune it for.
    seed : int
        The seed of all policies.
    settings : contest.Settings
        How many trials there are.
    num_cores : int
        The number of cores that kernels run on.
    clock : Dict[str, float]
        The seconds spent on each of the `activities`, to which it adds.
    """

    activities = ("build", "run")
    rival = "sketch"
    searches = "droplet: DropletSearchPolicy. sketch: SketchPolicy"

    def __init__(self, kernel, target, seed, settings, num_cores, clock):
        self.settings = settings
        self.clock = clock
        self.measure = measure_options(num_cores)
        # SketchPolicy takes the seed 0 for none.
        self.seed = seed + 1
        self.options = {"task": kernel.task(target), "seed": self.seed, "verbose": 0}

    def make_rival(self, log, keep):
        """Ansor."""
        policy = auto_scheduler.SketchPolicy(program_cost_model=self.cost_model(), **self.options)
        return AnsorSearch(policy, log, keep, self.measure)

    def make_droplet(self, log, keep):
        """Ansor, then coordinate descent."""
        policy = auto_scheduler.DropletSearchPolicy(
            program_cost_model=self.cost_model(),
            params={"explore_trials": self.settings.explore_trials},
            **self.options,
        )
        return AnsorSearch(policy, log, keep, self.measure)

    def make_continued(self, log, keep, explored):
        """Ansor, continued from records."""
        known = log.with_suffix(".explored.json")
        known.write_text("".join(f"{record}\n" for record in explored))
        model = self.cost_model()
        model.update_from_file(str(known))
        policy = auto_scheduler.SketchPolicy(
            program_cost_model=model,
            init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(str(known))],
            **self.options,
        )
        return AnsorSearch(policy, log, keep, self.measure)

    def cost_model(self):
        """An untrained cost model."""
        return auto_scheduler.XGBModel(
            num_warmup_sample=self.settings.warmup_trials, seed=self.seed, verbose_eval=0
        )

    @staticmethod
    def program_of(kernel, target, record):
        """Rebuild a candidate.

        Parameters
        ----------
        kernel : workloads.Kernel
            The kernel that it is of.
        target : tvm.target.Target
            What it was tuned for.
        record : str
            Its record.

        Returns
        -------
        program : Tuple[str, Tuple]
            Its program as text, and what `tvm.build` takes.
        """
        dag = kernel.task(target).compute_dag
        state = load_record_from_string(record)[0].state
        return str(dag.infer_bound_from_state(state)), dag.apply_steps_from_state(state)

    def timed(self):
        """A context in which the clock counts."""
        return timed_measuring(self.clock)


@contextlib.contextmanager
def timed_measuring(clock):
    """Count the seconds that candidates are built and run.

    Parameters
    ----------
    clock : Dict[str, float]
        The seconds, to which they are added.
    """
    originals = {name: tvm.get_global_func(path) for name, path in MEASURING.items()}

    def timed(name):
        def wrapped(*args):
            begin = time.perf_counter()
            results = originals[name](*args)
            clock[name] += time.perf_counter() - begin
            return results

        return wrapped

    for name, path in MEASURING.items():
        tvm.register_func(path, timed(name), override=True)
    try:
        yield
    finally:
        for name, path in MEASURING.items():
            tvm.register_func(path, originals[name], override=True)
