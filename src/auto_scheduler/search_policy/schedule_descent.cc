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
 * \file auto_scheduler/search_policy/schedule_descent.cc
 * \brief A coordinate descent from one program along the coordinates of its schedule.
 */

#include "schedule_descent.h"

#include <tvm/auto_scheduler/feature.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "utils.h"
#include "welch_t_test.h"

namespace tvm {
namespace auto_scheduler {

bool IsWithinLimits(const SearchTask& task, const State& state) {
  if (!IsGPUTask(task)) {
    return true;
  }
  // Features are extracted from programs within the limits only.
  constexpr int kMaxBuffers = 1;
  std::vector<std::vector<float>> features;
  GetPerStoreFeaturesFromStates({state}, task, 0, kMaxBuffers, &features);
  return !features[0].empty();
}

ScheduleDescent::ScheduleDescent(SearchTask task, CostModel cost_model, DescentStart start,
                                 CoordinateDescentOptions options, uint32_t seed)
    : task_(std::move(task)),
      cost_model_(std::move(cost_model)),
      coordinates_(std::move(start.coordinates)),
      points_({{std::move(start.program), coordinates_->origin()}}),
      walk_(coordinates_->space(), coordinates_->origin(), start.costs, options, seed),
      lowest_cost_(Mean(start.costs)),
      last_best_(coordinates_->origin()) {
  ConsultModel();
}

void ScheduleDescent::ConsultModel() {
  if (!is_guided_ && HasLearned()) {
    walk_.SetPrior([this](const std::vector<Point>& points) { return PredictLogCosts(points); });
    is_guided_ = true;
  }
}

std::vector<Candidate> ScheduleDescent::Propose(size_t size, const KnownCosts& known) {
  // If measuring the last candidates was interrupted, they are still to be decided.
  walk_.Withdraw();
  std::vector<Candidate> candidates;
  while (candidates.size() < size) {
    const std::vector<Point> points = walk_.Ask(size - candidates.size());
    if (points.empty()) {
      break;
    }
    for (const Point& point : points) {
      const Candidate& candidate = CandidateAt(point);
      const bool to_confirm = walk_.Told(point);
      const std::vector<double>* costs = known(candidate.program);
      if (to_confirm) {
        candidates.push_back(candidate);
      } else if (!HasOwnProgram(candidate) || !IsWithinLimits(task_, candidate.state)) {
        walk_.Tell(point, {});
      } else {
        points_.emplace(candidate.program, point);
        if (costs) {
          walk_.Tell(point, *costs);
        } else {
          candidates.push_back(candidate);
        }
      }
    }
  }
  has_converged_ = candidates.empty();
  return candidates;
}

void ScheduleDescent::Learn(const std::vector<Candidate>& candidates,
                            const std::vector<std::vector<double>>& costs) {
  // Less is noise, or not worth going on for.
  constexpr double kMinGain = 0.01;
  has_begun_ = true;
  const double cost_before = lowest_cost_;
  for (size_t i = 0; i < candidates.size(); ++i) {
    walk_.Tell(candidates[i].point, costs[i]);
    if (!costs[i].empty()) {
      lowest_cost_ = std::min(lowest_cost_, Mean(costs[i]));
    }
  }
  has_stalled_ = lowest_cost_ > cost_before * (1 - kMinGain);
  if (walk_.best() != last_best_) {
    last_move_ = coordinates_->Describe(last_best_, walk_.best());
    last_best_ = walk_.best();
  }
}

bool ScheduleDescent::HasLearned() const {
  const State start = coordinates_->StateAt(coordinates_->origin());
  std::vector<float> first;
  std::vector<float> second;
  cost_model_->Predict(task_, {start}, &first);
  cost_model_->Predict(task_, {start}, &second);
  return first == second;
}

const Candidate& ScheduleDescent::CandidateAt(const Point& point) {
  const auto [position, is_new] = candidates_.emplace(point, Candidate{point, State(), ""});
  Candidate& candidate = position->second;
  if (is_new) {
    const State state = coordinates_->StateAt(point);
    if (state.defined()) {
      candidate.program = state.ToStr();
      candidate.state = state;
    }
  }
  return candidate;
}

bool ScheduleDescent::HasOwnProgram(const Candidate& candidate) const {
  if (!candidate.state.defined()) {
    return false;
  }
  const auto owner = points_.find(candidate.program);
  return owner == points_.end() || owner->second == candidate.point;
}

std::vector<double> ScheduleDescent::PredictLogCosts(const std::vector<Point>& points) {
  // A program predicted to be this much slower than the best one is hopeless anyway.
  constexpr float kMinThroughput = 0.01;
  std::vector<double> log_costs(points.size(), std::numeric_limits<double>::infinity());
  Array<State> states;
  std::vector<size_t> indices;
  for (size_t i = 0; i < points.size(); ++i) {
    const Candidate& candidate = CandidateAt(points[i]);
    if (HasOwnProgram(candidate)) {
      states.push_back(candidate.state);
      indices.push_back(i);
    }
  }
  if (states.empty()) {
    return log_costs;
  }
  std::vector<float> throughputs;
  cost_model_->Predict(task_, states, &throughputs);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (std::isfinite(throughputs[i])) {  // Otherwise the program cannot be lowered.
      log_costs[indices[i]] = -std::log(std::max(throughputs[i], kMinThroughput));
    }
  }
  return log_costs;
}

}  // namespace auto_scheduler
}  // namespace tvm
