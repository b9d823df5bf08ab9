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
"""SqueezeNet 1.0, for images of 3x224x224.

F. Iandola, S. Han, M. Moskewicz, K. Ashraf, W. Dally, K. Keutzer, "SqueezeNet: AlexNet-level
accuracy with 50x fewer parameters and <0.5MB model size", arXiv 1602.07360, 2016.

Here the first convolution is padded, and pooling leaves incomplete windows out: the feature maps
have sides of 112, 55, 27 and 13, where those of torchvision have 109, 54, 27 and 13.
"""

from .blocks import NUM_CLASSES

from tvm.relay.testing import squeezenet


def network(batch_size, image_shape, dtype):
    """SqueezeNet 1.0.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of all values.

    Returns
    -------
    function : relay.Function
        The network.
    """
    return squeezenet.get_net(batch_size, image_shape, NUM_CLASSES, "1.0", dtype)
