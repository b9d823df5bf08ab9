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

# Writes the pinned, hashed requirement files (*.txt) anew from the *.in files beside it. Needs uv.
# Pins hold for each Python from 3.10 and for every platform that has wheels.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

pin() {
  uv pip compile --quiet --upgrade --python-version 3.10 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --custom-compile-command requirements/update.sh "$@"
}

for name in overlay lint cuda addon; do
  pin --universal --fork-strategy fewest --only-binary :all: "$name.in" --output-file "$name.txt"
done
for name in tvm tvm-headers; do
  # Used for their files, not installed: what these packages depend on is in overlay.in.
  pin --no-deps --python-platform x86_64-manylinux_2_28 "$name.in" --output-file "$name.txt"
done
