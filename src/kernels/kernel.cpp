#include "kernels/kernel.hpp"

#include "base/error.hpp"
#include "kernels/lists.hpp"

namespace headroom {
namespace {

/// Arithmetic per result element of an elementwise op or a norm; a transcendental function counts as one operation.
double flops_per_element(Op op, const Attributes& attributes) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kAddScalar:
    case Op::kMulScalar:
    case Op::kRelu:
      return 1;
    case Op::kSilu:
      return 4;
    case Op::kGelu:
      return attributes.get_text("approximate") == "tanh" ? 8 : 5;
    case Op::kSoftmax:
      return 5;
    case Op::kLayerNorm:
      return 6;
    case Op::kRmsNorm:
      return 4;
    case Op::kRopeTable:
    case Op::kTimestepEmbedding:
      return 2;
    case Op::kRope:
      return 3;
    case Op::kNormModulate:
      return 6 + 2;
    case Op::kGateResidual:
      return 2;
    case Op::kQkNormRope:
      return 4 + 3;
    default:
      return 0;
  }
}

double activation_flops(const std::string& activation) {
  if (activation == "gelu_tanh") return 8;
  if (activation == "gelu") return 5;
  return activation == "silu" ? 4 : 0;
}

double numel(const TensorType& type) { return static_cast<double>(type.shape.numel()); }

double least_flops(const OpSpec& spec) {
  const double results = numel(spec.outputs[0]);
  switch (spec.op) {
    case Op::kLinear: {
      const double k = static_cast<double>(spec.inputs[0].shape[-1]);
      const double bias = spec.inputs.size() > 2 ? 1 : 0;
      return results * (2 * k + bias + activation_flops(spec.attributes.get_text("activation")));
    }
    case Op::kScaledLinear: {
      const double k = static_cast<double>(spec.inputs[0].shape[-1]);
      const double bias = spec.inputs.size() > 4 ? 1 : 0;
      return results * (2 * k + 2 + bias + activation_flops(spec.attributes.get_text("activation")));
    }
    case Op::kQuantize:
      return numel(spec.inputs[0]) * 3;
    case Op::kNormModulateQuantize:
      return numel(spec.inputs[0]) * (6 + 2 + 3);
    case Op::kGateResidualNorm:
      return numel(spec.inputs[0]) * (2 + 6 + 2);
    case Op::kGateResidualNormQuantize:
      return numel(spec.inputs[0]) * (2 + 6 + 2 + 3);
    case Op::kMatmul:
      return results * 2 * static_cast<double>(spec.inputs[0].shape[-1]);
    case Op::kAttention: {                    // both products; the softmax between them runs beside
      const Shape& q = spec.inputs[0].shape;  // [b, h, s, d]
      const Shape& v = spec.inputs[2].shape;  // [b, h, t, e]
      return 2 * static_cast<double>(q[0] * q[1] * q[2]) * static_cast<double>(v[2] * (q[3] + v[3]));
    }
    case Op::kConv2d: {
      const Shape& weight = spec.inputs[1].shape;  // [o, c, kh, kw]
      return results * (2 * static_cast<double>(weight[1] * weight[2] * weight[3]) + 1);
    }
    case Op::kMaxPool2d:
    case Op::kMean:
      return numel(spec.inputs[0]);
    default: {
      double flops = 0;
      for (const TensorType& output : spec.outputs)
        flops += numel(output) * flops_per_element(spec.op, spec.attributes);
      return flops;
    }
  }
}

double least_bytes(const OpSpec& spec) {
  double bytes = 0;
  for (const TensorType& output : spec.outputs) bytes += static_cast<double>(output.bytes());
  // These read no more of their first operand than they write.
  const bool reads_part = spec.op == Op::kSlice || spec.op == Op::kRow;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i)
    bytes += static_cast<double>(reads_part && i == 0 ? spec.outputs[0].bytes() : spec.inputs[i].bytes());
  return bytes;
}

ComputeUnit unit_of(Op op, double flops) {
  if (op == Op::kLinear || op == Op::kScaledLinear || op == Op::kMatmul || op == Op::kConv2d || op == Op::kAttention)
    return ComputeUnit::kMatrix;
  return flops == 0 ? ComputeUnit::kNone : ComputeUnit::kVector;
}

}  // namespace

Operand dense_operand(const TensorType& type) {
  const Shape& shape = type.shape;
  if (type.layout != Layout::kChannelsLast) return {type, row_major_strides(shape)};
  HR_CHECK_EQ(shape.rank(), 4);  // logically [b, c, h, w], in memory [b, h, w, c]
  const std::int64_t c = shape[1], h = shape[2], w = shape[3];
  return {type, Shape{h * w * c, 1, w * c, c}};
}

bool is_dense(const Operand& operand) {
  const Shape dense = dense_operand(operand.type).strides;
  for (int axis = 0; axis < dense.rank(); ++axis)
    if (operand.type.shape[axis] != 1 && operand.strides[axis] != dense[axis])
      return false;  // an extent of 1 is never stepped over
  return true;
}

void PreparedKernel::pack(Stream& /*stream*/, std::size_t /*index*/, const void* /*dense*/, void* /*packed*/) const {
  HR_CHECK(false);  // a kernel that lists packed weights packs them
}

StrideRule Kernel::input_strides(const OpSpec& /*spec*/, int /*input*/) const { return StrideRule::kDense; }
StrideRule Kernel::output_strides(const OpSpec& /*spec*/, int /*output*/) const { return StrideRule::kDense; }
std::string_view Kernel::compute_name(const OpSpec& spec) const { return name_of(compute_type(spec)); }
bool Kernel::may_overwrite(const OpSpec& /*spec*/, int /*input*/) const { return false; }

Cost Kernel::cost(const OpSpec& spec) const {
  const double flops = least_flops(spec);
  return {.bytes = least_bytes(spec), .flops = flops, .unit = unit_of(spec.op, flops)};
}

std::span<const Kernel* const> kernels_of(DeviceKind device) {
  return device == DeviceKind::kCpu ? cpu_kernels() : cuda_kernels();
}

}  // namespace headroom
