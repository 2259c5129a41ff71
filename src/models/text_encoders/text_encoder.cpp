#include "models/text_encoders/text_encoder.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace headroom::text_encoder {
namespace {

constexpr std::pair<std::string_view, Op> kActivations[] = {
    {"relu", Op::kRelu},
    {"gelu", Op::kGeluErf},
    {"gelu_new", Op::kGeluTanh},
    {"gelu_pytorch_tanh", Op::kGeluTanh},
    {"quick_gelu", Op::kQuickGelu},
    {"silu", Op::kSilu},
};

}  // namespace

Op activation_named(const nlohmann::json& config, const char* key, const std::string& name) {
  std::vector<std::string_view> names;
  for (const auto& [known, op] : kActivations) {
    if (known == name) return op;
    names.push_back(known);
  }
  fail("config.json: {} is {}, expected one of {}", key, config.at(key).dump(), fmt::join(names, ", "));
}

InputShapes id_shapes(const PassSize& size, std::int64_t most) {
  if (size.text_tokens < 1 || size.text_tokens > most)
    fail_usage("--text-tokens is {}, expected 1 to {}", size.text_tokens, most);
  return {{"input_ids", {size.batch, size.text_tokens}}};
}

ValueId add_ids(Graph& graph, const InputShapes& given, std::int64_t most) {
  const Shape& shape = require_shape(given, "input_ids", {{"batch"}, {"tokens"}});
  if (shape[1] > most) fail("'input_ids' is {}, expected at most {} tokens", shape, most);
  return graph.add_input("input_ids", TensorType{.dtype = DType::kI32, .shape = shape});
}

}  // namespace headroom::text_encoder
