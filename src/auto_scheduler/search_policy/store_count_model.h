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
 * \file auto_scheduler/search_policy/store_count_model.h
 * \brief A cost model that needs no measurements: it counts the stores that a program executes.
 */

#ifndef TVM_AUTO_SCHEDULER_SEARCH_POLICY_STORE_COUNT_MODEL_H_
#define TVM_AUTO_SCHEDULER_SEARCH_POLICY_STORE_COUNT_MODEL_H_

#include <tvm/auto_scheduler/cost_model.h>

#include <vector>

namespace tvm {
namespace auto_scheduler {

/*!
 * \brief The number of stores that a program executes on a CPU, where a vector counts once for each
 * vector unit that it fills. A loop whose extent is not constant counts as one iteration.
 * \param state The program, with inferred bounds.
 * \param vector_unit_bytes The width of vector units in bytes.
 * \return The number.
 */
double CountStores(const State& state, int vector_unit_bytes);

/*!
 * \brief Prefers programs of a CPU that execute few stores, while another model learns.
 *
 * Before anything was measured, learned models can only guess. The number of stores says little
 * about which of two good programs is better, but it tells programs that vectorize well and repeat
 * no work from the many of a random sample that do not.
 */
class StoreCountModelNode : public CostModelNode {
 public:
  /*! \brief The model that learns from what is measured. */
  CostModel learner;

  void VisitAttrs(AttrVisitor* v) { v->Visit("learner", &learner); }

  void Update(const Array<MeasureInput>& inputs, const Array<MeasureResult>& results) final;

  /*! \brief The negative logarithm of the number of stores. The states need inferred bounds. */
  void Predict(const SearchTask& task, const Array<State>& states,
               std::vector<float>* scores) final;

  static constexpr const char* _type_key = "auto_scheduler.StoreCountModel";
  TVM_DECLARE_FINAL_OBJECT_INFO(StoreCountModelNode, CostModelNode);
};

/*!
 * \brief Managed reference to StoreCountModelNode.
 * \sa StoreCountModelNode
 */
class StoreCountModel : public CostModel {
 public:
  /*!
   * \brief The constructor.
   * \param learner The model that learns from what is measured.
   */
  explicit StoreCountModel(CostModel learner);

  TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(StoreCountModel, CostModel, StoreCountModelNode);
};

}  // namespace auto_scheduler
}  // namespace tvm

#endif  // TVM_AUTO_SCHEDULER_SEARCH_POLICY_STORE_COUNT_MODEL_H_
