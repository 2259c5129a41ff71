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
class CaseList;
struct OracleTensor;

using Types = std::span<const TensorType>;
using Operands = std::span<const OracleTensor* const>;

/// The input of type inference: an op, its attributes and operand types. The number of operands is valid by ops.def.
struct TypeQuery {
  Op op;
  const Attributes& attributes;
  Types in;

  /// Throws Error unless `holds`: "linear: expected <expectation>, but was given f32[2, 3], f32[4]".
  void require(bool holds, std::string_view expectation) const;
};

/// The FLOP count of an op. A transcendental function counts as one operation.
class Flops {
 public:
  using Rule = double (*)(const Attributes& attributes, Types in, Types out);

  // NOLINTNEXTLINE(google-explicit-constructor): a rule is one of the two
  constexpr Flops(double each) : each_(each) {}  ///< per element of the results
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Flops(Rule rule) : rule_(rule) {}

  [[nodiscard]] double count(const Attributes& attributes, Types in, Types out) const;

 private:
  double each_ = 0;
  Rule rule_ = nullptr;
};

/// A node through which the gradient of a loss is propagated.
struct Derivation {
  const Attributes& attributes;
  std::span<const ValueId> in;         ///< operands
  std::span<const ValueId> out;        ///< results
  std::span<const ValueId> gradients;  ///< of the results, each of its result's type; kNoValue if the loss ignores it
  std::vector<bool> wanted;            ///< for each operand whether its gradient is needed

  /// The gradient of the first result, of an op whose loss cannot ignore it: one with a single result.
  [[nodiscard]] ValueId gradient() const { return gradients[0]; }
};

enum class OpKind : std::uint8_t {
  kElementwise,  ///< each result element from the same position in every operand; operands broadcast
  kView,         ///< elements of operand 0 rearranged, possibly by strides alone
  kCopy,         ///< copies of elements of the operands
  kContraction,  ///< sums of products of elements of two operands, computed by matrix units
  kOther,
};

/// How the operands of an op relate to the samples: the entries of the results' first axis.
enum class Samples : std::uint8_t {
  kBatched,    ///< the operands that ops.def marks as batched are, the others are not
  kEvery,      ///< every operand is batched, unless it has one sample, which all share
  kBroadcast,  ///< every operand of the results' rank is batched, unless it has one sample
  kMixed,
};

/// Properties of an op that ops.def does not hold: a row of the tables in ops/. Passes, plans and kernels query it
/// and keep no lists of ops.
struct OpDefinition {
  static constexpr int kFixedRank = -1;
  static constexpr int kEveryResult = std::numeric_limits<int>::max();

  Op op;
  OpKind kind = OpKind::kOther;

  /// Types of the results. Throws Error if the operands do not fit.
  std::vector<TensorType> (*infer)(const TypeQuery& query);
  /// For a plain op: computes the elements of `out` in double precision. Types are set and elements allocated.
  void (*evaluate)(const Attributes& attributes, Operands in, std::span<OracleTensor> out) = nullptr;
  /// For a fused op: emits the plain ops that define it.
  std::vector<ValueId> (*expand)(Builder& builder, const Attributes& attributes, std::span<const ValueId> in) = nullptr;
  /// Emits the gradients of the wanted operands, each of its operand's type; kNoValue for the others, and for a
  /// gradient that is 0. A row without it either says why in `no_derivative`, or is differentiated by its formula in
  /// elementwise.def or by its definition (autodiff/differentiate.hpp).
  std::vector<ValueId> (*derive)(Builder& builder, const Derivation& node) = nullptr;
  /// Why the op has no derivative, to follow its name: "rounds its operand".
  std::string_view no_derivative = {};
  Flops flops = 0.0;
  /// for a plain op, exponentials per element of its result; each function computed from e^x counts as one
  double exponentials = 0;

  Samples samples = Samples::kMixed;
  /// The op mixes elements only within this number of innermost axes of operand 0; any number of axes may precede
  /// them.
  int inner_axes = kFixedRank;
  /// If it depends on the attributes: whether `samples` holds for these attributes.
  bool (*keeps_samples)(const Attributes& attributes) = nullptr;
  /// If the attributes name axes or extents: the attributes after every operand gets one more leading axis of that
  /// extent.
  Attributes (*under_axis)(const Attributes& attributes, std::int64_t extent) = nullptr;

  /// Takes images (four axes) in any layout. Its result has the layout of operand 0.
  bool any_layout = false;
  /// A row of the result depends on one row of the operands alone, so that bodies of fused ops may contain it next to
  /// elementwise ops. row_program_of() says in which form.
  bool goes_along_rows = false;
  /// The result depends on operands of other ranks (ir/ranks/collectives.hpp); `evaluate` gets those of the whole
  /// group. The op stays in its place among the graph's collectives, and is never folded as a weight.
  bool is_collective = false;
  bool commutative = false;
  bool reads_part = false;  ///< reads only as much of operand 0 as it produces
  /// bf16 and fp16 do not convert the op. Set for positions and timesteps, which need more than 16 bits; for random
  /// numbers; for ops that make or take quantized values, whose scales are f32 and whose matmuls name their result
  /// dtype; and for fused ops, whose bodies define the dtypes.
  bool stays_f32 = false;
  /// This number of results, from the first, has the dtype that the op works on; the others have their own dtype.
  int narrow_results = kEveryResult;

  /// Adds the op's small cases, and its benchmarks if it has any (ir/test_cases/op_cases.hpp).
  void (*cases)(CaseList& list) = nullptr;
  void (*benchmarks)(CaseList& list) = nullptr;
  bool takes_integers = false;  ///< the main operands may be integers, and the cases have attributes for them
  /// Of a fused op with `derive`: whether that is for these attributes and this number of operands. Otherwise the
  /// definition is differentiated.
  bool (*derives)(const Attributes& attributes, std::size_t operands) = nullptr;
};

[[nodiscard]] const OpDefinition& definition_of(Op op);

[[nodiscard]] inline bool is_elementwise(Op op) { return definition_of(op).kind == OpKind::kElementwise; }
/// Whether a node's result can alias its operand's memory, with other strides.
[[nodiscard]] inline bool is_view(Op op) { return definition_of(op).kind == OpKind::kView; }
[[nodiscard]] inline bool is_contraction(Op op) { return definition_of(op).kind == OpKind::kContraction; }
/// Whether rows of operand 0 are multiplied with a weight, each independently.
[[nodiscard]] inline bool is_matmul(Op op) { return is_contraction(op) && definition_of(op).inner_axes == 1; }
/// Whether images of either layout are convolved with a weight.
[[nodiscard]] inline bool is_convolution(Op op) { return is_contraction(op) && definition_of(op).any_layout; }

/// Whether operand `index` of the node has the leading axes of its result: a batched one by its role, or one of the
/// epilogue that has the result's shape.
[[nodiscard]] bool is_batched_operand(const Graph& graph, const Node& node, std::size_t index);

/// The entries of a leading axis are called samples. Returns for each operand whether it is batched: sample i of each
/// result of `node` needs only its sample i, for i in [0, samples). Operands that are not batched are needed whole.
/// Returns nothing if samples mix, if the results have another leading extent, and for a reshape, whose attribute
/// names every extent.
[[nodiscard]] std::optional<std::vector<bool>> operands_by_sample(const Graph& graph, const Node& node,
                                                                  std::int64_t samples);

}  // namespace headroom
