#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/text_encoders/text_encoder.hpp"

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

}  // namespace headroom::text_encoder
