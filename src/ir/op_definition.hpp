#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

class Builder;
struct OracleTensor;

using Types = std::span<const TensorType>;
using Operands = std::span<const OracleTensor* const>;

/// What an op is asked for the types of its results with. Their number is that of ops.def.
struct TypeQuery {
  Op op;
  const Attributes& attributes;
  Types in;

  /// Throws Error unless `holds`: "linear: expected <expectation>, but was given f32[2, 3], f32[4]".
  void require(bool holds, std::string_view expectation) const;
};

/// The arithmetic of an op. A transcendental function counts as one operation.
class Flops {
 public:
  using Rule = double (*)(const Attributes& attributes, Types in, Types out);

  // NOLINTNEXTLINE(google-explicit-constructor): a rule is one of the two
  constexpr Flops(double each) : each_(each) {}  ///< for each element of the results
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Flops(Rule rule) : rule_(rule) {}

  [[nodiscard]] double count(const Attributes& attributes, Types in, Types out) const;

 private:
  double each_ = 0;
  Rule rule_ = nullptr;
};

enum class OpKind : std::uint8_t {
  kElementwise,  ///< each element from the same place in every operand; they broadcast
  kView,         ///< elements of operand 0 in another arrangement, which can be other strides alone
  kCopy,         ///< elements of the operands
  kContraction,  ///< sums of products of elements of two operands: work for a matrix unit
  kOther,
};

/// How an op's operands relate to the entries of the results' first axis, the samples.
enum class Samples : std::uint8_t {
  kFirst,             ///< operand 0 by sample, the others whole
  kFirstAndFourth,    ///< operands 0 and 3
  kFirstTwoAndSixth,  ///< operands 0, 1 and 5
  kEvery,             ///< every operand, but for those of one sample, which serves all
  kBroadcast,         ///< every operand of the results' rank, but for those of one sample
  kMixed,
};
/// Where it names them: the operands that are read by sample, as bits by number.
[[nodiscard]] std::optional<std::uint32_t> operands_named_by(Samples samples);

/// What is known of an op besides what ops.def says of it: a row of the tables in ops/. Passes, plans and kernels ask
/// it and keep no lists of ops.
struct OpDefinition {
  static constexpr int kFixedRank = -1;
  static constexpr int kEveryOperand = std::numeric_limits<int>::max();

  Op op;
  OpKind kind = OpKind::kOther;

  /// Types of the results; throws Error where the operands do not fit.
  std::vector<TensorType> (*infer)(const TypeQuery& query);
  /// A plain op: fills `out`, whose types are set and whose elements are there, in double precision.
  void (*evaluate)(const Attributes& attributes, Operands in, std::span<OracleTensor> out) = nullptr;
  /// A fused op: emits the plain ops that it stands for.
  std::vector<ValueId> (*expand)(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) = nullptr;
  Flops flops = 0.0;
  double exponentials = 0;  ///< of a plain op, for each element of its result: what is made of e^x is one

  Samples samples = Samples::kMixed;
  /// Elements mix within so many innermost axes of operand 0, and any number of axes may stand in front of those.
  int inner_axes = kFixedRank;
  /// Where it depends on the attributes: whether what `samples` says holds of these.
  bool (*keeps_samples)(const Attributes& attributes) = nullptr;
  /// The attributes with one more axis of that extent in front of every operand, where they name axes or extents.
  Attributes (*under_axis)(const Attributes& attributes, std::int64_t extent) = nullptr;

  /// Takes images, of four axes, in any layout, and gives what it makes that of operand 0.
  bool any_layout = false;
  /// A row of what it makes needs one row of its operands alone, so that bodies of fused ops may hold it, as they may
  /// elementwise ops: row_program_of() says of which form.
  bool goes_along_rows = false;
  bool commutative = false;
  bool reads_part = false;  ///< of operand 0: as much as it makes
  /// Operands that only scale or shift what the op works on, as bits by number.
  std::uint32_t modulators = 0;
  /// f32 wherever it stands: positions and time, which 16 bits cannot count, pools, for which they do not pay, and
  /// what quantizers make or take, whose scales are f32 and whose products say themselves what they make.
  bool stays_f32 = false;
  /// So many operands, from the first, are stored in the dtype of the result; the others in what they have.
  int narrow_operands = kEveryOperand;
  /// So many results, from the first, are of the dtype that the op works on; the others have their own.
  int narrow_results = kEveryOperand;
};

[[nodiscard]] const OpDefinition& definition_of(Op op);

[[nodiscard]] inline bool is_elementwise(Op op) { return definition_of(op).kind == OpKind::kElementwise; }
/// Whether a node's result can be its operand's elements under other strides.
[[nodiscard]] inline bool is_view(Op op) { return definition_of(op).kind == OpKind::kView; }
[[nodiscard]] inline bool is_contraction(Op op) { return definition_of(op).kind == OpKind::kContraction; }
/// Whether rows of operand 0 are multiplied with a weight, each by itself.
[[nodiscard]] inline bool is_matmul(Op op) { return is_contraction(op) && definition_of(op).inner_axes == 1; }

/// The entries of a leading axis are called samples. Where sample i of each result of `node` needs only sample i of
/// some operands, for i in [0, samples): for each operand, whether that is how it is read; the others are needed whole.
/// Nothing where samples mix, where the results have another leading extent, and for a reshape, whose attribute names
/// every extent.
[[nodiscard]] std::optional<std::vector<bool>> operands_by_sample(const Graph& graph, const Node& node,
                                                                  std::int64_t samples);

}  // namespace headroom
