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
 * \file auto_scheduler/search_policy/gaussian_process.h
 * \brief Regression over points that also tells how sure it is.
 *
 * Reference:
 * C. E. Rasmussen, C. K. I. Williams. "Gaussian Processes for Machine Learning." (MIT Press 2006),
 * Algorithm 2.1 and Sections 4.2.1 and 5.4.1.
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_GAUSSIAN_PROCESS_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_GAUSSIAN_PROCESS_H_

#include <vector>

namespace tvm {
namespace auto_scheduler {

/*!
 * \brief A Gaussian process with a constant mean and a Matern kernel of smoothness 3/2.
 *
 * The length scale of the kernel and the noise are those, out of a few, with the highest marginal
 * likelihood. The variance is the most likely one given both.
 */
class GaussianProcess {
 public:
  /*! \brief What is believed of the value at a point. */
  struct Prediction {
    double mean;
    double deviation;
  };

  /*!
   * \brief Fit the process.
   * \param points The points, at least one, with the same number of coordinates each.
   * \param values Their values.
   */
  GaussianProcess(std::vector<std::vector<double>> points, const std::vector<double>& values);

  /*! \brief Predict the value at a point. */
  Prediction Predict(const std::vector<double>& point) const;

 private:
  /*! \brief A lower triangular matrix, row by row. */
  using Triangle = std::vector<std::vector<double>>;

  /*! \brief The process with given parameters of the kernel. */
  struct Fit {
    double length = 0;
    double variance = 0;
    /*! \brief The Cholesky factor of the correlations with the noise. */
    Triangle factor;
    /*! \brief The weights of the correlations in the predicted mean. */
    std::vector<double> weights;
    double log_likelihood = 0;
  };

  static Fit FitWith(const Triangle& squared_distances, const std::vector<double>& residuals,
                     double length, double noise);

  std::vector<std::vector<double>> points_;
  double mean_;
  Fit fit_;
};

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_GAUSSIAN_PROCESS_H_
