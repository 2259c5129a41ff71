#pragma once

#include <string_view>

#include "kernels/core/kernel.hpp"

namespace headroom {

/// The values of b and c in the formula of a unary op of elementwise.def: its attribute "value", or "low" and
/// "high", or 0.
struct Scalars {
  float b = 0, c = 0;
};
[[nodiscard]] inline Scalars scalars_of(const OpSpec& spec) {
  const auto attribute = [&](std::string_view name) {
    return spec.attributes.has(name) ? static_cast<float>(spec.attributes.get_float(name)) : 0.0F;
  };
  return {spec.attributes.has("value") ? attribute("value") : attribute("low"), attribute("high")};
}

}  // namespace headroom
