#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/builder.hpp"

namespace headroom {

/// Where a model's params come from: the type that the checkpoint holds each in, and the dtype to compute in. A matrix
/// `x.weight` in i8 has a scale for each row beside it, `x.weight_scale` in f32, and stands for their product.
struct ParamSource {
  std::function<DType(std::string_view name)> dtype;
  DType compute = DType::kF32;
  /// Whether there is a param of that name, where older checkpoints call some otherwise; without, names are today's.
  std::function<bool(std::string_view name)> has = {};
  /// Extents of a param that is there: older checkpoints hold a matrix [n, k] as a 1x1 convolution, [n, k, 1, 1]. Without, matrices
  /// are matrices.
  std::function<Shape(std::string_view name)> shape = {};
  /// What the checkpoint is called where a graph reads several: its params are then "vae:decoder.conv_in.weight". The
  /// names above are the checkpoint's own.
  std::string checkpoint = {};
};

/// The param `name` below the builder's path as [shape...] in the dtype to compute in. Throws Error that names it where it is neither
/// a float nor an i8 matrix.
[[nodiscard]] ValueId read_param(Builder& builder, const ParamSource& params, std::string_view name,
                                 const Shape& shape);
/// Rows of the table `name`, [rows, width], below the builder's path, by their numbers: ids[...] -> [..., width] in the
/// dtype to compute in. The table is kept as it is stored, and rows are cast.
[[nodiscard]] ValueId read_rows(Builder& builder, const ParamSource& params, std::string_view name, const Shape& shape,
                                ValueId ids);

}  // namespace headroom
