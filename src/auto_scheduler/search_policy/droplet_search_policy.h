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
 * \file auto_scheduler/search_policy/droplet_search_policy.h
 * \brief This search policy explores with another policy for a while and then exploits the best
 * program that was measured: it descends along the coordinates of its schedule.
 *
 * References:
 * M. Canesche, G. Verma, F. Quintao Pereira. "Explore as a Storm, Exploit as a Raindrop: On the
 * Benefit of Fine-Tuning Kernel Schedulers with Coordinate Descent." (arXiv 2406.20037, 2024).
 * M. Canesche, V. Rosario, E. Borin, F. Quintao Pereira. "The Droplet Search Algorithm for Kernel
 * Scheduling." (ACM TACO 2024).
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_DROPLET_SEARCH_POLICY_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_DROPLET_SEARCH_POLICY_H_

#include <tvm/auto_scheduler/cost_model.h>
#include <tvm/auto_scheduler/search_policy.h>

#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinate_descent.h"
#include "schedule_descent.h"

namespace tvm {
namespace auto_scheduler {

/*!
 * \brief String keys used in parameter map of DropletSearchPolicy. The map may also hold the keys
 * of SketchPolicy, which are passed on to the exploring policy.
 */
struct DropletParamKey {
  /*! \brief The number of programs to explore before descending. Measured programs that were
   * preloaded count. In `Search`, at most three eighths of the trials are spent on exploring,
   * unless no valid program is found. */
  static constexpr const char* explore_trials = "explore_trials";
  /*! \brief The number of programs to explore by sampling alone, before SketchPolicy's evolutionary
   * search takes part. On CPU, they are those of a larger sample that execute the fewest stores. */
  static constexpr const char* sample_trials = "sample_trials";
  /*! \brief The number of programs to descend from at first, side by side. */
  static constexpr const char* num_starts = "num_starts";
  /*! \brief The longest step along a direction that is tried before a program counts as a
   * minimum. */
  static constexpr const char* radius = "radius";
  /*! \brief Significance level of the test that decides whether a program is faster, where the
   * runner gives at least two samples of the latency. */
  static constexpr const char* p_value = "p_value";
  /*! \brief The relative gain in latency that counts, where the runner gives one sample. */
  static constexpr const char* margin = "margin";
};

/*!
 * \brief The search policy that explores for a while, then descends from the best programs.
 */
class DropletSearchPolicyNode : public SearchPolicyNode {
 public:
  /*! \brief The policy that explores. */
  SearchPolicy explore_policy;
  /*! \brief The cost model that guides the exploration and tells which neighbors to try first. */
  CostModel program_cost_model;

  /*! \brief What the policy does at present: "explore", "descend" or "done". */
  String phase = "explore";
  /*! \brief The number of programs that were explored or preloaded. */
  int num_explored = 0;
  /*! \brief The number of trials spent on descending. */
  int num_descended = 0;
  /*! \brief The number of descents begun. */
  int num_descents = 0;
  /*! \brief The last move that paid of the descent that went on last, in words. */
  String last_move;

  void VisitAttrs(AttrVisitor* v) {
    SearchPolicyNode::VisitAttrs(v);
    v->Visit("explore_policy", &explore_policy);
    v->Visit("program_cost_model", &program_cost_model);
    v->Visit("phase", &phase);
    v->Visit("num_explored", &num_explored);
    v->Visit("num_descended", &num_descended);
    v->Visit("num_descents", &num_descents);
    v->Visit("last_move", &last_move);
  }

  State Search(int num_measure_trials, int early_stopping, int num_measures_per_round,
               ProgramMeasurer measurer) final;

  std::pair<Array<MeasureInput>, Array<MeasureResult>> ContinueSearchOneRound(
      int num_measure, ProgramMeasurer measurer) final;

  static constexpr const char* _type_key = "auto_scheduler.DropletSearchPolicy";

  TVM_DECLARE_FINAL_OBJECT_INFO(DropletSearchPolicyNode, SearchPolicyNode);

 private:
  /*! \brief Measured programs with their results. */
  struct Trials {
    Array<MeasureInput> inputs;
    Array<MeasureResult> results;

    int size() const { return static_cast<int>(inputs.size()); }
    void Append(const Trials& other);
  };

  /*! \brief What is known about a program. */
  struct Measured {
    State state;
    /*! \brief The latencies in seconds. Empty if all measurements failed. */
    std::vector<double> costs;
  };

  /*! \brief Remember the outcomes that a log has of this task, every sample of them: more than
   * PreloadMeasuredStates leaves in the base class, and enough not to measure anything again but
   * failures that may be those of the device. */
  void RememberRecords(const String& log_file);

  /*! \brief Take the next step of the search.
   * \return At most `num_measure` trials. None if nothing is left to try. */
  Trials Step(int num_measure, const ProgramMeasurer& measurer);
  /*! \brief Count the successive errors, and end the search when there are too many. */
  void CountErrors(const Trials& trials, const ProgramMeasurer& measurer);
  bool HasTooManyErrors(const ProgramMeasurer& measurer) const;
  /*! \brief Say why, as the task scheduler gives up a task without a program that runs. */
  void WarnIfNoneRuns(const ProgramMeasurer& measurer) const;

