#include "ir/convolution.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace headroom {
namespace {

template <std::size_t N>
std::array<std::int64_t, N> extents_of(const Attributes& attributes, std::string_view name) {
  const std::vector<std::int64_t>& given = attributes.get_ints(name);
  if (given.size() != N) fail("{} of a convolution must be {} integers, but was given {}", name, N, given.size());
  std::array<std::int64_t, N> extents{};
  std::ranges::copy(given, extents.begin());
  return extents;
}

}  // namespace

Builder::Convolution convolution_of(const Attributes& attributes) {
  return {.stride = extents_of<2>(attributes, "stride"),
          .padding = extents_of<4>(attributes, "padding"),
          .dilation = extents_of<2>(attributes, "dilation"),
          .groups = attributes.get_int("groups")};
}

}  // namespace headroom
