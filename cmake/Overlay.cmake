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

# The virtual environment (build/venv) and TVM's tree (build/tvm).
#
# Both are made when CMake configures, not as build steps: the C++ below them is globbed, compiled
# and linked at its place in that tree, so the tree has to be there first, and a failure is the last
# thing on the screen, as one line. The scripts do nothing when what they make is up to date; when a
# file that they depend on changes, the next build configures again.

set(TVM_SOURCE_DIR "" CACHE PATH "A v0.19.0 checkout to take the headers from")
set(VENV "${PROJECT_BINARY_DIR}/venv")
set(VENV_PYTHON "${VENV}/bin/python")
set(TVM_TREE "${PROJECT_BINARY_DIR}/tvm")

find_package(Python3 3.10...<3.14 COMPONENTS Interpreter QUIET)
# A Python that the user names is taken whatever its version is.
if(NOT Python3_Interpreter_FOUND
   OR Python3_VERSION VERSION_LESS 3.10 OR Python3_VERSION VERSION_GREATER_EQUAL 3.14)
  message(FATAL_ERROR
    " Python 3.10 to 3.13 was not found (${Python3_EXECUTABLE} ${Python3_VERSION}): install it "
    "(Debian: python3 python3-venv), or name it with -DPython3_EXECUTABLE=<path>.")
endif()

# Run a preparation script under a Python; stop with the line it prints when it fails.
function(prepare python script)
  execute_process(COMMAND "${python}" -B "${PROJECT_SOURCE_DIR}/cmake/${script}" ${ARGN}
    RESULT_VARIABLE result ERROR_VARIABLE error ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR " ${error}")
  endif()
endfunction()

if(CMAKE_CROSSCOMPILING)
  include(cmake/Device.cmake)
else()
  prepare("${Python3_EXECUTABLE}" make_venv.py
    "${VENV}" "${PROJECT_SOURCE_DIR}/requirements/overlay.txt" --import-path "${TVM_TREE}/python")
endif()
if(TVM_SOURCE_DIR)
  list(APPEND tree_options --source-dir "${TVM_SOURCE_DIR}")
endif()
prepare("${VENV_PYTHON}" assemble_tvm.py "${PROJECT_BINARY_DIR}" ${tree_options})

file(GLOB_RECURSE inputs CONFIGURE_DEPENDS
  ci/patchset.py cmake/*.py patches/* requirements/*.txt
  # Not their content: the tree has links to them. But a new one needs its link.
  python/*.py src/*.cc src/*.h tests/*.cc tests/*.py)
list(FILTER inputs INCLUDE REGEX "/(ci|cmake|patches|requirements)/")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
