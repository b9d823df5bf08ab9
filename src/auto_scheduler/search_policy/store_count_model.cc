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
 * \file auto_scheduler/search_policy/store_count_model.cc
 * \brief A cost model that needs no measurements: it counts the stores that a program executes.
 */

#include "store_count_model.h"

#include <tvm/runtime/registry.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "utils.h"

namespace tvm {
namespace auto_scheduler {

TVM_REGISTER_OBJECT_TYPE(StoreCountModelNode);

namespace {

/*! \brief The extent of a loop, 1 if it is not constant. */
double ConstantExtent(const Iterator& iter) {
  return static_cast<double>(std::max<int64_t>(GetExtent(iter), 1));
}

/*! \brief How often the body of a stage's first `num_iters` loops is executed. */
double CountIterations(const State& state, int stage_id, size_t num_iters) {
  double count = 1;
  const auto attached = state->attach_map->stage_to_attach_iter.find(stage_id);
  if (attached != state->attach_map->stage_to_attach_iter.end()) {
    const auto [consumer_id, iter_id] = attached->second;
    count = CountIterations(state, consumer_id, iter_id + 1);
  }
  for (size_t i = 0; i < num_iters; ++i) {
    count *= ConstantExtent(state->stages[stage_id]->iters[i]);
  }
  return count;
}

/*! \brief How many elements a stage computes at a time. */
double VectorLength(const Stage& stage) {
  double length = 1;
  for (const Iterator& iter : stage->iters) {
    if (iter->annotation == IteratorAnnotation::kVectorize) {
      length *= ConstantExtent(iter);
    }
  }
  return length;
}

}  // namespace

double CountStores(const State& state, int vector_unit_bytes) {
  double count = 0;
  for (size_t i = 0; i < state->stages.size(); ++i) {
    const Stage& stage = state->stages[i];
    if (stage->op_type == StageKind::kPlaceholder || stage->compute_at == ComputeAtKind::kInlined) {
      continue;
    }
    const int lanes = std::max(1, vector_unit_bytes / stage->op->output_dtype(0).bytes());
    const double length = VectorLength(stage);
    count += CountIterations(state, i, stage->iters.size()) / length * std::ceil(length / lanes);
  }
  return count;
}

void StoreCountModelNode::Update(const Array<MeasureInput>& inputs,
                                 const Array<MeasureResult>& results) {
  learner->Update(inputs, results);
}

void StoreCountModelNode::Predict(const SearchTask& task, const Array<State>& states,
                                  std::vector<float>* scores) {
  scores->clear();
  for (const State& state : states) {
    scores->push_back(-std::log(CountStores(state, task->hardware_params->vector_unit_bytes)));
  }
}

StoreCountModel::StoreCountModel(CostModel learner) {
  auto node = make_object<StoreCountModelNode>();
  node->learner = std::move(learner);
  data_ = std::move(node);
}

TVM_REGISTER_GLOBAL("auto_scheduler.StoreCountModel").set_body_typed([](CostModel learner) {
  return StoreCountModel(learner);
});

}  // namespace auto_scheduler
}  // namespace tvm
