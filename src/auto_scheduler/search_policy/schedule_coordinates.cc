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
 * \file auto_scheduler/search_policy/schedule_coordinates.cc
 * \brief The parameters of a schedule as integer coordinates, for a search that moves them.
 */

#include "schedule_coordinates.h"

#include <tvm/auto_scheduler/compute_dag.h>
#include <tvm/runtime/registry.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "coordinate_descent_ffi.h"
#include "sketch_policy.h"
#include "utils.h"

namespace tvm {
namespace auto_scheduler {

TVM_REGISTER_OBJECT_TYPE(ScheduleCoordinatesNode);

namespace {

constexpr const char* kAutoUnroll = "auto_unroll_max_step";

/********** Numbers **********/

std::vector<int> PrimeFactors(int64_t n) {
  std::vector<int> primes;
  for (int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) {
      primes.push_back(static_cast<int>(p));
      while (n % p == 0) n /= p;
    }
  }
  if (n > 1) {
    primes.push_back(static_cast<int>(n));
  }
  return primes;
}

int Exponent(int64_t n, int prime) {
  int exponent = 0;
  for (; n % prime == 0; n /= prime) ++exponent;
  return exponent;
}

int FloorLog(int64_t n, int base) {
  int log = 0;
  for (; n >= base; n /= base) ++log;
  return log;
}

std::string ToString(const std::vector<int64_t>& values) {
  std::ostringstream os;
  for (size_t i = 0; i < values.size(); ++i) {
    os << (i == 0 ? "[" : ", ") << values[i];
  }
  return os.str() + "]";
}

/*! \brief The name of a parameter, less what CacheWriteStep adds to those of stages and axes. */
std::string WithoutCache(std::string name) {
  for (const std::string suffix : {".local", "_c"}) {
    for (size_t i = name.find(suffix); i != std::string::npos; i = name.find(suffix, i)) {
      name.erase(i, suffix.size());
    }
  }
  return name;
}

/********** Steps **********/

bool IsLocationStep(const Step& step) {
  return step->IsInstance<ComputeAtStepNode>() || step->IsInstance<ComputeRootStepNode>() ||
         step->IsInstance<ComputeInlineStepNode>();
}

bool IsAnnotationStep(const Step& step) {
  return step->IsInstance<FuseStepNode>() || step->IsInstance<AnnotationStepNode>() ||
         step->IsInstance<PragmaStepNode>();
}

bool IsUnrollStep(const Step& step) {
  const auto* pragma = step.as<PragmaStepNode>();
  return pragma && StrStartsWith(pragma->pragma_type, kAutoUnroll);
}

int UnrollValue(const PragmaStepNode& pragma) {
  const std::string text = pragma.pragma_type;
  return std::stoi(text.substr(text.find('$') + 1));
}

SplitStep WithLengths(const SplitStepNode& split, const std::vector<int64_t>& lengths) {
  Array<Optional<Integer>> factors;
  for (int64_t length : lengths) {
    factors.push_back(Integer(static_cast<int>(length)));
  }
  return SplitStep(split.stage_id, split.iter_id, split.extent, factors, split.inner_to_outer);
}

int IterId(const Step& step) {
  const auto* annotation = step.as<AnnotationStepNode>();
  return annotation ? annotation->iter_id : step.as<PragmaStepNode>()->iter_id;
}

Step WithIterId(const Step& step, int iter_id) {
  if (IterId(step) == iter_id) {
    return step;
  }
  if (const auto* annotation = step.as<AnnotationStepNode>()) {
    return AnnotationStep(step->stage_id, iter_id, annotation->annotation);
  }
  return PragmaStep(step->stage_id, iter_id, step.as<PragmaStepNode>()->pragma_type);
}

/*! \brief How the innermost loop of a split is annotated by the steps that follow the split. */
IteratorAnnotation InnermostAnnotation(const std::vector<Step>& steps, int split_id) {
  const auto* split = steps[split_id].as<SplitStepNode>();
  const int innermost = split->iter_id + static_cast<int>(split->lengths.size());
  for (size_t i = split_id + 1; i < steps.size(); ++i) {
    const auto* annotation = steps[i].as<AnnotationStepNode>();
    if (IsStageNumberChangingStep(steps[i]) ||
        (steps[i]->stage_id == split->stage_id && !annotation)) {
      break;  // Stages or loops are numbered differently from here.
    }
    if (steps[i]->stage_id == split->stage_id && annotation->iter_id == innermost) {
      return annotation->annotation;
    }
  }
  return IteratorAnnotation::kNone;
}

void WriteStep(const Step& step, std::ostream* os) {
  dmlc::JSONWriter writer(os);
  writer.BeginArray(false);
  step->WriteToRecord(&writer);
  writer.EndArray();
}

void Apply(const Step& step, const SearchTask& task, State* state) {
  state->CopyOnWrite()->transform_steps.push_back(step);
  StepApplyToState(step, state, task->compute_dag);
}

/********** Loops **********/

bool HasAttachedStage(const State& state, int stage_id, int iter_id) {
  return state->attach_map->iter_to_attached_stages.count({stage_id, iter_id});
}

bool HasAttachedStage(const State& state, int stage_id) {
  for (size_t i = 0; i < state->stages[stage_id]->iters.size(); ++i) {
    if (HasAttachedStage(state, stage_id, i)) {
      return true;
    }
  }
  return false;
}

/*! \brief The extent of the axis with the given name, -1 if it is no constant. */
int64_t AxisExtent(const Stage& stage, const std::string& name) {
  for (const tir::IterVar& axis : stage->op.as<te::ComputeOpNode>()->axis) {
    const auto* extent = axis->dom->extent.as<IntImmNode>();
    if (extent && CleanName(axis->var->name_hint) == name) {
      return extent->value;
    }
  }
  return -1;
}

/*! \brief Whether a loop runs once, as far as this is known before bounds are inferred. */
bool IsTrivial(const Stage& stage, int iter_id) {
  const Iterator& it = stage->iters[iter_id];
  return (it->range.defined() ? GetExtent(it) : AxisExtent(stage, it->name)) == 1;
}

/*! \brief Whether a loop runs once whatever the tile sizes are. */
bool IsAlwaysTrivial(const Stage& stage, int iter_id) {
  std::set<std::string> axes;
  ExtractOriginalIterators(stage->iters[iter_id]->name, &axes);
  return std::all_of(axes.begin(), axes.end(),
                     [&](const std::string& axis) { return AxisExtent(stage, axis) == 1; });
}

int CountOuterLoops(const Stage& stage, int num_loops,
                    const std::function<bool(const Stage&, int)>& is_trivial) {
  int count = 0;
  for (int i = 0; i < num_loops; ++i) {
    count += !is_trivial(stage, i);
  }
  return count;
}

bool IsPlainSpatial(const Iterator& it) {
  return it->iter_kind == IteratorKind::kSpatial && it->annotation == IteratorAnnotation::kNone;
}

/*! \brief The number of outer loops that can be parallel, as far as the stage alone decides. */
int NumOuterLoops(const Stage& stage) {
  const auto& iters = stage->iters;
  return std::find_if_not(iters.begin(), iters.end(), IsPlainSpatial) - iters.begin();
}

/*! \brief Like NumOuterLoops, but not beyond a loop that another stage is computed in. */
int NumFusibleOuterLoops(const State& state, int stage_id) {
  const int num_loops = NumOuterLoops(state->stages[stage_id]);
  for (int i = 0; i + 1 < num_loops; ++i) {
    if (HasAttachedStage(state, stage_id, i)) {
      return i + 1;
    }
  }
  return num_loops;
}

/*! \brief The number of inner loops that can be vectorized, as far as the stage alone decides. */
int NumInnerLoops(const Stage& stage) {
  const int num_iters = static_cast<int>(stage->iters.size());
  int count = 0;
  while (count < num_iters && IsPlainSpatial(stage->iters[num_iters - 1 - count])) {
    ++count;
  }
  // Next to the innermost loop of a tiled stage is one of another axis: its memory is far away.
  return IsTiled(stage) ? std::min(count, 1) : count;
}

/*! \brief Like NumInnerLoops, but without loops that another stage is computed in. */
int NumFusibleInnerLoops(const State& state, int stage_id) {
  const Stage& stage = state->stages[stage_id];
  const int num_loops = NumInnerLoops(stage);
  for (int i = 0; i < num_loops; ++i) {
    if (HasAttachedStage(state, stage_id, static_cast<int>(stage->iters.size()) - 1 - i)) {
      return i;
    }
  }
  return num_loops;
}

/*! \brief How many loops of a stage that is not tiled SketchPolicy makes parallel at root. */
int DefaultNumParallel(const SearchTask& task, const Stage& stage) {
  const int num_loops = NumOuterLoops(stage);
  int64_t degree = 1;
  int count = 0;
  for (int i = 0; i < num_loops && degree <= task->hardware_params->num_cores * 16; ++i) {
    const int64_t extent = AxisExtent(stage, stage->iters[i]->name);
    degree *= std::max<int64_t>(extent, 1);
    count += extent != 1;
  }
  return count;
}

/*! \brief The length of the vectors of a stage, 0 if it has none. */
int64_t VectorLength(const Stage& stage) {
  for (const Iterator& it : stage->iters) {
    if (it->annotation == IteratorAnnotation::kVectorize) {
      return GetExtent(it);
    }
  }
  return 0;
}

/********** Validity **********/

int CountParallel(const Stage& stage, size_t num_iters) {
  return std::count_if(
      stage->iters.begin(), stage->iters.begin() + num_iters,
      [](const Iterator& it) { return it->annotation == IteratorAnnotation::kParallel; });
}

bool HasParallelInParallel(const State& state) {
  const auto& attached_to = state->attach_map->stage_to_attach_iter;
  for (size_t i = 0; i < state->stages.size(); ++i) {
    if (state->stages[i]->compute_at == ComputeAtKind::kInlined) {
      continue;
    }
    int count = CountParallel(state->stages[i], state->stages[i]->iters.size());
    for (auto it = attached_to.find(i); it != attached_to.end();
         it = attached_to.find(it->second.first)) {
      count += CountParallel(state->stages[it->second.first], it->second.second + 1);
    }
    if (count > 1) {
      return true;
    }
  }
  return false;
}

bool HasTooManyThreads(const State& state, const HardwareParams& hardware) {
  for (const Stage& stage : state->stages) {
    int64_t num_threads = 1;
    for (const Iterator& it : stage->iters) {
      if (it->annotation == IteratorAnnotation::kThreadX ||
          it->annotation == IteratorAnnotation::kThreadY ||
          it->annotation == IteratorAnnotation::kThreadZ) {
        num_threads *= GetExtent(it);
      } else if (it->annotation == IteratorAnnotation::kVThread &&
                 GetExtent(it) > hardware->max_vthread_extent) {
        return true;
      }
    }
    if (num_threads > hardware->max_threads_per_block) {
      return true;
    }
  }
  return false;
}

bool IsValid(const SearchTask& task, const State& state) {
  return IsGPUTask(task) ? !HasTooManyThreads(state, task->hardware_params)
                         : !HasParallelInParallel(state);
}

bool IsAttachedToInlined(const State& state) {
  const auto& attached_to = state->attach_map->stage_to_attach_iter;
  return std::any_of(attached_to.begin(), attached_to.end(), [&](const auto& attached) {
    return state->stages[attached.second.first]->compute_at == ComputeAtKind::kInlined;
  });
}

/********** Places to compute a stage at **********/

/*! \brief Whether the search decides where the stage is computed, as in SketchPolicy. */
bool CanMove(const SearchTask& task, const State& state, int stage_id) {
  const Stage& stage = state->stages[stage_id];
  const bool is_inlined_by_rule =
      stage->compute_at == ComputeAtKind::kInlined && IsStrictlyInlineable(task, state, stage_id);
  return !is_inlined_by_rule && !IsOutputOp(task, state, stage_id) && !IsTiled(stage) &&
         !NeedsMultilevelTiling(task, state, stage_id);
}

/*! \brief Add a loop to the targets, which are ordered from outer to inner. */
void InsertTarget(const State& bounded, const IterKey& loop, std::vector<IterKey>* targets) {
  auto is_inside = [&](const IterKey& target) {
    return target.first == loop.first && target.second > loop.second;
  };
  auto next = std::find_if(targets->begin(), targets->end(), is_inside);
  if (next != targets->begin() && std::prev(next)->first == loop.first) {
    // Replace the target around the loop if only loops that run once are between: this is the same
    // place.
    const auto iters = bounded->stages[loop.first]->iters.begin();
    if (std::all_of(iters + std::prev(next)->second + 1, iters + loop.second + 1,
                    [](const Iterator& it) { return GetExtent(it) == 1; })) {
      *std::prev(next) = loop;
      return;
    }
  }
  targets->insert(next, loop);
}

/*! \brief The loops of other stages that a stage can be computed in, from outer to inner. */
std::vector<IterKey> LocationTargets(const SearchTask& task, const State& bounded, int stage_id) {
  // The place where the stage is now hides others, so enumerate with the stage at root.
  State at_root = bounded;
  Apply(ComputeRootStep(stage_id), task, &at_root);
  std::vector<IterKey> targets = GetComputeLocationCandidates(task, at_root, stage_id);
  // The loops of the consumer come first, then those of the stage that the consumer is computed in.
  const int consumer = GetSingleConsumerId(task, at_root, stage_id);
  std::stable_partition(targets.begin(), targets.end(),
                        [&](const IterKey& target) { return target.first != consumer; });

  const auto& attached_to = bounded->attach_map->stage_to_attach_iter;
  const auto now = attached_to.find(stage_id);
  if (now != attached_to.end() &&
      std::find(targets.begin(), targets.end(), now->second) == targets.end()) {
    InsertTarget(bounded, now->second, &targets);
  }
  return targets;
}

int GetIntParam(const Map<String, ObjectRef>& params, const char* key, int default_value) {
  return params.count(key) ? auto_scheduler::GetIntParam(params, key) : default_value;
}

}  // namespace

/********** Reading a state **********/

/*! \brief The parameters of SketchPolicy that matter here. */
struct ScheduleCoordinatesNode::Limits {
  explicit Limits(const Map<String, ObjectRef>& params)
      : max_innermost(GetIntParam(params, SketchParamKey::max_innermost_split_factor, 64)),
        max_vector(GetIntParam(params, SketchParamKey::max_vectorize_size, 16)),
        fix_locations(GetIntParam(params, SketchParamKey::disable_change_compute_location, 0)) {}

