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
"""The search policy that explores for a while, then descends from the best programs it measured."""

import numbers
import random

import tvm._ffi

from . import _ffi_api
from .search_policy import SearchPolicy, SketchPolicy


@tvm._ffi.register_object("auto_scheduler.DropletSearchPolicy")
class DropletSearchPolicy(SearchPolicy):
    """The search policy that explores with another policy for a while and then exploits the best
    program that was measured.

    It exploits by coordinate descent on the parameters of the program's schedule (split factors and
    unrolling, on CPU also how many loops are parallel and vectorized, and compute locations). What
    it tries first follows from all measurements of the descent and from the cost model. Where a
    descent ends depends little on how fast its start is, so it descends from several programs: each
    has a few trials, then the one that came lowest goes on until no parameter can be moved with a
    gain. When nothing is left to try, the search ends before its trials are used up.

    Parameters
    ----------
    task : SearchTask
        The SearchTask for the computation declaration.
    program_cost_model : Optional[CostModel]
        The cost model to estimate the complete schedules. It guides the exploration, helps to order
        what the descent tries, and learns from all programs that are measured. By default the cost
        model of `explore_policy` if that is a SketchPolicy, otherwise RandomModel(). XGBModel knows
        nothing until it has more than `num_warmup_sample` samples: choose fewer than
        `sample_trials`.
    params : Optional[Dict[str, Any]]
        Parameters of the search policy. See `DEFAULT_PARAMS` below for their default values.

        explore_trials : int
            The number of programs to explore before descending, at least 0. Programs that were
            preloaded count. A search with a given number of trials spends at most three eighths
            of them on exploring, unless it finds no valid program. A search in rounds, such as
            that of TaskScheduler, cannot know how many trials will come: choose a number that
            suits them.
        sample_trials : int
            How many of the first programs to explore are sampled only, at least 0. On CPU, they
            are those of a larger sample that execute the fewest stores, since no cost model has
            learned anything yet. After that, SketchPolicy's evolutionary search takes part. Set
            this to 0 if the cost model is trained already. Not accepted together with
            `explore_policy`.
        num_starts : int
            The number of programs to descend from at first, at least 1. They are the best ones, at
            most two of the same structure. When a descent stalls, its tile sizes and unrolling are
            tried in the other structures, from which more descents may begin.
        radius : int
            The longest step along a direction that is tried before a program counts as a minimum,
            at least 1. The pairs of steps that promise most are tried too. One step moves one prime
            factor of a split from one tile level to another, or another parameter to the next of
            its values.
        p_value : float
            Between 0 and 1. Significance level of the one-sided Welch's t-test that decides whether
            a program is faster, where the runner gives at least two samples of the latency
            (`repeat` of the runner).
        margin : float
            At least 0 and below 1. The relative gain in latency that counts where the runner gives
            one sample. Before such a gain counts, both programs are measured once more.

        All other parameters are those of SketchPolicy, see `SketchPolicy.DEFAULT_PARAMS`. They are
        passed on to the exploring policy, and are not accepted together with `explore_policy`. Its
        evolutionary search is shorter by default, since the descent does what is left to do.
    explore_policy : Optional[SearchPolicy]
        The policy that explores, made for the same task. By default a SketchPolicy with
        `program_cost_model`, `params` and `seed`.
    seed : Optional[int]
        Random seed.
    verbose : int = 1
        Verbosity level. 0 for silent, 1 to output information during schedule search. It holds for
        the exploring policy too.
    init_search_callbacks : Optional[List[SearchCallback]]
        Callback functions called before the search process, usually used to do extra
        initializations.
        Possible callbacks:

          - auto_scheduler.PreloadMeasuredStates: resume the search recorded in a log, or, with the
            parameter `explore_trials` set to 0, descend from the best program of any log. Records
            of the same task on the same target count, without failures on the device, which may
            have been the device's fault.
          - auto_scheduler.PreloadCustomSketchRule: only without `explore_policy`.

    Raises
    ------
    ValueError
        If a parameter is unknown or out of range, if `explore_policy` is for another task, or if
        there is neither a trial to explore nor a preloaded program to descend from.

    References
    ----------
    M. Canesche, G. Verma, F. Quintao Pereira. "Explore as a Storm, Exploit as a Raindrop: On the
    Benefit of Fine-Tuning Kernel Schedulers with Coordinate Descent." (arXiv 2406.20037, 2024),
    Section 3.
    """

    DEFAULT_PARAMS = {
        "explore_trials": 300,
        "sample_trials": 24,
        "num_starts": 2,
        "radius": 1,
        "p_value": 0.05,
        "margin": 0.01,
        "evolutionary_search_population": 512,
        "evolutionary_search_num_iters": 2,
    }

    def __init__(
        self,
        task,
        program_cost_model=None,
        params=None,
        explore_policy=None,
        seed=None,
        verbose=1,
        init_search_callbacks=None,
    ):
        accepted = {**SketchPolicy.DEFAULT_PARAMS, **self.DEFAULT_PARAMS}
        if explore_policy is not None:
            about_exploring = {"sample_trials", *SketchPolicy.DEFAULT_PARAMS}
            accepted = {key: accepted[key] for key in accepted.keys() - about_exploring}
        for key, value in (params or {}).items():
            _check_param(key, value, accepted)

        self.__init_handle_by_constructor__(
            _ffi_api.DropletSearchPolicy,
            task,
            program_cost_model,
            {**accepted, **(params or {})},
            explore_policy,
            random.randint(1, 1 << 30) if seed is None else seed,
            verbose,
            init_search_callbacks,
        )


def explore_trials_per_task(num_measure_trials, num_tasks):
    """How many programs of a task to explore where tasks share their trials.

    Parameters
    ----------
    num_measure_trials : int
        The number of trials of all tasks together.
    num_tasks : int
        The number of tasks.

    Returns
    -------
    explore_trials : int
        A quarter of what a task gets on average, and no more than alone.
    """
    quarter = max(1, num_measure_trials // num_tasks // 4)
    return min(DropletSearchPolicy.DEFAULT_PARAMS["explore_trials"], quarter)


def _check_param(key, value, accepted):
    """Raise an error unless the parameter is accepted. Those that are not passed on to SketchPolicy
    have their values checked in C++."""
    if key not in accepted:
        hint = f". The parameters are: {', '.join(sorted(accepted))}"
        if key in SketchPolicy.DEFAULT_PARAMS:
            hint = ": it is a parameter of SketchPolicy, so give it to the explore_policy itself"
        elif key in DropletSearchPolicy.DEFAULT_PARAMS:
            hint = ": it is about exploring by default, but an explore_policy is given"
        raise ValueError(f'Unknown parameter "{key}" of DropletSearchPolicy{hint}')
    if key in SketchPolicy.DEFAULT_PARAMS:
        expected = type(SketchPolicy.DEFAULT_PARAMS[key])
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not (is_integer if expected is int else isinstance(value, expected)):
            raise ValueError(
                f'The parameter "{key}" must be of type {expected.__name__}, but it is {value!r}'
            )
