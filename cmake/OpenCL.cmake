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

# TVM's OpenCL runtime, which the wheel's library lacks, in libtvm.so. It loads the OpenCL driver of
# the machine when it is used, so that nothing of it is needed to build.

set(opencl "${TVM_TREE}/src/runtime/opencl")
add_library(opencl OBJECT
  "${opencl}/opencl_device_api.cc" "${opencl}/opencl_module.cc"
  "${opencl}/opencl_module_spirv.cc" "${opencl}/texture_pool.cc"
  "${opencl}/opencl_wrapper/opencl_wrapper.cc")
set_target_properties(opencl PROPERTIES
  POSITION_INDEPENDENT_CODE ON VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(opencl SYSTEM PRIVATE "${TVM_TREE}/3rdparty/OpenCL-Headers")
target_link_libraries(opencl PUBLIC tvm_base)
target_link_libraries(tvm PUBLIC opencl)