  int max_innermost;
  int max_vector;
  bool fix_locations;
};

/*! \brief How the loops of each stage are annotated in the state that was read. */
struct ScheduleCoordinatesNode::Annotations {
  explicit Annotations(size_t num_stages)
      : num_parallel(num_stages), fuses_parallel(num_stages), num_vectorized(num_stages) {}

  std::vector<Action> actions;
  /*! \brief The number of loops that are fused in parallel in each stage. */
  std::vector<int> num_parallel;
  /*! \brief Whether there is a step that fuses them. SketchPolicy may also fuse a single loop. */
  std::vector<bool> fuses_parallel;
  std::vector<int> num_vectorized;
};

ScheduleCoordinates::ScheduleCoordinates(SearchTask task, const State& state,
                                         const Map<String, ObjectRef>& params) {
  CHECK(state.defined()) << "ValueError: There is no state to read coordinates from";
  CHECK(state->concrete) << "ValueError: The state has tile sizes that are not defined. Read "
                            "coordinates from a concrete state, such as a sampled one";
  auto node = make_object<ScheduleCoordinatesNode>();
  node->task_ = std::move(task);
  node->steps_ = {state->transform_steps.begin(), state->transform_steps.end()};
  node->Read(ScheduleCoordinatesNode::Limits(params));
  data_ = std::move(node);
}

void ScheduleCoordinatesNode::Read(const Limits& limits) {
  // SketchPolicy first shapes the loops of the stages, then decides where the stages are computed,
  // then annotates the loops.
  const int num_steps = static_cast<int>(steps_.size());
  int annotations_begin = num_steps;
  while (annotations_begin > 0 && IsAnnotationStep(steps_[annotations_begin - 1])) {
    --annotations_begin;
  }
  int locations_begin = annotations_begin;
  while (locations_begin > 0 && IsLocationStep(steps_[locations_begin - 1])) {
    --locations_begin;
  }

  State state = task_->compute_dag->init_state;
  State located = state;
  for (int i = 0; i < num_steps; ++i) {
    if (steps_[i]->IsInstance<SplitStepNode>()) {
      ReadSplit(state, i, limits);
    } else if (IsUnrollStep(steps_[i])) {
      ReadUnroll(state, i);
    }
    Apply(steps_[i], task_, &state);
    actions_.push_back({Action::kStep, steps_[i]->stage_id, i, -1});
    if (i + 1 == annotations_begin) {
      located = state;
    }
  }
  stages_.resize(state->stages.size());
  if (IsCPUTask(task_) && num_steps > 0) {
    ReadStages(state, located, locations_begin, annotations_begin, limits);
  }
  ReadStructure();
}

int ScheduleCoordinatesNode::AddCoordinate(int upper, int value) {
  const int coordinate = static_cast<int>(origin_.size());
  space_.upper.push_back(upper);
  origin_.push_back(value);
  space_.directions.push_back({{coordinate, 1}});
  space_.directions.push_back({{coordinate, -1}});
  return coordinate;
}

void ScheduleCoordinatesNode::AddChoice(int step_id, std::string name, std::vector<int> values,
                                        int value) {
  auto it = std::lower_bound(values.begin(), values.end(), value);
  if (it == values.end() || *it != value) {
    it = values.insert(it, value);
  }
  const int coordinate =
      AddCoordinate(static_cast<int>(values.size()) - 1, static_cast<int>(it - values.begin()));
  choices_.push_back({step_id, std::move(name), std::move(values), coordinate});
}

void ScheduleCoordinatesNode::ReadUnroll(const State& before, int step_id) {
  const auto* pragma = steps_[step_id].as<PragmaStepNode>();
  std::vector<int> values = {0, 16, 64, 512};
  if (IsGPUTask(task_)) {
    values.push_back(1024);
  }
  const std::string& stage_name = before->stages[pragma->stage_id]->op->name;
  AddChoice(step_id, stage_name + " " + kAutoUnroll, std::move(values), UnrollValue(*pragma));
}

void ScheduleCoordinatesNode::ReadSplit(const State& before, int step_id, const Limits& limits) {
  const auto* split = steps_[step_id].as<SplitStepNode>();
  std::vector<int64_t> levels;
  int64_t product = 1;
  for (const Optional<Integer>& length : split->lengths) {
    CHECK(length) << "ValueError: The state has tile sizes that are not defined. Read coordinates "
                     "from a concrete state, such as a sampled one";
    levels.push_back(length.value()->value);
    product *= levels.back();
  }
  const Stage& stage = before->stages[split->stage_id];
  const std::string name = stage->op->name + " " + stage->iters[split->iter_id]->name;
  const IteratorAnnotation innermost = InnermostAnnotation(steps_, step_id);

  if (IsGPUTask(task_) && innermost == IteratorAnnotation::kVectorize && levels.size() == 1) {
    const int max_width =
        task_->hardware_params->vector_unit_bytes / stage->op->output_dtype(0).bytes();
    std::vector<int> widths = {1};
    while (widths.back() * 2 <= max_width) {
      widths.push_back(widths.back() * 2);
    }
    AddChoice(step_id, name + " vector width", std::move(widths), static_cast<int>(levels[0]));
    return;
  }

  const auto* extent = split->extent ? split->extent.value().as<IntImmNode>() : nullptr;
  if (!extent || extent->value <= 1) {
    return;
  }
  const int64_t implied = (extent->value + product - 1) / product;
  levels.insert(split->inner_to_outer ? levels.begin() : levels.end(), implied);
  product *= implied;

  Tiling tiling;
  tiling.step_id = step_id;
  tiling.name = name;
  tiling.primes = PrimeFactors(product);
  tiling.num_levels = static_cast<int>(levels.size());
  tiling.max_innermost = innermost == IteratorAnnotation::kThreadX
                             ? task_->hardware_params->max_threads_per_block
                             : limits.max_innermost;
  tiling.max_innermost = std::max(tiling.max_innermost, levels.back());
  tiling.first_coordinate = static_cast<int>(origin_.size());
  for (int prime : tiling.primes) {
    const int total = Exponent(product, prime);
    tiling.totals.push_back(total);
    const int outermost = static_cast<int>(origin_.size());
    for (int64_t level : levels) {
      origin_.push_back(Exponent(level, prime));
      space_.upper.push_back(total);
    }
    space_.upper.back() = std::min(total, FloorLog(tiling.max_innermost, prime));
    for (int from = 0; from < tiling.num_levels; ++from) {
      for (int to = 0; to < tiling.num_levels; ++to) {
        if (from != to) {
          space_.directions.push_back({{outermost + from, -1}, {outermost + to, 1}});
        }
      }
    }
  }
  tilings_.push_back(std::move(tiling));
}

/*! \return Whether the loops are annotated as SketchPolicy does it. */
bool ScheduleCoordinatesNode::ReadAnnotations(State located, int begin,
                                              Annotations* annotations) const {
  const int num_steps = static_cast<int>(steps_.size());
  // The number of outer loops that fusing has taken away from each stage.
  std::vector<int> num_hidden(located->stages.size());
  for (int i = begin; i < num_steps; ++i) {
    const int stage_id = steps_[i]->stage_id;
    const int num_iters = static_cast<int>(located->stages[stage_id]->iters.size());
    const int max_parallel = NumFusibleOuterLoops(located, stage_id);
    const int max_vectorized = NumFusibleInnerLoops(located, stage_id);
    int& num_parallel = annotations->num_parallel[stage_id];
    int& num_vectorized = annotations->num_vectorized[stage_id];

    // Loops are fused for nothing but the annotation that follows.
    int count = 1;
    const auto* fuse = steps_[i].as<FuseStepNode>();
    if (fuse) {
      count = static_cast<int>(fuse->fused_ids.size());
      Apply(steps_[i++], task_, &located);
      if (i == num_steps || steps_[i]->stage_id != stage_id) return false;
    }
    const auto* annotation = steps_[i].as<AnnotationStepNode>();
    if (fuse && (!annotation || annotation->iter_id != fuse->fused_ids[0]->value)) return false;

    const auto kind = annotation ? annotation->annotation : IteratorAnnotation::kNone;
    if (kind == IteratorAnnotation::kParallel && annotation->iter_id == 0 && num_parallel == 0 &&
        count <= max_parallel) {
      num_parallel = count;
      annotations->fuses_parallel[stage_id] = fuse != nullptr;
      num_hidden[stage_id] = count - 1;
      annotations->actions.push_back({Action::kParallelize, stage_id, i, -1});
    } else if (kind == IteratorAnnotation::kVectorize && num_vectorized == 0 &&
               annotation->iter_id + count == num_iters && count <= max_vectorized &&
               (count > 1) == (fuse != nullptr)) {
      num_vectorized = count;
      annotations->actions.push_back({Action::kVectorize, stage_id, i, -1});
    } else if (!fuse) {
      const int iter_id = IterId(steps_[i]);
      annotations->actions.push_back(
          {Action::kStep, stage_id, i, iter_id == 0 ? 0 : iter_id + num_hidden[stage_id]});
    } else {
      return false;
    }
    Apply(steps_[i], task_, &located);
  }
  return true;
}

void ScheduleCoordinatesNode::ReadStages(const State& annotated, const State& located,
                                         int locations_begin, int annotations_begin,
                                         const Limits& limits) {
  const int num_stages = static_cast<int>(located->stages.size());
  Annotations annotations(num_stages);
  if (!ReadAnnotations(located, annotations_begin, &annotations)) {
    return;
  }
  std::vector<int> location_step(num_stages, -1);
  for (int i = locations_begin; i < annotations_begin; ++i) {
    location_step[steps_[i]->stage_id] = i;
  }

  const State bounded = task_->compute_dag.InferBound(located);
  const State bounded_annotated = task_->compute_dag.InferBound(annotated);
  std::vector<Action> locate, parallelize, vectorize;
  for (int i = 0; i < num_stages; ++i) {
    if (located->stages[i]->op_type == StageKind::kPlaceholder) {
      continue;
    }
    StageParameters& stage = stages_[i];
    stage.name = located->stages[i]->op->name;
    stage.num_parallel = annotations.num_parallel[i];
    stage.fuses_parallel = annotations.fuses_parallel[i];
    stage.max_vector = std::max<int64_t>(
        {limits.max_vector, limits.max_innermost, VectorLength(bounded_annotated->stages[i])});
    if (!limits.fix_locations && CanMove(task_, located, i)) {
      ReadLocation(bounded, i);
    }
    ReadParallel(located, i);
    ReadVectorize(bounded, i, annotations.num_vectorized[i]);

    if (stage.location != -1 && location_step[i] == -1) {
      locate.push_back({Action::kLocate, i, -1, -1});
    }
    if (stage.parallel != -1 && annotations.num_parallel[i] == 0) {
      parallelize.push_back({Action::kParallelize, i, -1, -1});
    }
    if (stage.vectorize != -1 && annotations.num_vectorized[i] == 0) {
      vectorize.push_back({Action::kVectorize, i, -1, -1});
    }
  }

  actions_.resize(annotations_begin);
  for (int i = locations_begin; i < annotations_begin; ++i) {
    const int stage_id = actions_[i].stage_id;
    if (stages_[stage_id].location != -1 && location_step[stage_id] == i) {
      actions_[i].kind = Action::kLocate;
    }
  }
  for (const auto& actions : {locate, parallelize, annotations.actions, vectorize}) {
    actions_.insert(actions_.end(), actions.begin(), actions.end());
  }
}

void ScheduleCoordinatesNode::ReadLocation(const State& bounded, int stage_id) {
  const Stage& stage = bounded->stages[stage_id];
  std::vector<Location> locations = {{ComputeAtKind::kRoot, {}, "root"}};
  for (const IterKey& target : LocationTargets(task_, bounded, stage_id)) {
    const Stage& target_stage = bounded->stages[target.first];
    locations.push_back({ComputeAtKind::kIter, target,
                         target_stage->op->name + " " + target_stage->iters[target.second]->name});
  }
  if (!HasReduceIter(stage)) {
    locations.push_back({ComputeAtKind::kInlined, {}, "inlined"});
  }
  const auto now = std::find_if(locations.begin(), locations.end(), [&](const Location& location) {
    return location.kind == stage->compute_at &&
           (location.kind != ComputeAtKind::kIter ||
            location.target == bounded->attach_map->stage_to_attach_iter.at(stage_id));
  });
  if (locations.size() == 1 || now == locations.end()) {
    return;
  }
  stages_[stage_id].location = AddCoordinate(static_cast<int>(locations.size()) - 1,
                                             static_cast<int>(now - locations.begin()));
  stages_[stage_id].locations = std::move(locations);
}

void ScheduleCoordinatesNode::ReadParallel(const State& located, int stage_id) {
  StageParameters& parameters = stages_[stage_id];
  const Stage& stage = located->stages[stage_id];
  const bool is_root = stage->compute_at == ComputeAtKind::kRoot;
  const bool can_move = parameters.location != -1;
  if (parameters.num_parallel == 0 && !is_root && !can_move) {
    return;
  }
  const int value = parameters.num_parallel == 0 && !is_root
                        ? DefaultNumParallel(task_, stage)
                        : CountOuterLoops(stage, parameters.num_parallel, IsTrivial);
  const int upper = CountOuterLoops(stage, NumOuterLoops(stage), IsAlwaysTrivial);
  if (parameters.num_parallel > 0 || upper > 0) {
    parameters.parallel = AddCoordinate(std::max(upper, value), value);
  }
}

void ScheduleCoordinatesNode::ReadVectorize(const State& bounded, int stage_id,
                                            int num_vectorized) {
  StageParameters& parameters = stages_[stage_id];
  const Stage& stage = bounded->stages[stage_id];
  const bool is_inlined = stage->compute_at == ComputeAtKind::kInlined;
  const bool can_move = parameters.location != -1;
  if (is_inlined && !can_move) {
    return;
  }
  int upper = NumInnerLoops(stage);
  if (!can_move && !IsTiled(stage)) {
    // Nothing changes the extents of these loops, so leave out those that make vectors too long.
    int64_t length = 1;
    for (int i = 0; i < upper; ++i) {
      length *= GetExtent(stage->iters[stage->iters.size() - 1 - i]);
      if (length > parameters.max_vector) upper = i;
    }
  }
  if (upper > 0) {
    parameters.vectorize = AddCoordinate(upper, is_inlined ? 1 : num_vectorized);
  }
}

void ScheduleCoordinatesNode::ReadStructure() {
  std::vector<bool> has_coordinates(steps_.size());
  for (const Tiling& tiling : tilings_) {
    has_coordinates[tiling.step_id] = true;
  }
  for (const Choice& choice : choices_) {
    has_coordinates[choice.step_id] = true;
  }
  std::ostringstream os;
  for (const Action& action : actions_) {
    // SketchPolicy may put an output at root, where it is anyway.
    if (action.kind != Action::kStep || steps_[action.step_id]->IsInstance<ComputeRootStepNode>()) {
      continue;
    }
    const Step& step = steps_[action.step_id];
    if (!has_coordinates[action.step_id]) {
      WriteStep(action.iter_id == -1 ? step : WithIterId(step, action.iter_id), &os);
    } else if (const auto* split = step.as<SplitStepNode>()) {
      os << "[split " << split->stage_id << " " << split->iter_id << " " << split->lengths.size()
         << "]";
    } else {
      os << "[unroll " << step->stage_id << "]";
    }
  }
  structure_ = os.str();
}

/********** Rebuilding a state **********/

bool ScheduleCoordinatesNode::Tiling::Allows(const Point& point) const {
  auto exponent = point.begin() + first_coordinate;
  for (int total : totals) {
    if (std::accumulate(exponent, exponent + num_levels, 0) != total) {
      return false;
    }
    exponent += num_levels;
  }
  return LevelsAt(point).back() <= max_innermost;
}

std::vector<int64_t> ScheduleCoordinatesNode::Tiling::LevelsAt(const Point& point) const {
  std::vector<int64_t> levels(num_levels, 1);
  auto exponent = point.begin() + first_coordinate;
  for (int prime : primes) {
    for (int64_t& level : levels) {
      for (int i = 0; i < *exponent; ++i) level *= prime;
      ++exponent;
    }
  }
  return levels;
}

std::vector<Step> ScheduleCoordinatesNode::StepsAt(const Point& point) const {
  std::vector<Step> steps = steps_;
  for (const Tiling& tiling : tilings_) {
    const std::vector<int64_t> levels = tiling.LevelsAt(point);
    if (levels != tiling.LevelsAt(origin_)) {
      const auto* split = steps_[tiling.step_id].as<SplitStepNode>();
      const auto first = levels.begin() + (split->inner_to_outer ? 1 : 0);
      steps[tiling.step_id] = WithLengths(*split, {first, first + split->lengths.size()});
    }
  }
  for (const Choice& choice : choices_) {
    const int value = choice.values[point[choice.coordinate]];
    const Step& step = steps_[choice.step_id];
    if (point[choice.coordinate] == origin_[choice.coordinate]) {
      continue;
    }
    if (const auto* split = step.as<SplitStepNode>()) {
      steps[choice.step_id] = WithLengths(*split, {value});
    } else {
      steps[choice.step_id] = PragmaStep(step->stage_id, IterId(step),
                                         std::string(kAutoUnroll) + "$" + std::to_string(value));
    }
  }
  return steps;
}

/*! \brief Rebuilds the state at a point, without its bounds. */
class ScheduleCoordinatesNode::Replay {
 public:
  Replay(const ScheduleCoordinatesNode& space, const Point& point)
      : space_(space),
        point_(point),
        steps_(space.StepsAt(point)),
        state_(space.task_->compute_dag->init_state),
        num_hidden_(space.stages_.size()) {}

