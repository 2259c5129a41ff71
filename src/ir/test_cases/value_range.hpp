#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/infer.hpp"
#include "ir/interpreter.hpp"

namespace headroom {

/// The random values of an operand.
struct ValueRange {
  enum Kind : std::uint8_t {
    kNormal,     ///< standard normals times `scale`
    kAboveZero,  ///< 0.5 and the magnitude of a standard normal, times `scale`
    kUniform,    ///< in [0, 1)
    kIntegers,   ///< whole numbers in [low, low + count), which the dtype may hold as floats
  };
  Kind kind = kNormal;
  double scale = 1;
  std::int64_t low = 0, count = 0;
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// The values of a tensor that may hold any number of its dtype.
[[nodiscard]] ValueRange value_range(DType dtype);

/// The values of input `index`, by its role: indices are those of existing rows, weights of contractions are scaled by
/// 1 / sqrt(fan-in), scales are small, times are uniform, and others may be any number.
[[nodiscard]] ValueRange value_range(const OpSpec& spec, std::size_t index);

/// Random elements for input `index`, of its range, rounded to its dtype.
[[nodiscard]] OracleTensor random_input(const OpSpec& spec, std::size_t index, std::uint64_t seed);

/// The same for every input.
[[nodiscard]] std::vector<OracleTensor> random_operands(const OpSpec& spec, std::uint64_t seed);

}  // namespace headroom
