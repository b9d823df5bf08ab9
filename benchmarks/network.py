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
"""The networks to tune: those of `models`, and the user's own in ONNX."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict

from models import MODELS

import numpy as np
import onnx
import tvm
from tvm import auto_scheduler, relay

BATCH_SIZE = 1
# On CPU, only in this layout do schedules of auto_scheduler choose the layout of the weights.
LAYOUT = "NHWC"


class NetworkError(ValueError):
    """A network that cannot be tuned."""


@dataclass(frozen=True)
class Network:
    """A network with its weights.

    Parameters
    ----------
    name : str
        Its name, also that of its files.
    module : tvm.IRModule
        The network, with types.
    params : Dict[str, tvm.nd.NDArray]
        Its weights.
    """

    name: str
    module: tvm.IRModule
    params: Dict[str, tvm.nd.NDArray]

    def extract_tasks(self, target):
        """The tasks of the network.

        Parameters
        ----------
        target : tvm.target.Target
            What to tune it for.

        Returns
        -------
        tasks : List[auto_scheduler.SearchTask]
            The distinct tasks.
        weights : List[int]
            How often each of them occurs.
        """
        tasks, weights = auto_scheduler.extract_tasks(self.module["main"], self.params, target)
        if not tasks:
            raise NetworkError(f"{self.name} has no operator that auto_scheduler tunes")
        return tasks, weights

    def random_inputs(self, seed):
        """Inputs to run the network with.

        Parameters
        ----------
        seed : int
            Their seed.

        Returns
        -------
        inputs : Dict[str, numpy.ndarray]
            From the name of each input to normally distributed numbers, or to zeros and ones where
            it takes integers.
        """
        random = np.random.default_rng(seed)
        inputs = {}
        for var in self.module["main"].params:
            if var.name_hint not in self.params:
                shape, dtype = var.checked_type.concrete_shape, var.checked_type.dtype
                is_float = dtype.startswith("float")
                array = random.normal(size=shape) if is_float else random.integers(2, size=shape)
                inputs[var.name_hint] = array.astype(dtype)
        return inputs

    def compile(self, target, log=None, num_records=None):
        """Compile the network.

        Parameters
        ----------
        target : tvm.target.Target
            The target.
        log : Optional[Path]
            The log of its tuning. Without one, TOPI's schedules are used.
        num_records : Optional[int]
            How many records of the log count. By default all.

        Returns
        -------
        library : tvm.relay.backend.executor_factory.GraphExecutorFactoryModule
            The compiled network with its weights.
        """
        config = {"relay.backend.use_auto_scheduler": log is not None}
        history = auto_scheduler.ApplyHistoryBest(str(log) if log else [], num_records)
        with history, tvm.transform.PassContext(opt_level=3, config=config):
            return relay.build(self.module, target=target, params=self.params)


def load_model(name):
    """A model with random weights.

    Parameters
    ----------
    name : str
        The name in `models.MODELS`.

    Returns
    -------
    network : Network
        The network, for one image.
    """
    return Network(name, *MODELS[name].build(BATCH_SIZE, layout=LAYOUT))


def load_onnx(path):
    """A network from a file.

    Parameters
    ----------
    path : Path
        The file in ONNX.

    Returns
    -------
    network : Network
        The network, named as the file.

    Raises
    ------
    NetworkError
        If the file cannot be read as a network whose inputs have fixed shapes.
    """
    path = Path(path)
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except Exception as error:  # what protobuf and the checker raise has no common class
        raise NetworkError(f"{path} cannot be read as ONNX: {_first_line(error)}") from error
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        dimensions = value.type.tensor_type.shape.dim
        if value.name not in weights and not all(d.dim_value > 0 for d in dimensions):
            shape = ", ".join(str(d.dim_value or d.dim_param or "?") for d in dimensions)
            raise NetworkError(
                f"{path} has an input {value.name} of shape ({shape}): give it a fixed shape, for "
                "example with onnx.tools.update_model_dims"
            )
    try:
        module, params = relay.frontend.from_onnx(model, freeze_params=True)
        module = relay.transform.InferType()(module)
    except (tvm.error.TVMError, NotImplementedError) as error:
        raise NetworkError(f"{path} cannot be imported: {_first_line(error)}") from error
    return Network(path.stem, module, params)


def _first_line(error):
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