  /*! \return The state, undefined if there is none at the point. */
  State Run() {
    for (const Action& action : space_.actions_) {
      if (!Perform(action)) {
        return State();
      }
    }
    return IsAttachedToInlined(state_) ? State() : state_;
  }

 private:
  bool Perform(const Action& action) {
    switch (action.kind) {
      case Action::kLocate:
        return Locate(action);
      case Action::kParallelize:
        Parallelize(action.stage_id);
        return true;
      case Action::kVectorize:
        Vectorize(action.stage_id);
        return true;
      default:
        return ApplyStep(action);
    }
  }

  bool ApplyStep(const Action& action) {
    int iter_id = action.iter_id;
    if (iter_id == -1) {
      Apply(steps_[action.step_id]);
      return true;
    }
    if (ComputeAt(action.stage_id) == ComputeAtKind::kInlined) {
      return true;
    }
    if (iter_id > 0) {
      iter_id -= num_hidden_[action.stage_id];
      if (iter_id <= 0) {
        return false;  // The loop has become part of the parallel one.
      }
    }
    Apply(WithIterId(steps_[action.step_id], iter_id));
    return true;
  }

  bool Locate(const Action& action) {
    if (action.step_id == -1 && !IsMoved(action.stage_id)) {
      return true;
    }
    const StageParameters& parameters = space_.stages_[action.stage_id];
    const Location& location = parameters.locations[point_[parameters.location]];
    if (location.kind == ComputeAtKind::kRoot) {
      Apply(ComputeRootStep(action.stage_id));
    } else if (location.kind == ComputeAtKind::kIter) {
      Apply(ComputeAtStep(action.stage_id, location.target.first, location.target.second));
    } else if (!HasAttachedStage(state_, action.stage_id)) {
      Apply(ComputeInlineStep(action.stage_id));
    } else {
      return false;
    }
    return true;
  }

