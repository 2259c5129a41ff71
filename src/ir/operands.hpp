#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>

#include "ir/op_code.hpp"

namespace headroom {

/// The role of an operand in its op. Each row of ops.def lists the roles of its op's operands in order.
enum class Role : std::uint8_t {
  kX,            ///< the data
  kA,            ///< the first of two equal operands
  kB,            ///< the second of two equal operands
  kBias,         ///< one number per channel, or one per score of an attention, to add
  kBlocks,       ///< packed weights, blocks of a format as bytes
  kCondition,    ///< bool, which of two values to take
  kCos,          ///< cosines of a rotation
  kGate,         ///< one number per channel to multiply with
  kIds,          ///< positions, or numbers of rows
  kIndex,        ///< the number of one row
  kInput,        ///< any number of inputs of a fused body
  kK,            ///< keys
  kKey,          ///< of random numbers
  kKScale,       ///< scales of quantized keys
  kLogsumexp,    ///< logarithms of sums of exponentials of scores
  kOffset,       ///< of random numbers
  kOther,        ///< the image that a shortcut convolves
  kPart,         ///< any number of parts to join
  kQ,            ///< queries
  kQScale,       ///< scales of quantized queries
  kResidual,     ///< a value of the result's type to add
  kScale,        ///< one number per channel to scale by
  kShift,        ///< one number per channel to add
  kShortcut,     ///< the weight of a 1x1 convolution
  kSin,          ///< sines of a rotation
  kTable,        ///< rows to choose from
  kTime,         ///< timesteps
  kUpdates,      ///< rows to add
  kV,            ///< values
  kVScale,       ///< scales of quantized values' channels
  kWeight,       ///< the matrix or filter of a contraction, or the scale of a norm's channels
  kWeightScale,  ///< scales of a quantized weight's rows
  kXScale,       ///< scales of quantized data's rows
  kDelta,        ///< sums of products of results and their gradients
  kGradient,     ///< of a result
};

/// One operand in a row of ops.def.
struct OperandSchema {
  Role role = Role::kX;
  bool optional = false;   ///< operands after it are given only if it is
  bool many = false;       ///< the last operand: given once or more
  bool batched = false;    ///< has the samples of the results, in ops whose Samples are kBatched
  bool own_dtype = false;  ///< keeps its dtype when the op is converted to another one
  bool modulates = false;  ///< only scales or shifts the data
};

/// The operands of an op, in order.
class OperandList {
 public:
  static constexpr std::size_t kMost = 64;  ///< operands of a node

  consteval OperandList(std::initializer_list<OperandSchema> operands) {
    for (const OperandSchema& operand : operands) operands_[count_++] = operand;
  }

  [[nodiscard]] constexpr const OperandSchema* begin() const { return operands_.data(); }
  [[nodiscard]] constexpr const OperandSchema* end() const { return operands_.data() + count_; }
  [[nodiscard]] constexpr std::size_t least() const {
    std::size_t least = 0;
    for (const OperandSchema& operand : *this) least += operand.optional ? 0 : 1;
    return least;
  }
  [[nodiscard]] constexpr std::size_t most() const { return count_ > 0 && operands_[count_ - 1].many ? kMost : count_; }
  /// The operand at that position among the inputs of a node, for an op that has operands.
  [[nodiscard]] constexpr const OperandSchema& at(std::size_t position) const {
    return operands_[position + 1 < count_ ? position : count_ - 1];
  }
  [[nodiscard]] constexpr std::optional<std::size_t> find(Role role) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (operands_[i].role == role) return i;
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kMostNamed = 6;
  std::array<OperandSchema, kMostNamed> operands_{};
  std::size_t count_ = 0;
};

constexpr OperandList operands_of(Op op) {
  // HR_OP names only the operands here; attributes are in op.hpp.
#define IN(name, ...) OperandSchema{.role = Role::name, __VA_ARGS__},
#define HR_OP(enumerator, name, operands, ...) \
  case Op::enumerator:                         \
    return {operands};
  switch (op) {
#include "ir/ops.def"
  }
#undef HR_OP
#undef IN
  return {};
}

/// The position of the operand with that role among the inputs of a node of `op`, which must have one.
constexpr std::size_t position_of(Op op, Role role) {
  const std::optional<std::size_t> found = operands_of(op).find(role);
  if (!found) throw std::logic_error("the op has no operand of that role");
  return *found;
}

}  // namespace headroom
