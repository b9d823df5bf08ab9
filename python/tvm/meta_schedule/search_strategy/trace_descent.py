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

from concurrent.futures import ThreadPoolExecutor
from statistics import mean

from tvm.auto_scheduler.coordinate_descent import CoordinateDescent
from tvm.ir import structural_hash

from ..arg_info import ArgInfo
from .search_strategy import MeasureCandidate


class TraceDescent:
    """A coordinate descent from one schedule along the decisions of its trace.

    Parameters
    ----------
    coordinates : TraceCoordinates
        The decisions of the schedule.
    program : int
        The structural hash of its module.
    known : Dict[int, List[float]]
        The latencies in seconds of measured programs by structural hash, none where the measurement
        failed. That of the schedule must be there. The descent adds what it measures.
    postprocs : List[Postproc]
        The postprocessors.
    num_threads : int
        The number of schedules that are replayed at a time.
    options : Dict[str, Any]
        The options of the engine.
    """

    def __init__(self, coordinates, program, known, postprocs, num_threads, options):
        self.coordinates = coordinates
        self.known = known
        self.postprocs = postprocs
        self.num_threads = num_threads
        self.has_begun = False
        self.has_converged = False
        self.lowest_cost = mean(known[program])
        # The point of each program: others that lead to it are no neighbors of their own.
        self._points = {program: tuple(coordinates.origin)}
        self._told = {tuple(coordinates.origin)}
        self._proposed = []
        self._walk = CoordinateDescent(
            coordinates.upper,
            coordinates.directions,
            coordinates.origin,
            known[program],
            **options,
        )

    def propose(self, size):
        """Propose schedules to measure.

        Parameters
        ----------
        size : int
            The number of schedules wanted.

        Returns
        -------
        candidates : List[MeasureCandidate]
            At most `size`. None if the descent has converged.
        """
        self._walk.withdraw()
        self._proposed = []
        while len(self._proposed) < size:
            points = [tuple(point) for point in self._walk.ask(size - len(self._proposed))]
            if not points:
                break
            for point, replayed in zip(points, self.replay(points)):
                self._consider(point, *replayed)
        self.has_converged = not self._proposed
        return [
            MeasureCandidate(sch, ArgInfo.from_entry_func(sch.mod, remove_preproc=True))
            for _, _, sch in self._proposed
        ]

    def replay(self, points):
        """Make the schedules of points, several at a time.

        Parameters
        ----------
        points : List[Tuple[int]]
            The points.

        Returns
        -------
        schedules : List[Tuple[Optional[tvm.tir.Schedule], Optional[int]]]
            The schedule of each, and the structural hash of its module. None where there is none.
        """

        def make(point):
            sch = self.coordinates.schedule_at(point, self.postprocs)
            return sch, None if sch is None else structural_hash(sch.mod)

        with ThreadPoolExecutor(self.num_threads) as pool:
            return list(pool.map(make, points))

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
        for (point, program, _), samples in zip(self._proposed, costs):
            self.known.setdefault(program, []).extend(samples)
            self._tell(point, samples)
        self._proposed = []
        return self.coordinates.describe(before, self._walk.best)

    def _consider(self, point, sch, program):
        """Propose what is at a point, or tell at once what is known of it."""
        # Nothing is kept of a schedule but its hash: to confirm it, it is made again.
        if sch is None or self._points.setdefault(program, point) != point:
            self._tell(point, [])
        elif program in self.known and point not in self._told:
            self._tell(point, self.known[program])
        else:
            self._proposed.append((point, program, sch))

    def _tell(self, point, costs):
        self._told.add(point)
        self._walk.tell(point, costs)
        if costs:
            self.lowest_cost = min(self.lowest_cost, mean(costs))
