#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/algorithm.hpp"
#include "kernels/attention/hopper_form.hpp"

/// Attention by our own kernel for Hopper's tensor cores, for heads of up to 128: hopper.cu.
namespace headroom::attentions {

/// Changes with the kernel: the fastest of its tiles is kept on disk.
inline constexpr int kHopperRevision = 3;

/// [dim, tokens, heads, batch] for the copy engine, in boxes of `rows` rows of 128 bytes. It requires strides of
/// multiples of 16 bytes even where an axis has one element.
[[nodiscard]] cuda::BoxedTensor boxed(DType dtype, std::int64_t dim, std::int64_t tokens, std::int64_t heads,
                                      std::int64_t batch, const AttentionProblem::Strides& strides, int rows);

/// "hopper 128 queries x 128 keys, 1 tile a block and 1 shared by 4"
[[nodiscard]] std::string name_of(const HopperTile& tile);

/// Why it does not take an op. It takes bf16 or f16 in heads of up to 128, a multiple of 8, with a scale above 0, on
/// compute capability 9.0.
[[nodiscard]] Support why_not_hopper(const OpSpec& spec, const Target& target);

/// All tiles that a problem can be run with, in clusters of up to eight blocks.
[[nodiscard]] std::vector<HopperTile> hopper_tiles(const AttentionProblem& problem);
/// How many clusters of a tile's blocks a device runs at once.
using ClustersAtOnce = std::function<int(const HopperTile& tile, const HopperForm& form)>;
/// The tiles that are worth measuring, best guess first: a tile for each block or cluster, and as many for each as
/// keep all of them busy from the beginning to the end.
[[nodiscard]] std::vector<HopperTile> best_hopper_tiles(const AttentionProblem& problem,
                                                        const ClustersAtOnce& clusters_at_once);

/// The kernel with a tile of hopper_tiles().
[[nodiscard]] Algorithm make_hopper_algorithm(const AttentionProblem& problem, const HopperTile& tile);
/// The one of that name.
[[nodiscard]] std::optional<Algorithm> find_hopper_algorithm(const AttentionProblem& problem, const std::string& name);

}  // namespace headroom::attentions
