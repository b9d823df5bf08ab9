#!/usr/bin/env bash
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

# Build the overlay with TVM's OpenCL runtime, and search with it on this machine's OpenCL device:
# PoCL (Debian: pocl-opencl-icd ocl-icd-opencl-dev) makes the CPU one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ci/build.sh opencl
device=$(PYTHONPATH=benchmarks build/venv/bin/python -c \
  'import machine, tvm; machine.detect_gpu("opencl"); print(tvm.opencl(0).device_name)') || {
  echo "opencl.sh: PoCL makes the CPU a device (Debian: pocl-opencl-icd ocl-icd-opencl-dev)" >&2
  exit 1
}
echo "opencl.sh: searching on $device"
cd build
ctest --tests-regex droplet_gpu --output-on-failure --no-tests=error
