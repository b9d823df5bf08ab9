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
"""A coordinate descent from one schedule along the decisions of its trace."""

import math
from statistics import mean

from tvm.auto_scheduler.coordinate_descent import CoordinateDescent
from tvm.ir import structural_hash

from ..arg_info import ArgInfo
from .search_strategy import MeasureCandidate

# A schedule predicted to be this much slower than the best one is hopeless anyway.
MIN_SCORE = 0.01


class TraceDescent:
    """A coordinate descent from one schedule along the decisions of its trace.

    Parameters
    ----------
    coordinates : TraceCoordinates
        The decisions of the schedule.
    program : int
        The structural hash of its module.
    costs : List[float]
        Its measured latencies in seconds, at least one.
    context : TuneContext
        The context with the postprocessors.
    cost_model : Optional[CostModel]
        The cost model that tells which neighbors to try first.
    options : Dict[str, Any]
        The options of the engine.
    """

    def __init__(self, coordinates, program, costs, context, cost_model, options):
        self.coordinates = coordinates
        self.context = context
        self.cost_model = cost_model
        self.postprocs = context.space_generator.postprocs or []
        self.has_begun = False
        self.has_converged = False
        self.lowest_cost = mean(costs)
        self._candidates = {}
        self._points = {program: tuple(coordinates.origin)}
        self._told = {tuple(coordinates.origin)}
        self._proposed = []
        prior = self._predict_log_costs if self._has_learned() else None
        self._walk = CoordinateDescent(
            coordinates.upper,
            coordinates.directions,
            coordinates.origin,
            costs,
            prior=prior,
            **options,
        )

    def propose(self, size, known):
        """Propose schedules to measure.

        Parameters
        ----------
        size : int
            The number of schedules wanted.
        known : Dict[int, List[float]]
            The latencies of measured programs, none where the measurement failed.

        Returns
        -------
        candidates : List[MeasureCandidate]
            At most `size`. None if the descent has converged.
        """
        self._walk.withdraw()
        self._proposed = []
        while len(self._proposed) < size:
            points = self._walk.ask(size - len(self._proposed))
            if not points:
                break
            for point in points:
                candidate, program = self._candidate_at(point)
                if tuple(point) in self._told:  # to confirm what was measured before
                    self._proposed.append((point, candidate))
                elif candidate is None:
                    self._tell(point, [])
                elif program in known:
                    self._tell(point, known[program])
                else:
                    self._proposed.append((point, candidate))
        self.has_converged = not self._proposed
        return [candidate for _, candidate in self._proposed]

    def learn(self, costs):
        """Take the outcomes of what was proposed last.

        Parameters
        ----------
        costs : List[List[float]]
            The latencies in seconds of each candidate, none where the measurement failed.

        Returns
        -------
        move : str
            The move that paid, in words. Empty if none did.
        """
        self.has_begun = True
        before = self._walk.best
        for (point, _), samples in zip(self._proposed, costs):
            self._tell(point, samples)
        self._proposed = []
        return self.coordinates.describe(before, self._walk.best)

    def _tell(self, point, costs):
        self._told.add(tuple(point))
        self._walk.tell(point, costs)
        if costs:
            self.lowest_cost = min(self.lowest_cost, mean(costs))

    def _candidate_at(self, point):
        """The candidate, None where there is none or where it is that of another point."""
        key = tuple(point)
        if key not in self._candidates:
            candidate = program = None
            sch = self.coordinates.schedule_at(point, self.postprocs)
            if sch is not None:
                program = structural_hash(sch.mod)
                if self._points.setdefault(program, key) == key:
                    args_info = ArgInfo.from_entry_func(sch.mod, remove_preproc=True)
                    candidate = MeasureCandidate(sch, args_info)
            self._candidates[key] = (candidate, program)
        return self._candidates[key]

    def _has_learned(self):
        """Whether the cost model knows something: otherwise it does not say the same twice."""
        candidate, _ = self._candidate_at(self.coordinates.origin)
        if self.cost_model is None or candidate is None:
            return False
        first, second = (self.cost_model.predict(self.context, [candidate]) for _ in range(2))
        return first[0] == second[0]

    def _predict_log_costs(self, points):
        log_costs = [math.inf] * len(points)
        found = [(i, self._candidate_at(point)[0]) for i, point in enumerate(points)]
        found = [(i, candidate) for i, candidate in found if candidate is not None]
        if found:
            scores = self.cost_model.predict(self.context, [candidate for _, candidate in found])
            for (i, _), score in zip(found, scores):
                log_costs[i] = -math.log(max(score, MIN_SCORE))
        return log_costs
