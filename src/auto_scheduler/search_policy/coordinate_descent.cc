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
 * \file auto_scheduler/search_policy/coordinate_descent.cc
 * \brief Coordinate descent over a discrete space with noisy, possibly failing measurements.
 */

#include "coordinate_descent.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

#include "welch_t_test.h"

namespace tvm {
namespace auto_scheduler {

namespace {

Point Moved(Point point, const Direction& direction, int steps = 1) {
  constexpr int64_t kMin = std::numeric_limits<int>::min();
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  for (const auto& [coordinate, delta] : direction) {
    const int64_t value = point[coordinate] + static_cast<int64_t>(delta) * steps;
    point[coordinate] = static_cast<int>(std::clamp(value, kMin, kMax));
  }
  return point;
}

/*! \brief What leads from one point to another. */
Direction Difference(const Point& from, const Point& to) {
  Direction difference;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] != from[i]) {
      difference.emplace_back(i, to[i] - from[i]);
    }
  }
  return difference;
}

std::string ToString(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

template <typename T>
std::string ToString(const std::vector<T>& values) {
  std::ostringstream text;
  for (size_t i = 0; i < values.size(); ++i) {
    text << (i ? ", " : "[") << values[i];
  }
  text << (values.empty() ? "[]" : "]");
  return text.str();
}

void Require(bool condition, const std::string& message) {
  if (!condition) {
    throw std::invalid_argument(message);
  }
}

void Validate(const CoordinateSpace& space) {
  for (int upper : space.upper) {
    Require(upper >= 0 && upper < std::numeric_limits<int>::max(),
            "The upper value of a coordinate must be at least 0 and below 2^31 - 1, but it is " +
                std::to_string(upper));
  }
  for (const Direction& direction : space.directions) {
    Require(!direction.empty(), "A direction must change at least one coordinate");
    for (const auto& [coordinate, delta] : direction) {
      Require(coordinate >= 0 && static_cast<size_t>(coordinate) < space.upper.size(),
              "A direction changes coordinate " + std::to_string(coordinate) + " of a space with " +
                  std::to_string(space.upper.size()) + " coordinates");
      Require(delta != 0, "A direction must not list a coordinate that it leaves unchanged");
    }
  }
}

void Validate(const CoordinateDescentOptions& options) {
  Require(options.radius >= 1,
          "radius must be at least 1, but it is " + std::to_string(options.radius));
  Require(options.p_value > 0 && options.p_value < 1,
          "p_value must be between 0 and 1, but it is " + ToString(options.p_value));
  Require(options.margin >= 0 && options.margin < 1,
          "margin must be at least 0 and below 1, but it is " + ToString(options.margin));
}

}  // namespace

bool CoordinateSpace::Contains(const Point& point) const {
  if (point.size() != upper.size()) {
    return false;
  }
  for (size_t i = 0; i < upper.size(); ++i) {
    if (point[i] < 0 || point[i] > upper[i]) {
      return false;
    }
  }
  return true;
}

class CoordinateDescent::Batch {
 public:
  Batch(size_t size, const CoordinateDescent& descent) : size_(size), descent_(descent) {}

  /*! \brief Add a point unless the batch is full or the point is out of bounds or was proposed. */
  void Add(const Point& point, const Point& from) {
    if (descent_.space_.Contains(point) && !descent_.Told(point)) {
      AddAgain(point, from);
    }
  }

  /*! \brief Add a point that may have been measured before. */
  void AddAgain(const Point& point, const Point& from) {
    if (!full() && !descent_.pending_.count(point) && chosen_.insert(point).second) {
      points_.emplace_back(point, from);
    }
  }

  bool full() const { return points_.size() >= size_; }
  bool empty() const { return points_.empty(); }
  const std::vector<std::pair<Point, Point>>& points() const { return points_; }

 private:
  size_t size_;
  const CoordinateDescent& descent_;
  std::set<Point> chosen_;
  std::vector<std::pair<Point, Point>> points_;
};

double CoordinateDescent::Trial::Mean() const {
  return std::accumulate(costs.begin(), costs.end(), 0.0) / static_cast<double>(costs.size());
}

