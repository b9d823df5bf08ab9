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
 * \file auto_scheduler/search_policy/droplet_search_policy.cc
 * \brief This search policy explores with another policy for a while and then exploits the best
 * program that was measured: it descends along the coordinates of its schedule.
 */

#include "droplet_search_policy.h"

#include <tvm/auto_scheduler/measure_record.h>
#include <tvm/runtime/container/boxed_primitive.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <tuple>
#include <utility>

#include "sketch_policy.h"
#include "store_count_model.h"
#include "utils.h"
#include "welch_t_test.h"

namespace tvm {
namespace auto_scheduler {

TVM_REGISTER_NODE_TYPE(DropletSearchPolicyNode);

namespace {

ObjectRef GetParam(const Map<String, ObjectRef>& params, const char* key) {
  auto param = params.find(key);
  CHECK(param != params.end()) << "ValueError: The parameter \"" << key << "\" is missing";
  return (*param).second;
}

int GetIntParamAtLeast(const Map<String, ObjectRef>& params, const char* key, int minimum) {
  const ObjectRef param = GetParam(params, key);
  const auto* value = param.as<runtime::Int::ContainerType>();
  CHECK(value) << "ValueError: The parameter \"" << key << "\" must be an integer, but it is "
               << param;
  CHECK(value->value >= minimum && value->value <= std::numeric_limits<int>::max())
      << "ValueError: The parameter \"" << key << "\" must be at least " << minimum
      << " and fit 32 bits, but it is " << value->value;
  return static_cast<int>(value->value);
}

double GetFractionParam(const Map<String, ObjectRef>& params, const char* key, bool allow_zero) {
  const ObjectRef param = GetParam(params, key);
  double value;
  if (const auto* number = param.as<runtime::Float::ContainerType>()) {
    value = number->value;
  } else if (const auto* number = param.as<runtime::Int::ContainerType>()) {
    value = static_cast<double>(number->value);
  } else {
    LOG(FATAL) << "ValueError: The parameter \"" << key << "\" must be a number, but it is "
               << param;
  }
  const bool in_range = (value > 0 || (allow_zero && value == 0)) && value < 1;
  CHECK(in_range) << "ValueError: The parameter \"" << key << "\" must be "
                  << (allow_zero ? "at least 0" : "above 0") << " and below 1, but it is " << value;
  return value;
}

/*! \brief Whether a program failed as it also does where its device is gone or stuck. Records do
 * not hold the messages that would tell. */
bool MayBeFaultOfDevice(const MeasureResult& result) {
  switch (static_cast<MeasureErrorNO>(result->error_no)) {
    case MeasureErrorNO::kCompileDeviceError:
    case MeasureErrorNO::kRuntimeDeviceError:
    case MeasureErrorNO::kRunTimeoutError:
    case MeasureErrorNO::kUnknownError:
      return true;
    default:
      return false;
  }
}

/*! \brief The measured latencies in seconds. Empty if the measurement failed. */
std::vector<double> GetCosts(const MeasureResult& result) {
  std::vector<double> costs;
  if (result->error_no == static_cast<int>(MeasureErrorNO::kNoError)) {
    for (const PrimExpr& cost : result->costs) {
      costs.push_back(Downcast<FloatImm>(cost)->value);
      if (!std::isfinite(costs.back())) {
        return {};
      }
    }
  }
  return costs;
}

/*! \brief Another value of a variable as long as this object lives. */
template <typename T>
class TemporaryValue {
 public:
  TemporaryValue(T* variable, T value) : variable_(variable), original_(*variable) {
    *variable = std::move(value);
  }
  ~TemporaryValue() { *variable_ = original_; }

