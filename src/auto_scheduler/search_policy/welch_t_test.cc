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
 * \file auto_scheduler/search_policy/welch_t_test.cc
 * \brief Compare the means of two samples whose variances may differ.
 */

#include "welch_t_test.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace tvm {
namespace auto_scheduler {

double Mean(const std::vector<double>& sample) {
  return std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
}

namespace {

struct MeanAndError {
  double mean;
  /*! \brief The squared standard error of the mean. */
  double squared_error;
};

MeanAndError Summarize(const std::vector<double>& sample) {
  const double n = static_cast<double>(sample.size());
  const double mean = Mean(sample);
  double squares = 0;
  for (double value : sample) {
    squares += (value - mean) * (value - mean);
  }
  return {mean, squares / (n - 1) / n};
}

/*!
 * \brief The continued fraction of the incomplete beta function I_x(a, b), by Lentz's method.
 * Converges fast for x < (a + 1) / (a + b + 2).
 */
double BetaContinuedFraction(double a, double b, double x) {
  constexpr double kTiny = std::numeric_limits<double>::min();
  constexpr double kTolerance = 1e-14;
  constexpr int kMaxTerms = 500;
  auto away_from_zero = [](double value) { return std::fabs(value) < kTiny ? kTiny : value; };

  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (double term : {even, odd}) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (std::fabs(change - 1) < kTolerance) {
      break;
    }
  }
  return fraction;
}

/*! \brief The regularized incomplete beta function I_x(a, b). */
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0 || x >= 1) {
    return x <= 0 ? 0 : 1;
  }
  const double log_factor =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  if (x < (a + 1) / (a + b + 2)) {
    return std::exp(log_factor) * BetaContinuedFraction(a, b, x) / a;
  }
  return 1 - std::exp(log_factor) * BetaContinuedFraction(b, a, 1 - x) / b;
}

}  // namespace

double WelchPValue(const std::vector<double>& lower, const std::vector<double>& higher) {
  const MeanAndError first = Summarize(lower);
  const MeanAndError second = Summarize(higher);
  const double difference = first.mean - second.mean;
  const double squared_error = first.squared_error + second.squared_error;
  if (squared_error == 0) {
    // Samples without any spread leave nothing to chance.
    return difference < 0 ? 0 : (difference > 0 ? 1 : 0.5);
  }

  auto spread = [squared_error](const MeanAndError& summary, size_t n) {
    const double share = summary.squared_error / squared_error;
    return share * share / static_cast<double>(n - 1);
  };
  const double degrees = 1 / (spread(first, lower.size()) + spread(second, higher.size()));
  const double t_squared = difference * difference / squared_error;
  // The probability that Student's t lies beyond |t|, on one side.
  const double tail = IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t_squared)) / 2;
  return difference < 0 ? tail : 1 - tail;
}

}  // namespace auto_scheduler
}  // namespace tvm
