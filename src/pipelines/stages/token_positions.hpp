#pragma once

#include <cstdint>
#include <span>

#include "base/tensors/host_tensor.hpp"
#include "pipelines/request.hpp"

namespace headroom {

/// Fills the ids of rows * columns tokens, [tokens, axes], in the numbering of FLUX.1 and Z-Image: (image, row,
/// column). Further axes are left alone.
void number_tokens(std::span<float> ids, std::int64_t image, std::int64_t columns, std::int64_t axes);

// Positions in FLUX.2 and FLUX.3: (image, row, column, place).

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
