// matmul: c[..., i, j] = epilogue(sum_l a[..., i, l] * b[..., l, j]), or a[..., l, i] with transpose_a, b[..., j, l]
// with transpose_b
//
// Shapes     a[batch..., m, k], b[batch..., k, n] or b[batch..., n, k] -> c[batch..., m, n], ranks 2 to 8.
// Dtypes     f32; bf16 with f32 sums, where the CPU has AVX-512.
// Layout     innermost stride 1, any strides outside: heads are read and written where a linear left them, without a
//            copy.
// Alignment  that of the dtype.
// Epilogue   an activation; relu only as an op of its own, for oneDNN's makes 0 of NaN.
// Bytes      batch * (m*k + k*n + m*n) * size
// FLOPs      2 * batch * m * n * k + the activation's
//
// Tried, on attention shapes: rows with gaps run on oneDNN's gemm, in f32 at about the rate of its brgemm on dense
// ones, in bf16 somewhat slower. Merging batch axes into one gains nothing, and loses brgemm if heads are
// interleaved, so the axes are passed on unchanged.

#include <algorithm>
#include <utility>

#include "kernels/core/support.hpp"
#include "kernels/vendor/onednn/engine.hpp"

namespace headroom {
namespace {

/// The strides of axes of extent 1 mean nothing to us, but oneDNN recognizes layouts by them: the innermost gets 1,
/// others that of a tensor without gaps.
Shape meaningful_strides(const Operand& operand) {
  const Shape& shape = operand.type.shape;
  Shape strides = operand.strides;
  std::int64_t span = 1;  // of all axes with more than one element
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1) span = std::max(span, shape[axis] * strides[axis]);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != 1) continue;
    if (axis == shape.rank() - 1)
      strides.set(axis, 1);
    else
      strides.set(axis, axis == shape.rank() - 2 ? shape[-1] : span);
  }
  return strides;
}

void swap_inner_axes(Shape& shape) {
  const std::int64_t inner = shape[-1];
  shape.set(-1, shape[-2]);
  shape.set(-2, inner);
}

dnnl::memory::desc describe_matrix(const Operand& operand, bool transposed) {
  Shape shape = operand.type.shape;
  Shape strides = meaningful_strides(operand);
  if (transposed) {
    swap_inner_axes(shape);
    swap_inner_axes(strides);
  }
  return onednn::describe(operand.type.dtype, shape, strides);
}

dnnl::matmul::primitive_desc make_matmul(const OpSpec& spec, const Operand& a, const Operand& b, const Operand& c) {
  const bool transpose_a = spec.attributes[attr::kTransposeA], transpose_b = spec.attributes[attr::kTransposeB];
  dnnl::post_ops end;
  onednn::append_activation(end, only_activation_of(spec));
  dnnl::primitive_attr attributes = onednn::attributes_with_user_scratch();
  attributes.set_post_ops(end);
  return {
      dnnl::matmul::desc(describe_matrix(a, transpose_a), describe_matrix(b, transpose_b), describe_matrix(c, false)),
      attributes, onednn::cpu_engine()};
}

Support supports_matmul(const OpSpec& spec, const Target& target) {
  if (Support rejection = onednn::check_dtype(spec.input(Role::kA).dtype, target)) return rejection;
  if (Support rejection = onednn::check_sizes(spec)) return rejection;
  if (Support rejection = check_epilogue(spec, EpilogueForms::kActivation)) return rejection;
  if (spec.attributes[attr::kEpilogue] == Epilogue(Activation::kRelu)) return Rejection{"takes no relu"};
  return onednn::find_fast_implementation(target, [&] {
    return make_matmul(spec, dense_operand(spec.input(Role::kA)), dense_operand(spec.input(Role::kB)),
                       dense_operand(spec.outputs[0]));
  });
}

KernelPlan plan_matmul(const KernelBinding& binding) {
  return onednn::plan_call(
      make_matmul(binding.spec, binding.input(Role::kA), binding.input(Role::kB), binding.outputs[0]), binding.threads);
}

}  // namespace

const Kernel& onednn_matmul() {
  static const LibraryKernel kernel({.name = "onednn.matmul",
                                     .op = Op::kMatmul,
                                     .supports = supports_matmul,
                                     .strided = kAllStrided,
                                     .plan = onednn::planned<plan_matmul>});
  return kernel;
}

}  // namespace headroom
