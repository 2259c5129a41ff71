#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/conv/problem.hpp"
#include "kernels/vendor/cudnn/installed.hpp"

/// Convolutions by cuDNN's engines. The epilogue is fused if an engine does that; otherwise a kernel of Headroom
/// runs after the engine.
namespace headroom::cudnn {

/// The engines that are worth measuring, best guess first: a few of heuristics A and B, fused and not. For small
/// work, which does not pay for an engine that is compiled at run time (as those of several operations often are),
/// a precompiled one. All can be recorded, and keep NaN and infinities, as tried on the device. Throws Error if the
/// library has none. Making one takes from 10 ms to a second.
[[nodiscard]] std::vector<convolutions::Algorithm> make_algorithms(const convolutions::Problem& problem,
                                                                   Backend& backend, bool is_large);

/// The engine of that name, if the library still has it.
[[nodiscard]] std::optional<convolutions::Algorithm> find_algorithm(const convolutions::Problem& problem,
                                                                    Backend& backend, const std::string& name);

}  // namespace headroom::cudnn
