#pragma once

#include <string>
#include <vector>

#include "kernels/attention/attention_problem.hpp"
#include "kernels/attention/hopper8_form.hpp"

/// scaled_attention by our own kernel for Hopper's tensor cores: hopper8.cu.
namespace headroom::attentions {

/// Changes with the kernel: the fastest of its variants is kept on disk.
inline constexpr int kHopper8Revision = 6;

/// A scaled_attention and the layout of its operands.
struct ScaledAttentionProblem {
  std::int64_t batch = 0, heads = 0, sharers = 1;  ///< query heads that follow each other and read one head of keys
  std::int64_t queries = 0, keys = 0, dim = 0;
  AttentionProblem::Strides q, k, v, out;                  ///< of v: [batch, heads, channels]
  AttentionProblem::Strides q_scales, k_scales, v_scales;  ///< of their [batch, heads]
  double scale = 1;
  DType scores = DType::kI8, dtype = DType::kBF16;  ///< of q and k; of the result
};
[[nodiscard]] ScaledAttentionProblem scaled_attention_problem(const OpSpec& spec, std::span<const Operand> inputs,
                                                              std::span<const Operand> outputs);

/// "hopper 8 bits, 192 queries, 4 a block and the rest spread over 132"
[[nodiscard]] std::string name_of(const Hopper8Tile& tile);
/// Why it does not take an op.
[[nodiscard]] Support why_not_hopper8(const OpSpec& spec, const Target& target);
/// The variants that a problem can be run with, best guess first.
[[nodiscard]] std::vector<Hopper8Tile> hopper8_tiles(const ScaledAttentionProblem& problem);
/// A plan of the kernel with one of these.
[[nodiscard]] KernelPlan plan_hopper8(const ScaledAttentionProblem& problem, const Hopper8Tile& tile);

}  // namespace headroom::attentions
