// scaled_linear on a GPU: y[..., j] = activation((sum_i xq[..., i] wq[j, i]) * x_scale[...] * w_scale[j] + bias[j]), by
// cuBLASLt on FP8 tensor cores
//
// Shapes     xq[..., k], x_scale[...], wq[n, k], w_scale[n], bias[n] or none -> y[..., n]; k and n multiples of 16.
// Dtypes     xq and wq f8e4m3, scales f32; y bf16, f16 or f32; bias as y or f32. Products add up in the tensor cores'
//            own precision (fast accumulation), which is less than f32's.
// Layout     all dense but y (innermost stride 1), at multiples of 16 bytes.
// Bytes      m*k + n*k + 4*(m + n) + (n + m*n) * size; FLOPs 2*m*n*k + 2*m*n, m*n for the bias and the activation's.
//
// In 16 bits scales, bias and the tanh form of GELU are the product's epilogue, which costs 0 to 2%
// (docs/gpu_facts.md). Where the library has no such product (GPUs other than Hopper, results in f32, other
// activations) it makes the bare one in f32, and a kernel of ours scales that.

#include <algorithm>
#include <memory>
#include <optional>

#include "ir/activation.hpp"
#include "kernels/cublaslt/product.hpp"
#include "kernels/cuda/cuda_kernel.hpp"
#include "kernels/cuda_kernels.hpp"
#include "kernels/linear_rows.hpp"
#include "kernels/scale_product_cuda.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using cublaslt::Epilogue;
using cublaslt::Product;
using cublaslt::ProductSpec;

constexpr std::int64_t kChannelMultiple = 16;
constexpr std::int64_t kScaleMultiple = 4;  ///< 16 bytes of them

constexpr std::size_t round_up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

class PreparedScaledLinear final : public PreparedKernel {
 public:
  PreparedScaledLinear(const OpSpec& spec, const Operand& x, const Operand& y) : rows_(plan_rows(x, y)) {
    const std::int64_t n = spec.inputs[2].shape[0];
    const std::int64_t k = spec.inputs[2].shape[1];
    const DType made = y.type.dtype;
    k_ = k;
    size_ = static_cast<std::int64_t>(size_of(made));
    has_bias_ = spec.inputs.size() > 4;
    const Activation activation = activation_of(spec.attributes);
    ProductSpec product{.dtype = DType::kF8E4M3,
                        .c_dtype = made,
                        .has_scales = true,
                        .m = rows_.rows.extent,
                        .n = n,
                        .k = k,
                        .transpose_b = true,
                        .a_row = rows_.rows.x_stride,
                        .b_row = k,
                        .c_row = rows_.rows.y_stride,
                        .has_bias = has_bias_,
                        .epilogue = activation == Activation::kGeluTanh ? Epilogue::kGelu : Epilogue::kNone};
    const bool has_epilogue = activation == Activation::kNone || activation == Activation::kGeluTanh;
    const bool has_dense_scales = rows_.rows.extent == 1 || rows_.rows.x_stride == k;  // one after the other
    const bool has_aligned_scales = rows_.count() == 1 || rows_.rows.extent % kScaleMultiple == 0;
    if (made != DType::kF32 && has_epilogue && has_dense_scales && has_aligned_scales &&
        (!has_bias_ || spec.inputs[4].dtype == made))
      product_ = Product::find(product);
    if (product_) return;

    // All rows of x, which is dense, as one product into scratch.
    rows_ = {};
    product.c_dtype = DType::kF32;
    product.has_scales = product.has_bias = false;
    product.epilogue = Epilogue::kNone;
    product.m = x.type.shape.numel() / k;
    product.a_row = k;
    product.c_row = n;
    product_.emplace(product);
    product_bytes_ = round_up(static_cast<std::size_t>(product.m * n) * sizeof(float));
    const Shape& shape = y.type.shape;
    const Shape rows = cuda::one_a_row(row_major_strides(spec.inputs[1].shape));
    Shape columns = shape;
    for (int axis = 0; axis < shape.rank(); ++axis) columns.set(axis, axis + 1 == shape.rank() ? 1 : 0);
    after_ = cuda::ScaledProduct{
        .activation = activation,
        .has_bias = has_bias_,
        .dtype = made,
        .bias = has_bias_ ? spec.inputs[4].dtype : DType::kF32,
        .grid = cuda::to_grid(rows_of<5>(shape, {row_major_strides(shape), rows, columns, columns, y.strides}))};
  }

