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

# TVM's CUDA runtime and code generator, compiled into libtvm.so.
#
# The toolkit is the one that CMake finds, if it has all that is needed, otherwise NVIDIA's wheels in
# build/cuda.

find_package(CUDAToolkit QUIET)
if(TARGET CUDA::cudart AND TARGET CUDA::nvrtc)
  set(cuda_bin "${CUDAToolkit_BIN_DIR}")
  set(cuda_include "${CUDAToolkit_INCLUDE_DIRS}")
  set(cuda_libraries CUDA::cudart CUDA::nvrtc)
else()
  set(venv "${PROJECT_BINARY_DIR}/cuda")
  prepare("${Python3_EXECUTABLE}" make_venv.py
    "${venv}" "${PROJECT_SOURCE_DIR}/requirements/cuda.txt")
  file(GLOB toolkit "${venv}/lib/python3*/site-packages/nvidia/cu13")
  file(CREATE_LINK "${toolkit}" "${venv}/toolkit" SYMBOLIC)
  set(cuda_bin "${venv}/toolkit/bin")
  set(cuda_include "${venv}/toolkit/include")
  file(GLOB cuda_libraries "${toolkit}/lib/libcudart.so.*" "${toolkit}/lib/libnvrtc.so.*")
endif()
message(STATUS "CUDA's compiler is in ${cuda_bin}")
set(CUDA_BIN_DIR "${cuda_bin}" CACHE INTERNAL "The folder of nvcc")

# Where there is no driver, nothing runs on a GPU, but TVM is to be loaded all the same.
find_library(cuda_driver NAMES libcuda.so.1 NO_CACHE)
if(NOT cuda_driver)
  message(STATUS "There is no CUDA driver here: programs can be compiled, but not run")
  add_library(no_cuda_driver SHARED cmake/no_cuda_driver.cc)
  target_include_directories(no_cuda_driver SYSTEM PRIVATE ${cuda_include})
  set_target_properties(no_cuda_driver PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TVM_TREE}/build")
  set(cuda_driver no_cuda_driver)
endif()

set(runtime "${TVM_TREE}/src/runtime/cuda")
set(code_generator "${TVM_TREE}/src/target/opt/build_cuda_on.cc")
add_library(cuda OBJECT
  "${runtime}/cuda_device_api.cc" "${runtime}/cuda_module.cc" "${runtime}/l2_cache_flush.cc"
  "${code_generator}")
if(NOT TVM_SOURCE_DIR)
  set_source_files_properties("${code_generator}" PROPERTIES
    COMPILE_OPTIONS "-include${PROJECT_SOURCE_DIR}/cmake/newer_headers.h")
endif()
set_target_properties(cuda PROPERTIES
  POSITION_INDEPENDENT_CODE ON VISIBILITY_INLINES_HIDDEN ON)
target_include_directories(cuda SYSTEM PRIVATE ${cuda_include})
target_link_libraries(cuda PUBLIC tvm_base ${cuda_libraries} ${cuda_driver})
target_link_libraries(tvm PUBLIC cuda)
