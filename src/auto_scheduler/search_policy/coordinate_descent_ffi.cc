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
 * \file auto_scheduler/search_policy/coordinate_descent_ffi.cc
 * \brief The coordinate descent engine as a TVM object, for use from Python.
 */

#include "coordinate_descent_ffi.h"

#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/boxed_primitive.h>
#include <tvm/runtime/registry.h>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "coordinate_descent.h"
#include "welch_t_test.h"

namespace tvm {
namespace auto_scheduler {

Point PointFromArray(const Array<runtime::Int>& values) {
  Point point;
  for (runtime::Int value : values) {
    CHECK(value->value == static_cast<int>(value->value))
        << "ValueError: Coordinates and their values must fit 32 bits, but one is " << value->value;
    point.push_back(static_cast<int>(value->value));
  }
  return point;
}

Array<runtime::Int> PointToArray(const Point& point) {
  Array<runtime::Int> values;
  for (int value : point) {
    values.push_back(value);
  }
  return values;
}

namespace {

/*! \brief The engine, held by an object that Python can refer to. */
class CoordinateDescentNode : public Object {
 public:
  std::unique_ptr<CoordinateDescent> engine;

  static constexpr const char* _type_key = "auto_scheduler.CoordinateDescent";
  TVM_DECLARE_FINAL_OBJECT_INFO(CoordinateDescentNode, Object);
};

class CoordinateDescentRef : public ObjectRef {
 public:
  explicit CoordinateDescentRef(std::unique_ptr<CoordinateDescent> engine) {
    auto node = make_object<CoordinateDescentNode>();
    node->engine = std::move(engine);
    data_ = std::move(node);
  }

  TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(CoordinateDescentRef, ObjectRef, CoordinateDescentNode);
};

TVM_REGISTER_OBJECT_TYPE(CoordinateDescentNode);

CoordinateSpace SpaceFromArrays(const Array<runtime::Int>& upper,
                                const Array<Array<Array<runtime::Int>>>& directions) {
  CoordinateSpace space;
  space.upper = PointFromArray(upper);
  for (const Array<Array<runtime::Int>>& changes : directions) {
    Direction direction;
    for (const Array<runtime::Int>& change : changes) {
      CHECK_EQ(change.size(), 2)
          << "ValueError: A direction is a list of (coordinate, delta) pairs, but one of them has "
          << change.size() << " values";
      const Point coordinate_and_delta = PointFromArray(change);
      direction.emplace_back(coordinate_and_delta[0], coordinate_and_delta[1]);
    }
    space.directions.push_back(std::move(direction));
  }
  return space;
}

std::vector<double> SamplesFromArray(const Array<runtime::Float>& values) {
  std::vector<double> samples;
  for (runtime::Float value : values) {
    samples.push_back(value);
  }
  return samples;
}

Prior PriorFromFunction(runtime::PackedFunc function) {
  if (function == nullptr) {
    return nullptr;
  }
  return [function](const std::vector<Point>& points) {
    Array<Array<runtime::Int>> arrays;
    for (const Point& point : points) {
      arrays.push_back(PointToArray(point));
    }
    const Array<runtime::Float> guesses = function(arrays);
    return SamplesFromArray(guesses);
  };
}

/*! \brief Call the engine, so that what it finds wrong with an argument is a ValueError. */
template <typename F>
auto WithValueError(F call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::invalid_argument& error) {
    LOG(FATAL) << "ValueError: " << error.what();
  }
  throw;
}

}  // namespace

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescent")
    .set_body_typed([](Array<runtime::Int> upper, Array<Array<Array<runtime::Int>>> directions,
                       Array<runtime::Int> start, Array<runtime::Float> costs, int radius,
                       double p_value, double margin, int seed, runtime::PackedFunc prior) {
      return WithValueError([&]() {
        return CoordinateDescentRef(std::make_unique<CoordinateDescent>(
            SpaceFromArrays(upper, directions), PointFromArray(start), SamplesFromArray(costs),
            CoordinateDescentOptions{radius, p_value, margin}, seed, PriorFromFunction(prior)));
      });
    });

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescentAsk")
    .set_body_typed([](CoordinateDescentRef descent, int batch_size) {
      CHECK_GE(batch_size, 0) << "ValueError: batch_size must be at least 0, but it is "
                              << batch_size;
      const std::vector<Point> batch =
          WithValueError([&]() { return descent->engine->Ask(batch_size); });
      Array<Array<runtime::Int>> points;
      for (const Point& point : batch) {
        points.push_back(PointToArray(point));
      }
      return points;
    });

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescentTell")
    .set_body_typed([](CoordinateDescentRef descent, Array<runtime::Int> point,
                       Array<runtime::Float> costs) {
      WithValueError(
          [&]() { descent->engine->Tell(PointFromArray(point), SamplesFromArray(costs)); });
    });

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescentWithdraw")
    .set_body_typed([](CoordinateDescentRef descent) { descent->engine->Withdraw(); });

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescentConverged")
    .set_body_typed([](CoordinateDescentRef descent) {
      return WithValueError([&]() { return descent->engine->Converged(); });
    });

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescentBest")
    .set_body_typed([](CoordinateDescentRef descent) {
      return PointToArray(descent->engine->best());
    });

TVM_REGISTER_GLOBAL("auto_scheduler.CoordinateDescentBestCost")
    .set_body_typed([](CoordinateDescentRef descent) { return descent->engine->best_cost(); });

TVM_REGISTER_GLOBAL("auto_scheduler.WelchPValue")
    .set_body_typed([](Array<runtime::Float> lower, Array<runtime::Float> higher) {
      CHECK(lower.size() >= 2 && higher.size() >= 2)
          << "ValueError: Welch's t-test needs at least two values in each sample, but got "
          << lower.size() << " and " << higher.size();
      return WelchPValue(SamplesFromArray(lower), SamplesFromArray(higher));
    });

}  // namespace auto_scheduler
}  // namespace tvm
