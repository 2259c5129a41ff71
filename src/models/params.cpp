#include "models/params.hpp"

#include <string>

#include "base/error.hpp"
#include "ir/param_name.hpp"

namespace headroom {
namespace {

/// The requested extents, or for a matrix stored as a 1x1 convolution those of the convolution.
Shape stored_extents(const ParamSource& params, const std::string& name, const Shape& shape) {
  if (!params.shape || !params.has || !params.has(name) || shape.rank() != 2) return shape;
  const Shape pointwise{shape[0], shape[1], 1, 1};
  return params.shape(name) == pointwise ? pointwise : shape;
}

std::string full_name(const Builder& builder, std::string_view name) {
  return builder.path().empty() ? std::string(name) : builder.path() + "." + std::string(name);
}

/// A param that is stored in blocks, unpacked to f32.
ValueId read_blocks(Builder& builder, const ParamSource& params, std::string_view name, const BlockFormat& format,
                    const Shape& shape) {
  const std::int64_t rows = shape[0], blocks = shape.numel() / rows / format.elements;
  const ValueId param =
      builder.param(name, TensorType{.dtype = DType::kU8, .shape = {rows, blocks, format.bytes}}, params.checkpoint);
  const ValueId values = builder.emit(Op::kUnpackBlocks, {param}, {{attr::kFormat, std::string(format.name)}})[0];
  return shape.rank() == 2 ? values : builder.reshape(values, {shape.dims().begin(), shape.dims().end()});
}

}  // namespace

ValueId read_param(Builder& builder, const ParamSource& params, std::string_view name, const Shape& shape) {
  const std::string full = full_name(builder, name);
  const DType stored = params.dtype(full);
  const Shape extents = stored_extents(params, full, shape);
  const BlockFormat* const format = params.blocks && (!params.has || params.has(full)) ? params.blocks(full) : nullptr;
  ValueId param = format != nullptr
                      ? read_blocks(builder, params, name, *format, extents)
                      : builder.param(name, TensorType{.dtype = stored, .shape = extents}, params.checkpoint);
  if (!is_float(stored)) {
    if (stored != DType::kI8 || extents.rank() != 2)
      fail("{} is {}{}, expected a floating-point dtype, or i8 for a matrix", full, stored, extents);
    const ValueId scale =
        builder.param(std::string(name) + "_scale", TensorType{.shape = {extents[0]}}, params.checkpoint);
    param = builder.dequantize_rows(param, scale);
  } else if (size_of(stored) == 1 && params.has) {
    if (params.has(input_scale_name(full)))
      static_cast<void>(builder.param(input_scale_name(name), TensorType{.shape = {1}}, params.checkpoint));
    if (params.has(full + "_scale")) {
      const ValueId scale = builder.param(std::string(name) + "_scale", TensorType{.shape = {1}}, params.checkpoint);
      param = builder.mul(builder.cast(param, DType::kF32), scale);
    }
  }
  if (extents != shape) param = builder.reshape(param, {shape.dims().begin(), shape.dims().end()});
  return builder.cast(param, params.compute);
}

ValueId read_rows(Builder& builder, const ParamSource& params, std::string_view name, const Shape& shape, ValueId ids) {
  ParamSource as_stored = params;
  const DType stored = params.dtype(full_name(builder, name));
  if (is_float(stored)) as_stored.compute = stored;
  return builder.cast(builder.gather(read_param(builder, as_stored, name, shape), ids), params.compute);
}

}  // namespace headroom
