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

# Install the add-on for the TVM that PyPI has into an environment of its own, and test it there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=build/addon-venv
"${PYTHON:-python3}" -B cmake/make_venv.py "$venv" requirements/addon.txt
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation ./addon
"$venv/bin/python" -m pytest --tb=short tests/addon
