#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensors/dtype.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/shape.hpp"

namespace headroom {

/// Elements on the host, row-major and perhaps unaligned, that belong to somebody else.
struct HostView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// A matrix [n, k], whole or in factors.
struct Factors {
  HostView up;                        ///< [n, rank], or the matrix itself where there is no `down`
  std::optional<HostView> down = {};  ///< [rank, k]
  /// [rank, rank, s] between the two: element (n, k s) is then the sum over i and j of up(n, i) core(i, j, s) down(j, k).
  std::optional<HostView> core = {};
};

/// Rows [first, first + count) of a matrix.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// An update of a param [n, ...], seen as a matrix: scale * factors is added to it.
struct ParamTerm {
  enum class Join : std::uint8_t { kNone, kHadamard, kKronecker };

  Factors factors;          ///< a difference of the param's own shape where there is no `down` and no `other`
  Join join = Join::kNone;  ///< with `other`: element by element, or as the left of a Kronecker product
  std::optional<Factors> other = {};
  std::vector<RowRange> rows = {};  ///< of the joined matrix, one below the other; empty for all
  double scale = 1;
  /// DoRA: [n, 1], or [1, k] of a weight [n, k, ...]. The sum with the update is divided by the norms that the checkpoint's
  /// value with this update alone has, of rows or of columns, and multiplied by these.
  std::optional<HostView> magnitude = {};
  std::shared_ptr<const void> owner = {};  ///< of the elements

  /// The elements that it is made of, by what folding_graph() calls them ("up", "other.down").
  [[nodiscard]] std::vector<std::pair<std::string_view, const HostView*>> views() const;
  /// Whether it is the same elements, not only equal ones.
  [[nodiscard]] bool is_same(const ParamTerm& other) const;
  /// Why it cannot be added to a param of that type: "its matrix is [64, 32], expected [64, 16]". Empty where it can.
  [[nodiscard]] std::string obstacle(DType dtype, const Shape& shape) const;
};

/// What a param is beside what its checkpoint says.
struct ParamUpdate {
  std::vector<ParamTerm> terms = {};
  std::shared_ptr<const HostTensor> value = {};  ///< in place of the checkpoint's; null where that holds

  [[nodiscard]] bool is_same(const ParamUpdate& other) const;
};

/// By param.
using ParamUpdates = std::map<std::string, ParamUpdate, std::less<>>;

/// The params that are not the same in both, in order.
[[nodiscard]] std::vector<std::string> differing_params(const ParamUpdates& a, const ParamUpdates& b);

}  // namespace headroom
