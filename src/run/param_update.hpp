#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/host_tensor.hpp"
#include "base/shape.hpp"

namespace headroom {

/// Elements on the host, row-major and perhaps unaligned, that belong to somebody else.
struct HostView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// What is added to a param [n, ...]: scale * up down, where that is seen as a matrix.
struct ParamTerm {
  HostView up;                        ///< [n, rank], or of the param's own shape where there is no `down`
  std::optional<HostView> down = {};  ///< [rank, k]
  double scale = 1;
  std::shared_ptr<const void> owner = {};  ///< of the elements

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
