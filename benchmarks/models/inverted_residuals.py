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
"""Networks of inverted residual blocks: what MobileNet v2 and MNASNet have in common."""

from typing import NamedTuple

from .blocks import conv_norm, depthwise_norm, image, pool_and_classify

from tvm import relay


class Stack(NamedTuple):
    """Blocks of one kind, in a row.

    Parameters
    ----------
    expansion : int
        How many times the channels of its input a block filters.
    channels : int
        The channels of the output.
    kernel_size : int
        The height and width of the kernel that filters.
    strides : int
        The strides of the first block. Those of the others are 1.
    repeats : int
        The number of blocks.
    """

    expansion: int
    channels: int
    kernel_size: int
    strides: int
    repeats: int


def compose(batch_size, image_shape, dtype, stacks, activate):
    """A network of inverted residual blocks.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of all values.
    stacks : Tuple[Stack, ...]
        Its blocks.
    activate : Callable
        Its activation function.

    Returns
    -------
    function : relay.Function
        The network.
    """
    channels = 32
    data = image(batch_size, image_shape, dtype)
    data = activate(conv_norm(data, channels, 3, "stem", strides=2))
    for number, stack in enumerate(stacks, 1):
        for repeat in range(1, stack.repeats + 1):
            strides = stack.strides if repeat == 1 else 1
            name = f"stack{number}_block{repeat}"
            data = _block(data, channels, stack, strides, activate, dtype, name)
            channels = stack.channels
    return pool_and_classify(activate(conv_norm(data, 1280, 1, "head")))


def _block(data, in_channels, stack, strides, activate, dtype, name):
    """Expand the channels, filter each of them, project them to fewer, and add the input."""
    channels = in_channels * stack.expansion
    filtered = data
    if stack.expansion > 1:
        filtered = activate(conv_norm(data, channels, 1, f"{name}_expand"))
    filtered = activate(
        depthwise_norm(filtered, channels, stack.kernel_size, f"{name}_filter", dtype, strides)
    )
    projected = conv_norm(filtered, stack.channels, 1, f"{name}_project")
    if strides > 1 or in_channels != stack.channels:
        return projected
    return relay.add(data, projected)
