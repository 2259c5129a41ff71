// matmul on a GPU: c[batch..., m, n] = a[batch..., m, k] b[batch..., k, n] (a[batch..., k, m] with transpose_a,
// b[batch..., n, k] with transpose_b), by cuBLASLt
//
// Dtypes     f32, bf16 and f16 with f32 sums; f32 without TF32 unless the attribute tf32 allows it.
// Layout     innermost strides 1, any outside. Batch axes that are contiguous in all three operands become one batch of
//            the library; the remaining axes are loops with one call each.
// Epilogue   none.
// Bytes      each operand once; FLOPs 2 * batch * m * n * k.

#include <algorithm>

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/core/row_loop.hpp"
#include "kernels/core/support.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"

namespace headroom {
namespace {

using cublaslt::Gemm;

using Loop = RowLoop<3>;  // over a, b and c

/// The batch axes; those that are contiguous in all operands are merged.
Loop batch_loop(const Operand& a, const Operand& b, const Operand& c) {
  const auto batch_of = [](const Shape& shape) {
    Shape batch(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2)));
    batch.push_back(1);  // the row: one GEMM
    return batch;
  };
  return rows_of<3>(batch_of(c.type.shape), {batch_of(a.strides), batch_of(b.strides), batch_of(c.strides)});
}

/// Takes the longest axis out of a loop, the innermost of equally long ones.
Loop::Axis take_longest(Loop& loop) {
  if (loop.rank == 0) return {};
  int longest = 0;
  for (int axis = 0; axis < loop.rank; ++axis)
    if (loop.outer[axis].extent >= loop.outer[longest].extent) longest = axis;
  const Loop::Axis taken = loop.outer[longest];
  std::copy(loop.outer.begin() + longest + 1, loop.outer.begin() + loop.rank, loop.outer.begin() + longest);
  --loop.rank;
  detail::count_rows(loop);
  return taken;
}

KernelPlan plan(const KernelBinding& binding) {
  const Operand &a = binding.input(Role::kA), &b = binding.input(Role::kB), &c = binding.outputs[0];
  Loop loop = batch_loop(a, b, c);  // around the library's batch
  const Loop::Axis batch = take_longest(loop);
  const Gemm gemm({.dtype = a.type.dtype,
                   .c_dtype = a.type.dtype,
                   .rounds_to_tf32 = rounds_to_tf32(binding.spec),
                   .m = c.type.shape[-2],
                   .n = c.type.shape[-1],
                   .k = a.type.shape[binding.spec.attributes[attr::kTransposeA] ? -2 : -1],
                   .transpose_a = binding.spec.attributes[attr::kTransposeA],
                   .transpose_b = binding.spec.attributes[attr::kTransposeB],
                   .a_row = a.strides[-2],
                   .b_row = b.strides[-2],
                   .c_row = c.strides[-2],
                   .batch = batch.extent,
                   .a_batch = batch.strides[0],
                   .b_batch = batch.strides[1],
                   .c_batch = batch.strides[2]},
                  binding.target);
  const auto launch = [=, size = static_cast<std::int64_t>(size_of(a.type.dtype))](const LaunchArguments& arguments) {
    RowCursor cursor(loop, 0);
    for (std::int64_t i = 0; i < loop.rows; ++i, cursor.next())
      gemm.run(arguments.stream.native_handle(),
               {.a = arguments.input<std::byte>(0) + cursor.offset(0) * size,
                .b = arguments.input<std::byte>(1) + cursor.offset(1) * size,
                .c = arguments.output<std::byte>(0) + cursor.offset(2) * size},
               arguments.scratch_memory());
  };
  return {launch, gemm.workspace_bytes(), gemm.implementation()};
}

Support supports(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_epilogue(spec, EpilogueForms::kNone)) return rejection;
  return check_float_gemm(spec, target);
}

}  // namespace

const Kernel& cublaslt_matmul() {
  static const LibraryKernel kernel({.name = "cublaslt.matmul",
                                     .op = Op::kMatmul,
                                     .device = DeviceKind::kCuda,
                                     .supports = supports,
                                     .strided = kAllStrided,
                                     .plan = plan});
  return kernel;
}

}  // namespace headroom
