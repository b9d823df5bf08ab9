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
        inputs = [te.placeholder(shape, name=f"input{i}") for i, shape in enumerate(self.shapes)]
        # Registered as tensors and not as a function, since the processes that build and run
        # candidates cannot import this module.
        key = auto_scheduler.workload_registry.register_workload_tensors(
            json.dumps([self.name, *self.shapes]), [*inputs, self.compute(*inputs)]
        )
        return auto_scheduler.SearchTask(workload_key=key, target=target)

    def random_inputs(self, seed):
        """Random input arrays.

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
        return [generator.random(shape, dtype="float32") for shape in self.shapes]


def _matmul(a, b):
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul"
    )


def _conv2d(data, weight):
    return topi.nn.conv2d_nchw(data, weight, stride=1, padding=1, dilation=1, out_dtype="float32")


def _conv2d_reference(data, weight):
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], axis=(2, 3))
    return np.einsum("nchwyx,ocyx->nohw", windows, weight, optimize=True)


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
            _conv2d,
            _conv2d_reference,
        ),
    )
}
