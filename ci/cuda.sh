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

# Build the overlay with TVM's CUDA runtime and code generator, and search for CUDA programs. On a
# machine with a GPU they are measured, and the search is compared with Ansor. Without one, each
# program that the search proposes is compiled for three architectures, and its cost is made up.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ci/build.sh cuda
gpu=$(build/venv/bin/python -c \
  'import tvm; print(tvm.cuda(0).device_name if tvm.cuda(0).exist else "")')

(cd build && ctest --tests-regex 'droplet_(cuda|gpu)' --output-on-failure --no-tests=error)

if [ -z "$gpu" ]; then
  echo "cuda.sh: there is no GPU here. All proposed programs were compiled, none was run."
  exit
fi
PATH=$(sed -n 's/^CUDA_BIN_DIR:[^=]*=//p' build/CMakeCache.txt):$PATH
build/venv/bin/python benchmarks/kernels.py --target cuda --quick --output build/kernels-cuda
echo "cuda.sh: programs were compiled for three architectures, and run and compared on $gpu."
