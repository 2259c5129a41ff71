// matmul on a GPU: c[batch..., m, n] = a[batch..., m, k] b[batch..., k, n] (b[batch..., n, k] with transpose_b), by
// cuBLASLt
//
// Dtypes     f32, bf16 and f16 with f32 sums; f32 without TF32 unless the attribute tf32 allows it.
// Layout     innermost strides 1, any outside. Batch axes that lie behind each other in all three operands become one
// batch of
//            the library; what is left over is walked with one call each.
// Bytes      each operand once; FLOPs 2 * batch * m * n * k.

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "kernels/cublaslt/product.hpp"
#include "kernels/cublaslt/tf32.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using cublaslt::Product;
using cublaslt::ProductSpec;

/// A batch axis: how many products, and how far apart they lie in a, b and c, in elements.
struct BatchAxis {
  std::int64_t extent = 1;
  std::array<std::int64_t, 3> strides{};
};

/// The batch axes with those merged that lie behind each other in all operands, the longest last.
std::vector<BatchAxis> merge_batch(const std::array<const Operand*, 3>& operands) {
  std::vector<BatchAxis> axes;  // innermost first
  const Shape& shape = operands[2]->type.shape;
  for (int axis = shape.rank() - 3; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    BatchAxis next{.extent = shape[axis]};
    bool merges = !axes.empty();
    for (std::size_t k = 0; k < operands.size(); ++k) {
      next.strides[k] = operands[k]->strides[axis];
      merges = merges && next.strides[k] == axes.back().strides[k] * axes.back().extent;
    }
    if (merges)
      axes.back().extent *= next.extent;
    else
      axes.push_back(next);
  }
  if (axes.empty()) axes.emplace_back();
  std::swap(*std::ranges::max_element(axes, {}, &BatchAxis::extent), axes.back());
  return axes;
}

class PreparedMatmul final : public PreparedKernel {
 public:
  PreparedMatmul(const OpSpec& spec, const Operand& a, const Operand& b, const Operand& c)
      : loops_(merge_batch({&a, &b, &c})),
        size_(static_cast<std::int64_t>(size_of(a.type.dtype))),
        product_(product_spec(spec, loops_.back(), a, b, c)) {
    loops_.pop_back();
  }

  [[nodiscard]] std::size_t scratch_bytes() const override { return product_.workspace_bytes(); }
  [[nodiscard]] std::string implementation() const override { return product_.implementation(); }

  void launch(const LaunchArguments& arguments) const override {
    std::int64_t launches = 1;
    for (const BatchAxis& loop : loops_) launches *= loop.extent;
    for (std::int64_t i = 0; i < launches; ++i) {
      std::int64_t rest = i;
      std::array<std::int64_t, 3> offsets{};
      for (const BatchAxis& loop : loops_) {
        for (std::size_t k = 0; k < offsets.size(); ++k) offsets[k] += rest % loop.extent * loop.strides[k] * size_;
        rest /= loop.extent;
      }
      product_.run(arguments.stream.native_handle(),
                   {.a = static_cast<const std::byte*>(arguments.inputs[0]) + offsets[0],
                    .b = static_cast<const std::byte*>(arguments.inputs[1]) + offsets[1],
                    .c = static_cast<std::byte*>(arguments.outputs[0]) + offsets[2]},
                   arguments.scratch);
    }
  }

 private:
  static ProductSpec product_spec(const OpSpec& spec, const BatchAxis& batch, const Operand& a, const Operand& b,
                                  const Operand& c) {
    return {.dtype = a.type.dtype,
            .c_dtype = a.type.dtype,
            .rounds_to_tf32 = cublaslt::rounds_to_tf32(spec),
            .m = c.type.shape[-2],
            .n = c.type.shape[-1],
            .k = a.type.shape[-1],
            .transpose_b = spec.attributes.get_int("transpose_b") != 0,
            .a_row = a.strides[-2],
            .b_row = b.strides[-2],
            .c_row = c.strides[-2],
            .batch = batch.extent,
            .a_batch = batch.strides[0],
            .b_batch = batch.strides[1],
            .c_batch = batch.strides[2]};
  }

  std::vector<BatchAxis> loops_;  // around the library's batch
  std::int64_t size_;
  Product product_;
};

class CublasltMatmul final : public cuda::LibraryKernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "cublaslt.matmul"; }
  [[nodiscard]] Op op() const override { return Op::kMatmul; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(Op::kMatmul, DeviceKind::kCuda, spec, target)) return rejection;
    const DType dtype = spec.inputs[0].dtype;
    if (!cuda::is_element(dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", dtype)};
    if (spec.outputs[0].shape.numel() == 0 || spec.inputs[0].shape.numel() == 0)
      return Rejection{"an operand has no elements"};
    return std::nullopt;
  }

  [[nodiscard]] std::string_view compute_name(const OpSpec& spec) const override {
    return cublaslt::compute_name(spec);
  }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& /*target*/) const override {
    return std::make_unique<PreparedMatmul>(spec, inputs[0], inputs[1], outputs[0]);
  }
};

}  // namespace

const Kernel& cublaslt_matmul() {
  static const CublasltMatmul kernel;
  return kernel;
}

}  // namespace headroom