 private:
  T* variable_;
  const T original_;
};

void CheckExplorePolicy(const SearchPolicy& explore_policy, const SearchTask& task,
                        const Optional<Array<SearchCallback>>& callbacks) {
  const SearchTask& explored = explore_policy->search_task;
  CHECK(explored->workload_key == task->workload_key &&
        explored->target->str() == task->target->str())
      << "ValueError: explore_policy searches the task " << explored->workload_key << " on "
      << explored->target->str() << ", but the policy to be made searches the task "
      << task->workload_key << " on " << task->target->str();
  for (const SearchCallback& callback : callbacks.value_or({})) {
    CHECK(!callback->IsInstance<PreloadCustomSketchRuleNode>())
        << "ValueError: Give PreloadCustomSketchRule to the explore_policy itself: its rules are "
           "fixed when it is made";
  }
}

}  // namespace

DropletSearchPolicy::DropletSearchPolicy(SearchTask task, Optional<CostModel> program_cost_model,
                                         Map<String, ObjectRef> params,
                                         Optional<SearchPolicy> explore_policy, int seed,
                                         int verbose,
                                         Optional<Array<SearchCallback>> init_search_callbacks) {
  auto node = make_object<DropletSearchPolicyNode>();
  node->max_explore_trials_ = GetIntParamAtLeast(params, DropletParamKey::explore_trials, 0);
  node->max_starts_ = GetIntParamAtLeast(params, DropletParamKey::num_starts, 1);
  node->descent_options_.radius = GetIntParamAtLeast(params, DropletParamKey::radius, 1);
  node->descent_options_.p_value = GetFractionParam(params, DropletParamKey::p_value, false);
  node->descent_options_.margin = GetFractionParam(params, DropletParamKey::margin, true);
  node->explore_budget_ = node->max_explore_trials_;

  if (explore_policy) {
    CheckExplorePolicy(explore_policy.value(), task, init_search_callbacks);
    node->explore_policy = explore_policy.value();
    node->explore_policy->RunCallbacks(init_search_callbacks.value_or({}));
  } else {
    node->explore_policy = SketchPolicy(task, program_cost_model.value_or(RandomModel()), params,
                                        seed, verbose, init_search_callbacks);
    node->sample_trials_ = GetIntParamAtLeast(params, DropletParamKey::sample_trials, 0);
  }
  node->program_cost_model = program_cost_model.value_or(RandomModel());
  if (const auto* sketch_policy = node->explore_policy.as<SketchPolicyNode>()) {
    node->program_cost_model = program_cost_model.value_or(sketch_policy->program_cost_model);
    node->explorer_trains_model_ =
        node->program_cost_model.same_as(sketch_policy->program_cost_model);
    node->sketch_params_ = sketch_policy->params;
    node->max_fruitless_rounds_ =
        GetIntParamAtLeast(sketch_policy->params, SketchParamKey::empty_retry_count, 0);
  }

  node->search_task = std::move(task);
  node->rand_gen_ = std::mt19937(seed);
  node->verbose = verbose;
  for (const SearchCallback& callback : init_search_callbacks.value_or({})) {
    if (const auto* preload = callback.as<PreloadMeasuredStatesNode>()) {
      node->RememberRecords(preload->filename);
    }
  }
  CHECK(node->max_explore_trials_ > 0 || node->best_state_.defined())
      << "ValueError: There is nothing to descend from: the parameter \""
      << DropletParamKey::explore_trials
      << "\" is 0, and no valid program of this task was preloaded. Allow trials to explore, or "
         "give PreloadMeasuredStates a log that has records of the task on "
      << node->search_task->target->str();
  data_ = std::move(node);
}

void DropletSearchPolicyNode::Trials::Append(const Trials& other) {
  inputs.insert(inputs.end(), other.inputs.begin(), other.inputs.end());
  results.insert(results.end(), other.results.begin(), other.results.end());
}

State DropletSearchPolicyNode::Search(int num_measure_trials, int early_stopping,
                                      int num_measures_per_round, ProgramMeasurer measurer) {
  if (num_measure_trials <= 1) {
    // No measurement is allowed
    return best_state_.defined() ? best_state_
                                 : explore_policy->Search(num_measure_trials, early_stopping,
                                                          num_measures_per_round, measurer);
  }
  if (early_stopping < 0) {
    early_stopping = std::numeric_limits<int>::max() >> 1;
  }
  const String& workload_key = search_task->workload_key;
  explore_budget_ =
      std::min<int64_t>(max_explore_trials_, num_explored + (num_measure_trials * 3LL + 7) / 8);
  // Descend anew from the best programs: what an earlier search measured is not measured again.
  descents_.clear();
  measurer->Reset();
  num_errors_in_a_row_ = 0;

  int ct = 0;
  while (ct < num_measure_trials && !HasTooManyErrors(measurer)) {
    const int num_trials =
        Step(std::min(num_measures_per_round, num_measure_trials - ct), measurer).size();
    if (num_trials == 0) {
      StdCout(verbose) << (best_state_.defined() ? "The search has converged: "
                                                 : "No program that runs was found: ")
                       << num_measure_trials - ct << " of " << num_measure_trials
                       << " trials are not needed." << std::endl;
      break;
    }
    ct += num_trials;
    if (ct - measurer->best_ct[workload_key] > early_stopping &&
        measurer->has_valid.count(workload_key)) {
      StdCout(verbose) << "Stop early since no performance improvement in the last "
                       << early_stopping << " measurements trials.\n";
      break;
    }
  }
  UpdateCostModel();
  WarnIfNoneRuns(measurer);
  PrintTitle("Done", verbose);
  return best_state_;
}

std::pair<Array<MeasureInput>, Array<MeasureResult>>
DropletSearchPolicyNode::ContinueSearchOneRound(int num_measure, ProgramMeasurer measurer) {
  explore_budget_ = max_explore_trials_;
  Trials round;
  while (round.size() < num_measure && !HasTooManyErrors(measurer)) {
    const Trials step = Step(num_measure - round.size(), measurer);
    if (step.size() == 0) {
      break;
    }
    round.Append(step);
  }
  UpdateCostModel();
  WarnIfNoneRuns(measurer);
  return {round.inputs, round.results};
}

void DropletSearchPolicyNode::RememberRecords(const String& log_file) {
  const auto [inputs, results] = RecordReader(log_file)->ReadLines(-1);
  Array<State> states;
  std::vector<MeasureResult> state_results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SearchTask& task = inputs[i]->task;
    // SketchPolicy takes records of any target of the same kind, as it measures their like again.
    // Here a latency decides for itself, so it has to be from the same target.
    if (task->workload_key == search_task->workload_key &&
        task->target->str() == search_task->target->str() && !MayBeFaultOfDevice(results[i])) {
      states.push_back(inputs[i]->state);
      state_results.push_back(results[i]);
    }
  }
  // A recorded state holds steps only, which bound inference replays.
  states = search_task->compute_dag.InferBound(states);
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].defined() && Remember(states[i].ToStr(), states[i], state_results[i])) {
      ++num_explored;
    }
  }
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::Step(int num_measure,
                                                              const ProgramMeasurer& measurer) {
  Trials trials;
  while (trials.size() == 0 && ShouldExplore()) {
    phase = "explore";
    trials = Explore(num_measure, measurer);
  }
  if (trials.size() == 0) {
    phase = "descend";
    trials = Descend(num_measure, measurer);
  }
  if (trials.size() == 0) {
    phase = "done";
  }
  CountErrors(trials, measurer);
  return trials;
}

