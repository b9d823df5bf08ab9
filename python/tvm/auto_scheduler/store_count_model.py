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
"""A cost model that counts stores."""

import tvm._ffi

from . import _ffi_api
from .cost_model.cost_model import CostModel


@tvm._ffi.register_object("auto_scheduler.StoreCountModel")
class StoreCountModel(CostModel):
    """Prefers programs of a CPU that execute few stores, while another model learns.

    It needs no measurements. A vector counts once for each vector unit that it fills. The number
    says little about which of two good programs is better, but it tells programs that vectorize
    well and repeat no work from the many of a random sample that do not.

    Parameters
    ----------
    learner : CostModel
        The model that learns from what is measured.
    """

    def __init__(self, learner):
        self.__init_handle_by_constructor__(_ffi_api.StoreCountModel, learner)

    def update(self, inputs, results):
        """Let the learner learn.

        Parameters
        ----------
        inputs : List[MeasureInput]
            The measurement inputs.
        results : List[MeasureResult]
            The measurement results.
        """
        _ffi_api.CostModelUpdate(self, inputs, results)

    def predict(self, search_task, states):
        """Score states.

        Parameters
        ----------
        search_task : SearchTask
            The search task of the states.
        states : List[Union[State, StateObject]]
            States with inferred bounds.

        Returns
        -------
        scores : List[float]
            The negative logarithm of the number of stores that each executes.
        """
        states = [getattr(state, "state_object", state) for state in states]
        return [score.value for score in _ffi_api.CostModelPredict(self, search_task, states)]
