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
"""MobileNet v2, for images of 3x224x224.

M. Sandler, A. Howard, M. Zhu, A. Zhmoginov, L.-C. Chen, "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", CVPR 2018.
"""

from .inverted_residuals import Stack, compose

from tvm import relay

_STACKS = (
    Stack(expansion=1, channels=16, kernel_size=3, strides=1, repeats=1),
    Stack(expansion=6, channels=24, kernel_size=3, strides=2, repeats=2),
    Stack(expansion=6, channels=32, kernel_size=3, strides=2, repeats=3),
    Stack(expansion=6, channels=64, kernel_size=3, strides=2, repeats=4),
    Stack(expansion=6, channels=96, kernel_size=3, strides=1, repeats=3),
    Stack(expansion=6, channels=160, kernel_size=3, strides=2, repeats=3),
    Stack(expansion=6, channels=320, kernel_size=3, strides=1, repeats=1),
)


def network(batch_size, image_shape, dtype):
    """MobileNet v2, of width 1.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of all values.

    Returns
    -------
    function : relay.Function
        The network.
    """
    return compose(batch_size, image_shape, dtype, _STACKS, _relu6)


def _relu6(data):
    return relay.clip(data, 0.0, 6.0)
