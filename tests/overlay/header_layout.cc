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
 * \file header_layout.cc
 * \brief What code compiled against the overlay's headers sees of objects that the library made.
 *
 * The headers are not all of the library's own release, see test_header_layout.py, which calls
 * these functions and compares.
 */
#include <dmlc/json.h>
#include <tvm/auto_scheduler/compute_dag.h>
#include <tvm/auto_scheduler/cost_model.h>
#include <tvm/auto_scheduler/measure.h>
#include <tvm/auto_scheduler/search_policy.h>
#include <tvm/auto_scheduler/search_task.h>
#include <tvm/auto_scheduler/transform_step.h>
#include <tvm/node/reflection.h>
#include <tvm/runtime/registry.h>
#include <tvm/target/target.h>
#include <tvm/te/operation.h>

#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tvm {
namespace auto_scheduler {
namespace {

/********** Reflected fields: their names, types and offsets **********/

/*! \brief Notes where the fields of an object are. */
class FieldLister : public AttrVisitor {
 public:
  explicit FieldLister(const Object* object) : begin_(reinterpret_cast<const char*>(object)) {}

  void Visit(const char* key, double* value) final { Note(key, "double", value); }
  void Visit(const char* key, int64_t* value) final { Note(key, "int64_t", value); }
  void Visit(const char* key, uint64_t* value) final { Note(key, "uint64_t", value); }
  void Visit(const char* key, int* value) final { Note(key, "int", value); }
  void Visit(const char* key, bool* value) final { Note(key, "bool", value); }
  void Visit(const char* key, std::string* value) final { Note(key, "std::string", value); }
  void Visit(const char* key, void** value) final { Note(key, "pointer", value); }
  void Visit(const char* key, DataType* value) final { Note(key, "DataType", value); }
  void Visit(const char* key, runtime::NDArray* value) final { Note(key, "NDArray", value); }
  void Visit(const char* key, runtime::ObjectRef* value) final { Note(key, "ObjectRef", value); }

  /*! \brief Field name to "type at offset". */
  std::map<std::string, std::string> fields;

 private:
  void Note(const char* key, const char* type, const void* value) {
    std::ostringstream where;
    where << type << " at " << static_cast<const char*>(value) - begin_;
    fields[key] = where.str();
  }

  const char* begin_;
};

/*! \brief Not where the library has the fields of an Iterator: a check must fail. */
struct ShiftedIteratorNode : public Object {
  int64_t shift;
  String name;
  Range range;
  IteratorKind iter_kind;
  IteratorAnnotation annotation;

  void VisitAttrs(AttrVisitor* v) {
    v->Visit("name", &name);
    v->Visit("range", &range);
    v->Visit("iter_kind", &iter_kind);
    v->Visit("annotation", &annotation);
  }
};

using ListFields = void (*)(Object*, AttrVisitor*);

template <typename Node>
void ListHeaderFields(Object* object, AttrVisitor* visitor) {
  static_cast<Node*>(object)->VisitAttrs(visitor);
}

template <typename... Nodes>
std::unordered_map<std::string, ListFields> ByTypeKey() {
  return {{Nodes::_type_key, ListHeaderFields<Nodes>}...};
}

ListFields FindListFields(const std::string& type_key) {
  static const auto reflected =
      ByTypeKey<BuildResultNode, ComputeDAGNode, HardwareParamsNode, IteratorNode, MeasureInputNode,
                MeasureResultNode, SearchTaskNode, StageNode, StateNode, FloatImmNode, IntImmNode,
                RangeNode, tir::IterVarNode, tir::VarNode, TargetNode, TargetKindNode,
                te::ComputeOpNode, te::PlaceholderOpNode, te::TensorNode>();
  // The base class's fields are all that the headers know of a policy.
  if (type_key == "auto_scheduler.EmptyPolicy") return ListHeaderFields<SearchPolicyNode>;
  if (type_key == "shifted auto_scheduler.Iterator") return ListHeaderFields<ShiftedIteratorNode>;
  auto found = reflected.find(type_key);
  CHECK(found != reflected.end()) << "No header layout to compare " << type_key << " with";
  return found->second;
}

/*! \brief Where the headers and the library disagree on the fields of an object. */
Array<String> Mismatches(ObjectRef ref, String prefix) {
  Object* object = const_cast<Object*>(ref.get());
  FieldLister header(object), library(object);
  FindListFields(prefix + object->GetTypeKey())(object, &header);
  ReflectionVTable::Global()->VisitAttrs(object, &library);

  std::set<std::string> names;
  for (const auto& field : header.fields) names.insert(field.first);
  for (const auto& field : library.fields) names.insert(field.first);
  CHECK(!names.empty()) << object->GetTypeKey() << " has no fields";
  auto describe = [](const FieldLister& side, const std::string& name) {
    auto found = side.fields.find(name);
    return found == side.fields.end() ? std::string("absent") : found->second;
  };
  Array<String> mismatches;
  for (const std::string& name : names) {
    std::string expected = describe(library, name), found = describe(header, name);
    if (found != expected) {
      mismatches.push_back(object->GetTypeKey() + "." + name + ": " + found + " in the headers, " +
                           expected + " in the library");
    }
  }
  return mismatches;
}

/********** Everything else: its values, as JSON **********/

/*! \brief Writes one row: a JSON array of values of several types. */
class Row {
 public:
  explicit Row(dmlc::JSONWriter* writer) : writer_(writer) {
    writer_->WriteArraySeperator();
    writer_->BeginArray(false);
  }
  ~Row() { writer_->EndArray(); }

