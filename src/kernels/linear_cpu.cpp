// linear: y[..., j] = activation(sum_i x[..., i] * weight[j, i] + bias[j])
//
// Shapes     x[..., k], weight[n, k], bias[n] or none -> y[..., n]. Leading axes become one of m rows, or several
//            launches where strides do not let them.
// Dtypes     f32; bf16 with f32 sums and a bias in f32 or bf16, where the CPU has AVX-512. y has the dtype of x.
// Layout     x and y: innermost stride 1. Weights of the checkpoint are packed once into oneDNN's blocks; others stay
//            dense.
// Alignment  that of the dtype.
// Bytes      (m*k + n*k + n + m*n) * size
// FLOPs      2*m*n*k + m*n for the bias + the activation's
//
// Tried: oneDNN's inner_product reaches the same rate as its matmul on packed weights; matmul also takes rows with gaps
// and needs less scratch, so it alone is used. A dense transposed weight is a little slower on large shapes and several
// times slower on a single row, where copying it into blocks takes longer than the product.
// Where the weight is small, and an activation follows, rows do not lie evenly or are many, the product is made in
// pieces (onednn/linear_pieces.hpp).

#include <memory>
#include <vector>

#include "kernels/cpu_kernels.hpp"
#include "kernels/onednn/linear_pieces.hpp"
#include "kernels/onednn/linear_product.hpp"
#include "kernels/support.hpp"

namespace headroom {
namespace {

using onednn::Call;
using onednn::LinearProblem;
using onednn::ProductEnd;

class PreparedLinear final : public PreparedKernel {
 public:
  PreparedLinear(const LinearProblem& problem, const RowPlan& rows, int threads)
      : PreparedLinear(problem, rows, threads, choose_product(problem, rows.rows, ProductEnd::kActivated)) {}

  [[nodiscard]] std::size_t scratch_bytes() const override { return scratch_bytes_; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
  [[nodiscard]] std::string implementation() const override { return implementation_; }

  void pack(Stream& /*stream*/, std::size_t index, const void* dense, void* packed) const override {
    HR_CHECK_LT(index, packed_.size());
    onednn::checked("onednn.linear", [&] { onednn::convert_layout(dense_weight(problem_), dense, weight_, packed); });
  }

  void launch(const LaunchArguments& arguments) const override {
    const void* const bias = problem_.bias ? arguments.inputs[2] : nullptr;
    const auto size = static_cast<std::int64_t>(size_of(problem_.dtype));
    for (std::int64_t i = 0; i < rows_.count(); ++i) {
      const RowPlan::Offsets offsets = rows_.offsets(i);
      call_.run({{DNNL_ARG_SRC, static_cast<const std::byte*>(arguments.inputs[0]) + offsets.x * size},
                 {DNNL_ARG_WEIGHTS, arguments.inputs[1]},
                 {DNNL_ARG_BIAS, bias},
                 {DNNL_ARG_DST, static_cast<std::byte*>(arguments.outputs[0]) + offsets.y * size},
                 {DNNL_ARG_SCRATCHPAD, arguments.scratch}});
    }
  }

 private:
  PreparedLinear(const LinearProblem& problem, const RowPlan& rows, int threads,
                 const dnnl::matmul::primitive_desc& product)
      : problem_(problem),
        rows_(rows),
        weight_(product.weights_desc()),
        implementation_(product.impl_info_str()),
        scratch_bytes_(product.scratchpad_desc().get_size()),
        call_(dnnl::matmul(product), threads,
              {{DNNL_ARG_SRC, product.src_desc()},
               {DNNL_ARG_WEIGHTS, product.weights_desc()},
               {DNNL_ARG_BIAS, product.bias_desc()},
               {DNNL_ARG_DST, product.dst_desc()},
               {DNNL_ARG_SCRATCHPAD, product.scratchpad_desc()}}) {
    if (weight_ != dense_weight(problem)) packed_.push_back({1, onednn::layout_name(weight_), weight_.get_size()});
  }

  LinearProblem problem_;
  RowPlan rows_;
  dnnl::memory::desc weight_;
  std::vector<PackedWeight> packed_;
  std::string implementation_;
  std::size_t scratch_bytes_;
  Call call_;
};

class OnednnLinear final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "onednn.linear"; }
  [[nodiscard]] Op op() const override { return Op::kLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_op(op(), DeviceKind::kCpu, spec, target)) return rejection;
    for (const TensorType& input : spec.inputs)
      if (Support rejection = onednn::check_dtype(input.dtype, target)) return rejection;
    if (Support rejection = onednn::check_sizes(spec)) return rejection;
    const onednn::TeamSize team(target.threads);
    return onednn::find_fast_implementation([&] {
      const RowPlan rows = plan_rows(dense_operand(spec.inputs[0]), dense_operand(spec.outputs[0]));
      return choose_product(onednn::linear_problem(spec), rows.rows, ProductEnd::kActivated);
    });
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int input) const override {
    return input == 0 ? StrideRule::kInnerDense : StrideRule::kDense;
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.inputs[0].dtype; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    const LinearProblem problem = onednn::linear_problem(spec);
    const RowPlan rows = plan_rows(inputs[0], outputs[0]);
    return onednn::checked(name(), [&]() -> std::unique_ptr<PreparedKernel> {
      if (onednn::piecewise_pays(problem, rows, target.threads))
        return onednn::prepare_piecewise_linear(problem, rows, target.threads);
      const onednn::TeamSize team(target.threads);
      return std::make_unique<PreparedLinear>(problem, rows, target.threads);
    });
  }
};

}  // namespace

const Kernel& onednn_linear() {
  static const OnednnLinear kernel;
  return kernel;
}

}  // namespace headroom
