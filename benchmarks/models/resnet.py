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
"""ResNet v2, for images of 3x224x224.

K. He, X. Zhang, S. Ren, J. Sun, "Identity Mappings in Deep Residual Networks", ECCV 2016.

It differs from ResNet v1 ("Deep Residual Learning for Image Recognition", CVPR 2016), whose
parameters are the ones that are usually counted:

* A unit normalizes the inputs of its convolutions, not their outputs. The output of the last unit
  is normalized by itself.
* The image is normalized too. The convolutions in shortcuts are not.
* With less than 50 layers, the first shortcut is a convolution, although it changes no shape.
* Otherwise, a unit that halves height and width does so in its first convolution, of 1x1, where
  torchvision does so in the one of 3x3.
"""

from .blocks import NUM_CLASSES

from tvm.relay.testing import resnet


def network(batch_size, image_shape, dtype, num_layers):
    """ResNet v2.

    Parameters
    ----------
    batch_size : int
        The number of images.
    image_shape : Tuple[int, int, int]
        The channels, height and width of one.
    dtype : str
        The type of all values.
    num_layers : int
        The number of layers with weights: 18, 34, 50, 101 or 152.

    Returns
    -------
    function : relay.Function
        The network.
    """
    return resnet.get_net(batch_size, NUM_CLASSES, num_layers, image_shape, dtype=dtype)
