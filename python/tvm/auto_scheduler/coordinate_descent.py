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
"""Coordinate descent over a discrete space with noisy, possibly failing measurements.

This is the engine of :py:class:`DropletSearchPolicy`. It knows nothing about schedules: whoever
uses it asks for points, measures them and tells the costs.
"""

import tvm._ffi
from tvm.runtime import Object

from . import _ffi_api


@tvm._ffi.register_object("auto_scheduler.CoordinateDescent")
class CoordinateDescent(Object):
    """Walks from a measured point to a local minimum by asking for measurements.

    A point is a list of integers, one per coordinate, between 0 and the coordinate's upper value.

    Parameters
    ----------
    upper : List[int]
        The largest value of each coordinate.
    directions : List[List[Tuple[int, int]]]
        The unit steps that connect points: for each, the coordinates that it changes with the
        amount added. A step and its opposite are two directions.
    start : List[int]
        The point to start from.
    start_costs : List[float]
        The measured costs of the start, lower is better. At least one.
    radius : int = 1
        The longest step tried along each direction before a point counts as a minimum.
    p_value : float = 0.05
        Significance level of the one-sided Welch's t-test that decides whether a point is better,
        where points have at least two samples each.
    margin : float = 0.01
        Relative gain that a point must show where a measurement gives one sample only. The point
        and the best one are then measured a second time before it is accepted.
    seed : int = 0
        Seeds the order in which directions are tried while nothing tells them apart.
    prior : Optional[Callable[[List[List[int]]], List[float]]]
        Guesses for each of several points how its cost compares with that of others: the logarithm
        of the cost, up to a factor and a summand. Infinite for a point that cannot be measured.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    M. Canesche, V. Rosario, E. Borin, F. Quintao Pereira. "The Droplet Search Algorithm for Kernel
    Scheduling." (ACM TACO 2024), Section 3.

    N. Srinivas, A. Krause, S. M. Kakade, M. Seeger. "Gaussian Process Optimization in the Bandit
    Setting: No Regret and Experimental Design." (ICML 2010), for the confidence bound that orders
    what is tried.
    """

    def __init__(
        self,
        upper,
        directions,
        start,
        start_costs,
        radius=1,
        p_value=0.05,
        margin=0.01,
        seed=0,
        prior=None,
    ):
        self.__init_handle_by_constructor__(
            _ffi_api.CoordinateDescent,
            upper,
            directions,
            start,
            [float(cost) for cost in start_costs],
            radius,
            p_value,
            margin,
            seed,
            None if prior is None else lambda points: _call_prior(prior, points),
        )

    def ask(self, batch_size):
        """Propose points to measure.

        Never proposes a point twice, except once more to confirm a decision that rests on single
        samples.

        Parameters
        ----------
        batch_size : int
            The number of points wanted.

        Returns
        -------
        points : List[List[int]]
            At most `batch_size` points. Empty if the descent has converged, or if all that can be
            decided now waits for the outcome of points proposed before.
        """
        return [
            [int(value) for value in point]
            for point in _ffi_api.CoordinateDescentAsk(self, batch_size)
        ]

    def tell(self, point, costs):
        """Tell the outcome of measuring a proposed point.

        Parameters
        ----------
        point : List[int]
            The point.
        costs : List[float]
            The samples, lower is better. Empty if the measurement failed.

        Raises
        ------
        ValueError
            If the point is not waiting for an outcome.
        """
        _ffi_api.CoordinateDescentTell(self, point, [float(cost) for cost in costs])

    def withdraw(self):
        """Forget the proposals whose outcome was not told, as if they had not been made."""
        _ffi_api.CoordinateDescentWithdraw(self)

    @property
    def converged(self):
        """bool: Whether nothing is left to try: no step within the radius leads from the best point
        to a better one, and neither do the few combinations of unit steps that promised most."""
        return bool(_ffi_api.CoordinateDescentConverged(self))

    @property
    def best(self):
        """List[int]: The best point so far."""
        return [int(value) for value in _ffi_api.CoordinateDescentBest(self)]

    @property
    def best_cost(self):
        """float: The mean cost of the best point."""
        return _ffi_api.CoordinateDescentBestCost(self)


def _call_prior(prior, points):
    return [float(guess) for guess in prior([[int(value) for value in p] for p in points])]
