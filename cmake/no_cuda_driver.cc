/*
 * Licensed to the Apache Software Foundation (ASF) under one
 * or more contributor license agreements.  See the NOTICE file
 * distributed with this work for additional information
 * regarding copyright ownership.  The ASF licenses this file
 * to you under the Apache License, Version 2.0 (the
 * "License"); you may not use this file except in compliance
 * with the License.  You may obtain a copy of the License at
 *
 *   http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing,
 * software distributed under the License is distributed on an
 * "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
 * KIND, either express or implied.  See the License for the
 * specific language governing permissions and limitations
 * under the License.
 */

/*!
 * \file no_cuda_driver.cc
 * \brief What TVM's CUDA runtime calls of NVIDIA's driver, for a machine without one: all fails.
 *
 * It does not go by the driver's name, so that the CUDA runtime still sees that there is none.
 */

#include <cuda.h>

CUresult cuDeviceGetName(char*, int, CUdevice) { return CUDA_ERROR_STUB_LIBRARY; }

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_ERROR_STUB_LIBRARY;
}

CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_STUB_LIBRARY: there was no CUDA driver when TVM was built";
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
                        unsigned int, unsigned int, unsigned int, CUstream, void**, void**) {
  return CUDA_ERROR_STUB_LIBRARY;
}

CUresult cuMemsetD32(CUdeviceptr, unsigned int, size_t) { return CUDA_ERROR_STUB_LIBRARY; }

CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*) { return CUDA_ERROR_STUB_LIBRARY; }

CUresult cuModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule, const char*) {
  return CUDA_ERROR_STUB_LIBRARY;
}

CUresult cuModuleLoadData(CUmodule*, const void*) { return CUDA_ERROR_STUB_LIBRARY; }

CUresult cuModuleUnload(CUmodule) { return CUDA_ERROR_STUB_LIBRARY; }