  void Parallelize(int stage_id) {
    // Loops inside another stage are parallel only where they were so in the state that was read.
    const ComputeAtKind compute_at = ComputeAt(stage_id);
    if (compute_at == ComputeAtKind::kRoot ||
        (compute_at == ComputeAtKind::kIter && space_.stages_[stage_id].num_parallel > 0 &&
         !IsMoved(stage_id))) {
      const int count = NumParallel(stage_id);
      const bool fuse = count > 1 || space_.stages_[stage_id].fuses_parallel;
      FuseAndAnnotate(stage_id, 0, count, fuse, IteratorAnnotation::kParallel);
      num_hidden_[stage_id] = std::max(count - 1, 0);
    }
  }

  int NumParallel(int stage_id) const {
    const StageParameters& parameters = space_.stages_[stage_id];
    const Stage& stage = state_->stages[stage_id];
    const int max_count = NumFusibleOuterLoops(state_, stage_id);
    int count = 0;
    for (int left = point_[parameters.parallel]; left > 0 && count < max_count; ++count) {
      left -= !IsTrivial(stage, count);
    }
    // Whether the loops that follow are fused makes no difference while they run once, so do it as
    // in the state that was read.
    if (point_[parameters.parallel] == space_.origin_[parameters.parallel]) {
      while (count < std::min(parameters.num_parallel, max_count) && IsTrivial(stage, count)) {
        ++count;
      }
    }
    return count;
  }

