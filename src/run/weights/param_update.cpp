#include "run/weights/param_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace headroom {
namespace {

bool is_same_view(const HostView& a, const HostView& b) {
  return a.bytes.data() == b.bytes.data() && a.dtype == b.dtype && a.shape == b.shape;
}

using Views = std::vector<std::pair<std::string_view, const HostView*>>;

void add_views(Views& views, const Factors& factors, std::string_view up, std::string_view down,
               std::string_view core) {
  views.emplace_back(up, &factors.up);
  if (factors.down) views.emplace_back(down, &*factors.down);
  if (factors.core) views.emplace_back(core, &*factors.core);
}

/// Extents of a matrix, for a message.
struct Extents {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  friend bool operator==(const Extents&, const Extents&) = default;
};
std::string name_of(const Extents& extents) { return fmt::format("[{}, {}]", extents.rows, extents.columns); }

/// Why the factors do not form a matrix; empty if they do.
std::string obstacle_of(const Factors& factors) {
  if (factors.up.shape.rank() != 2 || (factors.down && factors.down->shape.rank() != 2))
    return fmt::format("{} is no matrix", factors.up.shape.rank() != 2 ? factors.up.shape : factors.down->shape);
  if (!factors.down) return "";
  const std::int64_t rank = factors.down->shape[0];
  if (factors.up.shape[1] != rank)
    return fmt::format("the factors {} and {} have no product", factors.up.shape, factors.down->shape);
  const bool fits = !factors.core || (factors.core->shape.rank() == 3 && factors.core->shape[0] == rank &&
                                      factors.core->shape[1] == rank);
  return fits ? "" : fmt::format("the core {} does not fit the rank, which is {}", factors.core->shape, rank);
}

Extents extents_of(const Factors& factors) {
  const std::int64_t inner = factors.down ? factors.down->shape[1] : factors.up.shape[1];
  return {factors.up.shape[0], factors.core ? inner * factors.core->shape[2] : inner};
}

}  // namespace

Views ParamTerm::views() const {
  Views views;
  add_views(views, factors, "up", "down", "core");
  if (other) add_views(views, *other, "other.up", "other.down", "other.core");
  if (magnitude) views.emplace_back("magnitude", &*magnitude);
  return views;
}

bool ParamTerm::is_same(const ParamTerm& term) const {
  return scale == term.scale && join == term.join && rows == term.rows &&
         std::ranges::equal(views(), term.views(), [](const auto& a, const auto& b) {
           return a.first == b.first && is_same_view(*a.second, *b.second);
         });
}

std::string ParamTerm::obstacle(DType of_param, const Shape& shape) const {
  if (!is_float(of_param)) return fmt::format("it is stored in {}, expected a float", of_param);
  const std::int64_t n = shape.rank() == 0 ? 1 : shape[0];
  const Extents matrix{n, n == 0 ? 0 : shape.numel() / n};
  if (magnitude) {
    const bool is_of_rows = magnitude->shape == Shape{n, 1};
    const bool is_of_columns = shape.rank() >= 2 && magnitude->shape == Shape{1, shape[1]};
    if (!is_of_rows && !is_of_columns)
      return fmt::format("its magnitudes are {}, expected one for each of {} outputs", magnitude->shape, n);
  }
  if (!factors.down && !other)
    return factors.up.shape == shape ? "" : fmt::format("what is added is {}, expected {}", factors.up.shape, shape);
  for (const Factors* each : {&factors, other ? &*other : nullptr})
    if (each != nullptr)
      if (std::string reason = obstacle_of(*each); !reason.empty()) return reason;
  Extents product = extents_of(factors);
  if (join == Join::kHadamard) {
    if (!(extents_of(*other) == product))
      return fmt::format("the products {} and {} have different shapes", name_of(product), name_of(extents_of(*other)));
  } else if (join == Join::kKronecker) {
    const Extents right = extents_of(*other);
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (std::max({product.rows, product.columns, right.rows, right.columns}) >= kMost)
      return fmt::format("{} and {} have no Kronecker product of that size", name_of(product), name_of(right));
    product = {product.rows * right.rows, product.columns * right.columns};
  }
  std::int64_t count = 0;
  for (const RowRange& range : rows) {
    if (range.first < 0 || range.count < 0 || range.first > product.rows - range.count)
      return fmt::format("its matrix is {}, expected {} rows from {}", name_of(product), range.count, range.first);
    count += range.count;
  }
  if (!rows.empty()) product.rows = count;
  return product == matrix
             ? ""
             : fmt::format("the product of the factors is {}, expected {}", name_of(product), name_of(matrix));
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
