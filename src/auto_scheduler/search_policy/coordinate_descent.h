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
 * \file auto_scheduler/search_policy/coordinate_descent.h
 * \brief Coordinate descent over a discrete space with noisy, possibly failing measurements.
 *
 * The engine knows nothing about schedules: whoever uses it asks for points, measures them as it
 * likes and tells the costs. It is the coordinate descent of Droplet Search, which tries the
 * neighbors of the best point until none is better, with two additions: a Gaussian process learns
 * from all outcomes which neighbors to try first, and combinations of steps that promise more than
 * single ones are tried together with those.
 *
 * References:
 * M. Canesche, V. Rosario, E. Borin, F. Quintao Pereira. "The Droplet Search Algorithm for Kernel
 * Scheduling." (ACM TACO 2024), Section 3.
 * N. Srinivas, A. Krause, S. M. Kakade, M. Seeger. "Gaussian Process Optimization in the Bandit
 * Setting: No Regret and Experimental Design." (ICML 2010), for the confidence bound.
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_COORDINATE_DESCENT_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_COORDINATE_DESCENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tvm {
namespace auto_scheduler {

/*! \brief A point of the space: one value per coordinate. */
using Point = std::vector<int>;

/*! \brief A unit step: the coordinates it changes, each with the amount added to it. */
using Direction = std::vector<std::pair<int, int>>;

/*!
 * \brief Guesses how the cost of points compares: the logarithm of the cost, up to a factor and a
 * summand. Infinite for a point that cannot be measured.
 */
using Prior = std::function<std::vector<double>(const std::vector<Point>&)>;

/*! \brief The points that can be proposed, and the unit steps that connect them. */
struct CoordinateSpace {
  /*! \brief The largest value of each coordinate; the smallest is 0. */
  Point upper;
  /*! \brief The unit steps. A step and its opposite are two directions. */
  std::vector<Direction> directions;

  /*! \brief Whether each coordinate of the point is between 0 and its upper value. */
  bool Contains(const Point& point) const;
};

/*! \brief When a point counts as better than another, and how far to look for one. */
struct CoordinateDescentOptions {
  /*! \brief The longest step tried along each direction before a point counts as a minimum. */
  int radius = 1;
  /*! \brief Significance level of the test that compares points with several samples each. */
  double p_value = 0.05;
  /*! \brief Relative gain asked for where a measurement gives one sample only. */
  double margin = 0.01;
};

/*!
 * \brief Walks from a measured point to a local minimum by asking for measurements.
 *
 * Everything the walk decides follows from the trials told so far: the best point, the challenger
 * that seems better and awaits confirmation, and what the outcomes predict for other points.
 */
class CoordinateDescent {
 public:
  /*!
   * \brief The constructor.
   * \param space The points and the unit steps.
   * \param start The point to start from.
   * \param costs The measured costs of the start, at least one.
   * \param options When a point is better, and how far to look.
   * \param seed Seeds the order in which directions are tried while nothing tells them apart.
   * \param prior What is known of points before any was measured, if there is something.
   * \throws std::invalid_argument if an argument is out of range.
   */
  CoordinateDescent(CoordinateSpace space, Point start, const std::vector<double>& costs,
                    CoordinateDescentOptions options = {}, uint32_t seed = 0,
                    Prior prior = nullptr);

  /*!
   * \brief Propose points to measure. Never proposes a point twice, except once more to confirm a
   * decision that rests on single samples.
   * \param batch_size The number of points wanted.
   * \return At most `batch_size` points. Nothing if the descent has converged, or if all that can
   * be decided now waits for points proposed before.
   */
  std::vector<Point> Ask(size_t batch_size);

  /*!
   * \brief Tell the outcome of measuring a point.
   * \param point A point that was proposed.
   * \param costs The samples, lower is better. Empty if the measurement failed.
   * \throws std::invalid_argument if the point is not waiting for an outcome.
   */
  void Tell(const Point& point, const std::vector<double>& costs);

  /*! \brief Forget the proposals whose outcome was not told, as if they had not been made. */
  void Withdraw();

  /*! \brief Replace what is known of points before any was measured. */
  void SetPrior(Prior prior);

  /*!
   * \brief Whether nothing is left to try: no step within the radius leads from the best point to
   * a better one, and neither do the few combinations of unit steps that promised most.
   */
  bool Converged() const;

  /*! \brief Whether an outcome of the point was told before: proposed again, it is to confirm. */
  bool Told(const Point& point) const { return trials_.count(point) != 0; }

  /*! \brief The best point so far. */
  const Point& best() const { return best_; }

  /*! \brief The mean cost of the best point. */
  double best_cost() const;

 private:
  /*! \brief What is known about a measured point. */
  struct Trial {
    /*! \brief The point it was reached from. */
    Point from;
    /*! \brief All samples. Empty if the point failed. */
    std::vector<double> costs;
    /*! \brief The number of samples that one measurement gave. */
    size_t repeat;
    /*! \brief The number of times the point was measured. */
    int num_measurements;

    bool failed() const { return costs.empty(); }
    double Mean() const;
    /*! \brief Whether the cost does not rest on one sample alone. */
    bool confirmed() const { return costs.size() >= 2 || num_measurements >= 2; }
  };

  /*! \brief Points to propose next, with the points they are reached from. */
  class Batch;
  /*! \brief What the outcomes told so far and the prior predict. */
  class Belief;

  bool IsBetter(const Trial& challenger, const Trial& incumbent) const;
  std::optional<Point> FindChallenger() const;
  void Record(const Point& point, const std::vector<double>& costs);

  /*! \brief Where a point lies for the Gaussian process: points with similar costs should be near
   * each other. */
  std::vector<double> Embed(const Point& point) const;
  bool HasNeighbor(const Point& point) const;
  void Plan(Batch* batch) const;
  void PlanConfirmation(const Point& point, Batch* batch) const;
  bool IsUntried(const Point& point) const;
  /*! \brief Whether the point failed, or is known to be impossible. */
  bool IsWall(const Point& point) const;
  /*! \brief The first point in a direction that is no wall after the neighbor, which is one. */
  Point BehindWall(const Point& base, const Direction& direction) const;
  std::vector<double> Guesses(const std::vector<Point>& points) const;
  /*! \brief The points within the radius, and those that a step leads to beyond the bounds. */
  std::vector<Point> Neighbors(const Point& base) const;
  /*! \brief The most promising neighbors that were not tried and can be, at most `number`. */
  std::vector<Point> PossibleNeighbors(const Point& base, const Belief& belief,
                                       size_t number) const;
  /*! \brief The first points that the prior calls possible, at most `number`. It is asked about no
   * more than it takes to find them. */
  std::vector<Point> FirstPossible(const std::vector<Point>& points, size_t number) const;
  std::vector<Point> Combinations(const Point& base, const Belief& belief) const;
  size_t NumCombinationsTried(const Point& base) const;

  CoordinateSpace space_;
  /*! \brief Coordinates with a constant sum, since steps carry from one of them to another. */
  std::vector<std::vector<int>> ladders_;
  CoordinateDescentOptions options_;
  Point best_;
  std::map<Point, Trial> trials_;
  /*! \brief The points that were proposed and not told yet, with those they are reached from. */
  std::map<Point, Point> pending_;
  Prior prior_;
  /*! \brief What the prior guessed so far. */
  mutable std::map<Point, double> guesses_;
};

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_COORDINATE_DESCENT_H_
