#include "pipelines/stages/stacks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace headroom {
namespace {

Shape with_first(const Shape& shape, std::int64_t first) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = first;
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

HostTensor stack(std::span<const HostTensor> parts) {
  const Shape& shape = parts.front().shape();
  HostTensor whole(parts.front().dtype(), with_first(shape, std::ssize(parts)));
  const std::size_t bytes = parts.front().bytes().size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HR_CHECK(parts[i].shape() == shape && shape[0] == 1);
    std::ranges::copy(parts[i].bytes(), whole.bytes().subspan(i * bytes).begin());
  }
  return whole;
}

std::vector<HostTensor> unstack(const HostTensor& whole) {
  std::vector<HostTensor> parts;
  for (std::int64_t i = 0; i < whole.shape()[0]; ++i) {
    HostTensor& part = parts.emplace_back(whole.dtype(), with_first(whole.shape(), 1));
    const std::size_t bytes = part.bytes().size();
    std::ranges::copy(whole.bytes().subspan(static_cast<std::size_t>(i) * bytes, bytes), part.bytes().begin());
  }
  return parts;
}

}  // namespace headroom
