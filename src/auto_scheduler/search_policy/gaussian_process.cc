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
 * \file auto_scheduler/search_policy/gaussian_process.cc
 * \brief Regression over points of a discrete space that also tells how sure it is.
 */

#include "gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "welch_t_test.h"

namespace tvm {
namespace auto_scheduler {

namespace {

double SquaredDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = a[i] - b[i];
    sum += difference * difference;
  }
  return sum;
}

/*! \brief The Matern covariance of smoothness 3/2. Latencies are no smooth functions. */
double Correlation(double squared_distance, double length) {
  const double scaled = std::sqrt(3 * squared_distance) / length;
  return (1 + scaled) * std::exp(-scaled);
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/*! \brief Solve L x = b. */
std::vector<double> SolveLower(const std::vector<std::vector<double>>& lower,
                               std::vector<double> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      x[i] -= lower[i][j] * x[j];
    }
    x[i] /= lower[i][i];
  }
  return x;
}

/*! \brief Solve L^T x = b. */
std::vector<double> SolveLowerTransposed(const std::vector<std::vector<double>>& lower,
                                         std::vector<double> x) {
  for (size_t i = x.size(); i-- > 0;) {
    x[i] /= lower[i][i];
    for (size_t j = 0; j < i; ++j) {
      x[j] -= lower[i][j] * x[i];
    }
  }
  return x;
}

/*! \brief Replace a symmetric positive definite matrix by its Cholesky factor. */
void Factorize(std::vector<std::vector<double>>* matrix) {
  auto& lower = *matrix;
  for (size_t i = 0; i < lower.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double rest = lower[i][j];
      for (size_t k = 0; k < j; ++k) {
        rest -= lower[i][k] * lower[j][k];
      }
      lower[i][j] = i == j ? std::sqrt(rest) : rest / lower[j][j];
    }
  }
}

}  // namespace

GaussianProcess::GaussianProcess(std::vector<std::vector<double>> points,
                                 const std::vector<double>& values)
    : points_(std::move(points)) {
  mean_ = Mean(values);
  std::vector<double> residuals;
  for (double value : values) {
    residuals.push_back(value - mean_);
  }
  Triangle squared_distances;
  for (size_t i = 0; i < points_.size(); ++i) {
    squared_distances.emplace_back();
    for (size_t j = 0; j <= i; ++j) {
      squared_distances[i].push_back(SquaredDistance(points_[i], points_[j]));
    }
  }
  fit_.log_likelihood = -std::numeric_limits<double>::infinity();
  for (double length : {1.0, 1.5, 2.0, 3.0, 5.0, 8.0}) {
    for (double noise : {0.03, 0.1, 0.3}) {
      Fit fit = FitWith(squared_distances, residuals, length, noise);
      if (fit.log_likelihood > fit_.log_likelihood) {
        fit_ = std::move(fit);
      }
    }
  }
}

GaussianProcess::Fit GaussianProcess::FitWith(const Triangle& squared_distances,
                                              const std::vector<double>& residuals, double length,
                                              double noise) {
  // Values that are all the same have no variance, and nothing would be likely at all.
  constexpr double kMinVariance = 1e-6;
  Fit fit;
  fit.length = length;
  fit.factor = squared_distances;
  for (size_t i = 0; i < fit.factor.size(); ++i) {
    for (double& entry : fit.factor[i]) {
      entry = Correlation(entry, length);
    }
    fit.factor[i][i] += noise;
  }
  Factorize(&fit.factor);
  const std::vector<double> whitened = SolveLower(fit.factor, residuals);
  fit.weights = SolveLowerTransposed(fit.factor, whitened);
  const double size = static_cast<double>(residuals.size());
  fit.variance = std::max(Dot(whitened, whitened) / size, kMinVariance);
  fit.log_likelihood = -0.5 * size * std::log(fit.variance);
  for (size_t i = 0; i < fit.factor.size(); ++i) {
    fit.log_likelihood -= std::log(fit.factor[i][i]);
  }
  return fit;
}

GaussianProcess::Prediction GaussianProcess::Predict(const std::vector<double>& point) const {
  std::vector<double> correlations;
  for (const std::vector<double>& known : points_) {
    correlations.push_back(Correlation(SquaredDistance(point, known), fit_.length));
  }
  const double mean = mean_ + Dot(correlations, fit_.weights);
  const std::vector<double> whitened = SolveLower(fit_.factor, std::move(correlations));
  const double variance = fit_.variance * std::max(1 - Dot(whitened, whitened), 0.0);
  return {mean, std::sqrt(variance)};
}

}  // namespace auto_scheduler
}  // namespace tvm