  Row& operator<<(int value) { return Item(value); }
  Row& operator<<(const char* value) { return Item(std::string(value)); }
  Row& operator<<(const String& value) { return Item(std::string(value)); }
  Row& operator<<(const Array<Integer>& values) {
    std::vector<int> items;
    for (const Integer& value : values) items.push_back(value.IntValue());
    return Item(items);
  }
  Row& operator<<(const Array<Optional<Integer>>& values) {
    Array<Integer> items;
    for (const Optional<Integer>& value : values) items.push_back(value.value());
    return *this << items;
  }

 private:
  template <typename T>
  Row& Item(const T& value) {
    writer_->WriteArrayItem(value);
    return *this;
  }

  dmlc::JSONWriter* writer_;
};

/*! \brief Read a step field by field; the names of steps and the order are those of a record. */
void ReadStep(const Step& step, dmlc::JSONWriter* writer) {
  Row row(writer);
  auto begin = [&](const auto* node) -> Row& {
    return row << node->record_prefix_str << node->stage_id;
  };
  if (auto annotation = step.as<AnnotationStepNode>()) {
    begin(annotation) << annotation->iter_id << static_cast<int>(annotation->annotation);
  } else if (auto fuse = step.as<FuseStepNode>()) {
    begin(fuse) << fuse->fused_ids;
  } else if (auto pragma = step.as<PragmaStepNode>()) {
    begin(pragma) << pragma->iter_id << pragma->pragma_type;
  } else if (auto reorder = step.as<ReorderStepNode>()) {
    begin(reorder) << reorder->after_ids;
  } else if (auto split = step.as<SplitStepNode>()) {
    int extent = static_cast<int>(Downcast<IntImm>(split->extent.value())->value);
    begin(split) << split->iter_id << extent << split->lengths << split->inner_to_outer;
  } else if (auto follow = step.as<FollowSplitStepNode>()) {
    begin(follow) << follow->iter_id << follow->src_step_id << follow->n_split;
  } else if (auto follow_fused = step.as<FollowFusedSplitStepNode>()) {
    begin(follow_fused) << follow_fused->iter_id << follow_fused->src_step_ids
                        << follow_fused->level << follow_fused->factor_or_nparts;
  } else if (auto align = step.as<StorageAlignStepNode>()) {
    begin(align) << align->iter_id << align->factor << align->offset;
  } else if (auto compute_at = step.as<ComputeAtStepNode>()) {
    begin(compute_at) << compute_at->target_stage_id << compute_at->target_iter_id;
  } else if (auto compute_inline = step.as<ComputeInlineStepNode>()) {
    begin(compute_inline);
  } else if (auto compute_root = step.as<ComputeRootStepNode>()) {
    begin(compute_root);
  } else if (auto cache_read = step.as<CacheReadStepNode>()) {
    begin(cache_read) << cache_read->scope_name << cache_read->reader_stage_ids;
  } else if (auto cache_write = step.as<CacheWriteStepNode>()) {
    begin(cache_write) << cache_write->scope_name;
  } else if (auto rfactor = step.as<RfactorStepNode>()) {
    begin(rfactor) << rfactor->iter_id << rfactor->factor_iter_id;
  } else {
    LOG(FATAL) << "No header layout to read " << step->GetTypeKey() << " with";
  }
}

/*! \brief Have `fill` write the items of an array, and return it as JSON. */
String ToJson(const std::function<void(dmlc::JSONWriter*)>& fill) {
  std::ostringstream text;
  dmlc::JSONWriter writer(&text);
  writer.BeginArray(false);
  fill(&writer);
  writer.EndArray();
  return text.str();
}

String ReadSteps(State state) {
  return ToJson([&](dmlc::JSONWriter* writer) {
    for (const Step& step : state->transform_steps) ReadStep(step, writer);
  });
}

/*! \brief For each stage: its attributes, where it is attached, each iterator's originals. */
String ReadStages(State state) {
  return ToJson([&](dmlc::JSONWriter* writer) {
    for (size_t i = 0; i < state->stages.size(); ++i) {
      const Stage& stage = state->stages[i];
      Row row(writer);
      row << stage->op->name << stage->attrs.auto_unroll_max_step << stage->attrs.storage_offset;
      auto attached = state->attach_map->stage_to_attach_iter.find(i);
      if (attached != state->attach_map->stage_to_attach_iter.end()) {
        CHECK_EQ(state->attach_map->iter_to_attached_stages.at(attached->second)[0], i);
        row << attached->second.first << attached->second.second;
      }
      for (const Iterator& iter : stage->iters) {
        for (const Iterator& original : iter->orig_iters) row << original->name;
      }
    }
  });
}

bool HasOwnDAG(State state) { return state->current_compute_dag.defined(); }

String ReadMeasurer(ProgramMeasurer measurer, String workload_key) {
  return ToJson([&](dmlc::JSONWriter* writer) {
    const ProgramBuilder& builder = measurer->builder;
    const ProgramRunner& runner = measurer->runner;
    Row(writer) << builder->timeout << builder->n_parallel;
    Row(writer) << runner->timeout << runner->number << runner->repeat << runner->min_repeat_ms
                << static_cast<int>(runner->cooldown_interval) << runner->enable_cpu_cache_flush
                << runner->device;
    Row(writer) << static_cast<int>(measurer->callbacks.value().size()) << measurer->verbose
                << measurer->max_continuous_error;
    Row(writer) << measurer->ct << measurer->error_ct
                << static_cast<int>(measurer->best_flops.at(workload_key))
                << static_cast<int>(measurer->best_state.at(workload_key)->stages.size())
                << measurer->best_ct.at(workload_key)
                << static_cast<int>(measurer->has_valid.count(workload_key));
  });
}

/*! \brief A policy of a type that the library does not know, as the new ones are. */
class ProbePolicyNode : public SearchPolicyNode {
 public:
  State Search(int, int, int, ProgramMeasurer) final {
    return search_task->compute_dag->init_state;
  }
  std::pair<Array<MeasureInput>, Array<MeasureResult>> ContinueSearchOneRound(
      int, ProgramMeasurer) final {
    return {};
  }

