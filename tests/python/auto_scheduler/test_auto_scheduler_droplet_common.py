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
"""Common functions for the tests of DropletSearchPolicy: building and running stand aside for
costs that are known."""

import contextlib
import json
import random

import numpy as np

import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler.measure import BuildResult, MeasureErrorNo
from tvm.auto_scheduler.measure_record import dump_record_to_string

BUILD = "auto_scheduler.local_builder.build"
RUN = "auto_scheduler.local_runner.run"

# Keeps sampling and evolution short; what they find does not matter here.
FAST_SKETCH_PARAMS = {
    "sample_init_min_population": 8,
    "evolutionary_search_population": 32,
    "evolutionary_search_num_iters": 1,
}


@auto_scheduler.register_workload
def droplet_matmul(n, m, k):
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, c]


def make_task(n=64):
    return auto_scheduler.SearchTask(
        func=droplet_matmul, args=(n, n, n), target=tvm.target.Target("llvm")
    )


def gpu_hardware_params(max_shared_memory_per_block, max_threads_per_block):
    """What a block of threads may have, for a device that is not asked."""
    return auto_scheduler.HardwareParams(
        num_cores=-1,
        vector_unit_bytes=16,
        cache_line_bytes=64,
        max_shared_memory_per_block=max_shared_memory_per_block,
        max_local_memory_per_block=1 << 30,
        max_threads_per_block=max_threads_per_block,
        max_vthread_extent=8,
        warp_size=32,
    )


def steps_of(measure_input):
    """The transform steps as the record has them."""
    result = auto_scheduler.MeasureResult([1.0], 0, "", 0, 0)
    return json.loads(dump_record_to_string(measure_input, result))["i"][1][1]


def tile_cost(measure_input):
    """1 ms if the two inner tile levels of each axis in space have 4 iterations and that of the
    reduction has 8, and 1 ms more for each factor of 2 off that. A step of a split away is always a
    better tile. The outer levels do not count: where they are fused, the program hides them."""
    distance = 0
    for step in steps_of(measure_input):
        if step[0] == "SP":
            target = 2 if len(step[4]) == 3 else 3
            distance += sum(abs(np.log2(factor) - target) for factor in step[4][-2:])
    return 1e-3 * (1 + distance)


class Measurer:
    """Stands in for building and running programs: counts them and returns known costs."""

    def __init__(self):
        self.cost = tile_cost
        self.repeat = 2
        self.fails = lambda measure_input: False
        self.error_no = MeasureErrorNo.COMPILE_HOST
        self.inputs = []

    def build(self, inputs, *_):
        return [BuildResult("", [], 0, "", 0.0) for _ in inputs]

    def run(self, inputs, *_):
        self.inputs.extend(inputs)
        return [self.result(measure_input) for measure_input in inputs]

    def result(self, measure_input):
        if self.fails(measure_input):
            return auto_scheduler.MeasureResult([1e10], self.error_no, "no", 0.1, 0.0)
        costs = [float(self.cost(measure_input))] * self.repeat
        return auto_scheduler.MeasureResult(costs, 0, "", 0.1, 0.0)

    @property
    def programs(self):
        return [json.dumps(steps_of(measure_input)) for measure_input in self.inputs]


@contextlib.contextmanager
def fake_measuring(measurer=None):
    """Let a measurer, by default a Measurer, build and run programs."""
    np.random.seed(0)  # RandomModel draws from it
    random.seed(0)  # policies without a seed draw one from it
    originals = {name: tvm.get_global_func(name) for name in (BUILD, RUN)}
    fake = measurer or Measurer()
    tvm.register_func(BUILD, lambda *args: fake.build(*args), override=True)
    tvm.register_func(RUN, lambda *args: fake.run(*args), override=True)
    try:
        yield fake
    finally:
        for name, func in originals.items():
            tvm.register_func(name, func, override=True)