void DropletSearchPolicyNode::CountErrors(const Trials& trials, const ProgramMeasurer& measurer) {
  for (const MeasureResult& result : trials.results) {
    const bool has_run = result->error_no == static_cast<int>(MeasureErrorNO::kNoError);
    num_errors_in_a_row_ = has_run ? 0 : num_errors_in_a_row_ + 1;
    last_error_ = has_run ? last_error_ : result->error_msg;
  }
  if (HasTooManyErrors(measurer)) {
    phase = "done";
    LOG(WARNING) << "The search ends: the last " << num_errors_in_a_row_
                 << " programs have failed, more than max_continuous_error of the measurer. The "
                    "last error is: "
                 << last_error_;
  }
}

void DropletSearchPolicyNode::WarnIfNoneRuns(const ProgramMeasurer& measurer) const {
  // Too many errors have had their warning.
  if (!best_state_.defined() && num_errors_in_a_row_ > 0 && !HasTooManyErrors(measurer)) {
    LOG(WARNING) << "None of the " << num_errors_in_a_row_
                 << " programs measured so far has run, with the target "
                 << search_task->target->str() << ". The last error is: " << last_error_;
  }
}

bool DropletSearchPolicyNode::HasTooManyErrors(const ProgramMeasurer& measurer) const {
  return num_errors_in_a_row_ > measurer->max_continuous_error;
}