  [[nodiscard]] std::size_t scratch_bytes() const override { return product_bytes_ + product_->workspace_bytes(); }
  [[nodiscard]] std::string implementation() const override {
    return after_ ? product_->implementation() + " + cuda" : product_->implementation();
  }

  void launch(const LaunchArguments& arguments) const override {
    void* const stream = arguments.stream.native_handle();
    const auto* const x = static_cast<const std::byte*>(arguments.inputs[0]);
    const auto* const x_scale = static_cast<const float*>(arguments.inputs[1]);
    const auto* const w_scale = static_cast<const float*>(arguments.inputs[3]);
    const void* const bias = has_bias_ ? arguments.inputs[4] : nullptr;
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (after_) {
      product_->run(stream, {.a = x, .b = arguments.inputs[2], .c = scratch}, scratch + product_bytes_);
      cuda::launch_scale_product(stream, *after_, reinterpret_cast<const float*>(scratch), x_scale, w_scale, bias,
                                 arguments.outputs[0]);
      return;
    }
    for (std::int64_t i = 0; i < rows_.count(); ++i) {
      const RowPlan::Offsets offsets = rows_.offsets(i);
      product_->run(stream,
                    {.a = x + offsets.x,
                     .b = arguments.inputs[2],
                     .bias = bias,
                     .c = static_cast<std::byte*>(arguments.outputs[0]) + offsets.y * size_,
                     .a_scale = x_scale + offsets.x / k_,
                     .b_scale = w_scale},
                    scratch);
    }
  }

 private:
  RowPlan rows_;
  std::int64_t k_ = 1;
  std::int64_t size_ = 1;  ///< of an element of y
  bool has_bias_ = false;
  std::optional<Product> product_;
  std::size_t product_bytes_ = 0;  ///< of the bare product, at the start of scratch
  std::optional<cuda::ScaledProduct> after_;
};

class CublasltScaledLinear final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "cublaslt.scaled_linear"; }
  [[nodiscard]] Op op() const override { return Op::kScaledLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(Op::kScaledLinear, DeviceKind::kCuda, spec, target)) return rejection;
    if (std::string obstacle = obstacle_to(Capability::kFp8Products, target); !obstacle.empty())
      return Rejection{std::move(obstacle)};
    if (spec.inputs[0].dtype != DType::kF8E4M3)
      return Rejection{fmt::format("takes f8e4m3, not {}", spec.inputs[0].dtype)};
    const DType made = spec.outputs[0].dtype;
    if (!cuda::is_element(made)) return Rejection{fmt::format("makes f32, bf16 or f16, not {}", made)};
    const Shape& weight = spec.inputs[2].shape;
    if (weight[0] % kChannelMultiple != 0 || weight[1] % kChannelMultiple != 0)
      return Rejection{
          fmt::format("takes channels in multiples of {}, not {} to {}", kChannelMultiple, weight[1], weight[0])};
    if (spec.outputs[0].shape.numel() == 0 || spec.inputs[0].shape.numel() == 0)
      return Rejection{"an operand has no elements"};
    return std::nullopt;
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int /*input*/) const override {
    return {StrideRule::kDense, cuda::kLibraryAlignment};
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return {StrideRule::kInnerDense, cuda::kLibraryAlignment};
  }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.inputs[0].dtype; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& /*target*/) const override {
    return std::make_unique<PreparedScaledLinear>(spec, inputs[0], outputs[0]);
  }
};

}  // namespace

const Kernel& cublaslt_scaled_linear() {
  static const CublasltScaledLinear kernel;
  return kernel;
}

}  // namespace headroom
