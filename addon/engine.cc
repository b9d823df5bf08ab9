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
 * \file engine.cc
 * \brief The coordinate descent engine as a module of Python, without TVM's library.
 */
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <utility>
#include <vector>

#include "coordinate_descent.h"

namespace tvm {
namespace auto_scheduler {
namespace {

std::unique_ptr<CoordinateDescent> MakeCoordinateDescent(Point upper,
                                                         std::vector<Direction> directions,
                                                         Point start, std::vector<double> costs,
                                                         int radius, double p_value, double margin,
                                                         uint32_t seed, Prior prior) {
  return std::make_unique<CoordinateDescent>(
      CoordinateSpace{std::move(upper), std::move(directions)}, std::move(start), costs,
      CoordinateDescentOptions{radius, p_value, margin}, seed, std::move(prior));
}

}  // namespace

// The same interface as that of tvm.auto_scheduler.coordinate_descent.CoordinateDescent.
PYBIND11_MODULE(_engine, module) {
  namespace py = pybind11;
  py::class_<CoordinateDescent>(module, "CoordinateDescent")
      .def(py::init(&MakeCoordinateDescent), py::arg("upper"), py::arg("directions"),
           py::arg("start"), py::arg("start_costs"), py::arg("radius") = 1,
           py::arg("p_value") = 0.05, py::arg("margin") = 0.01, py::arg("seed") = 0,
           py::arg("prior") = nullptr)
      .def("ask", &CoordinateDescent::Ask, py::arg("batch_size"))
      .def("tell", &CoordinateDescent::Tell, py::arg("point"), py::arg("costs"))
      .def("withdraw", &CoordinateDescent::Withdraw)
      .def_property_readonly("converged", &CoordinateDescent::Converged)
      .def_property_readonly("best", &CoordinateDescent::best)
      .def_property_readonly("best_cost", &CoordinateDescent::best_cost);
}

}  // namespace auto_scheduler
}  // namespace tvm
