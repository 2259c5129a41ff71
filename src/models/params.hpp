#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/tensors/block_format.hpp"
#include "ir/builder.hpp"

namespace headroom {

/// The source of a model's params: the dtype that the checkpoint holds each in, and the dtype to compute in. A matrix
/// `x.weight` in i8 comes with one scale per row, `x.weight_scale` in f32, and is dequantized by them. One in 8-bit
/// floats may come with one scale for all, `x.weight_scale` [1] in f32, and with one of the activations that it is
/// multiplied with, `x.input_scale` [1] in f32, which the graph then has as a param that nothing reads yet.
struct ParamSource {
  std::function<DType(std::string_view name)> dtype;
  DType compute = DType::kF32;
  /// Whether a param of that name exists, as older checkpoints name some differently; if unset, current names are
  /// assumed.
  std::function<bool(std::string_view name)> has = {};
  /// Extents of an existing param: older checkpoints hold a matrix [n, k] as a 1x1 convolution, [n, k, 1, 1]. If
  /// unset, matrices are assumed to be matrices.
  std::function<Shape(std::string_view name)> shape = {};
  /// The format of the blocks in which the rows of a param are stored, null for others: it is then the param of bytes
  /// [rows, blocks, bytes of a block], and is unpacked. If unset, blocks are unpacked by the checkpoint.
  std::function<const BlockFormat*(std::string_view name)> blocks = {};
  /// The checkpoint's name, if a graph reads several: its params are then "vae:decoder.conv_in.weight". The functions
  /// above take names without it.
  std::string checkpoint = {};
};

/// The param `name` below the builder's path as [shape...] in the dtype to compute in. Throws Error that names it if
/// it is neither a float nor an i8 matrix.
[[nodiscard]] ValueId read_param(Builder& builder, const ParamSource& params, std::string_view name,
                                 const Shape& shape);
/// Rows of the table `name`, [rows, width], below the builder's path, by index: ids[...] -> [..., width] in the dtype
/// to compute in. The table keeps its stored dtype, and the rows are cast.
[[nodiscard]] ValueId read_rows(Builder& builder, const ParamSource& params, std::string_view name, const Shape& shape,
                                ValueId ids);

}  // namespace headroom
