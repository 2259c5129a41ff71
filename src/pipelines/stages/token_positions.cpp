#include "pipelines/stages/token_positions.hpp"

#include <algorithm>
#include <array>

namespace headroom {
namespace {

constexpr std::int64_t kPositionAxes = 4;

}  // namespace

void number_tokens(std::span<float> ids, std::int64_t image, std::int64_t columns, std::int64_t axes) {
  for (std::int64_t token = 0; token < std::ssize(ids) / axes; ++token) {
    const std::int64_t numbers[] = {image, token / columns, token % columns};
    for (std::int64_t axis = 0; axis < std::min<std::int64_t>(axes, std::ssize(numbers)); ++axis)
      ids[static_cast<std::size_t>(token * axes + axis)] = static_cast<float>(numbers[axis]);
  }
}

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
