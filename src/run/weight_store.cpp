#include "run/weight_store.hpp"

#include <memory>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "plan/weight_key.hpp"
#include "run/session.hpp"

namespace headroom {

void WeightStore::load(const Program& program, const LoadObserver& observer) {
  const std::vector<int> producers = find_producers(program.graph);
  std::size_t done = 0;
  for (const WeightUse& use : program.weights) {
    const Key key{use.key, use.layout};
    if (!weights_.contains(key)) {
      Buffer folded = fold(program, producers, use);
      bytes_ += folded.bytes();
      weights_.emplace(key, std::move(folded));
    }
    if (observer) observer(++done, program.weights.size());
  }
}

void WeightStore::check_param(const Graph& graph, ValueId param) const {
  const Value& value = graph.value(param);
  if (!checkpoint_.has(value.name))
    fail("{} has no tensor '{}', which the model needs", checkpoint_.description(), value.name);
  const TensorSpec& spec = checkpoint_.entry(value.name);
  if (spec.dtype != value.type.dtype || !(spec.shape == value.type.shape))
    fail("{}: tensor '{}' is {}{}, expected {}{}", checkpoint_.description(), value.name, spec.dtype, spec.shape,
         value.type.dtype, value.type.shape);
}

Buffer WeightStore::fold(const Program& program, const std::vector<int>& producers, const WeightUse& use) {
  const Graph graph = weight_graph(program.graph, producers, use.value);
  for (const ValueId input : graph.values_of(ValueKind::kInput)) check_param(graph, input);
  Session session(std::make_shared<Program>(plan(graph, program.target, {.arena = true})), backend_);
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    session.set_input_bytes(name, checkpoint_.bytes(name));
    checkpoint_.release(name);
  }
  session.run();
  const bool is_computed = !graph.nodes().empty();
  if (is_computed) session.release_inputs();  // what is left is the dense weight, and then its packed form beside it

  Buffer folded = backend_.allocate(use.bytes, MemoryCategory::kWeights);
  const std::byte* dense = session.output_address("weight");
  if (use.packer != nullptr)
    use.packer->pack(session.stream(), use.packed_index, dense, folded.data());
  else
    backend_.copy_on_device(session.stream(), folded.data(), dense, use.bytes);
  session.stream().synchronize();
  return folded;
}

std::byte* WeightStore::address(const std::string& key, const std::string& layout) const {
  const auto found = weights_.find({key, layout});
  HR_CHECK(found != weights_.end());
  return found->second.data();
}

}  // namespace headroom
