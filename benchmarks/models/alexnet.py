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
"""AlexNet, for images of 3x224x224.

A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997,
2014: the network of A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet Classification with Deep
Convolutional Neural Networks", NeurIPS 2012, undivided and without local response normalization.
"""

from .blocks import NUM_CLASSES, classify, image

from tvm import relay
from tvm.relay.testing import layers


def network(batch_size, image_shape, dtype):
    """AlexNet.

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
    data = _pool(_conv(data, 64, 11, "conv1", padding=2, strides=4))
    data = _pool(_conv(data, 192, 5, "conv2", padding=2))
    data = _conv(data, 384, 3, "conv3", padding=1)
    data = _conv(data, 256, 3, "conv4", padding=1)
    data = _pool(_conv(data, 256, 3, "conv5", padding=1))
    data = relay.nn.batch_flatten(data)
    for name in ("fc6", "fc7"):
        data = relay.nn.relu(layers.dense_add_bias(data, units=4096, name=name))
    return classify(layers.dense_add_bias(data, units=NUM_CLASSES, name="fc8"))


def _conv(data, channels, kernel_size, name, padding, strides=1):
    convolved = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        name=name,
    )
    return relay.nn.relu(relay.nn.bias_add(convolved, relay.var(f"{name}_bias")))


def _pool(data):
    return relay.nn.max_pool2d(data, pool_size=3, strides=2)
