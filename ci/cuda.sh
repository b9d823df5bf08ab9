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
PATH=$(sed -n 's/^CUDA_BIN_DIR:[^=]*=//p' build/CMakeCache.txt):$PATH
if ! command -v nvcc >/dev/null; then
  echo "cuda.sh: there is no nvcc to compile programs with" >&2
  exit 1
fi
gpu=$(build/venv/bin/python -c \
  'import tvm; print(tvm.cuda(0).device_name if tvm.cuda(0).exist else "")')

# Verbose, so that the log of CTest, for which skipped tests are passed ones, has all outcomes.
(cd build && PYTEST_ADDOPTS=--verbose \
  ctest --tests-regex 'droplet_(cuda|gpu)' --output-on-failure --no-tests=error)
log=build/Testing/Temporary/LastTest.log
compiles=::test_every_proposed_program_compiles
if grep "$compiles.* SKIPPED" "$log" || ! grep --quiet "$compiles.* PASSED" "$log"; then
  echo "cuda.sh: not all tests that compile programs have run, see $log" >&2
  exit 1
fi

if [ -z "$gpu" ]; then
  echo "cuda.sh: there is no GPU here. All proposed programs were compiled, none was run."
  exit
fi
build/venv/bin/python benchmarks/kernels.py --target cuda --quick --output build/kernels-cuda
echo "cuda.sh: programs were compiled for three architectures, and run and compared on $gpu."
