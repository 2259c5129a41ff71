#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/tensors/host_tensor.hpp"
#include "train/training_config.hpp"

namespace headroom {

/// Throws Error if no rule matches the name, or one that does not fit the shape.
void require_rule(const std::string& name, const Shape& shape, std::span<const InitialValues> rules);

/// The first value of a weight in f32, drawn from the seed and its name alone. `blocks` is the number of blocks of the
/// model. Throws the Error of require_rule().
[[nodiscard]] HostTensor initial_weight(const std::string& name, const Shape& shape,
                                        std::span<const InitialValues> rules, std::int64_t blocks, std::uint64_t seed);

}  // namespace headroom
