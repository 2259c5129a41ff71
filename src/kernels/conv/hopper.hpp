#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/conv/hopper_tile.hpp"
#include "kernels/conv/problem.hpp"

/// Convolutions by our own kernel for Hopper's tensor cores: hopper.cu.
namespace headroom::convolutions {

/// Changes with the kernel: the fastest of its tiles is kept on disk.
inline constexpr int kHopperRevision = 3;

/// The prefix of the names of its algorithms.
inline constexpr std::string_view kHopperAlgorithm = "hopper ";
/// "hopper 128 pixels x 160 channels, 3 taps at once, split 2"
[[nodiscard]] std::string name_of(const HopperTile& tile);

/// Why it does not take a problem. It takes bf16 or f16 with channels last, in packs of 8, without groups, on
/// compute capability 9.0; transposed ones with stride 2 that double an image, without a shortcut.
[[nodiscard]] Support why_not_hopper(const Problem& problem, const Target& target);

/// The tiles that a problem can be run with.
[[nodiscard]] std::vector<HopperTile> hopper_tiles(const Problem& problem);
/// The kernel with one of them.
[[nodiscard]] Algorithm make_hopper_algorithm(const Problem& problem, const HopperTile& tile);

/// Those that are worth measuring on the current device, best guess first.
[[nodiscard]] std::vector<Algorithm> make_hopper_algorithms(const Problem& problem);
/// The one of that name.
[[nodiscard]] std::optional<Algorithm> find_hopper_algorithm(const Problem& problem, const std::string& name);
/// The algorithm of that name, unless another is guessed to be much faster: tiles that fill the device for one
/// image may leave it half idle for an image that is a little larger.
[[nodiscard]] std::optional<Algorithm> find_good_hopper_algorithm(const Problem& problem, const std::string& name);

}  // namespace headroom::convolutions
