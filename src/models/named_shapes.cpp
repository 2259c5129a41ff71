#include "models/named_shapes.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/printable.hpp"
#include "models/config.hpp"

namespace headroom {

const Shape* NamedShapes::find(std::string_view name) const {
  const auto found = shapes_.find(name);
  return found == shapes_.end() ? nullptr : &found->second;
}

std::int64_t NamedShapes::extent(std::string_view name, int axis) const {
  const Shape* const shape = find(name);
  if (shape == nullptr) fail("{} has no tensor {}, from which the network is inferred", context_, printable_name(name));
  if (axis >= shape->rank() || (*shape)[axis] < 1 || (*shape)[axis] > config::kMaxExtent)
    fail("{}: {} is {}, expected an extent from 1 to {} on axis {}", context_, printable_name(name), *shape,
         config::kMaxExtent, axis);
  return (*shape)[axis];
}

std::int64_t NamedShapes::count(std::string_view pattern) const {
  std::int64_t count = 0;
  while (has(fmt::format(fmt::runtime(pattern), count))) ++count;
  return count;
}

}  // namespace headroom