  String Read() const {
    return ToJson([&](dmlc::JSONWriter* writer) {
      Row row(writer);
      row << static_cast<int>(measured_states_set_.size());
      for (const State& state : measured_states_vector_) {
        row << static_cast<int>(state->transform_steps.size());
      }
      for (float throughput : measured_states_throughputs_) row << static_cast<int>(throughput);
      row << end;
    });
  }

  /*! \brief Lies behind what the library writes. */
  int end = 12345;

  static constexpr const char* _type_key = "header_layout.ProbePolicy";
  TVM_DECLARE_FINAL_OBJECT_INFO(ProbePolicyNode, SearchPolicyNode);
};

TVM_REGISTER_OBJECT_TYPE(ProbePolicyNode);

/*! \brief Have the library fill a policy from a log. */
String ReadPreloaded(SearchTask task, String log_file) {
  ObjectPtr<ProbePolicyNode> policy = make_object<ProbePolicyNode>();
  policy->search_task = task;
  policy->verbose = 0;
  policy->PreloadMeasuredStates(log_file);
  return policy->Read();
}

/*! \brief Call a cost model through the virtual table that the headers declare. */
String ReadScores(CostModel model, SearchTask task, Array<State> states) {
  std::vector<float> scores;
  model->Update({}, {});
  model->Predict(task, states, &scores);
  return ToJson([&](dmlc::JSONWriter* writer) {
    Row row(writer);
    for (float score : scores) row << static_cast<int>(score);
  });
}

TVM_REGISTER_GLOBAL("header_layout.mismatches").set_body_typed(Mismatches);
TVM_REGISTER_GLOBAL("header_layout.steps").set_body_typed(ReadSteps);
TVM_REGISTER_GLOBAL("header_layout.stages").set_body_typed(ReadStages);
TVM_REGISTER_GLOBAL("header_layout.has_own_dag").set_body_typed(HasOwnDAG);
TVM_REGISTER_GLOBAL("header_layout.measurer").set_body_typed(ReadMeasurer);
TVM_REGISTER_GLOBAL("header_layout.preloaded").set_body_typed(ReadPreloaded);
TVM_REGISTER_GLOBAL("header_layout.scores").set_body_typed(ReadScores);

}  // namespace
}  // namespace auto_scheduler
}  // namespace tvm
