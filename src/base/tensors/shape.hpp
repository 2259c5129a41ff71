#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace headroom {

/// The extents of a tensor, outermost first; at most kMaxRank, stored without allocation. Rank 0 is a scalar.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Extent of `axis`; a negative axis counts from the end, so shape[-1] is the innermost.
  [[nodiscard]] std::int64_t operator[](int axis) const { return dims_[resolve(axis)]; }
  void set(int axis, std::int64_t extent) { dims_[resolve(axis)] = extent; }
  void push_back(std::int64_t extent);
  /// Number of elements: the product of the extents, 1 for a scalar.
  [[nodiscard]] std::int64_t numel() const noexcept;
  [[nodiscard]] std::span<const std::int64_t> dims() const noexcept {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  /// `axis` made non-negative; throws std::logic_error if it is out of range.
  [[nodiscard]] int axis(int axis) const { return static_cast<int>(resolve(axis)); }

  friend bool operator==(const Shape& a, const Shape& b) noexcept;
  /// "[2, 256, 4]"
  [[nodiscard]] std::string to_string() const;

 private:
  [[nodiscard]] std::size_t resolve(int axis) const;

  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Element strides of a dense row-major tensor of this shape.
[[nodiscard]] Shape row_major_strides(const Shape& shape);
/// Strides with which a tensor (`shape`, `strides`) can be read as `target` without moving elements; empty if that
/// needs a copy.
[[nodiscard]] std::optional<Shape> reshape_strides(const Shape& shape, const Shape& strides, const Shape& target);

}  // namespace headroom

template <>
struct fmt::formatter<headroom::Shape> : fmt::formatter<std::string_view> {
  format_context::iterator format(const headroom::Shape& shape, format_context& context) const;
};