CoordinateDescent::CoordinateDescent(CoordinateSpace space, Point start,
                                     const std::vector<double>& costs,
                                     CoordinateDescentOptions options, uint32_t seed)
    : space_(std::move(space)),
      options_(options),
      best_(std::move(start)),
      gradient_(space_.upper.size(), 0.0) {
  Validate(space_);
  Validate(options_);
  Require(space_.Contains(best_), "The start must lie between 0 and " + ToString(space_.upper) +
                                      ", but it is " + ToString(best_));
  pending_.emplace(best_, best_);
  Tell(best_, costs);
  Require(!trials_.at(best_).failed(),
          "The start must have at least one cost and finite ones only, but they are " +
              ToString(costs));
  if (costs.size() == 1) {
    // A start is chosen for its low cost, so a single sample of it is too low on average: the one
    // that confirms it takes its place.
    trials_.at(best_).repeat = 0;
  }

  // No step longer than the space is one more to try.
  int longest = 1;
  for (int upper : space_.upper) {
    longest = std::max(longest, upper);
  }
  options_.radius = std::min(options_.radius, longest);
  // The order decides while nothing is known of the directions.
  std::shuffle(space_.directions.begin(), space_.directions.end(), std::mt19937(seed));
}

std::vector<Point> CoordinateDescent::Ask(size_t batch_size) {
  Batch batch(batch_size, *this);
  Plan(&batch);
  std::vector<Point> points;
  for (const auto& [point, from] : batch.points()) {
    points.push_back(point);
    pending_.emplace(point, from);
  }
  return points;
}

void CoordinateDescent::Tell(const Point& point, const std::vector<double>& costs) {
  Record(point, costs);
  while (std::optional<Point> challenger = FindChallenger()) {
    if (!trials_.at(*challenger).confirmed() || !trials_.at(best_).confirmed()) {
      break;
    }
    best_ = *challenger;
  }
}

void CoordinateDescent::Withdraw() { pending_.clear(); }

bool CoordinateDescent::Converged() const {
  Batch batch(1, *this);
  Plan(&batch);
  return batch.empty() && pending_.empty();
}

double CoordinateDescent::best_cost() const { return trials_.at(best_).Mean(); }

bool CoordinateDescent::IsBetter(const Trial& challenger, const Trial& incumbent) const {
  if (challenger.failed() || challenger.Mean() >= incumbent.Mean()) {
    return false;
  }
  if (challenger.repeat >= 2 && incumbent.repeat >= 2) {
    return WelchPValue(challenger.costs, incumbent.costs) < options_.p_value;
  }
  return challenger.Mean() < incumbent.Mean() * (1 - options_.margin);
}

std::optional<Point> CoordinateDescent::FindChallenger() const {
  const Trial& incumbent = trials_.at(best_);
  std::optional<Point> challenger;
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& [point, trial] : trials_) {
    if (IsBetter(trial, incumbent) && trial.Mean() < lowest) {
      challenger = point;
      lowest = trial.Mean();
    }
  }
  return challenger;
}

void CoordinateDescent::Record(const Point& point, const std::vector<double>& costs) {
  auto proposal = pending_.find(point);
  Require(proposal != pending_.end(),
          "The point " + ToString(point) + " is not waiting for an outcome");
  const Point from = proposal->second;
  pending_.erase(proposal);

  const bool failed = costs.empty() || !std::all_of(costs.begin(), costs.end(), [](double cost) {
                        return std::isfinite(cost);
                      });
  auto [position, first] = trials_.emplace(point, Trial{from, {}, 0, 0});
  Trial& trial = position->second;
  ++trial.num_measurements;
  if (failed) {
    // The best point worked before, so one failure of it is a fault of the measurement.
    if (point != best_) {
      trial.costs.clear();
    }
  } else if (first || costs.size() > trial.repeat) {
    // Several samples of one measurement tell more than a single one from another time.
    trial.costs = costs;
    trial.repeat = costs.size();
  } else if (!trial.failed()) {
    trial.costs.insert(trial.costs.end(), costs.begin(), costs.end());
  }
  LearnGradient(point);
}

void CoordinateDescent::LearnGradient(const Point& point) {
  const Trial& trial = trials_.at(point);
  const Trial& from = trials_.at(trial.from);
  const Direction step = Difference(trial.from, point);
  if (step.empty() || trial.failed() || from.failed()) {
    return;
  }
  // Normalized least mean squares (Widrow and Hoff, 1960). A small rate, since a coordinate takes
  // part in several steps and the cost is far from linear in any of them.
  constexpr double kRate = 0.25;
  const double error = std::log(trial.Mean() / from.Mean()) - PredictedSlope(step);
  if (!std::isfinite(error)) {
    return;  // Costs that are not positive have no ratio to learn from.
  }
  const double squared_length = std::accumulate(
      step.begin(), step.end(), 0.0, [](double sum, const std::pair<int, int>& change) {
        return sum + static_cast<double>(change.second) * change.second;
      });
  for (const auto& [coordinate, delta] : step) {
    gradient_[coordinate] += kRate * error * delta / squared_length;
  }
}

