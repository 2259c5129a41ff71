#pragma once

#include <cstdint>

#include "models/params.hpp"

namespace headroom {

/// Params that are all stored in f32.
inline ParamSource f32_params() {
  return {.dtype = [](std::string_view) { return DType::kF32; }};
}

/// The number of elements of all params of a graph.
inline std::int64_t count_params(const Graph& graph) {
  std::int64_t count = 0;
  for (const ValueId param : graph.values_of(ValueKind::kParam)) count += graph.type(param).shape.numel();
  return count;
}

}  // namespace headroom
