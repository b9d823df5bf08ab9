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
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

#include "gaussian_process.h"
#include "welch_t_test.h"

namespace tvm {
namespace auto_scheduler {

namespace {

/*! \brief Once all neighbors of a point are tried, combinations are until this many were, those
 * of its last batch besides. */
constexpr size_t kMaxCombinations = 16;

/*! \brief The prior may take long, so it is asked about this many neighbors and combinations. */
constexpr size_t kMaxNeighbors = 32;
constexpr size_t kMaxCandidates = 16;

Point Moved(Point point, const Direction& direction, int steps = 1) {
  constexpr int64_t kMin = std::numeric_limits<int>::min();
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  for (const auto& [coordinate, delta] : direction) {
    const int64_t value = point[coordinate] + static_cast<int64_t>(delta) * steps;
    point[coordinate] = static_cast<int>(std::clamp(value, kMin, kMax));
  }
  return point;
}

/*! \brief The groups of coordinates that steps carry between, such as the tile levels of a prime
 * factor. */
std::vector<std::vector<int>> FindLadders(const CoordinateSpace& space) {
  std::vector<int> group_of(space.upper.size());
  std::iota(group_of.begin(), group_of.end(), 0);
  for (const Direction& direction : space.directions) {
    if (direction.size() == 2 && direction[0].second == -direction[1].second) {
      const auto [first, second] =
          std::minmax({group_of[direction[0].first], group_of[direction[1].first]});
      std::replace(group_of.begin(), group_of.end(), second, first);
    }
  }
  std::map<int, std::vector<int>> groups;
  for (size_t i = 0; i < group_of.size(); ++i) {
    groups[group_of[i]].push_back(static_cast<int>(i));
  }
  std::vector<std::vector<int>> ladders;
  for (const auto& [first, coordinates] : groups) {
    if (coordinates.size() > 1) {
      ladders.push_back(coordinates);
    }
  }
  return ladders;
}

int64_t Distance(const Point& from, const Point& to) {
  int64_t distance = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    distance += std::abs(static_cast<int64_t>(to[i]) - from[i]);
  }
  return distance;
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

  /*! \brief Add a point unless the batch is full or the point waits for its outcome. */
  void Add(const Point& point, const Point& from) {
    if (!full() && !descent_.pending_.count(point) && chosen_.insert(point).second) {
      points_.emplace_back(point, from);
    }
  }

  size_t room() const { return size_ - points_.size(); }
  bool full() const { return room() == 0; }
  bool empty() const { return points_.empty(); }
  const std::vector<std::pair<Point, Point>>& points() const { return points_; }

 private:
  size_t size_;
  const CoordinateDescent& descent_;
  std::set<Point> chosen_;
  std::vector<std::pair<Point, Point>> points_;
};

class CoordinateDescent::Belief {
 public:
  /*!
   * \brief Learn from the outcomes told so far.
   * \param descent The descent.
   * \param base The point whose surroundings matter.
   */
  Belief(const CoordinateDescent& descent, const Point& base) : descent_(descent) {
    CollectOutcomes(base);
    if (IsTrained()) {
      by_outcomes_.emplace(embedded_, log_costs_);
      LearnFromPrior();
    }
  }

  /*! \brief Whether there are enough outcomes to tell points apart. */
  bool IsTrained() const { return points_.size() >= kMinOutcomes; }

  /*! \brief The points that can be measured, those with the lowest bounds of the cost first. */
  std::vector<Point> Sorted(const std::vector<Point>& points) const {
    const std::vector<double> guesses = descent_.Guesses(points);
    std::vector<double> bounds = guesses;
    if (IsTrained()) {
      for (size_t i = 0; i < points.size(); ++i) {
        bounds[i] = slope_ * guesses[i] + Bound(by_prior_ ? *by_prior_ : *by_outcomes_, points[i]);
      }
    }
    return Lowest(points, bounds, points.size());
  }

  /*! \brief The points with the lowest bounds, as far as the outcomes alone tell. */
  std::vector<Point> MostPromisingByOutcomes(const std::vector<Point>& points,
                                             size_t number) const {
    std::vector<double> bounds;
    for (const Point& point : points) {
      bounds.push_back(Bound(*by_outcomes_, point));
    }
    return Lowest(points, bounds, number);
  }