  void Vectorize(int stage_id) {
    if (ComputeAt(stage_id) != ComputeAtKind::kInlined) {
      const int count = std::min(point_[space_.stages_[stage_id].vectorize],
                                 NumFusibleInnerLoops(state_, stage_id));
      const int num_iters = static_cast<int>(state_->stages[stage_id]->iters.size());
      FuseAndAnnotate(stage_id, num_iters - count, count, count > 1,
                      IteratorAnnotation::kVectorize);
    }
  }

  void FuseAndAnnotate(int stage_id, int first, int count, bool fuse,
                       IteratorAnnotation annotation) {
    if (count == 0) {
      return;
    }
    if (fuse) {
      Array<Integer> fused_ids;
      for (int i = first; i < first + count; ++i) {
        fused_ids.push_back(Integer(i));
      }
      Apply(FuseStep(stage_id, fused_ids));
    }
    Apply(AnnotationStep(stage_id, first, annotation));
  }

  void Apply(const Step& step) { auto_scheduler::Apply(step, space_.task_, &state_); }

  ComputeAtKind ComputeAt(int stage_id) const { return state_->stages[stage_id]->compute_at; }

  bool IsMoved(int stage_id) const {
    const int location = space_.stages_[stage_id].location;
    return location != -1 && point_[location] != space_.origin_[location];
  }

