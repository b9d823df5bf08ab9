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
"""The parameters of a schedule as integer coordinates, for a search that moves them."""

import tvm._ffi
from tvm.runtime import Object

from . import _ffi_api
from .loop_state import State


@tvm._ffi.register_object("auto_scheduler.ScheduleCoordinates")
class ScheduleCoordinates(Object):
    """The parameters that can move in the transform steps of a state, as coordinates.

    These are the tile sizes of every split (the exponent of each prime factor at each tile level),
    `auto_unroll_max_step` and, on GPU, the vector width of cooperative fetches. On CPU they are
    also, for each stage, how many outer loops run in parallel, how many inner loops are
    vectorized, and where the stage is computed.

    Parameters
    ----------
    task : SearchTask
        The task that the state belongs to.
    state : Union[State, StateObject]
        A concrete state, such as a sampled or measured one.
    params : Optional[Dict[str, Any]]
        Parameters named as in :py:attr:`SketchPolicy.DEFAULT_PARAMS`, of which
        `max_innermost_split_factor`, `max_vectorize_size` and `disable_change_compute_location`
        are read.
    """

    def __init__(self, task, state, params=None):
        state = state.state_object if isinstance(state, State) else state
        self.__init_handle_by_constructor__(_ffi_api.ScheduleCoordinates, task, state, params)

    @property
    def origin(self):
        """List[int]: The coordinates of the state that was read."""
        return [int(value) for value in _ffi_api.ScheduleCoordinatesOrigin(self)]

    @property
    def upper(self):
        """List[int]: The largest value of each coordinate; the smallest is 0."""
        return [int(value) for value in _ffi_api.ScheduleCoordinatesUpper(self)]

    @property
    def directions(self):
        """List[List[Tuple[int, int]]]: The unit steps between points: for each, the coordinates
        that it changes with the amount added."""
        return [
            [(int(coordinate), int(delta)) for coordinate, delta in direction]
            for direction in _ffi_api.ScheduleCoordinatesDirections(self)
        ]

    @property
    def structure(self):
        """str: Equal for states that differ in the values of coordinates only."""
        return _ffi_api.ScheduleCoordinatesStructure(self)

    def state_at(self, point):
        """Rebuild the state at a point, with its bounds inferred.

        Parameters
        ----------
        point : List[int]
            The point.

        Returns
        -------
        state : Optional[StateObject]
            The state, None if there is no valid one at the point.
        """
        return _ffi_api.ScheduleCoordinatesStateAt(self, point)

    def adopt(self, other, point):
        """Take over what exists here, too, of a point of another state of the task.

        Parameters
        ----------
        other : ScheduleCoordinates
            The coordinates of the other state.
        point : List[int]
            The point.

        Returns
        -------
        adopted : List[int]
            The point with the same tile sizes of an axis, unrolling of a stage and vector width of
            a fetch, and the values of the origin elsewhere. A stage and its write cache count as
            one.

        Raises
        ------
        ValueError
            If the point is none of the other coordinates.
        """
        return [int(value) for value in _ffi_api.ScheduleCoordinatesAdopt(self, other, point)]

    def describe(self, start, end):
        """Say what moved from one point to another.

        Parameters
        ----------
        start : List[int]
            The point before.
        end : List[int]
            The point after.

        Returns
        -------
        text : str
            What moved, in words.

        Raises
        ------
        ValueError
            If one of the points is none of these coordinates.
        """
        return _ffi_api.ScheduleCoordinatesDescribe(self, start, end)
