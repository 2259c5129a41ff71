#include "run/weights/weight_folding.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/files/truncated_file.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "plan/weight_key.hpp"
#include "run/session/session.hpp"
#include "run/weights/folding_graph.hpp"

namespace headroom {

std::span<const std::byte> FoldingInput::elements(const ParamValues& params) const {
  if (!param.empty()) return params.bytes(param, type.dtype);
  return bytes.empty() ? std::as_bytes(std::span(&scale, 1)) : bytes;
}

void FoldingInput::write(const ParamValues& params, Backend& backend, Stream& stream, DevicePointer to) const {
  const std::optional<NormalStream> drawn = param.empty() ? std::nullopt : params.normal_stream(param);
  if (drawn) return backend.fill_normal(stream, to, type.dtype, static_cast<std::uint64_t>(type.shape.numel()), *drawn);
  if (const auto there = param.empty() ? std::nullopt : params.device_bytes(param)) {
    // Read only.
    const DevicePointer from{.buffer = const_cast<std::byte*>(there->data())};
    return backend.copy_on_device(stream, to, from, type.bytes());
  }
  backend.copy_from_host(stream, to, elements(params).data(), type.bytes());
  finish_reading(params);
}

void FoldingInput::finish_reading(const ParamValues& params) const {
  if (param.empty())
    require_whole(bytes);
  else
    params.release(param);
}

std::shared_ptr<const Program> FoldingPrograms::find(const Graph& graph, const DeviceTarget& target) {
  const std::string text = print(graph);
  if (const auto known = kept_.find(text); known != kept_.end()) return known->second;
  if (kept_.size() == kMostKept) kept_.clear();
  auto program = std::make_shared<Program>(plan(graph, target, {.arena = true, .folds_weights = false}));
  return kept_.emplace(text, std::move(program)).first->second;
}

std::vector<ValueId> values_of(std::span<const WeightUse* const> uses) {
  std::vector<ValueId> values;
  for (const WeightUse* use : uses)
    if (std::ranges::find(values, use->value) == values.end()) values.push_back(use->value);
  return values;
}

WeightFolding::WeightFolding(const Program& program, std::span<const WeightUse* const> uses)
    : target_(program.target), weight_(weight_graph(program.graph, values_of(uses))) {
  for (const ValueId param : weight_.values_of(ValueKind::kInput))
    params_.push_back({weight_.value(param).name, weight_.type(param)});
  const std::vector<ValueId> values = values_of(uses);
  for (const WeightUse* use : uses)
    made_.push_back({.output = std::to_string(std::ranges::find(values, use->value) - values.begin()),
                     .bytes = use->bytes,
                     .packer = use->packer,
                     .packed_index = use->packed_index});
}

bool WeightFolding::depends_on(std::span<const std::string> params) const {
  return std::ranges::any_of(params_,
                             [&](const Param& param) { return std::ranges::binary_search(params, param.name); });
}

Graph WeightFolding::graph(const ParamValues& params) const {
  std::vector<const ParamUpdate*> updates;
  for (const Param& param : params_) updates.push_back(params.update(param.name));
  return folding_graph(weight_, updates);
}

std::shared_ptr<const Program> WeightFolding::program(const ParamValues& params, FoldingPrograms& programs) const {
  const Graph graph = this->graph(params);
  return graph.nodes().empty() ? nullptr : programs.find(graph, target_);
}

std::vector<FoldingInput> WeightFolding::inputs(const ParamValues& params) const {
  std::vector<FoldingInput> inputs;
  for (std::size_t p = 0; p < params_.size(); ++p) {
    inputs.push_back({.name = param_input(p), .type = params_[p].type, .param = params_[p].name});
    const ParamUpdate* const update = params.update(params_[p].name);
    if (update == nullptr) continue;
    const auto add = [&](const HostView& view, std::string name) {
      inputs.push_back(
          {.name = std::move(name), .type = {.dtype = view.dtype, .shape = view.shape}, .bytes = view.bytes});
    };
    for (std::size_t t = 0; t < update->terms.size(); ++t) {
      const ParamTerm& term = update->terms[t];
      inputs.push_back(
          {.name = term_input(p, t, "scale"), .type = {.shape = {1}}, .scale = static_cast<float>(term.scale)});
      for (const auto& [name, view] : term.views()) add(*view, term_input(p, t, name));
    }
  }
  return inputs;
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

std::vector<WeightHandle> WeightFolding::fold(const ParamValues& params, FoldingPrograms& programs, Backend& backend,
                                              const std::shared_ptr<Stream>& stream) {
  for (const Param& param : params_) params.require(param.name, param.type.dtype, param.type.shape);
  std::vector<WeightHandle> weights(made_.size());
  make(params, programs, backend, stream, [&](std::size_t made) {
    weights[made] = std::make_shared<FoldedWeight>(backend, made_[made].bytes);
    made_[made].weight = weights[made];
    return weights[made]->at();
  });
  for (const WeightHandle& weight : weights) weight->set_folded();
  return weights;
}

void WeightFolding::fold_again(std::span<const WeightHandle> wanted, const ParamValues& params,
                               FoldingPrograms& programs, Backend& backend, const std::shared_ptr<Stream>& stream,
                               const std::function<void()>& before_writing) const {
  make(params, programs, backend, stream, [&](std::size_t made) {
    if (made == 0) before_writing();
    const auto weight = std::ranges::find(wanted, made_[made].weight.lock());
    return weight == wanted.end() ? DevicePointer() : (*weight)->at();
  });
  for (const WeightHandle& weight : wanted) weight->set_folded();
}

void WeightFolding::take_made(std::span<const WeightHandle> wanted, const Session& session, Backend& backend,
                              Stream& stream) const {
  for (const Made& made : made_)
    if (const auto weight = std::ranges::find(wanted, made.weight.lock()); weight != wanted.end())
      pack(made, backend, stream, session.output_pointer(made.output), (*weight)->at());
  for (const WeightHandle& weight : wanted) weight->set_folded();
}

void WeightFolding::make(const ParamValues& params, FoldingPrograms& programs, Backend& backend,
                         const std::shared_ptr<Stream>& stream, const Place& place) const {
  if (std::shared_ptr<const Program> folding = program(params, programs))
    run_program(std::move(folding), params, backend, stream, place);
  else
    copy_param(params, backend, *stream, place);
}

void WeightFolding::pack(const Made& made, Backend& backend, Stream& stream, DevicePointer dense, DevicePointer to) {
  if (made.packer != nullptr)
    made.packer->pack(stream, made.packed_index, dense, to);
  else
    backend.copy_on_device(stream, to, dense, made.bytes);
}

void WeightFolding::copy_param(const ParamValues& params, Backend& backend, Stream& stream, const Place& place) const {
  const FoldingInput param = inputs(params).front();
  if (made_.front().packer == nullptr) {
    if (const DevicePointer to = place(0)) param.write(params, backend, stream, to);
    return;
  }
  const Buffer dense = backend.allocate(param.type.bytes(), MemoryCategory::kWeights);
  param.write(params, backend, stream, dense.at());
  if (const DevicePointer to = place(0)) pack(made_.front(), backend, stream, dense.at(), to);
}

void WeightFolding::run_program(std::shared_ptr<const Program> program, const ParamValues& params, Backend& backend,
                                const std::shared_ptr<Stream>& stream, const Place& place) const {
  Session session(std::move(program), backend, stream);
  for (const FoldingInput& input : inputs(params))
    session.fill_input(input.name, [&](DevicePointer to) { input.write(params, backend, *stream, to); });
  session.submit();
  session.release_inputs();  // the dense weight remains, and then its packed form in addition
  for (std::size_t i = 0; i < made_.size(); ++i)
    if (const DevicePointer to = place(i))
      pack(made_[i], backend, *stream, session.output_pointer(made_[i].output), to);
}

}  // namespace headroom
