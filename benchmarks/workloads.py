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
"""The kernels that the demo and the benchmarks tune, each with its NumPy reference."""

import json
from dataclasses import dataclass
from typing import Callable, Tuple

import numpy as np
import tvm
from tvm import auto_scheduler, te, topi


@dataclass(frozen=True)
class Kernel:
    """A float32 computation to tune.

    Parameters
    ----------
    name : str
        The name, also that of the kernel's files.
    description : str
        What it computes, in a few words.
    shapes : Tuple[Tuple[int, ...], ...]
        The shapes of the inputs.
    compute : Callable
        From the input tensors to the output tensor.
    reference : Callable
        From the input arrays to the output array, with NumPy.
    """

    name: str
    description: str
    shapes: Tuple[Tuple[int, ...], ...]
    compute: Callable
    reference: Callable

    def tensors(self):
        """The inputs and the output.

        Returns
        -------
        tensors : List[te.Tensor]
            The tensors.
        """
        inputs = [te.placeholder(shape, name=f"input{i}") for i, shape in enumerate(self.shapes)]
        return [*inputs, self.compute(*inputs)]

    def module(self):
        """The module that MetaSchedule tunes.

        Returns
        -------
        mod : IRModule
            The module.
        """
        return tvm.IRModule({"main": te.create_prim_func(self.tensors())})

    def task(self, target):
        """The task of tuning the kernel.

        Parameters
        ----------
        target : tvm.target.Target
            What to tune it for.

        Returns
        -------
        task : auto_scheduler.SearchTask
            The task.
        """
        # Registered as tensors and not as a function, since the processes that build and run
        # candidates cannot import this module.
        key = auto_scheduler.workload_registry.register_workload_tensors(
            json.dumps([self.name, *self.shapes]), self.tensors()
        )
        # No candidate may have an input in another layout than the reference has: changing that
        # would be part of the latency, and outweigh some of the kernels.
        return auto_scheduler.SearchTask(
            workload_key=key,
            target=target,
            layout_rewrite_option=auto_scheduler.LayoutRewriteOption.NO_REWRITE,
        )

    def random_inputs(self, seed):
        """Random input arrays, of both signs.

        Parameters
        ----------
        seed : int
            The seed.

        Returns
        -------
        arrays : List[numpy.ndarray]
            One array for each input.
        """
        generator = np.random.default_rng(seed)
        return [2 * generator.random(shape, dtype="float32") - 1 for shape in self.shapes]


def relative_error(actual, expected):
    """How far an output is off.

    Parameters
    ----------
    actual : numpy.ndarray
        The output of a kernel.
    expected : numpy.ndarray
        The output of NumPy.

    Returns
    -------
    error : float
        The largest difference, relative to the largest value. A value near zero is the difference
        of larger ones, and no more exact than they are.
    """
    return float(np.max(np.abs(actual - expected)) / np.max(np.abs(expected)))


def _matmul(a, b):
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul"
    )


