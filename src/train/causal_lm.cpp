#include "train/causal_lm.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "models/component.hpp"
#include "models/config.hpp"
#include "train/cross_entropy.hpp"
#include "train/training_config.hpp"

namespace headroom {
namespace {

constexpr const char* kTokens = "tokens";

/// The pass of a language model: `input_ids` [batch, tokens] -> `logits` [batch, tokens, vocabulary].
Graph logits_of(const nlohmann::json& model, const StepSize& size, const ParamSource& params) {
  const ComponentClass& kind = class_of(model);
  const ComponentPass& pass = kind.passes.front();
  if (pass.inputs != std::vector<std::string_view>{"input_ids"})
    fail("{} is no language model, as the objective causal-lm needs", kind.name);
  Graph network = pass.build(model, {{"input_ids", {size.batch, size.tokens}}}, params);
  if (network.outputs().size() != 1 || network.outputs()[0].name != "logits")
    fail("{} is no language model, as the objective causal-lm needs", kind.name);
  return network;
}

}  // namespace

Graph causal_lm_loss(const nlohmann::json& model, const StepSize& size, const ParamSource& params) {
  Graph graph("causal_lm");
  Builder b(graph);
  const auto& [micro_batches, batch, length] = size;
  const ValueId tokens = graph.add_input(kTokens, TensorType{.dtype = DType::kI32, .shape = {batch, length + 1}});
  const ValueId logits = append_network(b, logits_of(model, size, params),
                                        {{"input_ids", b.slice(tokens, 1, 0, length)}})[0];  // [batch, tokens, ids]
  const ValueId targets = b.slice(tokens, 1, 1, length);
  graph.add_output("loss", cross_entropy(b, b.reshape(logits, {batch * length, b.shape(logits)[2]}),
                                         b.reshape(targets, {batch * length, 1}), size.samples() * length));
  return graph;
}

CausalLm::CausalLm(const TrainingConfig& config)
    : model_(config.model), size_(config.size), data_(TokenFile::open(config.data.tokens)) {
  const std::int64_t most = config::read_int(model_, "n_positions", config::kMaxExtent, 1, config::kMaxExtent);
  if (size_.tokens > most) fail("tokens is {}, but the model's n_positions is {}", size_.tokens, most);
  sequences_.emplace(data_.ids(), size_.tokens, config.seed, data_.path().native());
  require_ids(data_);
  if (config.validation_data.tokens.empty()) return;
  validation_data_.emplace(TokenFile::open(config.validation_data.tokens));
  validation_.emplace(validation_data_->ids(), size_.tokens, 0, validation_data_->path().native());
  require_ids(*validation_data_);
}

void CausalLm::require_ids(const TokenFile& file) const {
  const std::int64_t known = config::read_int(model_, "vocab_size", config::kMaxExtent, 1, config::kMaxExtent);
  const std::span<const std::uint16_t> ids = file.ids();
  const auto largest = std::ranges::max_element(ids);
  if (largest != ids.end() && *largest >= known)
    fail("{}: has the id {}, but the model's vocab_size is {}", file.path().native(), *largest, known);
}

Graph CausalLm::loss(const ParamSource& params, std::int64_t micro_batches) const {
  return causal_lm_loss(model_, {micro_batches, size_.batch, size_.tokens}, params);
}

BatchData CausalLm::data(std::int64_t step) const {
  HostTensor tokens(DType::kI32, {size_.micro_batches, size_.batch, size_.tokens + 1});
  sequences_->fill(tokens, step * size_.samples());
  return {.tensors = {{kTokens, std::move(tokens)}}};
}

BatchData CausalLm::validation(std::int64_t index) const {
  HostTensor tokens(DType::kI32, {1, size_.batch, size_.tokens + 1});
  validation_->fill_in_order(tokens, index * size_.batch);
  return {.tensors = {{kTokens, std::move(tokens)}}};
}

nlohmann::json CausalLm::checkpoint_config() const {
  nlohmann::json config = model_;
  for (const char* key : {"bos_token_id", "eos_token_id"})
    if (!config.contains(key)) config[key] = data_.ids()[0];
  return config;
}

nlohmann::json CausalLm::data_identity() const {
  return {{"tokens", data_.ids().size()}, {"hash", fmt::format("{:016x}", data_.hash())}};
}

}  // namespace headroom
