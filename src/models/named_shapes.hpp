#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/tensors/shape.hpp"

namespace headroom {

/// Names and shapes of a network's tensors in a file without a configuration, which is inferred from them. The file is
/// untrusted.
class NamedShapes {
 public:
  /// `context` is the name of the file in messages.
  NamedShapes(std::string context, std::map<std::string, Shape, std::less<>> shapes)
      : context_(std::move(context)), shapes_(std::move(shapes)) {}

  [[nodiscard]] const std::string& context() const noexcept { return context_; }
  [[nodiscard]] bool has(std::string_view name) const { return shapes_.contains(name); }
  /// Null if there is no such tensor.
  [[nodiscard]] const Shape* find(std::string_view name) const;
  /// An extent, from 1 to config::kMaxExtent. Throws Error for another extent, and if the tensor or axis is missing.
  [[nodiscard]] std::int64_t extent(std::string_view name, int axis) const;
  /// The number of tensors with this name, in which "{}" is the numbers from 0 on.
  [[nodiscard]] std::int64_t count(std::string_view pattern) const;

 private:
  std::string context_;
  std::map<std::string, Shape, std::less<>> shapes_;
};

}  // namespace headroom