 private:
  static constexpr size_t kMinOutcomes = 3;

  /*! \brief Take the outcomes that are nearest to a point. */
  void CollectOutcomes(const Point& base) {
    // The time to learn grows with the cube of the number.
    constexpr size_t kMaxOutcomes = 160;
    std::vector<std::pair<int64_t, const Point*>> nearest;
    for (const auto& [point, trial] : descent_.trials_) {
      if (!trial.failed() && trial.Mean() > 0) {
        nearest.emplace_back(Distance(base, point), &point);
      }
    }
    std::stable_sort(nearest.begin(), nearest.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    nearest.resize(std::min(nearest.size(), kMaxOutcomes));
    for (const auto& entry : nearest) {
      points_.push_back(*entry.second);
      embedded_.push_back(descent_.Embed(*entry.second));
      log_costs_.push_back(std::log(descent_.trials_.at(*entry.second).Mean()));
    }
  }

  /*! \brief Fit how the outcomes follow the prior, then the rest of them as a process. */
  void LearnFromPrior() {
    if (!descent_.prior_) {
      return;
    }
    std::vector<double> guesses;
    std::vector<double> log_costs;
    std::vector<std::vector<double>> embedded;
    const std::vector<double> all_guesses = descent_.Guesses(points_);
    for (size_t i = 0; i < points_.size(); ++i) {
      // The prior may call something impossible that was measured all the same.
      if (std::isfinite(all_guesses[i])) {
        guesses.push_back(all_guesses[i]);
        log_costs.push_back(log_costs_[i]);
        embedded.push_back(embedded_[i]);
      }
    }
    if (guesses.size() < kMinOutcomes) {
      return;
    }
    // Ridge regression towards a cautious slope, which a few outcomes outweigh.
    constexpr double kSlope = 0.3;
    constexpr double kWeight = 1.0;
    const double mean_guess = Mean(guesses);
    const double mean_log_cost = Mean(log_costs);
    double products = kWeight * kSlope;
    double squares = kWeight;
    for (size_t i = 0; i < guesses.size(); ++i) {
      products += (guesses[i] - mean_guess) * (log_costs[i] - mean_log_cost);
      squares += (guesses[i] - mean_guess) * (guesses[i] - mean_guess);
    }
    slope_ = std::max(products / squares, 0.0);
    std::vector<double> rest;
    for (size_t i = 0; i < guesses.size(); ++i) {
      rest.push_back(log_costs[i] - slope_ * guesses[i]);
    }
    by_prior_.emplace(embedded, rest);
  }

  /*! \brief How low the cost may well be. */
  double Bound(const GaussianProcess& process, const Point& point) const {
    // Below 4, most of a batch goes to steps that change next to nothing, as is known of their
    // like.
    constexpr double kOptimism = 4;
    const GaussianProcess::Prediction prediction = process.Predict(descent_.Embed(point));
    return prediction.mean - kOptimism * prediction.deviation;
  }

  static std::vector<Point> Lowest(const std::vector<Point>& points,
                                   const std::vector<double>& bounds, size_t number) {
    std::vector<size_t> order;
    for (size_t i = 0; i < points.size(); ++i) {
      if (std::isfinite(bounds[i])) {
        order.push_back(i);
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return bounds[a] < bounds[b]; });
    std::vector<Point> lowest;
    for (size_t i = 0; i < std::min(order.size(), number); ++i) {
      lowest.push_back(points[order[i]]);
    }
    return lowest;
  }

  const CoordinateDescent& descent_;
  std::vector<Point> points_;
  std::vector<std::vector<double>> embedded_;
  std::vector<double> log_costs_;
  std::optional<GaussianProcess> by_outcomes_;
  /*! \brief What the outcomes are beyond what the prior guesses. */
  std::optional<GaussianProcess> by_prior_;
  double slope_ = 0;
};

double CoordinateDescent::Trial::Mean() const { return auto_scheduler::Mean(costs); }

CoordinateDescent::CoordinateDescent(CoordinateSpace space, Point start,
                                     const std::vector<double>& costs,
                                     CoordinateDescentOptions options, uint32_t seed, Prior prior)
    : space_(std::move(space)),
      options_(options),
      best_(std::move(start)),
      prior_(std::move(prior)) {
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

  ladders_ = FindLadders(space_);
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

void CoordinateDescent::SetPrior(Prior prior) {
  prior_ = std::move(prior);
  guesses_.clear();
}

bool CoordinateDescent::Converged() const {
  Batch batch(1, *this);
  Plan(&batch);
  return batch.empty() && pending_.empty();
}

double CoordinateDescent::best_cost() const { return trials_.at(best_).Mean(); }

std::vector<double> CoordinateDescent::Guesses(const std::vector<Point>& points) const {
  if (!prior_) {
    return std::vector<double>(points.size(), 0);
  }
  std::vector<Point> unknown;
  std::copy_if(points.begin(), points.end(), std::back_inserter(unknown),
               [this](const Point& point) { return !guesses_.count(point); });
  const std::vector<double> answers = unknown.empty() ? std::vector<double>() : prior_(unknown);
  Require(answers.size() == unknown.size(),
          "The prior must give one number for each of " + std::to_string(unknown.size()) +
              " points, but it gave " + std::to_string(answers.size()));
  for (size_t i = 0; i < unknown.size(); ++i) {
    guesses_[unknown[i]] = answers[i];
  }
  std::vector<double> guesses;
  for (const Point& point : points) {
    guesses.push_back(guesses_.at(point));
  }
  return guesses;
}

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

  // The sum of finite costs may be infinite.
  const bool failed = costs.empty() || !std::isfinite(auto_scheduler::Mean(costs));
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
}

void CoordinateDescent::Plan(Batch* batch) const {
  const std::optional<Point> challenger = FindChallenger();
  if (HasNeighbor(best_)) {
    PlanConfirmation(best_, batch);
  }
  if (challenger) {
    PlanConfirmation(*challenger, batch);
  }
  if (batch->full()) {
    return;
  }
  // Most challengers are confirmed, so there is no use in waiting before going on from there.
  const Point& base = challenger ? *challenger : best_;
  const Belief belief(*this, base);
  std::vector<Point> candidates =
      PossibleNeighbors(base, belief, std::max(batch->room(), kMaxNeighbors));
  const std::set<Point> neighbors(candidates.begin(), candidates.end());
  if (!candidates.empty() || NumCombinationsTried(base) < kMaxCombinations) {
    const std::vector<Point> combinations = Combinations(base, belief);
    candidates.insert(candidates.end(), combinations.begin(), combinations.end());
  }
  candidates = belief.Sorted(candidates);
  // Half of the batch is for steps that were not tried yet, however much combinations promise: not
  // to get lost in what is known already.
  const size_t other_half = batch->room() / 2;
  for (const Point& point : candidates) {
    if (batch->room() > other_half && neighbors.count(point)) {
      batch->Add(point, base);
    }
  }
  for (const Point& point : candidates) {
    batch->Add(point, base);
  }
}

std::vector<double> CoordinateDescent::Embed(const Point& point) const {
  // Costs depend on how much is inside each level rather than on what a level has itself: a step
  // between neighboring levels changes one of these sums only.
  std::vector<double> embedded(point.begin(), point.end());
  for (const std::vector<int>& ladder : ladders_) {
    for (size_t i = 1; i < ladder.size(); ++i) {
      embedded[ladder[i]] += embedded[ladder[i - 1]];
    }
  }
  return embedded;
}

bool CoordinateDescent::HasNeighbor(const Point& point) const {
  return std::any_of(
      space_.directions.begin(), space_.directions.end(),
      [&](const Direction& direction) { return space_.Contains(Moved(point, direction)); });
}

void CoordinateDescent::PlanConfirmation(const Point& point, Batch* batch) const {
  const Trial& trial = trials_.at(point);
  if (!trial.confirmed()) {
    batch->Add(point, trial.from);
  }
}

bool CoordinateDescent::IsUntried(const Point& point) const {
  return space_.Contains(point) && !Told(point) && !pending_.count(point) && !IsWall(point);
}

bool CoordinateDescent::IsWall(const Point& point) const {
  const auto trial = trials_.find(point);
  if (trial != trials_.end()) {
    return trial->second.failed();
  }
  const auto guess = guesses_.find(point);
  return guess != guesses_.end() && !std::isfinite(guess->second);
}

Point CoordinateDescent::BehindWall(const Point& base, const Direction& direction) const {
  int steps = 2;
  while (IsWall(Moved(base, direction, steps))) {
    ++steps;
  }
  return Moved(base, direction, steps);
}

std::vector<Point> CoordinateDescent::Neighbors(const Point& base) const {
  std::vector<Point> neighbors;
  for (int steps = 1; steps <= options_.radius; ++steps) {
    for (const Direction& direction : space_.directions) {
      neighbors.push_back(Moved(base, direction, steps));
    }
  }
  return neighbors;
}

std::vector<Point> CoordinateDescent::PossibleNeighbors(const Point& base, const Belief& belief,
                                                        size_t number) const {
  std::vector<Point> untried = Neighbors(base);
  untried.erase(std::remove_if(untried.begin(), untried.end(),
                               [this](const Point& point) { return !IsUntried(point); }),
                untried.end());
  if (belief.IsTrained()) {
    untried = belief.MostPromisingByOutcomes(untried, untried.size());
  }
  return FirstPossible(untried, number);
}

std::vector<Point> CoordinateDescent::FirstPossible(const std::vector<Point>& points,
                                                    size_t number) const {
  std::vector<Point> possible;
  for (size_t begin = 0; begin < points.size() && possible.size() < number;) {
    const size_t end = std::min(begin + number - possible.size(), points.size());
    const std::vector<Point> asked(points.begin() + begin, points.begin() + end);
    const std::vector<double> guesses = Guesses(asked);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (std::isfinite(guesses[i])) {
        possible.push_back(asked[i]);
      }
    }
    begin = end;
  }
  return possible;
}

size_t CoordinateDescent::NumCombinationsTried(const Point& base) const {
  const std::vector<Point> list = Neighbors(base);
  const std::set<Point> neighbors(list.begin(), list.end());
  auto is_combination = [&](const Point& point, const Point& from) {
    return from == base && point != base && !neighbors.count(point);
  };
  size_t count = 0;
  for (const auto& [point, trial] : trials_) {
    count += is_combination(point, trial.from);
  }
  for (const auto& [point, from] : pending_) {
    count += is_combination(point, from);
  }
  return count;
}

std::vector<Point> CoordinateDescent::Combinations(const Point& base, const Belief& belief) const {
  if (!belief.IsTrained()) {
    return {};
  }
  // A step that leads to a failure is not worth combining, but what is behind may be reached.
  std::vector<Direction> steps;
  std::set<Point> reached = {base};
  std::vector<Point> ends;
  std::vector<Point> combinations;
  for (const Direction& direction : space_.directions) {
    const Point point = Moved(base, direction);
    if (!space_.Contains(point)) {
      continue;
    }
    if (IsWall(point)) {
      combinations.push_back(BehindWall(base, direction));
    } else {
      steps.push_back(direction);
      ends.push_back(point);
    }
    reached.insert(point);
  }
  // More than this many of the best steps are not worth the time that pairs of them take.
  constexpr size_t kMaxSteps = 24;
  for (const Point& end : belief.MostPromisingByOutcomes(ends, kMaxSteps)) {
    for (const Direction& step : steps) {
      combinations.push_back(Moved(end, step));
    }
  }
  combinations.erase(std::remove_if(combinations.begin(), combinations.end(),
                                    [&](const Point& point) {
                                      return !IsUntried(point) || !reached.insert(point).second;
                                    }),
                     combinations.end());
  // Where most combinations are impossible, to ask about all of them would take too long.
  constexpr size_t kMaxAsked = 4 * kMaxCandidates;
  return FirstPossible(belief.MostPromisingByOutcomes(combinations, kMaxAsked), kMaxCandidates);
}

}  // namespace auto_scheduler
}  // namespace tvm
