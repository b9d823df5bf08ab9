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

# The device that a cross-compiled overlay runs on, emulated: its Python decides which of TVM's
# wheels the overlay is for. The virtual environment is that of this machine's own overlay.

set(HOST_BUILD "" CACHE PATH "The build folder of this machine's own overlay")
set(VENV_PYTHON "${HOST_BUILD}/venv/bin/python")
if(NOT EXISTS "${VENV_PYTHON}")
  message(FATAL_ERROR
    " This machine's own overlay was not found in HOST_BUILD=${HOST_BUILD}: make it first, "
    "cmake --preset default && cmake --build --preset default")
endif()
set(DEVICE "${PROJECT_BINARY_DIR}/device")
prepare("${VENV_PYTHON}" make_device.py "${DEVICE}")
file(READ "${DEVICE}/bin/version" version)
set(tree_options --aarch64-python "${version}")
