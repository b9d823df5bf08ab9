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
"""What several of the networks are put together from, in NCHW and for inference."""

from tvm import relay
from tvm.relay.testing import layers

NUM_CLASSES = 1000  # of ImageNet


def image(batch_size, image_shape, dtype):
    """The input of a network.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of their values.

    Returns
    -------
    data : relay.Var
        The images.
    """
    return relay.var("data", shape=(batch_size, *image_shape), dtype=dtype)


def conv(data, channels, kernel_size, name, strides=1):
    """A convolution without bias, padded so that only the strides change height and width.

    Parameters
    ----------
    data : relay.Expr
        The input.
    channels : int
        The number of channels of the output.
    kernel_size : int
        The height and width of the kernel, odd.
    name : str
        What the name of the parameter begins with.
    strides : int
        The strides of both axes.

    Returns
    -------
    output : relay.Expr
        The output.
    """
    return layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=kernel_size // 2,
        name=name,
    )


def conv_norm(data, channels, kernel_size, name, strides=1, epsilon=1e-5):
    """A convolution as `conv` makes it, and a batch normalization.

    Parameters
    ----------
    data : relay.Expr
        The input.
    channels : int
        The number of channels of the output.
    kernel_size : int
        The height and width of the kernel, odd.
    name : str
        What the names of the parameters begin with.
    strides : int
        The strides of both axes.
    epsilon : float
        What the normalization adds to the variance.

    Returns
    -------
    output : relay.Expr
        The output.
    """
    convolved = conv(data, channels, kernel_size, name, strides)
    return layers.batch_norm_infer(convolved, epsilon=epsilon, name=name)


def depthwise_norm(data, channels, kernel_size, name, dtype, strides=1):
    """A depthwise convolution without bias, padded as `conv` does, and a batch normalization.

    Parameters
    ----------
    data : relay.Expr
        The input.
    channels : int
        Its number of channels, which is also that of the output.
    kernel_size : int
        The height and width of the kernel, odd.
    name : str
        What the names of the parameters begin with.
    dtype : str
        The type of the weights.
    strides : int
        The strides of both axes.

    Returns
    -------
    output : relay.Expr
        The output.
    """
    # The one weight whose type is not inferred. Its name tells the initializer what it is.
    weight = relay.var(
        f"{name}_depthwise_weight", shape=(channels, 1, kernel_size, kernel_size), dtype=dtype
    )
    convolved = relay.nn.conv2d(
        data,
        weight,
        channels=channels,
        groups=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=kernel_size // 2,
    )
    return layers.batch_norm_infer(convolved, name=name)


def classify(scores):
    """A whole network, by its last layer but one.

    Parameters
    ----------
    scores : relay.Expr
        A score for each class.

    Returns
    -------
    function : relay.Function
        From the images and the parameters to the softmax of the scores.
    """
    probabilities = relay.nn.softmax(scores)
    return relay.Function(relay.analysis.free_vars(probabilities), probabilities)


def pool_and_classify(data):
    """A whole network, by its last convolutional layer: average pooling and a dense layer follow.

    Parameters
    ----------
    data : relay.Expr
        The output of the convolutional layers.

    Returns
    -------
    function : relay.Function
        From the images and the parameters to the probability of each class.
    """
    features = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(data))
    return classify(layers.dense_add_bias(features, units=NUM_CLASSES, name="classifier"))