bool DropletSearchPolicyNode::ShouldExplore() const {
  // Without any valid program there is nothing to descend from, so go on looking for one.
  return num_fruitless_rounds_ <= max_fruitless_rounds_ &&
         (num_explored < explore_budget_ || !best_state_.defined());
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::Explore(int num_measure,
                                                                 const ProgramMeasurer& measurer) {
  if (num_explored < explore_budget_) {
    num_measure = std::min(num_measure, explore_budget_ - num_explored);
  }
  // SketchPolicy counts on every program that it proposed having been measured.
  CHECK(!is_exploring_) << "An earlier search was interrupted while it explored, and cannot go on. "
                           "Make a new policy, and let PreloadMeasuredStates read the log";
  is_exploring_ = true;
  explore_policy->verbose = verbose;
  Trials trials;
  if (num_explored < sample_trials_) {
    trials = Sample(std::min(num_measure, sample_trials_ - num_explored), measurer);
  } else {
    std::tie(trials.inputs, trials.results) =
        explore_policy->ContinueSearchOneRound(num_measure, measurer);
  }
  is_exploring_ = false;
  bool found_new = false;
  for (int i = 0; i < trials.size(); ++i) {
    const State& state = trials.inputs[i]->state;
    found_new |= Remember(state.ToStr(), state, trials.results[i]);
  }
  num_explored += trials.size();
  if (!explorer_trains_model_) {
    unlearned_.Append(trials);
  }
  num_fruitless_rounds_ = found_new ? 0 : num_fruitless_rounds_ + 1;
  return trials;
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::Sample(int num_measure,
                                                                const ProgramMeasurer& measurer) {
  auto* sketch_policy = static_cast<SketchPolicyNode*>(explore_policy.operator->());
  Map<String, ObjectRef> params = sketch_policy->params;
  params.Set(SketchParamKey::EvolutionarySearch::num_iters, runtime::Int(0));
  const TemporaryValue without_evolution(&sketch_policy->params, params);
  // On a GPU, the learned model also finds out which programs keep to the limits of the device.
  const CostModel model = sketch_policy->program_cost_model;
  const TemporaryValue with_count(&sketch_policy->program_cost_model,
                                  IsGPUTask(search_task) ? model : StoreCountModel(model));
  Trials trials;
  std::tie(trials.inputs, trials.results) =
      explore_policy->ContinueSearchOneRound(num_measure, measurer);
  return trials;
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::Descend(int num_measure,
                                                                 const ProgramMeasurer& measurer) {
  if (descents_.empty()) {
    UpdateCostModel();
    BeginDescents();
  }
  Trials trials;
  while (trials.size() == 0) {
    const std::optional<size_t> chosen = ChooseDescent();
    if (!chosen) {
      break;
    }
    if (descents_[*chosen]->HasStalled()) {
      trials = CarryOver(*descents_[*chosen], num_measure, measurer);
    }
    if (trials.size() == 0) {
      trials = GoOn(*chosen, num_measure, measurer);
    }
    if (trials.size() == 0) {
      // It has converged just now, maybe without having stalled at its last program.
      trials = CarryOver(*descents_[*chosen], num_measure, measurer);
    }
  }
  return trials;
}

void DropletSearchPolicyNode::BeginDescents() {
  // Programs of one structure often lead to the same minimum.
  constexpr int kMaxStartsOfStructure = 2;
  // To read the coordinates of all programs of a long log would take long.
  constexpr size_t kMaxPrograms = 256;
  std::vector<std::pair<double, std::string>> programs;
  for (const auto& [program, measured] : measured_) {
    if (!measured.costs.empty()) {
      programs.emplace_back(Mean(measured.costs), program);
    }
  }
  std::sort(programs.begin(), programs.end());
  programs.resize(std::min(programs.size(), kMaxPrograms));
  if (!programs.empty()) {
    PrintTitle("Descend", verbose);
  }
  structures_.clear();
  std::unordered_map<std::string, int> num_seen;
  for (const auto& [cost, program] : programs) {
    const Measured& start = measured_.at(program);
    const ScheduleCoordinates coordinates(search_task, start.state, sketch_params_);
    const int rank = num_seen[coordinates->structure()]++;
    if (rank == 0) {
      structures_.push_back(coordinates);
    }
    if (rank < kMaxStartsOfStructure && static_cast<int>(descents_.size()) < max_starts_) {
      BeginDescent(coordinates, program, start.costs);
    }
  }
}

void DropletSearchPolicyNode::BeginDescent(const ScheduleCoordinates& coordinates,
                                           const std::string& program,
                                           const std::vector<double>& costs) {
  descents_.push_back(std::make_unique<ScheduleDescent>(search_task, program_cost_model,
                                                        DescentStart{coordinates, program, costs},
                                                        descent_options_, rand_gen_()));
  ++num_descents;
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::CarryOver(
    const ScheduleDescent& descent, int num_measure, const ProgramMeasurer& measurer) {
  // A program that takes longer than that is not worth a descent.
  constexpr double kMaxLoss = 0.05;
  const ScheduleCoordinates& coordinates = descent.coordinates();
  std::vector<Candidate> candidates;
  for (const ScheduleCoordinates& other : structures_) {
    if (static_cast<int>(candidates.size()) == num_measure) {
      break;
    }
    if (other->structure() == coordinates->structure()) {
      continue;
    }
    const Point point = other->Adopt(*coordinates.operator->(), descent.best());
    const State state = other->StateAt(point);
    if (state.defined() && !measured_.count(state.ToStr()) && IsWithinLimits(search_task, state)) {
      candidates.push_back({point, state, state.ToStr()});
    }
  }
  if (candidates.empty()) {
    return Trials();
  }
  const double cost_limit = descent.lowest_cost() * (1 + kMaxLoss);
  const Trials trials = Measure(candidates, measurer);
  for (int i = 0; i < trials.size(); ++i) {
    const std::vector<double> costs = GetCosts(trials.results[i]);
    if (!costs.empty() && Mean(costs) < cost_limit) {
      const ScheduleCoordinates start(search_task, candidates[i].state, sketch_params_);
      if (Mean(costs) < LowestCostIn(start->structure())) {
        BeginDescent(start, candidates[i].program, costs);
      }
    }
  }
  return trials;
}

double DropletSearchPolicyNode::LowestCostIn(const std::string& structure) const {
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& descent : descents_) {
    if (descent->coordinates()->structure() == structure) {
      lowest = std::min(lowest, descent->lowest_cost());
    }
  }
  return lowest;
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::GoOn(size_t number, int num_measure,
                                                              const ProgramMeasurer& measurer) {
  // Large batches would be spent on guesses: what a batch tells decides what to try next. In small
  // ones, starting the processes that build and run takes most of the time.
  constexpr int kMinBatchSize = 8;
  constexpr int kMaxBatchSize = 16;
  const int batch_size = std::min(
      num_measure, std::clamp(measurer->builder->n_parallel * 2, kMinBatchSize, kMaxBatchSize));
  ScheduleDescent* descent = descents_[number].get();
  const std::vector<Candidate> candidates =
      descent->Propose(batch_size, [this](const std::string& program) {
        const auto known = measured_.find(program);
        return known == measured_.end() ? nullptr : &known->second.costs;
      });
  if (candidates.empty()) {
    return Trials();
  }
  const Trials trials = Measure(candidates, measurer);
  std::vector<std::vector<double>> costs;
  for (const MeasureResult& result : trials.results) {
    costs.push_back(GetCosts(result));
  }
  descent->Learn(candidates, costs);
  last_move = descent->last_move();
  PrintProgress(number);
  return trials;
}

std::optional<size_t> DropletSearchPolicyNode::ChooseDescent() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < descents_.size(); ++i) {
    if (descents_[i]->HasConverged()) {
      continue;
    }
    if (!descents_[i]->HasBegun()) {
      return i;
    }
    if (!best || descents_[i]->lowest_cost() < descents_[*best]->lowest_cost()) {
      best = i;
    }
  }
  return best;
}

DropletSearchPolicyNode::Trials DropletSearchPolicyNode::Measure(
    const std::vector<Candidate>& candidates, const ProgramMeasurer& measurer) {
  Trials trials;
  for (const Candidate& candidate : candidates) {
    trials.inputs.push_back(MeasureInput(search_task, candidate.state));
  }
  trials.results = measurer->Measure(search_task, GetRef<SearchPolicy>(this), trials.inputs,
                                     static_cast<int>(trials.inputs.size()));
  for (int i = 0; i < trials.size(); ++i) {
    Remember(candidates[i].program, candidates[i].state, trials.results[i]);
  }
  num_descended += trials.size();
  unlearned_.Append(trials);
  return trials;
}

bool DropletSearchPolicyNode::Remember(const std::string& program, const State& state,
                                       const MeasureResult& result) {
  const std::vector<double> costs = GetCosts(result);
  const auto [known, is_new] = measured_.emplace(program, Measured());
  known->second.state = state;
  known->second.costs.insert(known->second.costs.end(), costs.begin(), costs.end());
  if (!costs.empty() && Mean(costs) < best_cost_) {
    best_cost_ = Mean(costs);
    best_state_ = state;
  }
  return is_new;
}

void DropletSearchPolicyNode::UpdateCostModel() {
  if (unlearned_.size() == 0) {
    return;
  }
  auto t_begin = std::chrono::high_resolution_clock::now();
  PrintTitle("Train cost model", verbose);
  program_cost_model->Update(unlearned_.inputs, unlearned_.results);
  unlearned_ = Trials();
  for (const auto& descent : descents_) {
    descent->ConsultModel();
  }
  PrintTimeElapsed(t_begin, "training", verbose);
}

void DropletSearchPolicyNode::PrintProgress(size_t number) const {
  StdCout(verbose) << "Descent " << number + 1 << "\t#Trials: " << num_descended << std::fixed
                   << std::setprecision(4) << "\tBest: " << best_cost_ * 1e3 << " ms"
                   << "\tLast move: " << (last_move.empty() ? "none" : last_move) << std::endl;
}

TVM_REGISTER_GLOBAL("auto_scheduler.DropletSearchPolicy")
    .set_body_typed([](SearchTask task, Optional<CostModel> program_cost_model,
                       Map<String, ObjectRef> params, Optional<SearchPolicy> explore_policy,
                       int seed, int verbose,
                       Optional<Array<SearchCallback>> init_search_callbacks) {
      return DropletSearchPolicy(task, program_cost_model, params, explore_policy, seed, verbose,
                                 init_search_callbacks);
    });

}  // namespace auto_scheduler
}  // namespace tvm
