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

/// A non-owning view of host elements, row-major and possibly unaligned.
struct HostView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// A matrix [n, k], complete or in factors.
struct Factors {
  HostView up;                        ///< [n, rank], or the matrix itself if there is no `down`
  std::optional<HostView> down = {};  ///< [rank, k]
  /// [rank, rank, s] between the two: element (n, k s) is then the sum over i and j of up(n, i) core(i, j, s) down(j,
  /// k).
  std::optional<HostView> core = {};
};

/// Rows [first, first + count) of a matrix.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// An update of a param [n, ...] in matrix form: scale * factors is added to it.
struct ParamTerm {
  enum class Join : std::uint8_t { kNone, kHadamard, kKronecker };

  Factors factors;          ///< a difference of the param's own shape if there is no `down` and no `other`
  Join join = Join::kNone;  ///< with `other`: elementwise, or as the left operand of a Kronecker product
  std::optional<Factors> other = {};
  std::vector<RowRange> rows = {};  ///< of the joined matrix, concatenated; empty for all
  double scale = 1;
  /// DoRA: [n, 1], or [1, k] for a weight [n, k, ...]. The updated weight is divided by the norms, of rows or
  /// columns, of the checkpoint's value plus this update alone, and multiplied by this magnitude.
  std::optional<HostView> magnitude = {};
  std::shared_ptr<const void> owner = {};  ///< keeps the elements alive

  /// Its element views, under the names in folding_graph() ("up", "other.down").
  [[nodiscard]] std::vector<std::pair<std::string_view, const HostView*>> views() const;
  /// Whether it refers to the same elements; equal values are not enough.
  [[nodiscard]] bool is_same(const ParamTerm& other) const;
  /// Why it cannot be added to a param of that type: "its matrix is [64, 32], expected [64, 16]". Empty if it can.
  [[nodiscard]] std::string obstacle(DType dtype, const Shape& shape) const;
};

/// Changes of a param with respect to its checkpoint.
struct ParamUpdate {
  std::vector<ParamTerm> terms = {};
  std::shared_ptr<const HostTensor> value = {};  ///< replaces the checkpoint's value; null to keep that

  [[nodiscard]] bool is_same(const ParamUpdate& other) const;
};

/// By param name.
using ParamUpdates = std::map<std::string, ParamUpdate, std::less<>>;

/// The params whose updates differ, in order.
[[nodiscard]] std::vector<std::string> differing_params(const ParamUpdates& a, const ParamUpdates& b);

}  // namespace headroom
