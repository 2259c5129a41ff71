#include "run/weight_folding.hpp"

#include <algorithm>
#include <optional>

#include "plan/plan.hpp"
#include "plan/weight_key.hpp"
#include "run/session.hpp"

namespace headroom {
namespace {

void write_param(const ParamValues& params, const std::string& name, const TensorType& type, Backend& backend,
                 Stream& stream, DevicePointer to) {
  if (const std::optional<NormalStream> drawn = params.normal_stream(name)) {
    backend.fill_normal(stream, to, type.dtype, static_cast<std::uint64_t>(type.shape.numel()), *drawn);
  } else {
    backend.copy_from_host(stream, to, params.bytes(name).data(), type.bytes());
    params.release(name);
  }
}

}  // namespace

std::vector<ValueId> values_of(std::span<const WeightUse* const> uses) {
  std::vector<ValueId> values;
  for (const WeightUse* use : uses)
    if (std::ranges::find(values, use->value) == values.end()) values.push_back(use->value);
  return values;
}

WeightFolding::WeightFolding(const Program& program, std::span<const WeightUse* const> uses) {
  const std::vector<ValueId> values = values_of(uses);
  const Graph graph = weight_graph(program.graph, values);
  for (const ValueId param : graph.values_of(ValueKind::kInput))
    params_.push_back({graph.value(param).name, graph.type(param)});
  if (!graph.nodes().empty())
    program_ = std::make_shared<Program>(plan(graph, program.target, {.arena = true, .folds_weights = false}));
  for (const WeightUse* use : uses)
    made_.push_back({.output = std::to_string(std::ranges::find(values, use->value) - values.begin()),
                     .bytes = use->bytes,
                     .packer = use->packer,
                     .packed_index = use->packed_index});
}

bool WeightFolding::depends_on(std::string_view param) const {
  return std::ranges::find(params_, param, &Param::name) != params_.end();
}

bool WeightFolding::is_needed() const {
  return std::ranges::any_of(weights(),
                             [&](const WeightHandle& weight) { return !params_.empty() || weight->can_unload(); });
}

std::vector<WeightHandle> WeightFolding::weights() const {
  std::vector<WeightHandle> weights;
  for (const Made& made : made_)
    if (WeightHandle weight = made.weight.lock()) weights.push_back(std::move(weight));
  return weights;
}

std::vector<WeightHandle> WeightFolding::fold(const ParamValues& params, Backend& backend,
                                              const std::shared_ptr<Stream>& stream) {
  for (const Param& param : params_) params.require(param.name, param.type.dtype, param.type.shape);
  std::vector<WeightHandle> weights(made_.size());
  make(params, backend, stream, [&](std::size_t made) {
    weights[made] = std::make_shared<FoldedWeight>(backend, made_[made].bytes);
    made_[made].weight = weights[made];
    return weights[made]->at();
  });
  for (const WeightHandle& weight : weights) weight->set_folded();
  return weights;
}

void WeightFolding::fold_again(std::span<const WeightHandle> wanted, const ParamValues& params, Backend& backend,
                               const std::shared_ptr<Stream>& stream,
                               const std::function<void()>& before_writing) const {
  make(params, backend, stream, [&](std::size_t made) {
    if (made == 0) before_writing();
    const auto weight = std::ranges::find(wanted, made_[made].weight.lock());
    return weight == wanted.end() ? DevicePointer() : (*weight)->at();
  });
  for (const WeightHandle& weight : wanted) weight->set_folded();
}

void WeightFolding::make(const ParamValues& params, Backend& backend, const std::shared_ptr<Stream>& stream,
                         const Target& target) const {
  if (program_ == nullptr)
    copy_param(params, backend, *stream, target);
  else
    run_program(params, backend, stream, target);
}

void WeightFolding::pack(const Made& made, Backend& backend, Stream& stream, DevicePointer dense, DevicePointer to) {
  if (made.packer != nullptr)
    made.packer->pack(stream, made.packed_index, dense, to);
  else
    backend.copy_on_device(stream, to, dense, made.bytes);
}

void WeightFolding::copy_param(const ParamValues& params, Backend& backend, Stream& stream,
                               const Target& target) const {
  const auto& [name, type] = params_.front();
  if (made_.front().packer == nullptr) {
    if (const DevicePointer to = target(0)) write_param(params, name, type, backend, stream, to);
    return;
  }
  const Buffer dense = backend.allocate(type.bytes(), MemoryCategory::kWeights);
  write_param(params, name, type, backend, stream, dense.at());
  if (const DevicePointer to = target(0)) pack(made_.front(), backend, stream, dense.at(), to);
}

void WeightFolding::run_program(const ParamValues& params, Backend& backend, const std::shared_ptr<Stream>& stream,
                                const Target& target) const {
  Session session(program_, backend, stream);
  for (const Param& param : params_) {
    if (const std::optional<NormalStream> drawn = params.normal_stream(param.name)) {
      session.set_input_normal(param.name, *drawn);
    } else {
      session.set_input_bytes(param.name, params.bytes(param.name));
      params.release(param.name);
    }
  }
  session.submit();
  session.release_inputs();  // what is left is the dense weight, and then its packed form beside it
  for (std::size_t i = 0; i < made_.size(); ++i)
    if (const DevicePointer to = target(i))
      pack(made_[i], backend, *stream, session.output_pointer(made_[i].output), to);
}

}  // namespace headroom
