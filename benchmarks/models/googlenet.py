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
"""GoogLeNet (Inception v1) with batch normalization, for images of 3x224x224.

C. Szegedy, W. Liu, Y. Jia, P. Sermanet, S. Reed, D. Anguelov, D. Erhan, V. Vanhoucke,
A. Rabinovich, "Going Deeper with Convolutions", CVPR 2015.
"""

from .blocks import conv_norm, image, pool_and_classify

from tvm import relay

# The channels of each inception module: of its 1x1 convolution, of its 3x3 convolution and the 1x1
# before it, of its second 3x3 convolution and the 1x1 before it, and of the 1x1 after its pooling.
# In the paper, the second one is of 5x5. In torchvision, whose parameters are counted, it is not.
_MODULES = {
    "3": (
        (64, (96, 128), (16, 32), 32),
        (128, (128, 192), (32, 96), 64),
    ),
    "4": (
        (192, (96, 208), (16, 48), 64),
        (160, (112, 224), (24, 64), 64),
        (128, (128, 256), (24, 64), 64),
        (112, (144, 288), (32, 64), 64),
        (256, (160, 320), (32, 128), 128),
    ),
    "5": (
        (256, (160, 320), (32, 128), 128),
        (384, (192, 384), (48, 128), 128),
    ),
}


def network(batch_size, image_shape, dtype):
    """GoogLeNet, without the classifiers that only training needs.

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
    data = image(batch_size, image_shape, dtype)
    data = _pool(_conv(data, 64, 7, "conv1", strides=2), 3)
    data = _conv(data, 64, 1, "conv2_reduce")
    data = _pool(_conv(data, 192, 3, "conv2"), 3)
    data = _pool(_stage(data, "3"), 3)
    data = _pool(_stage(data, "4"), 2)
    return pool_and_classify(_stage(data, "5"))


def _stage(data, stage):
    for letter, channels in zip("abcde", _MODULES[stage]):
        data = _inception(data, *channels, name=f"inception{stage}{letter}")
    return data


def _inception(data, channels, second, third, pooled_channels, name):
    pooled = relay.nn.max_pool2d(data, pool_size=3, padding=1)
    branches = [
        _conv(data, channels, 1, f"{name}_1x1"),
        _reduce_conv(data, *second, f"{name}_second"),
        _reduce_conv(data, *third, f"{name}_third"),
        _conv(pooled, pooled_channels, 1, f"{name}_pooled"),
    ]
    return relay.concatenate(branches, axis=1)


def _reduce_conv(data, reduced_channels, channels, name):
    reduced = _conv(data, reduced_channels, 1, f"{name}_reduce")
    return _conv(reduced, channels, 3, name)


def _conv(data, channels, kernel_size, name, strides=1):
    return relay.nn.relu(conv_norm(data, channels, kernel_size, name, strides, epsilon=1e-3))


def _pool(data, size):
    return relay.nn.max_pool2d(data, pool_size=size, strides=2, ceil_mode=True)
