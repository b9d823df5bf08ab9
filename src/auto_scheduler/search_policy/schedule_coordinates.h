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
 * \file auto_scheduler/search_policy/schedule_coordinates.h
 * \brief The parameters of a schedule as integer coordinates, for a search that moves them.
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_SCHEDULE_COORDINATES_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_SCHEDULE_COORDINATES_H_

#include <tvm/auto_scheduler/loop_state.h>
#include <tvm/auto_scheduler/search_task.h>
#include <tvm/auto_scheduler/transform_step.h>

#include <string>
#include <vector>

#include "coordinate_descent.h"

namespace tvm {
namespace auto_scheduler {

/*!
 * \brief The parameters that can move in the transform steps of a state, as coordinates.
 *
 * The coordinates are:
 * - Tile sizes. A split of extent E into L tile levels, the implied one included, has L coordinates
 *   for each prime factor p of E: the exponents of p at each level. A unit step carries one p from
 *   one level to another, so the product of the levels stays E. Where the factors that were read do
 *   not divide E, the product is that of the levels they give: E rounded up.
 * - The vector width of a cooperative fetch on GPU, as an ordered choice. The extent of what it
 *   splits follows from other tile sizes, so no width divides it everywhere. Where a width does
 *   not, the lowered loop is guarded, as it is for SketchPolicy.
 * - `auto_unroll_max_step`, as an ordered choice.
 * - On CPU, for each stage: how many of its outer loops run in parallel, how many of its inner
 *   loops are vectorized, and where it is computed, from root over the loops of other stages to
 *   inlined. The numbers of loops are upper bounds: loops that another stage is computed in are not
 *   fused beyond it, and vectors do not get longer than the longest tile. Loops that run once do
 *   not count as parallel ones. A stage that comes to root gets the parallel loops that
 *   SketchPolicy gives it, one that leaves it loses them.
 *
 * Places to compute a stage at are those that make a difference at the origin. As the tile sizes
 * move, different points may come to be the same program.
 */
class ScheduleCoordinatesNode : public Object {
 public:
  /*! \brief The values that the coordinates can take, and the unit steps between them. */
  const CoordinateSpace& space() const { return space_; }

  /*! \brief The coordinates of the state that was read. */
  const Point& origin() const { return origin_; }

  /*! \brief Equal for states of a task that differ in the values of coordinates only. */
  const std::string& structure() const { return structure_; }

  /*!
   * \brief Rebuild the state at a point, by replaying its steps and inferring its bounds.
   *
   * What is returned could be replayed and has its bounds. On CPU no parallel loop is inside
   * another. On GPU the numbers of threads and virtual threads are within the hardware parameters;
   * shared memory and registers are not checked, as this takes the lowered program. The state at
   * the origin is the one that was read, even where it does not keep to these limits.
   * \return The state, undefined if there is none at the point.
   */
  State StateAt(const Point& point) const;

  /*!
   * \brief Take over what exists here, too, of a point of another state of the task.
   * \param other The coordinates of the other state.
   * \param point The point.
   * \return The point with the same tile sizes of an axis, unrolling of a stage and vector width of
   * a fetch, and the values of the origin elsewhere. A stage and its write cache count as one.
   */
  Point Adopt(const ScheduleCoordinatesNode& other, const Point& point) const;

  /*! \brief What moves from one point to another, in words. */
  std::string Describe(const Point& from, const Point& to) const;

  static constexpr const char* _type_key = "auto_scheduler.ScheduleCoordinates";
  TVM_DECLARE_FINAL_OBJECT_INFO(ScheduleCoordinatesNode, Object);

 private:
  friend class ScheduleCoordinates;

  /*! \brief The tile levels of one split, as the exponents of prime factors. */
  struct Tiling {
    int step_id;
    std::string name;
    std::vector<int> primes;
    /*! \brief For each prime, the sum of its exponents over the levels. */
    std::vector<int> totals;
    int num_levels;
    int64_t max_innermost;
    /*! \brief The exponent of the first prime at the outermost level. The others follow. */
    int first_coordinate;

    bool Allows(const Point& point) const;
    std::vector<int64_t> LevelsAt(const Point& point) const;
  };

  /*! \brief A number in one step that takes one of several values. */
  struct Choice {
    int step_id;
    std::string name;
    std::vector<int> values;
    int coordinate;
  };

  /*! \brief A place to compute a stage at. The target is that of ComputeAtKind::kIter. */
  struct Location {
    ComputeAtKind kind;
    IterKey target;
    std::string name;
  };

  /*! \brief What moves about one stage on CPU. A coordinate that it lacks is -1. */
  struct StageParameters {
    std::string name;
    int parallel = -1;
    int vectorize = -1;
    int location = -1;
    std::vector<Location> locations;
    /*! \brief The number of loops that are fused in parallel in the state that was read. */
    int num_parallel = 0;
    /*! \brief Whether a step fuses them, even where it is one loop. */
    bool fuses_parallel = false;
    int64_t max_vector = 0;
  };

  /*! \brief One thing to do in a replay. */
  struct Action {
    enum Kind { kStep, kLocate, kParallelize, kVectorize } kind;
    int stage_id;
    /*! \brief The step that was read, -1 if there was none. */
    int step_id;
    /*!
     * \brief The loop that the step is about, numbered as before outer loops were fused. -1 if the
     * step is replayed as it is.
     */
    int iter_id;
  };

  struct Limits;
  struct Annotations;
  class Replay;

  void Read(const Limits& limits);
  void ReadSplit(const State& before, int step_id, const Limits& limits);
  void ReadUnroll(const State& before, int step_id);
  bool ReadAnnotations(State located, int begin, Annotations* annotations) const;
  void ReadStages(const State& annotated, const State& located, int locations_begin,
                  int annotations_begin, const Limits& limits);
  void ReadLocation(const State& bounded, int stage_id);
  void ReadParallel(const State& located, int stage_id);
  void ReadVectorize(const State& bounded, int stage_id, int num_vectorized);
  void ReadStructure();
  void AddChoice(int step_id, std::string name, std::vector<int> values, int value);
  int AddCoordinate(int upper, int value);

  std::vector<Step> StepsAt(const Point& point) const;

  SearchTask task_;
  /*! \brief The steps that were read. */
  std::vector<Step> steps_;
  std::vector<Tiling> tilings_;
  std::vector<Choice> choices_;
  /*! \brief Indexed by stage. */
  std::vector<StageParameters> stages_;
  std::vector<Action> actions_;

  CoordinateSpace space_;
  Point origin_;
  std::string structure_;
};

/*!
 * \brief Managed reference to ScheduleCoordinatesNode.
 * \sa ScheduleCoordinatesNode
 */
class ScheduleCoordinates : public ObjectRef {
 public:
  /*!
   * \brief Read the parameters from the transform steps of a concrete state.
   * \param task The task that the state belongs to.
   * \param state The state. Its bounds need not be known.
   * \param params Parameters named as in SketchPolicy, of which `max_innermost_split_factor`,
   * `max_vectorize_size` and `disable_change_compute_location` are read. Those that are missing
   * have SketchPolicy's default values.
   */
  ScheduleCoordinates(SearchTask task, const State& state,
                      const Map<String, ObjectRef>& params = {});

  TVM_DEFINE_OBJECT_REF_METHODS(ScheduleCoordinates, ObjectRef, ScheduleCoordinatesNode);
};

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_SCHEDULE_COORDINATES_H_
