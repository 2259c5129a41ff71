#include "run/weight_store.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "plan/weight_key.hpp"
#include "run/session.hpp"

namespace headroom {

namespace {

/// The values that `uses` are, each once.
std::vector<ValueId> values_of(const std::vector<const WeightUse*>& uses) {
  std::vector<ValueId> values;
  for (const WeightUse* use : uses)
    if (std::ranges::find(values, use->value) == values.end()) values.push_back(use->value);
  return values;
}

/// The most that is there while `graph` makes weights of so many bytes: the params beside what the largest node works
/// on, and then that beside the weights. What is concatenated is made where it ends up.
std::size_t folding_bytes(const Graph& graph, std::size_t weights, bool is_packed) {
  std::size_t params = 0, largest = 0;
  for (const ValueId param : graph.values_of(ValueKind::kInput)) params += graph.type(param).bytes();
  if (graph.nodes().empty()) return is_packed ? params + weights : weights;  // a param that is the weight
  for (const Node& node : graph.nodes()) {
    std::size_t held = 0;
    for (const ValueId result : node.results) held += graph.type(result).bytes();
    for (const ValueId operand : node.inputs)
      if (node.op != Op::kConcat && graph.value(operand).kind == ValueKind::kResult)
        held += graph.type(operand).bytes();
    largest = std::max(largest, held);
  }
  return std::max(params, weights) + largest;
}

}  // namespace

/// What one node makes is folded together.
std::vector<WeightStore::Uses> WeightStore::list_missing(const Program& program) const {
  const std::vector<int> producers = find_producers(program.graph);
  std::vector<Uses> groups;
  std::map<int, std::size_t> group_of;  // by the node that makes it
  for (const WeightUse& use : program.weights) {
    if (is_there(use)) continue;
    const int producer = producers[index_of(use.value)];
    if (producer >= 0) {
      const auto [group, is_new] = group_of.try_emplace(producer, groups.size());
      if (!is_new) {
        groups[group->second].push_back(&use);
        continue;
      }
    }
    groups.push_back({&use});
  }
  return groups;
}

/// The host runs ahead of the device: while one weight is folded, the next is on its way.
void WeightStore::load(const Program& program) {
  const std::shared_ptr<Stream> stream = backend_.make_stream();
  for (const WeightUse& use : program.weights) take_up(use);
  for (const Uses& uses : list_missing(program)) fold(program, uses, stream);
  stream->synchronize();
}

LoadNeed WeightStore::need_of(const Program& program) const {
  LoadNeed need;
  for (const Uses& uses : list_missing(program)) {
    const bool is_packed = std::ranges::any_of(uses, [](const WeightUse* use) { return use->packer != nullptr; });
    std::size_t made = 0;
    for (const WeightUse* use : uses) made += use->bytes;
    const Graph graph = weight_graph(program.graph, values_of(uses));
    need.peak = std::max(need.peak, need.weights + folding_bytes(graph, made, is_packed));
    need.weights += made;
  }
  return need;
}

void WeightStore::keep_only(const Program& program) {
  std::map<Key, WeightHandle> used;
  for (const WeightUse& use : program.weights) {
    take_up(use);
    if (auto found = kept_.extract({use.key, use.layout})) used.insert(std::move(found));
  }
  for (const auto& [key, weight] : kept_) dropped_.insert_or_assign(key, weight);
  kept_ = std::move(used);
  std::erase_if(dropped_, [](const auto& weight) { return weight.second.expired(); });
}

/// Keeps again what the store has dropped, where a session still holds it.
void WeightStore::take_up(const WeightUse& use) {
  const auto found = dropped_.find({use.key, use.layout});
  if (found == dropped_.end()) return;
  if (WeightHandle weight = found->second.lock()) kept_.emplace(found->first, std::move(weight));
  dropped_.erase(found);
}

bool WeightStore::is_there(const WeightUse& use) const {
  const Key key{use.key, use.layout};
  const auto dropped = dropped_.find(key);
  return kept_.contains(key) || (dropped != dropped_.end() && !dropped->second.expired());
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

/// A param as the checkpoint holds it.
Buffer WeightStore::take_param(const Value& param, Stream& stream) {
  Buffer taken = backend_.allocate(param.type.bytes(), MemoryCategory::kWeights);
  if (const std::optional<NormalStream> values = checkpoint_.normal_stream(param.name)) {
    backend_.fill_normal(stream, taken.data(), param.type.dtype, static_cast<std::uint64_t>(param.type.shape.numel()),
                         *values);
  } else {
    backend_.copy_from_host(stream, taken.data(), checkpoint_.bytes(param.name).data(), taken.bytes());
    checkpoint_.release(param.name);
  }
  return taken;
}

void WeightStore::keep(const WeightUse& use, Buffer folded) {
  kept_.emplace(Key{use.key, use.layout}, std::make_shared<const Buffer>(std::move(folded)));
}

/// A folded weight in the form that its kernel asked for.
Buffer WeightStore::pack(const WeightUse& use, const std::byte* dense, Stream& stream) {
  Buffer folded = backend_.allocate(use.bytes, MemoryCategory::kWeights);
  if (use.packer != nullptr)
    use.packer->pack(stream, use.packed_index, dense, folded.data());
  else
    backend_.copy_on_device(stream, folded.data(), dense, use.bytes);
  return folded;
}

void WeightStore::fold(const Program& program, const Uses& uses, const std::shared_ptr<Stream>& stream) {
  const std::vector<ValueId> values = values_of(uses);
  const Graph graph = weight_graph(program.graph, values);
  const std::vector<ValueId> params = graph.values_of(ValueKind::kInput);
  for (const ValueId param : params) check_param(graph, param);
  if (graph.nodes().empty()) {
    Buffer param = take_param(graph.value(params.front()), *stream);
    return keep(*uses.front(),
                uses.front()->packer == nullptr ? std::move(param) : pack(*uses.front(), param.data(), *stream));
  }

  Session session(std::make_shared<Program>(plan(graph, program.target, {.arena = true, .folds_weights = false})),
                  backend_, stream);
  for (const ValueId param : params) {
    const std::string& name = graph.value(param).name;
    if (const std::optional<NormalStream> drawn = checkpoint_.normal_stream(name)) {
      session.set_input_normal(name, *drawn);
    } else {
      session.set_input_bytes(name, checkpoint_.bytes(name));
      checkpoint_.release(name);
    }
  }
  session.submit();
  session.release_inputs();  // what is left is the dense weight, and then its packed form beside it

  for (const WeightUse* use : uses) {
    const auto output = std::ranges::find(values, use->value) - values.begin();
    const std::byte* dense = session.output_address(std::to_string(output));
    keep(*use, pack(*use, dense, *stream));
  }
}

WeightHandle WeightStore::weight(const WeightUse& use) const {
  const auto found = kept_.find({use.key, use.layout});
  HR_CHECK(found != kept_.end());
  return found->second;
}

std::size_t WeightStore::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& [key, weight] : kept_) bytes += weight->bytes();
  return bytes;
}

}  // namespace headroom
