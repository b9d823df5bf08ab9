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
 * \file auto_scheduler/search_policy/welch_t_test.h
 * \brief Compare the means of two samples whose variances may differ.
 *
 * Reference:
 * B. L. Welch. "The Generalization of 'Student's' Problem when Several Different Population
 * Variances are Involved." (Biometrika 34, 1947).
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_WELCH_T_TEST_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_WELCH_T_TEST_H_

#include <vector>

namespace tvm {
namespace auto_scheduler {

/*! \brief The mean of a sample with at least one value. */
double Mean(const std::vector<double>& sample);

/*!
 * \brief One-sided test of whether the first sample's population has the lower mean.
 * \param lower The sample that is claimed to have the lower mean, at least two values.
 * \param higher The other sample, at least two values.
 * \return The p-value: the probability of a difference at least this large between two samples of
 * populations with the same mean.
 */
double WelchPValue(const std::vector<double>& lower, const std::vector<double>& higher);

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_WELCH_T_TEST_H_
