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
"""The image classification networks that the literature on this search tunes, as Relay modules.

Those that relay.testing has in their usual form are taken from there. All end in a softmax.
"""

from dataclasses import dataclass
from functools import partial
from typing import Callable, Tuple

from . import (
    alexnet,
    densenet,
    googlenet,
    inception_v3,
    mnasnet,
    mobilenet_v2,
    resnet,
    shufflenet_v2,
    squeezenet,
    vgg,
)

import tvm
from tvm import relay
from tvm.relay.testing import create_workload

LAYOUTS = ("NCHW", "NHWC")


@dataclass(frozen=True)
class Model:
    """A network.

    Parameters
    ----------
    name : str
        Its name.
    input_shape : Tuple[int, int, int]
        The channels, height and width of an image.
    num_parameters : int
        How many numbers it learns: weights, biases, and gamma and beta of batch normalizations.
    network : Callable
        From the number of images, their shape and the type of values to a relay.Function.
    """

    name: str
    input_shape: Tuple[int, int, int]
    num_parameters: int
    network: Callable

    def function(self, batch_size=1, dtype="float32"):
        """The network without values of its parameters.

        Parameters
        ----------
        batch_size : int
            The number of images.
        dtype : str
            The type of all values.

        Returns
        -------
        function : relay.Function
            From the images, named `data`, and the parameters to the probability of each class.
        """
        return self.network(batch_size, self.input_shape, dtype)

    def build(self, batch_size=1, dtype="float32", layout="NCHW"):
        """The network with random weights.

        Parameters
        ----------
        batch_size : int
            The number of images.
        dtype : str
            The type of all values.
        layout : str
            That of convolutions and pooling, NCHW or NHWC. The images are in NCHW.

        Returns
        -------
        module : tvm.IRModule
            The network, with types.
        params : Dict[str, tvm.nd.NDArray]
            Its parameters.
        """
        if layout not in LAYOUTS:
            raise ValueError(f"the layout {layout} is not one of {', '.join(LAYOUTS)}")
        module, params = create_workload(self.function(batch_size, dtype))
        return (module if layout == "NCHW" else _to_nhwc(module)), params


def _to_nhwc(module):
    """The same network in NHWC. Its parameters stay as they are, and are transposed within."""
    layouts = {
        "nn.conv2d": ["NHWC", "default"],
        "nn.max_pool2d": ["NHWC"],
        "nn.avg_pool2d": ["NHWC"],
        "nn.global_avg_pool2d": ["NHWC"],
    }
    passes = [relay.transform.ConvertLayout(layouts), relay.transform.InferType()]
    with tvm.transform.PassContext(opt_level=3):  # the level that ConvertLayout has
        return tvm.transform.Sequential(passes)(module)


_SHAPE = (3, 224, 224)

MODELS = {
    model.name: model
    for model in (
        Model("alexnet", _SHAPE, 61100840, alexnet.network),
        Model("vgg-11", _SHAPE, 132863336, partial(vgg.network, num_layers=11)),
        Model("vgg-13", _SHAPE, 133047848, partial(vgg.network, num_layers=13)),
        Model("vgg-16", _SHAPE, 138357544, partial(vgg.network, num_layers=16)),
        Model("vgg-19", _SHAPE, 143667240, partial(vgg.network, num_layers=19)),
        # These numbers are not the published ones, see resnet.py.
        Model("resnet-18", _SHAPE, 11691950, partial(resnet.network, num_layers=18)),
        Model("resnet-34", _SHAPE, 21800110, partial(resnet.network, num_layers=34)),
        Model("resnet-50", _SHAPE, 25549486, partial(resnet.network, num_layers=50)),
        Model("resnet-101", _SHAPE, 44541614, partial(resnet.network, num_layers=101)),
        Model("resnet-152", _SHAPE, 60185262, partial(resnet.network, num_layers=152)),
        Model("densenet-121", _SHAPE, 7978856, partial(densenet.network, num_layers=121)),
        Model("densenet-161", _SHAPE, 28681000, partial(densenet.network, num_layers=161)),
        Model("densenet-169", _SHAPE, 14149480, partial(densenet.network, num_layers=169)),
        Model("densenet-201", _SHAPE, 20013928, partial(densenet.network, num_layers=201)),
        Model("googlenet", _SHAPE, 6624904, googlenet.network),
        Model("inception-v3", (3, 299, 299), 23834568, inception_v3.network),
        Model("mobilenet-v2", _SHAPE, 3504872, mobilenet_v2.network),
        Model("mnasnet-1.0", _SHAPE, 4383312, mnasnet.network),
        Model("shufflenet-v2-1.0", _SHAPE, 2278604, shufflenet_v2.network),
        Model("squeezenet-1.0", _SHAPE, 1248424, squeezenet.network),
    )
}
