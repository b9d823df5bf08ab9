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

# The x86 runner: configure, build and test on this machine's CPU. PYTHON, where set, names the
# Python that the build's virtual environment is made from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

machine=$(uname -m)
if [ "$machine" != x86_64 ]; then
  echo "x86.sh: this machine is $machine, expected x86_64" >&2
  exit 2
fi
ci/build.sh default
cmake --workflow --preset test
