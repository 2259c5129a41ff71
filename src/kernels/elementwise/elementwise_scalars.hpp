#pragma once

#include <string_view>

#include "kernels/core/kernel.hpp"

namespace headroom {

/// The values of b and c in the formula of a unary op of elementwise.def: its attribute "value", or "low" and
/// "high", or 0.
template <class T>
struct ScalarsOf {
  T b = 0, c = 0;
};
using Scalars = ScalarsOf<float>;
template <class T = float>
[[nodiscard]] ScalarsOf<T> scalars_of(const OpSpec& spec) {
  const auto number = [&](AttributeKey<double> key) {
    return spec.attributes.has(key) ? static_cast<T>(spec.attributes[key]) : T{0};
  };
  return {spec.attributes.has(attr::kValue) ? number(attr::kValue) : number(attr::kLow), number(attr::kHigh)};
}

}  // namespace headroom
