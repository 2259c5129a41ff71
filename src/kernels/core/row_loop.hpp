#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "base/tensors/shape.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// Strides of `operand` as if it had shape `to`: 0 along every axis that NumPy broadcasting adds or stretches.
[[nodiscard]] inline Shape broadcast_strides(const Operand& operand, const Shape& to) {
  const Shape& shape = operand.type.shape;
  Shape strides = to;
  for (int axis = 0; axis < to.rank(); ++axis) {
    const int own = axis - (to.rank() - shape.rank());
    strides.set(axis, own < 0 || (shape[own] == 1 && to[axis] != 1) ? 0 : operand.strides[own]);
  }
  return strides;
}

/// The strides of an elementwise op's operands, three at most, and of its result; 0 for those that it lacks.
[[nodiscard]] inline std::array<Shape, 4> elementwise_strides(std::span<const Operand> in, const Operand& y) {
  const auto strides = [&](std::size_t k) {
    return broadcast_strides(k < in.size() ? in[k] : Operand{}, y.type.shape);
  };
  return {strides(0), strides(1), strides(2), y.strides};
}

/// How N operands are walked together, row by row: their axes with those merged that lie one after the other in all of
/// them. Offsets are in elements. A plain value, made once when a kernel is prepared.
template <std::size_t N>
struct RowLoop {
  struct Axis {
    std::int64_t extent = 1;
    std::array<std::int64_t, N> strides{};
  };
  std::array<Axis, Shape::kMaxRank + 1> outer{};  ///< outermost first
  int rank = 0;                                   ///< of `outer`
  std::int64_t rows = 1;                          ///< product of the outer extents
  Axis inner;                                     ///< the row: strides are 1, or 0 for a broadcast operand
  /// If not 0, the last outer axis counts pieces of this length that the row was cut into; the last may be shorter.
  std::int64_t piece = 0;

  [[nodiscard]] std::int64_t row_length() const { return piece != 0 ? piece : inner.extent; }
};

inline constexpr std::int64_t kCacheLine = 64;  ///< bytes

/// Whether every row begins on a cache line in the last operand, where that begins on one.
template <std::size_t N>
[[nodiscard]] bool rows_begin_on_lines(const RowLoop<N>& loop, DType dtype) {
  return std::all_of(loop.outer.begin(), loop.outer.begin() + loop.rank, [&](const auto& axis) {
    return axis.strides[N - 1] * static_cast<std::int64_t>(size_of(dtype)) % kCacheLine == 0;
  });
}

/// Walks the rows of a RowLoop in order from a given one; hand each thread its own.
template <std::size_t N>
class RowCursor {
 public:
  RowCursor(const RowLoop<N>& loop, std::int64_t row) : loop_(loop) {
    for (int axis = loop.rank - 1; axis >= 0; --axis) {
      index_[axis] = row % loop.outer[axis].extent;
      row /= loop.outer[axis].extent;
      for (std::size_t k = 0; k < N; ++k) offsets_[k] += index_[axis] * loop.outer[axis].strides[k];
    }
  }

  /// The offset of this row in operand k.
  [[nodiscard]] std::int64_t offset(std::size_t k) const { return offsets_[k]; }
  /// How far along an outer axis this row is.
  [[nodiscard]] std::int64_t index(int axis) const { return index_[axis]; }
  [[nodiscard]] std::int64_t length() const {
    if (loop_.piece == 0) return loop_.inner.extent;
    return std::min(loop_.piece, loop_.inner.extent - index_[loop_.rank - 1] * loop_.piece);
  }

  void next() {
    for (int axis = loop_.rank - 1; axis >= 0; --axis) {
      const auto& here = loop_.outer[axis];
      const bool carry = ++index_[axis] == here.extent;
      const std::int64_t step = carry ? 1 - here.extent : 1;
      for (std::size_t k = 0; k < N; ++k) offsets_[k] += step * here.strides[k];
      if (!carry) return;
      index_[axis] = 0;
    }
  }

