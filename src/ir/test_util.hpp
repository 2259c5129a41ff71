#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "ir/interpreter.hpp"

// Small conveniences for the tests of this layer; not part of the library.

namespace headroom::testing_tools {

inline constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kI32 = DType::kI32;

/// An attribute of exactly this type, where a literal has another.
inline Attribute integer(std::int64_t value) { return value; }
inline Attribute ints(std::vector<std::int64_t> values) { return values; }

/// A floating-point tensor for the oracle.
inline OracleTensor reals(Shape shape, std::vector<double> values, DType dtype = DType::kF32) {
  HR_CHECK_EQ(static_cast<std::size_t>(shape.numel()), values.size());
  return {TensorType{dtype, shape}, std::move(values), {}};
}

/// An integer tensor for the oracle.
inline OracleTensor integers(Shape shape, std::vector<std::int64_t> values, DType dtype = DType::kI32) {
  HR_CHECK_EQ(static_cast<std::size_t>(shape.numel()), values.size());
  return {TensorType{dtype, shape}, {}, std::move(values)};
}

/// The single result of an op.
inline OracleTensor evaluate(Op op, const std::vector<OracleTensor>& inputs, NamedAttributes attributes = {}) {
  std::vector<OracleTensor> results = interpret_node(op, Attributes(op, std::move(attributes)), inputs);
  HR_CHECK_EQ(results.size(), std::size_t{1});
  return results[0];
}

inline HostTensor host(DType dtype, Shape shape, const std::vector<double>& values) {
  HostTensor tensor(dtype, shape);
  HR_CHECK_EQ(static_cast<std::size_t>(tensor.numel()), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

/// 0.1, 0.2, ... with alternating sign: values that no two positions share.
inline std::vector<double> ramp(std::int64_t count, double step = 0.1) {
  std::vector<double> values;
  for (std::int64_t i = 1; i <= count; ++i) values.push_back(static_cast<double>(i) * step * (i % 2 == 0 ? -1 : 1));
  return values;
}

}  // namespace headroom::testing_tools
