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
"""Measure what it costs to make the neighbors of schedules and to rebuild their states.

A convolution of ResNet is sampled as SketchPolicy does it. For each sampled state, each point one
unit step away is rebuilt: its steps are replayed and its bounds inferred.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # nothing here needs schedules from the network

from options import at_least

from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler.schedule_coordinates import ScheduleCoordinates


@auto_scheduler.register_workload
def conv2d(size, channels, filters):
    """A convolution 3x3 with stride 1 and padding 1."""
    data = te.placeholder((1, channels, size, size), name="data")
    kernel = te.placeholder((filters, channels, 3, 3), name="kernel")
    return [data, kernel, topi.nn.conv2d_nchw(data, kernel, 1, 1, 1)]


def neighbors(coordinates):
    """The points one unit step from the origin."""
    for direction in coordinates.directions:
        point = list(coordinates.origin)
        for index, delta in direction:
            point[index] += delta
        if all(0 <= value <= upper for value, upper in zip(point, coordinates.upper)):
            yield point


def main():
    """Print the cost of a neighbor."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="llvm", help="target to sample for (default: llvm)")
    parser.add_argument("--states", type=at_least(1), default=20, help="to sample (default: 20)")
    parser.add_argument(
        "--repeat", type=at_least(1), default=5, help="of each neighbor (default: 5)"
    )
    args = parser.parse_args()

    task = auto_scheduler.SearchTask(func=conv2d, args=(56, 64, 64), target=args.target)
    policy = auto_scheduler.SketchPolicy(
        task,
        program_cost_model=auto_scheduler.RandomModel(),
        params={"sample_init_min_population": args.states, "evolutionary_search_population": 16},
        seed=1,
        verbose=0,
    )
    states = list(policy.sample_initial_population())[: args.states]

    reading, making = [], []
    for state in states:
        begin = time.perf_counter()
        coordinates = ScheduleCoordinates(task, state)
        reading.append(time.perf_counter() - begin)
        for point in list(neighbors(coordinates)):
            samples = []
            for _ in range(args.repeat):
                begin = time.perf_counter()
                coordinates.state_at(point)
                samples.append(time.perf_counter() - begin)
            making.append(statistics.median(samples))

    print(f"states: {len(states)}, neighbors: {len(making)}")
    print(f"reading the coordinates of a state: mean {1e3 * statistics.mean(reading):.2f} ms")
    print(
        f"rebuilding a neighbor: mean {1e3 * statistics.mean(making):.2f} ms, "
        f"median {1e3 * statistics.median(making):.2f} ms, slowest {1e3 * max(making):.2f} ms"
    )


if __name__ == "__main__":
    main()
