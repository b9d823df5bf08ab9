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

# What has to be on the machine. Included before project(), whose own complaints are harder to read.

cmake_host_system_information(RESULT platform QUERY OS_PLATFORM)
if(NOT CMAKE_HOST_SYSTEM_NAME STREQUAL "Linux" OR NOT platform MATCHES "^(x86_64|aarch64)$")
  message(FATAL_ERROR
    " The overlay is for Linux on x86-64 or AArch64, not for ${CMAKE_HOST_SYSTEM_NAME} on "
    "${platform}: use the patch in a TVM checkout, ci/apply.sh puts it there.")
endif()

if(CMAKE_GENERATOR STREQUAL "Ninja")
  find_program(CMAKE_MAKE_PROGRAM NAMES ninja ninja-build samu)
  if(NOT CMAKE_MAKE_PROGRAM)
    message(FATAL_ERROR " Ninja was not found: install it (Debian: ninja-build).")
  endif()
endif()
