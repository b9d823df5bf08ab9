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
"""Test that the networks of the benchmarks are those of the literature, without running them."""

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from models import MODELS

import tvm
from tvm import relay

# How many parameters the networks of torchvision have in inference.
PUBLISHED = {
    "alexnet": 61100840,
    "vgg-11": 132863336,
    "vgg-13": 133047848,
    "vgg-16": 138357544,
    "vgg-19": 143667240,
    "resnet-18": 11689512,
    "resnet-34": 21797672,
    "resnet-50": 25557032,
    "resnet-101": 44549160,
    "resnet-152": 60192808,
    "densenet-121": 7978856,
    "densenet-161": 28681000,
    "densenet-169": 14149480,
    "densenet-201": 20013928,
    "googlenet": 6624904,
    "inception-v3": 23834568,
    "mobilenet-v2": 3504872,
    "mnasnet-1.0": 4383312,
    "shufflenet-v2-1.0": 2278604,
    "squeezenet-1.0": 1248424,
}


def resnet_surplus(num_layers):
    """How many parameters ResNet v2 has more than the published ResNet v1.

    The channels of the image and those of the first unit's input are normalized in addition. The
    convolutions in shortcuts are not, and there is one more of them where the first stage keeps the
    64 channels that it gets.
    """
    channels = [64, 128, 256, 512] if num_layers < 50 else [256, 512, 1024, 2048]
    normalized = 3 + 64 - sum(count for count in channels if count != 64)
    convolved = 64 * 64 if channels[0] == 64 else 0
    return 2 * normalized + convolved


def infer_types(function):
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]


def shapes_of(function):
    """The shape of each input and parameter, by name."""
    return {var.name_hint: var.checked_type.concrete_shape for var in function.params}


def count_learned(shapes):
    others = ("data", "moving_mean", "moving_var")
    return sum(math.prod(shapes[name]) for name in shapes if not name.endswith(others))


def convolutions_of(function):
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and node.op.name == "nn.conv2d":
            found.append(node)

    relay.analysis.post_order_visit(function, visit)
    return found


def test_all_models_are_there():
    assert list(MODELS) == list(PUBLISHED)
    assert all(MODELS[name].name == name for name in MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_network(name):
    model = MODELS[name]
    function = infer_types(model.function(batch_size=1))
    shapes = shapes_of(function)
    assert len(shapes) == len(function.params)  # no two have the same name
    assert shapes["data"] == (1, *model.input_shape)
    assert function.checked_type.ret_type.concrete_shape == (1, 1000)
    assert count_learned(shapes) == model.num_parameters


@pytest.mark.parametrize("name", MODELS)
def test_number_of_parameters_is_the_published_one(name):
    family, _, variant = name.partition("-")
    surplus = resnet_surplus(int(variant)) if family == "resnet" else 0
    assert MODELS[name].num_parameters == PUBLISHED[name] + surplus


@pytest.mark.parametrize("name", ["resnet-18", "mobilenet-v2", "shufflenet-v2-1.0"])
def test_batch_size_and_dtype(name):
    function = infer_types(MODELS[name].function(batch_size=2, dtype="float16"))
    assert function.checked_type.ret_type.concrete_shape == (2, 1000)
    assert {var.checked_type.dtype for var in function.params} == {"float16"}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "name", ["densenet-121", "mobilenet-v2", "shufflenet-v2-1.0", "squeezenet-1.0"]
)
def test_build(name, layout):
    module, params = MODELS[name].build(layout=layout)
    function = module["main"]
    shapes = shapes_of(function)
    assert shapes.pop("data") == (1, *MODELS[name].input_shape)
    assert {key: array.shape for key, array in params.items()} == shapes
    assert function.checked_type.ret_type.concrete_shape == (1, 1000)
    assert {call.attrs.data_layout for call in convolutions_of(function)} == {layout}


def test_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="the layout NHCW is not one of NCHW, NHWC"):
        MODELS["squeezenet-1.0"].build(layout="NHCW")
