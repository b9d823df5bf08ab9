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
"""The decisions of a trace as integer coordinates, for a search that moves them."""

import json

from tvm.tir.schedule import Schedule, Trace

# Of an innermost factor, as SamplePerfectTile has it.
NO_LIMIT = -1
# What replaying raises where a primitive does not apply, as when a block would not see its input.
REPLAY_ERRORS = (RuntimeError, ValueError, IndexError)


class TraceCoordinates:
    """The decisions that can move in the trace of a schedule, as coordinates.

    The coordinates are:

    - Tile sizes. The tiles of a loop with extent E are L factors, which give L coordinates for each
      prime factor p of E: the exponents of p in each factor. A unit step carries one p from one
      factor to another, so their product stays E.
    - Categorical choices, such as unroll steps, vector widths and numbers of threads, in the order
      of their values.
    - Places to compute a block at, from inlined over root to the innermost loop of its consumer.
      Where a place does not exist, TVM takes the one before, so that different points may come to
      be the same program.

    Everything else stays as it is in the trace, tensorized blocks among it.

    Parameters
    ----------
    mod : IRModule
        The module that the trace is of.
    trace : tvm.tir.schedule.Trace
        The trace, with all its decisions. What postprocessors did is left out.

    Attributes
    ----------
    origin : List[int]
        The coordinates of the trace.
    upper : List[int]
        The largest value of each coordinate; the smallest is 0.
    directions : List[List[Tuple[int, int]]]
        The unit steps: for each, the coordinates that it changes with the amount added.
    """

    def __init__(self, mod, trace):
        self.mod = mod
        self.trace = trace.simplified(remove_postproc=True)
        # Read once, as each access goes through TVM's foreign function interface.
        self._insts = list(self.trace.insts)
        self._decisions = dict(self.trace.decisions.items())
        self.origin, self.upper, self.directions = [], [], []
        self._parameters = {}
        num_places = iter(self._count_places())
        insts, decisions = _read(self.trace)
        for index, decision in decisions:
            kind, _, attrs, _ = insts[index]
            if kind == "SamplePerfectTile":
                self._add(index, _Tiling(decision, max_innermost=attrs[1]))
            elif kind == "SampleCategorical":
                self._add(index, _Choice(decision, values=attrs[0]))
            elif kind == "SampleComputeLocation":
                self._add(index, _Place(decision, next(num_places)))

    def schedule_at(self, point, postprocs):
        """Rebuild the schedule at a point, by replaying the trace and its postprocessors.

        Parameters
        ----------
        point : List[int]
            The point.
        postprocs : List[tvm.meta_schedule.Postproc]
            The postprocessors.

        Returns
        -------
        sch : Optional[tvm.tir.Schedule]
            The schedule. None if there is none at the point, or if a postprocessor rejects it.
        """
        decisions = self._decisions_at(point)
        if decisions is None:
            return None
        sch = Schedule(self.mod, debug_mask="none", error_render_level="none")
        try:
            Trace(self._insts, decisions).apply_to_schedule(sch, remove_postproc=True)
            sch.enter_postproc()
            return sch if all(postproc.apply(sch) for postproc in postprocs) else None
        except REPLAY_ERRORS:
            return None

    def describe(self, before, after):
        """What moves from one point to another, in words.

        Parameters
        ----------
        before : List[int]
            A point.
        after : List[int]
            Another one.

        Returns
        -------
        text : str
            The decisions that differ, each with its line in the trace.
        """
        moves = []
        for index, (first, parameter) in self._parameters.items():
            old, new = (
                parameter.decide(point[first : first + parameter.size]) for point in (before, after)
            )
            if old != new:
                moves.append(f"{index}: {self._insts[index].kind.name} {old} -> {new}")
        return ", ".join(moves)

    def _add(self, index, parameter):
        first = len(self.origin)
        self._parameters[index] = (first, parameter)
        self.origin += parameter.origin
        self.upper += parameter.upper
        self.directions += [
            [(first + coordinate, delta) for coordinate, delta in direction]
            for direction in parameter.directions
        ]

    def _decisions_at(self, point):
        decisions = dict(self._decisions)
        for index, (first, parameter) in self._parameters.items():
            values = point[first : first + parameter.size]
            if not parameter.allows(values):
                return None
            decisions[self._insts[index]] = parameter.decide(values)
        return decisions

    def _count_places(self):
        """For each block whose place is sampled, the number of loops it could be computed in."""
        counts = []
        sch = Schedule(self.mod, debug_mask="none", error_render_level="none")

        def count(inst, inputs, _, decision):
            if inst.kind.name == "SampleComputeLocation":
                consumers = sch.get_consumers(inputs[0])
                counts.append(max((len(sch.get_loops(block)) for block in consumers), default=0))
            return decision

        self.trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=count)
        return counts


def _read(trace):
    """The instructions and decisions as JSON: not all numbers can be read through the objects."""
    # Later versions of TVM leave IntImm in there.
    return json.loads(json.dumps(trace.as_json(), default=lambda number: number.value))


class _Tiling:
    """The factors of a loop's extent, as exponents of prime factors: those of the first prime in
    each factor, then those of the next."""

    def __init__(self, factors, max_innermost):
        self.max_innermost = max_innermost
        self.num_levels = len(factors)
        self.primes = sorted({prime for factor in factors for prime in _prime_factors(factor)})
        self.origin = [_exponent(factor, prime) for prime in self.primes for factor in factors]
        self.size = len(self.origin)
        self.upper = []
        self.directions = []
        levels = range(self.num_levels)
        for first in range(0, self.size, self.num_levels):
            total = sum(self.origin[first : first + self.num_levels])
            self.upper += [total] * self.num_levels
            self.directions += [
                [(first + giver, -1), (first + taker, 1)]
                for giver in levels
                for taker in levels
                if giver != taker
            ]

    def allows(self, values):
        """Whether the innermost factor is not too long."""
        return self.max_innermost == NO_LIMIT or self.decide(values)[-1] <= self.max_innermost

    def decide(self, values):
        """The factors."""
        factors = [1] * self.num_levels
        for index, exponent in enumerate(values):
            factors[index % self.num_levels] *= self.primes[index // self.num_levels] ** exponent
        return factors


class _Choice:
    """A choice between values, by the rank of the value."""

    size = 1
    directions = [[(0, -1)], [(0, 1)]]

    def __init__(self, decision, values):
        self.by_rank = sorted(range(len(values)), key=values.__getitem__)
        self.origin = [self.by_rank.index(decision)]
        self.upper = [len(values) - 1]

    def allows(self, _):
        """Any value may be chosen."""
        return True

    def decide(self, values):
        """The index of the value."""
        return self.by_rank[values[0]]


class _Place:
    """The place to compute a block at: inlined, at root, or in a loop from the outermost one on."""

    size = 1
    directions = [[(0, -1)], [(0, 1)]]
    INLINED = -2

    def __init__(self, decision, num_loops):
        self.origin = [decision - self.INLINED]
        self.upper = [max(num_loops - 1, decision) - self.INLINED]

    def allows(self, _):
        """TVM replaces places that do not exist."""
        return True

    def decide(self, values):
        """-2 for inlined, -1 for root, otherwise the index of a loop."""
        return values[0] + self.INLINED


def _prime_factors(number):
    prime = 2
    while prime * prime <= number:
        if number % prime:
            prime += 1
        else:
            yield prime
            number //= prime
    if number > 1:
        yield number


def _exponent(number, prime):
    exponent = 0
    while number % prime == 0:
        number //= prime
        exponent += 1
    return exponent
