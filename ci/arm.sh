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

# The ARM runner: cross-compile the overlay for AArch64, make a device that qemu emulates, tune for
# it from this machine over RPC, and search on it. What programs take under emulation says nothing
# of an ARM CPU; that everything from code generation to records works is what this proves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ci/build.sh default
ci/build.sh arm
(cd build/arm && ctest --output-on-failure --no-tests=error)
echo "arm.sh: programs ran under emulation; their latencies are not those of an ARM CPU."
