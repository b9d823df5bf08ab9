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
"""ShuffleNet v2, for images of 3x224x224.

N. Ma, X. Zhang, H.-T. Zheng, J. Sun, "ShuffleNet V2: Practical Guidelines for Efficient CNN
Architecture Design", ECCV 2018.
"""

from .blocks import conv_norm, depthwise_norm, image, pool_and_classify

from tvm import relay

_STAGES = ((116, 4), (232, 8), (464, 4))  # channels, and the number of units


def network(batch_size, image_shape, dtype):
    """ShuffleNet v2 1.0.

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
    channels = 24
    data = image(batch_size, image_shape, dtype)
    data = _conv(data, channels, 3, "stem", strides=2)
    data = relay.nn.max_pool2d(data, pool_size=3, strides=2, padding=1)
    for stage, (stage_channels, num_units) in enumerate(_STAGES, 2):
        half = stage_channels // 2
        data = _halving_unit(data, channels, half, dtype, f"stage{stage}_unit1")
        for unit in range(2, num_units + 1):
            data = _unit(data, half, dtype, f"stage{stage}_unit{unit}")
        channels = stage_channels
    return pool_and_classify(_conv(data, 1024, 1, "head"))


def _unit(data, half, dtype, name):
    """Leave one half of the channels as it is, and mix it with what becomes of the other."""
    kept, changed = relay.split(data, 2, axis=1)
    return _shuffle(kept, _branch(changed, half, dtype, name))


def _halving_unit(data, in_channels, half, dtype, name):
    """Halve height and width in both branches, which see all channels."""
    left = depthwise_norm(data, in_channels, 3, f"{name}_left1", dtype, strides=2)
    left = _conv(left, half, 1, f"{name}_left2")
    return _shuffle(left, _branch(data, half, dtype, name, strides=2))


def _branch(data, channels, dtype, name, strides=1):
    data = _conv(data, channels, 1, f"{name}_right1")
    data = depthwise_norm(data, channels, 3, f"{name}_right2", dtype, strides)
    return _conv(data, channels, 1, f"{name}_right3")


def _shuffle(left, right):
    """The channels of both, in turns."""
    data = relay.concatenate((left, right), axis=1)
    data = relay.reshape(data, (0, -4, 2, -1, -2))  # splits the channels into those of both
    data = relay.transpose(data, (0, 2, 1, 3, 4))
    return relay.reshape(data, (0, -3, -2))  # joins them again


def _conv(data, channels, kernel_size, name, strides=1):
    return relay.nn.relu(conv_norm(data, channels, kernel_size, name, strides))
