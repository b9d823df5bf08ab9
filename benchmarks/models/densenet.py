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
"""DenseNet, for images of 3x224x224.

G. Huang, Z. Liu, L. van der Maaten, K. Weinberger, "Densely Connected Convolutional Networks", CVPR
2017.

(Not that of relay.testing, where a layer gets the output of the one before it alone.)
"""

from .blocks import conv, conv_norm, image, pool_and_classify

from tvm import relay
from tvm.relay.testing import layers

# By the number of layers with weights: the channels of the first convolution, how many channels a
# dense layer adds, and how many dense layers each block has.
_VARIANTS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def network(batch_size, image_shape, dtype, num_layers):
    """DenseNet.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of all values.
    num_layers : int
        The number of layers with weights: 121, 161, 169 or 201.

    Returns
    -------
    function : relay.Function
        The network.
    """
    channels, growth, blocks = _VARIANTS[num_layers]
    data = image(batch_size, image_shape, dtype)
    data = relay.nn.relu(conv_norm(data, channels, 7, "stem", strides=2))
    data = relay.nn.max_pool2d(data, pool_size=3, strides=2, padding=1)
    for number, num_dense in enumerate(blocks, 1):
        if number > 1:
            channels //= 2
            data = _transition(data, channels, f"transition{number - 1}")
        data = _block(data, num_dense, growth, f"block{number}")
        channels += num_dense * growth
    return pool_and_classify(_norm_relu(data, "last"))


def _block(data, num_dense, growth, name):
    """Dense layers, each of which sees the input and the outputs of all before it."""
    features = [data]
    for number in range(1, num_dense + 1):
        features.append(_dense_layer(data, growth, f"{name}_layer{number}"))
        data = relay.concatenate(features, axis=1)
    return data


def _dense_layer(data, growth, name):
    data = _norm_relu_conv(data, 4 * growth, 1, f"{name}_narrow")
    return _norm_relu_conv(data, growth, 3, f"{name}_grow")


def _transition(data, channels, name):
    data = _norm_relu_conv(data, channels, 1, name)
    return relay.nn.avg_pool2d(data, pool_size=2, strides=2)


def _norm_relu_conv(data, channels, kernel_size, name):
    return conv(_norm_relu(data, name), channels, kernel_size, name)


def _norm_relu(data, name):
    return relay.nn.relu(layers.batch_norm_infer(data, name=name))
