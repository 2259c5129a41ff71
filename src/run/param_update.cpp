#include "run/param_update.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace headroom {
namespace {

bool is_same_view(const HostView& a, const HostView& b) {
  return a.bytes.data() == b.bytes.data() && a.dtype == b.dtype && a.shape == b.shape;
}

}  // namespace

bool ParamTerm::is_same(const ParamTerm& other) const {
  if (scale != other.scale || !is_same_view(up, other.up) || down.has_value() != other.down.has_value()) return false;
  return !down || is_same_view(*down, *other.down);
}

std::string ParamTerm::obstacle(DType of_param, const Shape& shape) const {
  if (!is_float(of_param)) return fmt::format("it is stored in {}, expected a float", of_param);
  if (!down) return up.shape == shape ? "" : fmt::format("what is added is {}, expected {}", up.shape, shape);
  const std::int64_t rows = shape.rank() == 0 ? 1 : shape[0];
  const Shape matrix{rows, rows == 0 ? 0 : shape.numel() / rows};
  const Shape product{up.shape[0], down->shape[1]};
  if (up.shape[1] != down->shape[0]) return fmt::format("the factors {} and {} have no product", up.shape, down->shape);
  return product == matrix ? "" : fmt::format("the product of the factors is {}, expected {}", product, matrix);
}

bool ParamUpdate::is_same(const ParamUpdate& other) const {
  return value == other.value &&
         std::ranges::equal(terms, other.terms, [](const ParamTerm& a, const ParamTerm& b) { return a.is_same(b); });
}

std::vector<std::string> differing_params(const ParamUpdates& a, const ParamUpdates& b) {
  std::vector<std::string> names;
  for (const auto& [param, update] : a)
    if (const auto other = b.find(param); other == b.end() || !other->second.is_same(update)) names.push_back(param);
  for (const auto& [param, update] : b)
    if (!a.contains(param)) names.push_back(param);
  std::ranges::sort(names);
  return names;
}

}  // namespace headroom