double CoordinateDescent::PredictedSlope(const Direction& direction) const {
  return std::accumulate(direction.begin(), direction.end(), 0.0,
                         [this](double sum, const std::pair<int, int>& change) {
                           return sum + gradient_[change.first] * change.second;
                         });
}

void CoordinateDescent::Plan(Batch* batch) const {
  const std::optional<Point> challenger = FindChallenger();
  if (HasNeighbor(best_)) {
    PlanConfirmation(best_, batch);
  }
  if (challenger) {
    PlanConfirmation(*challenger, batch);
  }
  // Most challengers are confirmed, so there is no use in waiting before going on from there.
  const Point& base = challenger ? *challenger : best_;
  // Twice as far along the line that led here.
  AddAlongLine(base, 2, batch);
  PlanNeighbors(base, batch);
  if (!batch->empty()) {
    AddAlongLine(base, 4, batch);
    AddAlongLine(base, 1, batch);
    PlanPairs(base, batch);
  } else if (pending_.empty()) {
    // No step helps, but coordinates that must move together may be all that is in the way.
    PlanPairs(base, batch);
  }
}

bool CoordinateDescent::HasNeighbor(const Point& point) const {
  return std::any_of(
      space_.directions.begin(), space_.directions.end(),
      [&](const Direction& direction) { return space_.Contains(Moved(point, direction)); });
}

void CoordinateDescent::PlanConfirmation(const Point& point, Batch* batch) const {
  const Trial& trial = trials_.at(point);
  if (!trial.confirmed()) {
    batch->AddAgain(point, trial.from);
  }
}

void CoordinateDescent::AddAlongLine(const Point& base, int stretch, Batch* batch) const {
  Direction step = Difference(trials_.at(base).from, base);
  if (step.empty()) {
    return;
  }
  // Near the border of the space, go as far as it allows in the shortest steps along the line.
  int length = 0;
  for (const auto& [coordinate, delta] : step) {
    length = std::gcd(length, delta);
  }
  int64_t steps = static_cast<int64_t>(length) * stretch;
  for (auto& [coordinate, delta] : step) {
    delta /= length;
    const int room = delta > 0 ? space_.upper[coordinate] - base[coordinate] : base[coordinate];
    steps = std::min<int64_t>(steps, room / std::abs(delta));
  }
  if (steps > 0) {
    batch->Add(Moved(base, step, static_cast<int>(steps)), base);
  }
}

void CoordinateDescent::PlanNeighbors(const Point& base, Batch* batch) const {
  std::vector<std::pair<double, const Direction*>> order;
  for (const Direction& direction : space_.directions) {
    order.emplace_back(PredictedSlope(direction), &direction);
  }
  std::sort(order.begin(), order.end());
  for (int steps = 1; steps <= options_.radius && !batch->full(); ++steps) {
    for (const auto& entry : order) {
      batch->Add(Moved(base, *entry.second, steps), base);
    }
  }
}

void CoordinateDescent::PlanPairs(const Point& base, Batch* batch) const {
  // Pairs of more than this many of the best unit steps are not worth the room.
  constexpr size_t kMaxSteps = 16;
  if (batch->full() || base != best_) {
    return;
  }
  const double base_cost = best_cost();
  std::set<Point> reached = {base};
  std::vector<std::pair<double, const Direction*>> steps;
  for (const Direction& direction : space_.directions) {
    auto neighbor = trials_.find(Moved(base, direction));
    reached.insert(Moved(base, direction));
    if (neighbor != trials_.end() && !neighbor->second.failed()) {
      steps.emplace_back(neighbor->second.Mean() - base_cost, &direction);
    }
  }
  std::sort(steps.begin(), steps.end());
  steps.resize(std::min(steps.size(), kMaxSteps));

  // Rank pairs as if the effects of their steps add up.
  std::vector<std::pair<double, Point>> pairs;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (size_t j = i + 1; j < steps.size(); ++j) {
      const Point point = Moved(Moved(base, *steps[i].second), *steps[j].second);
      if (space_.Contains(point) && reached.insert(point).second) {
        pairs.emplace_back(steps[i].first + steps[j].first, point);
      }
    }
  }
  // Few, or the rest of the budget would go to the surroundings of one local minimum.
  constexpr size_t kMaxPairs = 8;
  std::sort(pairs.begin(), pairs.end());
  pairs.resize(std::min(pairs.size(), kMaxPairs));
  for (const auto& pair : pairs) {
    batch->Add(pair.second, base);
  }
}

}  // namespace auto_scheduler
}  // namespace tvm