 private:
  const RowLoop<N>& loop_;
  std::array<std::int64_t, Shape::kMaxRank + 1> index_{};
  std::array<std::int64_t, N> offsets_{};
};

namespace detail {

/// Drops axes of extent 1 and merges each axis into the one before it where that changes no address. Returns the new
/// rank.
template <std::size_t N>
int merge_axes(std::array<typename RowLoop<N>::Axis, Shape::kMaxRank + 1>& axes, int rank) {
  int merged = 0;
  for (int axis = 0; axis < rank; ++axis) {
    const auto here = axes[axis];
    if (here.extent == 1) continue;
    bool follows = merged > 0;
    for (std::size_t k = 0; follows && k < N; ++k) {
      follows = axes[merged - 1].strides[k] == here.strides[k] * here.extent;
    }
    if (follows) {
      axes[merged - 1].extent *= here.extent;
      axes[merged - 1].strides = here.strides;
    } else {
      axes[merged++] = here;
    }
  }
  return merged;
}

template <std::size_t N>
void count_rows(RowLoop<N>& loop) {
  loop.rows = loop.inner.extent == 0 ? 0 : 1;
  for (int axis = 0; axis < loop.rank; ++axis) loop.rows *= loop.outer[axis].extent;
}

}  // namespace detail

/// Rows along the last of `extents`, for kernels that reduce over it: every operand is contiguous there, or has one
/// element. strides[k] are operand k's, 0 where it is broadcast.
template <std::size_t N>
[[nodiscard]] RowLoop<N> rows_of(const Shape& extents, const std::array<Shape, N>& strides) {
  RowLoop<N> loop;
  HR_CHECK(extents.rank() > 0);
  for (int axis = 0; axis < extents.rank(); ++axis) {
    typename RowLoop<N>::Axis& here = axis == extents.rank() - 1 ? loop.inner : loop.outer[axis];
    here.extent = extents[axis];
    for (std::size_t k = 0; k < N; ++k) here.strides[k] = strides[k][axis];
  }
  for (const std::int64_t stride : loop.inner.strides) HR_CHECK(stride == 1 || stride == 0 || loop.inner.extent <= 1);
  loop.rank = detail::merge_axes<N>(loop.outer, extents.rank() - 1);
  detail::count_rows(loop);
  return loop;
}

/// Rows as long as the operands allow, for elementwise kernels; rows longer than `piece` are cut so that threads can
/// share them. Axes are taken in the order in which they lie in the last operand, so channels-last tensors are one row
/// as well. In a row each operand is contiguous or one repeated element; where that cannot be, rows have one element.
template <std::size_t N>
[[nodiscard]] RowLoop<N> longest_rows(const Shape& extents, const std::array<Shape, N>& strides,
                                      std::int64_t piece = 4096) {
  RowLoop<N> loop;
  for (int axis = 0; axis < extents.rank(); ++axis) {
    loop.outer[axis].extent = extents[axis];
    for (std::size_t k = 0; k < N; ++k) loop.outer[axis].strides[k] = strides[k][axis];
  }
  std::stable_sort(loop.outer.begin(), loop.outer.begin() + extents.rank(),
                   [](const auto& a, const auto& b) { return a.strides[N - 1] > b.strides[N - 1]; });
  loop.rank = detail::merge_axes<N>(loop.outer, extents.rank());
  const bool row = loop.rank > 0 && std::ranges::all_of(loop.outer[loop.rank - 1].strides,
                                                        [](std::int64_t stride) { return stride == 0 || stride == 1; });
  if (row) {
    loop.inner = loop.outer[--loop.rank];
    if (loop.inner.extent > piece) {
      loop.piece = piece;
      auto& cut = loop.outer[loop.rank++];
      cut.extent = (loop.inner.extent + piece - 1) / piece;
      for (std::size_t k = 0; k < N; ++k) cut.strides[k] = piece * loop.inner.strides[k];
    }
  } else {
    loop.inner.strides.fill(1);
  }
  detail::count_rows(loop);
  return loop;
}

}  // namespace headroom