  /*! \brief Whether the next trials belong to the exploring policy. */
  bool ShouldExplore() const;
  Trials Explore(int num_measure, const ProgramMeasurer& measurer);
  /*! \brief Let the policy's own SketchPolicy measure what it samples, without evolving it: on CPU,
   * the programs that execute the fewest stores. */
  Trials Sample(int num_measure, const ProgramMeasurer& measurer);

  Trials Descend(int num_measure, const ProgramMeasurer& measurer);
  /*! \brief Begin descents from the best programs, few of which share a structure. */
  void BeginDescents();
  /*! \brief Try the parameters of a descent's best program in the other structures, and begin
   * descents where that comes close, and lower than the descents that were there before. */
  Trials CarryOver(const ScheduleDescent& descent, int num_measure,
                   const ProgramMeasurer& measurer);
  /*! \brief The lowest latency that a descent in a structure came to, in seconds. */
  double LowestCostIn(const std::string& structure) const;
  /*! \brief Go on with the descent of the given index. */
  Trials GoOn(size_t number, int num_measure, const ProgramMeasurer& measurer);
  void BeginDescent(const ScheduleCoordinates& coordinates, const std::string& program,
                    const std::vector<double>& costs);
  /*! \brief The index of the descent to go on with: one that has not begun, otherwise that with
   * the best program. Nothing if all have converged. */
  std::optional<size_t> ChooseDescent() const;
  /*! \brief Measure programs of a descent and remember the outcomes. */
  Trials Measure(const std::vector<Candidate>& candidates, const ProgramMeasurer& measurer);

  /*! \brief Remember the outcome of a trial. \return Whether the program was not known before. */
  bool Remember(const std::string& program, const State& state, const MeasureResult& result);
  void UpdateCostModel();
  void PrintProgress(size_t number) const;

  std::mt19937 rand_gen_;
  CoordinateDescentOptions descent_options_;
  int max_explore_trials_;
  /*! \brief The number of programs to explore by sampling alone. */
  int sample_trials_ = 0;
  int max_starts_;
  /*! \brief The parameters of the exploring SketchPolicy, which bound the descents too. */
  Map<String, ObjectRef> sketch_params_;

  /*! \brief The number of programs explored at which the current search stops exploring. */
  int explore_budget_;
  /*! \brief The number of successive rounds in which the exploring policy found nothing new, and
   * how many of them are taken before it counts as having nothing left. */
  int num_fruitless_rounds_ = 0;
  int max_fruitless_rounds_ = 0;
  /*! \brief The number of successive trials that failed. That of the measurer is not set until
   * somebody resets it. */
  int num_errors_in_a_row_ = 0;
  /*! \brief The message of the trial that failed last. */
  String last_error_;
  /*! \brief All measured programs, by their printed loop structure. */
  std::unordered_map<std::string, Measured> measured_;
  State best_state_;
  double best_cost_ = std::numeric_limits<double>::infinity();
  /*! \brief The best explored program of each structure. */
  std::vector<ScheduleCoordinates> structures_;
  /*! \brief The descents of the current search. */
  std::vector<std::unique_ptr<ScheduleDescent>> descents_;
  /*! \brief Whether the exploring policy trains the cost model with what it measures. */
  bool explorer_trains_model_ = false;
  /*! \brief Whether the exploring policy is at work, or was interrupted. */
  bool is_exploring_ = false;
  /*! \brief Trials that the cost model has not learned from yet. */
  Trials unlearned_;

  friend class DropletSearchPolicy;
};

/*!
 * \brief Managed reference to DropletSearchPolicyNode.
 * \sa DropletSearchPolicyNode
 */
class DropletSearchPolicy : public SearchPolicy {
 public:
  /*!
   * \brief The constructor.
   * \param task The SearchTask for the computation declaration.
   * \param program_cost_model The cost model for complete programs. By default that of the
   * exploring policy if it is a SketchPolicy, otherwise a RandomModel.
   * \param params The parameters map for this search process.
   * \param explore_policy The policy that explores, for the same task. By default a SketchPolicy
   * with the given cost model and parameters.
   * \param seed The random seed of this search process.
   * \param verbose Verbose level. 0 for silent, 1 to output information during schedule search.
   * \param init_search_callbacks SearchCallback to be called before schedule search.
   */
  DropletSearchPolicy(SearchTask task, Optional<CostModel> program_cost_model,
                      Map<String, ObjectRef> params, Optional<SearchPolicy> explore_policy,
                      int seed, int verbose, Optional<Array<SearchCallback>> init_search_callbacks);

  TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(DropletSearchPolicy, SearchPolicy, DropletSearchPolicyNode);
};

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_DROPLET_SEARCH_POLICY_H_
