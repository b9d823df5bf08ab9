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
"""Measure a kernel with oneDNN, through PyTorch.

Run as a script it is a fresh process that does so.
"""

import json
import signal
import sys
import time
from pathlib import Path

import machine
import winners
from workloads import KERNELS, relative_error

try:
    import torch
    from torch.nn import functional
except ImportError:
    sys.exit("onednn.py needs PyTorch: install its CPU build into this environment.")

NUM_ROUNDS = 11
MIN_ROUND_SECONDS = 0.05

FUNCTIONS = {
    "matmul": torch.matmul,
    "conv2d": lambda data, weight: functional.conv2d(data, weight, padding=1),
    "conv2d_1x1": functional.conv2d,
    "depthwise": lambda data, weight: functional.conv2d(data, weight, padding=1, groups=144),
    "dense": lambda data, weight, bias: functional.linear(data, weight, bias).relu_(),
    "batch_matmul": lambda a, b: torch.matmul(a, b.transpose(1, 2)),
    "pooling": lambda data: functional.max_pool2d(data, 3, 2, 1),
    "softmax": lambda data: functional.softmax(data, -1),
}


def _measure(job):
    """Check the function against NumPy and measure it. Returns the latencies in seconds."""
    torch.set_num_threads(machine.use_all_cores())
    kernel, function = KERNELS[job["kernel"]], FUNCTIONS[job["kernel"]]
    arrays = kernel.random_inputs(job["seed"])
    tensors = [torch.from_numpy(array) for array in arrays]
    with torch.inference_mode():
        error = relative_error(function(*tensors).numpy(), kernel.reference(*arrays))
        if not error <= winners.MAX_ERROR:
            sys.exit(f"{kernel.name}: PyTorch computes something else, the error is {error:.1e}.")
        number = 1
        while _seconds(function, tensors, number) < MIN_ROUND_SECONDS:
            number *= 2
        rounds = [_seconds(function, tensors, number) / number for _ in range(NUM_ROUNDS)]
    return {"pytorch": rounds}


def _seconds(function, tensors, number):
    begin = time.perf_counter()
    for _ in range(number):
        function(*tensors)
    return time.perf_counter() - begin


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that waits has the last word
    Path(sys.argv[1]).write_text(json.dumps(_measure(json.load(sys.stdin))))
