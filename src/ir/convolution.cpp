#include "ir/convolution.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace headroom {
namespace {

template <std::size_t N>
std::array<std::int64_t, N> extents_of(const Attributes& attributes, AttributeKey<Ints> key) {
  const Ints& given = attributes[key];
  if (given.size() != N) fail("{} of a convolution must be {} integers, but was given {}", key.name, N, given.size());
  std::array<std::int64_t, N> extents{};
  std::ranges::copy(given, extents.begin());
  return extents;
}

}  // namespace

Builder::Convolution convolution_of(const Attributes& attributes) {
  return {.stride = extents_of<2>(attributes, attr::kStride),
          .padding = extents_of<4>(attributes, attr::kPadding),
          .dilation = extents_of<2>(attributes, attr::kDilation),
          .groups = attributes[attr::kGroups]};
}

}  // namespace headroom
