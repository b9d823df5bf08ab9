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

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "../../src/auto_scheduler/search_policy/gaussian_process.h"

namespace tvm {
namespace auto_scheduler {
namespace {

using Points = std::vector<std::vector<double>>;

TEST(GaussianProcess, KnowsOnePoint) {
  const GaussianProcess process({{1, 2}}, {7.0});
  for (const std::vector<double>& point : Points({{1, 2}, {3, 4}, {1000, -1000}})) {
    EXPECT_DOUBLE_EQ(process.Predict(point).mean, 7.0);
  }
}

TEST(GaussianProcess, FollowsASmoothFunction) {
  auto function = [](int x, int y) { return std::sin(0.3 * x) + 0.1 * y; };
  Points points;
  std::vector<double> values;
  for (double x = 0; x <= 12; x += 2) {
    for (double y = 0; y <= 6; y += 2) {
      points.push_back({x, y});
      values.push_back(function(x, y));
    }
  }
  const GaussianProcess process(points, values);
  for (double x = 1; x < 12; ++x) {
    for (double y = 1; y < 6; ++y) {
      EXPECT_NEAR(process.Predict({x, y}).mean, function(x, y), 0.06);
    }
  }
}

TEST(GaussianProcess, SmoothsNoise) {
  std::mt19937 random(0);
  std::normal_distribution<double> noise(0, 0.1);
  Points points;
  std::vector<double> values;
  double error = 0;
  for (double x = 0; x < 60; ++x) {
    points.push_back({x});
    values.push_back(std::sin(0.1 * x) + noise(random));
    error += std::pow(values.back() - std::sin(0.1 * x), 2);
  }
  const GaussianProcess process(points, values);
  double smoothed_error = 0;
  for (double x = 0; x < 60; ++x) {
    smoothed_error += std::pow(process.Predict({x}).mean - std::sin(0.1 * x), 2);
  }
  EXPECT_LT(smoothed_error, 0.5 * error);
}

TEST(GaussianProcess, IsLessSureFarFromWhatItKnows) {
  const GaussianProcess process({{0, 0}, {1, 0}, {0, 1}, {1, 1}}, {1.0, 2.0, 2.5, 3.5});
  double before = process.Predict({0, 0}).deviation;
  EXPECT_GT(before, 0);
  for (double x = 2; x < 6; ++x) {
    const double deviation = process.Predict({x, 0}).deviation;
    EXPECT_GT(deviation, before);
    before = deviation;
  }
  // Far away it knows the mean only.
  EXPECT_DOUBLE_EQ(process.Predict({100, 100}).mean, 2.25);
}

TEST(GaussianProcess, TakesValuesThatAreAllTheSame) {
  const GaussianProcess process({{0}, {1}, {2}}, {3.0, 3.0, 3.0});
  EXPECT_DOUBLE_EQ(process.Predict({1}).mean, 3.0);
  EXPECT_TRUE(std::isfinite(process.Predict({5}).deviation));
}

}  // namespace
}  // namespace auto_scheduler
}  // namespace tvm
