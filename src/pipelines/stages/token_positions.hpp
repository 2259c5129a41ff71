#pragma once

#include <cstdint>
#include <span>

#include "base/tensors/host_tensor.hpp"
#include "pipelines/request.hpp"

/// Positions of tokens in FLUX.2 and FLUX.3: (image, row, column, place).
namespace headroom {

/// The tokens of one image.
struct TokenGrid {
  TokenSize size;
  double image = 0, place = 0;
  double scale = 1;  ///< of rows and columns
};
/// Those of all images, one after the other: [tokens, 4] f32.
[[nodiscard]] HostTensor grid_positions(std::span<const TokenGrid> grids);
/// Text has places 0, 1, 2, ...: [tokens, 4] f32.
[[nodiscard]] HostTensor text_places(std::int64_t tokens);

}  // namespace headroom