  const ScheduleCoordinatesNode& space_;
  const Point& point_;
  const std::vector<Step> steps_;
  State state_;
  /*! \brief The number of outer loops that fusing has taken away from each stage. */
  std::vector<int> num_hidden_;
};

State ScheduleCoordinatesNode::StateAt(const Point& point) const {
  CHECK_EQ(point.size(), origin_.size())
      << "ValueError: A point of this space has " << origin_.size() << " coordinates";
  auto allows = [&](const Tiling& tiling) { return tiling.Allows(point); };
  if (!space_.Contains(point) || !std::all_of(tilings_.begin(), tilings_.end(), allows)) {
    return State();
  }
  try {
    Point shorter = point;
    while (true) {
      State state = Replay(*this, shorter).Run();
      if (!state.defined()) {
        return state;
      }
      state = task_->compute_dag.InferBound(state);
      // How long vectors are is known only now.
      bool too_long = false;
      for (size_t i = 0; i < stages_.size(); ++i) {
        if (stages_[i].vectorize != -1 && VectorLength(state->stages[i]) > stages_[i].max_vector) {
          --shorter[stages_[i].vectorize];
          too_long = true;
        }
      }
      if (!too_long) {
        return point == origin_ || IsValid(task_, state) ? state : State();
      }
    }
  } catch (const Error&) {
    return State();  // There is no such schedule, say because a stage would not be in its consumer.
  }
}

Point ScheduleCoordinatesNode::Adopt(const ScheduleCoordinatesNode& other,
                                     const Point& point) const {
  Point adopted = origin_;
  for (const Tiling& to : tilings_) {
    for (const Tiling& from : other.tilings_) {
      if (WithoutCache(to.name) == WithoutCache(from.name) && to.primes == from.primes &&
          to.totals == from.totals && to.num_levels == from.num_levels) {
        std::copy_n(point.begin() + from.first_coordinate, from.primes.size() * from.num_levels,
                    adopted.begin() + to.first_coordinate);
      }
    }
  }
  for (const Choice& to : choices_) {
    for (const Choice& from : other.choices_) {
      if (WithoutCache(to.name) == WithoutCache(from.name) && to.values == from.values) {
        adopted[to.coordinate] = point[from.coordinate];
      }
    }
  }
  return adopted;
}

std::string ScheduleCoordinatesNode::Describe(const Point& from, const Point& to) const {
  std::ostringstream os;
  auto describe = [&os](const std::string& name, const auto& before, const auto& after) {
    if (before != after) {
      os << (os.tellp() > 0 ? ", " : "") << name << " " << before << " -> " << after;
    }
  };
  for (const Tiling& tiling : tilings_) {
    describe(tiling.name + " split", ToString(tiling.LevelsAt(from)),
             ToString(tiling.LevelsAt(to)));
  }
  for (const Choice& choice : choices_) {
    describe(choice.name, choice.values[from[choice.coordinate]],
             choice.values[to[choice.coordinate]]);
  }
  for (const StageParameters& stage : stages_) {
    if (stage.location != -1) {
      describe(stage.name + " computed at", stage.locations[from[stage.location]].name,
               stage.locations[to[stage.location]].name);
    }
    if (stage.parallel != -1) {
      describe(stage.name + " parallel loops", from[stage.parallel], to[stage.parallel]);
    }
    if (stage.vectorize != -1) {
      describe(stage.name + " vectorized loops", from[stage.vectorize], to[stage.vectorize]);
    }
  }
  return os.str();
}

/********** For Python **********/

namespace {

Point PointOf(const ScheduleCoordinatesNode& coordinates, const Array<runtime::Int>& values) {
  const Point point = PointFromArray(values);
  CHECK(coordinates.space().Contains(point))
      << "ValueError: A point has " << coordinates.space().upper.size()
      << " values from 0 to those of `upper`, but it is " << values;
  return point;
}

}  // namespace

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinates")
    .set_body_typed([](SearchTask task, State state, Optional<Map<String, ObjectRef>> params) {
      return ScheduleCoordinates(task, state, params.value_or({}));
    });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesOrigin")
    .set_body_typed([](ScheduleCoordinates self) { return PointToArray(self->origin()); });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesUpper")
    .set_body_typed([](ScheduleCoordinates self) { return PointToArray(self->space().upper); });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesDirections")
    .set_body_typed([](ScheduleCoordinates self) {
      Array<Array<Array<runtime::Int>>> directions;
      for (const Direction& direction : self->space().directions) {
        Array<Array<runtime::Int>> changes;
        for (const auto& [coordinate, delta] : direction) {
          changes.push_back({runtime::Int(coordinate), runtime::Int(delta)});
        }
        directions.push_back(changes);
      }
      return directions;
    });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesStructure")
    .set_body_typed([](ScheduleCoordinates self) { return String(self->structure()); });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesStateAt")
    .set_body_typed([](ScheduleCoordinates self, Array<runtime::Int> point) {
      return self->StateAt(PointFromArray(point));
    });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesAdopt")
    .set_body_typed([](ScheduleCoordinates self, ScheduleCoordinates other,
                       Array<runtime::Int> point) {
      return PointToArray(self->Adopt(*other.operator->(), PointOf(*other.operator->(), point)));
    });

TVM_REGISTER_GLOBAL("auto_scheduler.ScheduleCoordinatesDescribe")
    .set_body_typed([](ScheduleCoordinates self, Array<runtime::Int> from, Array<runtime::Int> to) {
      const ScheduleCoordinatesNode& coordinates = *self.operator->();
      return String(coordinates.Describe(PointOf(coordinates, from), PointOf(coordinates, to)));
    });

}  // namespace auto_scheduler
}  // namespace tvm
