#include "pipelines/stages/token_positions.hpp"

#include <array>

namespace headroom {
namespace {

constexpr std::int64_t kPositionAxes = 4;

}  // namespace

HostTensor grid_positions(std::span<const TokenGrid> grids) {
  std::int64_t tokens = 0;
  for (const TokenGrid& grid : grids) tokens += grid.size.tokens();
  HostTensor ids(DType::kF32, {tokens, kPositionAxes});
  std::int64_t at = 0;
  for (const auto& [size, image, place, scale] : grids)
    for (std::int64_t token = 0; token < size.tokens(); ++token) {
      const auto row = static_cast<double>(token / size.columns), column = static_cast<double>(token % size.columns);
      for (const double number : std::array{image, row * scale, column * scale, place}) ids.set(at++, number);
    }
  return ids;
}

HostTensor text_places(std::int64_t tokens) {
  HostTensor ids(DType::kF32, {tokens, kPositionAxes});
  for (std::int64_t i = 0; i < tokens; ++i) ids.set(i * kPositionAxes + 3, static_cast<double>(i));
  return ids;
}

}  // namespace headroom