def _convolve(data, weight, stride=1, padding=0, groups=1):
    """A convolution with NumPy."""
    padded = np.pad(data, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    parts = zip(
        np.split(windows[:, :, ::stride, ::stride], groups, axis=1), np.split(weight, groups)
    )
    return np.concatenate(
        [np.einsum("nchwyx,ocyx->nohw", *part, optimize=True) for part in parts], axis=1
    )


def _convolve_transposed(data, weight, stride, padding):
    """A transposed convolution with NumPy: a convolution of the data with zeros in between."""
    batch, channels, height, width = data.shape
    dilated = np.zeros(
        (batch, channels, (height - 1) * stride + 1, (width - 1) * stride + 1), data.dtype
    )
    dilated[:, :, ::stride, ::stride] = data
    flipped = weight[:, :, ::-1, ::-1].swapaxes(0, 1)
    return _convolve(dilated, flipped, padding=weight.shape[2] - 1 - padding)


def _dense(data, weight, bias):
    return topi.nn.relu(topi.nn.dense(data, weight, bias))


def _dense_reference(data, weight, bias):
    return np.maximum(data @ weight.T + bias, 0)


def _pooling(data):
    return topi.nn.pool2d(
        data, kernel=(3, 3), stride=(2, 2), dilation=(1, 1), padding=(1, 1, 1, 1), pool_type="max"
    )


def _pooling_reference(data):
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows[:, :, ::2, ::2].max(axis=(4, 5))


def _softmax_reference(data):
    exponentials = np.exp(data - data.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def _layer_norm(data, gamma, beta):
    return topi.nn.layer_norm(data, gamma, beta, axis=[1], epsilon=1e-5)


def _layer_norm_reference(data, gamma, beta):
    centered = data - data.mean(axis=1, keepdims=True)
    return centered / np.sqrt(data.var(axis=1, keepdims=True) + 1e-5) * gamma + beta


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            "matmul",
            "matrix product, 512x512x512",
            ((512, 512), (512, 512)),
            _matmul,
            np.matmul,
        ),
        Kernel(
            "conv2d",
            "ResNet convolution, 1x64x56x56, 64 filters 3x3, stride 1, padding 1",
            ((1, 64, 56, 56), (64, 64, 3, 3)),
            lambda data, weight: topi.nn.conv2d_nchw(data, weight, 1, 1, 1, "float32"),
            lambda data, weight: _convolve(data, weight, padding=1),
        ),
        Kernel(
            "conv2d_1x1",
            "pointwise convolution, 1x256x28x28, 128 filters",
            ((1, 256, 28, 28), (128, 256, 1, 1)),
            lambda data, weight: topi.nn.conv2d_nchw(data, weight, 1, 0, 1, "float32"),
            _convolve,
        ),
        Kernel(
            "depthwise",
            "depthwise convolution, 1x144x56x56, 3x3, padding 1",
            ((1, 144, 56, 56), (144, 1, 3, 3)),
            lambda data, weight: topi.nn.depthwise_conv2d_nchw(data, weight, 1, 1, 1, "float32"),
            lambda data, weight: _convolve(data, weight, padding=1, groups=144),
        ),
        Kernel(
            "dense",
            "dense layer, batch 16, 1024 to 1024, with bias and ReLU",
            ((16, 1024), (1024, 1024), (1024,)),
            _dense,
            _dense_reference,
        ),
        Kernel(
            "batch_matmul",
            "attention scores, 12 heads, 128x64 by 128x64 transposed",
            ((12, 128, 64), (12, 128, 64)),
            topi.nn.batch_matmul,
            lambda a, b: a @ b.swapaxes(1, 2),
        ),
        Kernel(
            "pooling",
            "maximum pooling, 1x64x112x112, 3x3, stride 2, padding 1",
            ((1, 64, 112, 112),),
            _pooling,
            _pooling_reference,
        ),
        Kernel(
            "softmax",
            "softmax of each row, 1024x1024",
            ((1024, 1024),),
            topi.nn.softmax,
            _softmax_reference,
        ),
        Kernel(
            "reduction",
            "sum of each row, 1024x4096",
            ((1024, 4096),),
            lambda data: topi.sum(data, axis=1),
            lambda data: data.sum(axis=1),
        ),
        Kernel(
            "relu",
            "ReLU, 1x64x112x112",
            ((1, 64, 112, 112),),
            topi.nn.relu,
            lambda data: np.maximum(data, 0),
        ),
        Kernel(
            "conv2d_strided",
            "strided convolution, 1x64x56x56, 128 filters 3x3, stride 2, padding 1",
            ((1, 64, 56, 56), (128, 64, 3, 3)),
            lambda data, weight: topi.nn.conv2d_nchw(data, weight, 2, 1, 1, "float32"),
            lambda data, weight: _convolve(data, weight, stride=2, padding=1),
        ),
        Kernel(
            "layer_norm",
            "layer normalization of each row, 1024x768",
            ((1024, 768), (768,), (768,)),
            _layer_norm,
            _layer_norm_reference,
        ),
        Kernel(
            "conv2d_transpose",
            "transposed convolution, 1x128x14x14, 64 filters 4x4, stride 2, padding 1",
            ((1, 128, 14, 14), (128, 64, 4, 4)),
            lambda data, weight: topi.nn.conv2d_transpose_nchw(
                data, weight, (2, 2), (1, 1), "float32", (0, 0)
            ),
            lambda data, weight: _convolve_transposed(data, weight, stride=2, padding=1),
        ),
        Kernel(
            "group_conv2d",
            "grouped convolution, 1x128x28x28, 128 filters 3x3, 4 groups, padding 1",
            ((1, 128, 28, 28), (128, 32, 3, 3)),
            lambda data, weight: topi.nn.group_conv2d_nchw(data, weight, 1, 1, 1, 4, "float32"),
            lambda data, weight: _convolve(data, weight, padding=1, groups=4),
        ),
    )
}
