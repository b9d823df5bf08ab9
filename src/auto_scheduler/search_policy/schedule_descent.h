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
 * \file auto_scheduler/search_policy/schedule_descent.h
 * \brief A coordinate descent from one program along the coordinates of its schedule.
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_SCHEDULE_DESCENT_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_SCHEDULE_DESCENT_H_

#include <tvm/auto_scheduler/cost_model.h>
#include <tvm/auto_scheduler/search_task.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinate_descent.h"
#include "schedule_coordinates.h"

namespace tvm {
namespace auto_scheduler {

/*! \brief A program that a descent proposes. */
struct Candidate {
  Point point;
  State state;
  /*! \brief The printed loop structure. */
  std::string program;
};

/*! \brief Where a descent begins. */
struct DescentStart {
  ScheduleCoordinates coordinates;
  /*! \brief The printed loop structure. */
  std::string program;
  /*! \brief The measured latencies in seconds, at least one. */
  std::vector<double> costs;
};

/*!
 * \brief Whether a program keeps to the limits of a GPU, for example that of shared memory. To know
 * it takes lowering the program. Other devices have no such limits.
 */
bool IsWithinLimits(const SearchTask& task, const State& state);

/*!
 * \brief Proposes programs and learns their latencies, which lead it from a program to a better
 * one.
 *
 * Points that give the program of another point cannot be measured: comparing a program with itself
 * would tell luck only. Neither can programs that exceed the limits of a GPU.
 */
class ScheduleDescent {
 public:
  /*! \brief From a program to the latencies known of it, null if it was not measured. */
  using KnownCosts = std::function<const std::vector<double>*(const std::string& program)>;

  /*!
   * \brief The constructor.
   * \param task The task that the programs belong to.
   * \param cost_model Tells which programs to try first, once it has learned something.
   * \param start The program to descend from.
   * \param options The options of the walk.
   * \param seed The seed of the walk.
   */
  ScheduleDescent(SearchTask task, CostModel cost_model, DescentStart start,
                  CoordinateDescentOptions options, uint32_t seed);
  // The walk asks the object back.
  ScheduleDescent(const ScheduleDescent&) = delete;
  ScheduleDescent& operator=(const ScheduleDescent&) = delete;

  /*!
   * \brief Propose programs to measure. Those that were proposed before and not learned are
   * forgotten.
   * \param size The number of programs wanted.
   * \param known What is known of programs, so that they are not measured again.
   * \return At most `size` programs. None if the descent has converged.
   */
  std::vector<Candidate> Propose(size_t size, const KnownCosts& known);

  /*!
   * \brief Learn the outcomes of what was proposed last, in that order.
   * \param candidates The programs that were measured.
   * \param costs The latencies of each in seconds. Empty where measuring failed.
   */
  void Learn(const std::vector<Candidate>& candidates,
             const std::vector<std::vector<double>>& costs);

  /*! \brief Let the cost model tell which programs to try first, if it has learned something by
   * now. Once it does, it is not asked again about the same programs: what it learns later would
   * not compare with what it told before. */
  void ConsultModel();

  /*! \brief The coordinates of its programs. */
  const ScheduleCoordinates& coordinates() const { return coordinates_; }

  /*! \brief The best point. */
  const Point& best() const { return walk_.best(); }

  /*! \brief Whether what was learned last gained next to nothing. */
  bool HasStalled() const { return has_stalled_; }

  /*! \brief Whether something was learned. */
  bool HasBegun() const { return has_begun_; }

  /*! \brief Whether nothing is left to propose. */
  bool HasConverged() const { return has_converged_; }

  /*! \brief The lowest latency of any trial, that of the start included, in seconds. */
  double lowest_cost() const { return lowest_cost_; }

  /*! \brief The last move that paid, in words. Empty if there was none. */
  const std::string& last_move() const { return last_move_; }

 private:
  const Candidate& CandidateAt(const Point& point);
  /*! \brief Whether there is a program, and it was not proposed as that of another point. */
  bool HasOwnProgram(const Candidate& candidate) const;
  /*! \brief Whether the cost model knows something: while it guesses, as an XGBModel with few
   * samples does, it does not say the same twice. */
  bool HasLearned() const;
  std::vector<double> PredictLogCosts(const std::vector<Point>& points);

  SearchTask task_;
  CostModel cost_model_;
  ScheduleCoordinates coordinates_;
  /*! \brief The programs rebuilt so far. The state is undefined where there is none. */
  std::map<Point, Candidate> candidates_;
  /*! \brief The point of each program that was proposed, and that of the start. */
  std::unordered_map<std::string, Point> points_;
  CoordinateDescent walk_;
  double lowest_cost_;
  bool is_guided_ = false;
  bool has_begun_ = false;
  bool has_stalled_ = false;
  bool has_converged_ = false;
  /*! \brief The best point when the last move was described. */
  Point last_best_;
  std::string last_move_;
};

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_SCHEDULE_DESCENT_H_
