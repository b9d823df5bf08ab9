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
"""Inception v3, for images of 3x299x299.

C. Szegedy, V. Vanhoucke, S. Ioffe, J. Shlens, Z. Wojna, "Rethinking the Inception Architecture for
Computer Vision", CVPR 2016.

Here the last inception module pools the maximum, as in MXNet's version, not the average. And batch
normalizations do not use their gamma, but it is a parameter all the same.
"""

from .blocks import NUM_CLASSES

from tvm.relay.testing import inception_v3


def network(batch_size, image_shape, dtype):
    """Inception v3, without the classifier that only training needs.

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
    return inception_v3.get_net(batch_size, NUM_CLASSES, image_shape, dtype)
