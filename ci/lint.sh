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

# Run all linters on the repository, after a build: the checks of the patch set compare it with the
# tree of the release that the build lays out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=build/lint-venv
"${PYTHON:-python3}" -B cmake/make_venv.py "$venv" requirements/lint.txt

# Tracked and new files that match the patterns, one a line.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r path; do
    if [ -f "$path" ]; then echo "$path"; fi
  done
}

failed=0
check() {
  local name=$1
  shift
  if "$@"; then
    echo "lint: $name: passed"
  else
    echo "lint: $name: FAILED"
    failed=1
  fi
}

parse() {
  local path
  for path in "$@"; do bash -n "$path" || return 1; done
}

narrow() {
  ! LC_ALL=C.UTF-8 grep --with-filename --line-number --extended-regexp '^.{101,}' "$@"
}

mapfile -t all < <(files)
mapfile -t cpp < <(files '*.cc' '*.h')
mapfile -t python < <(files '*.py')
mapfile -t shell < <(files '*.sh' .ci/run)

check clang-format "$venv/bin/clang-format" --dry-run -Werror "${cpp[@]}"
check black "$venv/bin/black" --quiet --check --diff "${python[@]}"
check ruff "$venv/bin/ruff" check --quiet --no-cache "${python[@]}"
check "shell syntax" parse "${shell[@]}"
check shellcheck "$venv/bin/shellcheck" --severity=warning "${shell[@]}"
check "100 columns" narrow "${cpp[@]}" "${python[@]}" "${shell[@]}"
check "licence headers" "$venv/bin/python" -B ci/check_license_headers.py "${all[@]}"
check "patch set" "$venv/bin/python" -B ci/check_patchset.py build/pristine
exit "$failed"
