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
"""A measured space: the programs that descents of one kernel came across, each with its samples.

It is a file of JSON with the kernel, the machine, the records of the programs that were explored,
and the latencies in seconds of all programs measured since, by a hash of the program. A program may
have several samples, as a descent measures some twice. A sample is null where measuring failed.
"""

import hashlib
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Optional

from result_files import write_json
from search import latency_of
from workloads import KERNELS

import numpy as np
import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.loop_state import StateObject
from tvm.auto_scheduler.measure import MeasureInput, ProgramMeasurer
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string

_FIELDS = ("kernel", "shapes", "machine", "records", "samples")
_MACHINE_FIELDS = ("cpu", "threads", "target")


@dataclass(frozen=True)
class Program:
    """A program that was explored: as text and as state, with its latency if it ran."""

    text: str
    state: StateObject
    latency: Optional[float]


class MeasuredSpace:
    """A measured space and its file.

    Parameters
    ----------
    path : Path
        The file.
    content : Dict[str, object]
        What the file holds. Exits unless that is a space of one of the kernels.
    measure : Optional[Dict[str, object]]
        The builder and the runner. Without them, only what is in the file can be sampled.
    """

    def __init__(self, path, content, measure=None):
        self.path = path
        self.content = content
        self.measure = measure
        self.num_measured = 0
        self._check_fields()
        self.kernel = KERNELS[content["kernel"]]
        self.samples = content["samples"]
        self.task = self.kernel.task(self._read_target())
        self.records = [self._read_record(line) for line in content["records"]]
        self.explored = {program.text: program for program in map(self._rebuild, self.records)}
        ran = [program for program in self.explored.values() if program.latency is not None]
        if not ran:
            self._refuse("none of its records is of a program that ran")
        self.start = min(ran, key=lambda program: program.latency)

    @classmethod
    def read(cls, path, measure=None):
        """Read a file. Exits if it does not hold a measured space.

        Parameters
        ----------
        path : Path
            The file.
        measure : Optional[Dict[str, object]]
            The builder and the runner, if what is missing is to be measured.

        Returns
        -------
        space : MeasuredSpace
            The space.
        """
        try:
            content = json.loads(path.read_text())
        except OSError as error:
            sys.exit(f"{path} cannot be read: {error.strerror}.")
        except ValueError:
            sys.exit(f"{path} does not hold a measured space: it is not JSON.")
        return cls(path, content, measure)

    @classmethod
    def explore(cls, path, kernel, machine, measure, num_trials, seed):
        """Begin a space with a round of SketchPolicy, and write its file.

        Parameters
        ----------
        path : Path
            The file.
        kernel : workloads.Kernel
            The kernel.
        machine : Dict[str, object]
            The description of this machine, with its target.
        measure : Dict[str, object]
            The builder and the runner.
        num_trials : int
            The number of programs to measure.
        seed : int
            The seed.

        Returns
        -------
        space : MeasuredSpace
            The space.
        """
        np.random.seed(seed)  # for the cost model, which guesses as it is not trained
        policy = auto_scheduler.SketchPolicy(
            kernel.task(tvm.target.Target(machine["target"])),
            auto_scheduler.XGBModel(seed=seed + 1, verbose_eval=0),
            seed=seed + 1,  # SketchPolicy takes the seed 0 for none.
            verbose=0,
        )
        measurer = ProgramMeasurer(callbacks=[], verbose=0, **measure)
        explored = policy.continue_search_one_round(num_trials, measurer)
        if not any(result.error_no == 0 for result in explored[1]):
            sys.exit(f"{kernel.name}: none of {len(explored[1])} candidates ran.")
        content = {
            "kernel": kernel.name,
            "shapes": [list(shape) for shape in kernel.shapes],
            "machine": machine,
            "records": [dump_record_to_string(*record).strip() for record in zip(*explored)],
            "samples": {},
        }
        space = cls(path, content, measure)
        space.write()
        return space

    @cached_property
    def cost_model(self):
        """XGBModel, trained with the explored programs."""
        model = auto_scheduler.XGBModel(num_warmup_sample=0, seed=1, verbose_eval=0)
        inputs, results = zip(*self.records)
        model.update(list(inputs), list(results))
        return model

    @property
    def start_latency(self):
        """The latency of the best explored program.

        As it was chosen for a low sample, one that was measured later counts if there is any.
        """
        later = self.samples.get(key_of(self.start.text), [])
        return next((sample for sample in later if sample is not None), self.start.latency)

    def can_sample(self, text, nth):
        """Whether a sample of a program is in the file or can be measured.

        Parameters
        ----------
        text : str
            The program.
        nth : int
            The number of the sample, from 0.

        Returns
        -------
        answer : bool
            Whether it is.
        """
        return self.measure is not None or nth < self._num_samples(text)

    def sample(self, wanted):
        """Look samples up, and measure those that are missing.

        Parameters
        ----------
        wanted : List[Tuple[str, StateObject, int]]
            Different programs, each with its state and the number of the sample, which is at most
            one more than there are.

        Returns
        -------
        latencies : List[Optional[float]]
            The latency in seconds of each, None where measuring failed.
        """
        missing = [(text, state) for text, state, nth in wanted if nth >= self._num_samples(text)]
        if missing:
            self._measure(missing)
        return [self.samples[key_of(text)][nth] for text, _, nth in wanted]

    def write(self):
        """Write the file, as a whole or not at all."""
        write_json(self.path, self.content)

    def require_machine(self, machine):
        """Exit if the space was measured on another machine or for another target.

        Parameters
        ----------
        machine : Dict[str, object]
            The description of this machine.
        """
        if self.content["machine"] != machine:
            sys.exit(
                f"{self.path} was measured on {self.content['machine']}, but this is {machine}: "
                "only --offline can replay it here."
            )

    def _measure(self, missing):
        builder, runner = self.measure["builder"], self.measure["runner"]
        inputs = [MeasureInput(self.task, state) for _, state in missing]
        results = runner.run(inputs, builder.build(inputs, verbose=0), verbose=0)
        for (text, _), result in zip(missing, results):
            self.samples.setdefault(key_of(text), []).append(latency_of(result))
        self.num_measured += len(missing)
        self.write()

    def _num_samples(self, text):
        return len(self.samples.get(key_of(text), ()))

    def _check_fields(self):
        """Exit unless all fields are there, and those of simple types make sense."""
        content = self.content
        if not isinstance(content, dict) or not set(_FIELDS) <= set(content):
            self._refuse(f"it needs the fields {', '.join(_FIELDS)}")
        name, machine = content["kernel"], content["machine"]
        if not isinstance(name, str) or name not in KERNELS:
            self._refuse(f"its kernel is {name}, not one of {', '.join(KERNELS)}")
        shapes = [list(shape) for shape in KERNELS[name].shapes]
        if content["shapes"] != shapes:
            self._refuse(f"its shapes are {content['shapes']}, but those of {name} are {shapes}")
        if not isinstance(machine, dict) or set(machine) != set(_MACHINE_FIELDS):
            self._refuse(f"its machine needs the fields {', '.join(_MACHINE_FIELDS)}")
        if not isinstance(content["records"], list):
            self._refuse("its records are not a list")
        if not isinstance(content["samples"], dict):
            self._refuse("its samples are not a dictionary")
        for key, samples in content["samples"].items():
            if not isinstance(samples, list) or not all(map(_is_sample, samples)):
                self._refuse(f"the samples of {key} are {samples}, not positive numbers or null")

    def _read_target(self):
        target = self.content["machine"]["target"]
        try:
            return tvm.target.Target(target)
        except (tvm.TVMError, ValueError, TypeError):
            return self._refuse(f"its target is {target}, which is none")

    def _read_record(self, line):
        try:
            measured, result = load_record_from_string(line)
        except (tvm.TVMError, TypeError, UnicodeDecodeError):
            measured = None  # UnicodeDecodeError is of TVM's message about a line that is cut off.
        # A line without fields is read without an error.
        if measured is None or measured.task is None or measured.state is None:
            self._refuse(f"its record {str(line)[:60]} cannot be read")
        found = (measured.task.workload_key, str(measured.task.target))
        wanted = (self.task.workload_key, str(self.task.target))
        for what, own, other in zip(("workload", "target"), wanted, found):
            if own != other:
                self._refuse(f"it has a record of the {what} {other}, but is for {own}")
        return measured, result

    def _rebuild(self, record):
        """The program of a record, which holds the steps of its schedule only."""
        measured, result = record
        try:
            state = self.task.compute_dag.infer_bound_from_state(measured.state)
        except tvm.TVMError:
            self._refuse("it has a record whose steps do not fit the kernel")
        return Program(str(state), state.state_object, latency_of(result))

    def _refuse(self, reason):
        sys.exit(f"{self.path} does not hold a measured space: {reason}.")


def key_of(text):
    """The key of a program among the samples, a hash of its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_sample(value):
    return value is None or (type(value) in (int, float) and 0 < value < float("inf"))
