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
"""VGG without batch normalization, for images of 3x224x224.

K. Simonyan, A. Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition",
ICLR 2015.
"""

from .blocks import NUM_CLASSES

from tvm.relay.testing import vgg


def network(batch_size, image_shape, dtype, num_layers):
    """VGG.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of all values.
    num_layers : int
        The number of layers with weights: 11, 13, 16 or 19.

    Returns
    -------
    function : relay.Function
        The network.
    """
    return vgg.get_net(batch_size, image_shape, NUM_CLASSES, dtype, num_layers)
