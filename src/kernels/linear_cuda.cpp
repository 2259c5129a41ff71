// linear on a GPU: y[..., j] = activation(sum_i x[..., i] * weight[j, i] + bias[j]), by cuBLASLt
//
// Shapes     x[..., k], weight[n, k], bias[n] or none -> y[..., n]. Leading axes become one of m rows, or several
// products
//            where strides do not let them.
// Dtypes     f32, bf16 and f16 with f32 sums; y and bias have the dtype of x. f32 without TF32
//            unless the attribute tf32 allows it.
// Layout     x and y: innermost stride 1; weight and bias dense.
// Activation bias and the tanh form of gelu in the product's epilogue, where the library has that; silu and the erf
// form of
//            gelu by a second kernel over y in place.
// Bytes      (m*k + n*k + n + m*n) * size; FLOPs 2*m*n*k + m*n for the bias + the activation's.
//
// At FLUX's shapes (4608 rows) the heuristic's first choice runs at 620 to 800 TFLOP/s in bf16 on an H200 and the best
// of its first eight at 700 to 810, so a measured choice is worth 5 to 10% (docs/gpu_facts.md).

#include <algorithm>
#include <memory>
#include <optional>

#include "ir/activation.hpp"
#include "kernels/cublaslt/product.hpp"
#include "kernels/cublaslt/tf32.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"
#include "kernels/elementwise_cuda.hpp"
#include "kernels/linear_rows.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using cublaslt::Epilogue;
using cublaslt::Product;
using cublaslt::ProductSpec;

class PreparedLinear final : public PreparedKernel {
 public:
  PreparedLinear(const OpSpec& spec, const Operand& x, const Operand& y)
      : rows_(plan_rows(x, y)),
        size_(static_cast<std::int64_t>(size_of(x.type.dtype))),
        has_bias_(spec.inputs.size() > 2) {
    const Activation activation = activation_of(spec.attributes);
    ProductSpec product{.dtype = x.type.dtype,
                        .c_dtype = x.type.dtype,
                        .rounds_to_tf32 = cublaslt::rounds_to_tf32(spec),
                        .m = rows_.rows.extent,
                        .n = spec.inputs[1].shape[0],
                        .k = spec.inputs[1].shape[1],
                        .transpose_b = true,
                        .a_row = rows_.rows.x_stride,
                        .b_row = spec.inputs[1].shape[1],
                        .c_row = rows_.rows.y_stride,
                        .has_bias = has_bias_};
    if (activation == Activation::kGeluTanh) {
      product.epilogue = Epilogue::kGelu;
      product_ = Product::find(product);
      product.epilogue = Epilogue::kNone;
    }
    if (product_) return;
    product_.emplace(product);
    if (activation == Activation::kNone) return;
    after_ = cuda::ElementwiseRows{.op = op_of(activation),
                                   .dtype = y.type.dtype,
                                   .grid = cuda::longest_grid<4>(y.type.shape, elementwise_strides({&y, 1}, y))};
  }

  [[nodiscard]] std::size_t scratch_bytes() const override { return product_->workspace_bytes(); }
  [[nodiscard]] std::string implementation() const override {
    return after_ ? product_->implementation() + " + cuda" : product_->implementation();
  }

  void launch(const LaunchArguments& arguments) const override {
    void* const stream = arguments.stream.native_handle();
    const void* const bias = has_bias_ ? arguments.inputs[2] : nullptr;
    for (std::int64_t i = 0; i < rows_.count(); ++i) {
      const RowPlan::Offsets offsets = rows_.offsets(i);
      product_->run(stream,
                    {.a = static_cast<const std::byte*>(arguments.inputs[0]) + offsets.x * size_,
                     .b = arguments.inputs[1],
                     .bias = bias,
                     .c = static_cast<std::byte*>(arguments.outputs[0]) + offsets.y * size_},
                    arguments.scratch);
    }
    const void* const y = arguments.outputs[0];
    if (after_) cuda::launch_elementwise(stream, *after_, &y, arguments.outputs[0]);
  }

 private:
  RowPlan rows_;
  std::int64_t size_;
  bool has_bias_;
  std::optional<Product> product_;
  std::optional<cuda::ElementwiseRows> after_;
};

class CublasltLinear final : public cuda::LibraryKernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "cublaslt.linear"; }
  [[nodiscard]] Op op() const override { return Op::kLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(Op::kLinear, DeviceKind::kCuda, spec, target)) return rejection;
    const DType dtype = spec.inputs[0].dtype;
    if (!cuda::is_element(dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", dtype)};
    for (const TensorType& input : spec.inputs)
      if (input.dtype != dtype) return Rejection{fmt::format("takes {} beside {}, not {}", dtype, dtype, input.dtype)};
    if (spec.outputs[0].shape.numel() == 0 || spec.inputs[0].shape.numel() == 0)
      return Rejection{"an operand has no elements"};
    return std::nullopt;
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int input) const override {
    return {input == 0 ? StrideRule::kInnerDense : StrideRule::kDense, cuda::kLibraryAlignment};
  }
  [[nodiscard]] std::string_view compute_name(const OpSpec& spec) const override {
    return cublaslt::compute_name(spec);
  }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& /*target*/) const override {
    return std::make_unique<PreparedLinear>(spec, inputs[0], outputs[0]);
  }
};

}  // namespace

const Kernel& cublaslt_linear() {
  static const CublasltLinear kernel;
  return kernel;
}

}  // namespace headroom
