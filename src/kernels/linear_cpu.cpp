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

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/linear.hpp"
#include "kernels/onednn/engine.hpp"

namespace headroom {
namespace {

using onednn::Call;

/// One level of the walk over rows: how many, and the strides of x and y between them in elements.
struct RowAxis {
  std::int64_t extent;
  std::int64_t x_stride;
  std::int64_t y_stride;
};

/// Rows as one matrix product and the loops around it.
struct RowPlan {
  RowAxis rows;  ///< of the product
  std::vector<RowAxis> loops;
};

/// The leading axes merged as far as the strides of both operands allow; the longest becomes the product's rows.
RowPlan plan_rows(const Operand& x, const Operand& y) {
  const Shape& shape = x.type.shape;
  std::vector<RowAxis> axes;  // innermost first
  for (int axis = shape.rank() - 2; axis >= 0; --axis) {
    const RowAxis next{shape[axis], x.strides[axis], y.strides[axis]};
    if (next.extent == 1) continue;
    const bool merges = !axes.empty() && next.x_stride == axes.back().x_stride * axes.back().extent &&
                        next.y_stride == axes.back().y_stride * axes.back().extent;
    if (merges)
      axes.back().extent *= next.extent;
    else
      axes.push_back(next);
  }
  if (axes.empty()) axes.push_back({1, shape[-1], y.type.shape[-1]});
  const auto longest = std::ranges::max_element(axes, {}, &RowAxis::extent);
  RowPlan plan{.rows = *longest, .loops = {}};
  axes.erase(longest);
  plan.loops = std::move(axes);
  return plan;
}

struct Problem {
  DType dtype;
  std::int64_t n, k;
  std::optional<DType> bias;
  std::string activation;
  bool pack;
};

Problem problem_of(const OpSpec& spec) {
  Problem problem{.dtype = spec.inputs[0].dtype,
                  .n = spec.inputs[1].shape[0],
                  .k = spec.inputs[1].shape[1],
                  .bias = std::nullopt,
                  .activation = spec.attributes.get_text("activation"),
                  .pack = spec.is_weight.size() > 1 && spec.is_weight[1]};
  if (spec.inputs.size() > 2) problem.bias = spec.inputs[2].dtype;
  return problem;
}

/// The dense weight[n, k] read as the [k, n] that the product wants.
dnnl::memory::desc dense_weight(const Problem& problem) {
  return onednn::describe(problem.dtype, Shape{problem.k, problem.n}, Shape{1, problem.k});
}

dnnl::primitive_attr attributes_for(const std::string& activation) {
  dnnl::primitive_attr attributes = onednn::attributes_with_user_scratch();
  dnnl::post_ops after;
  if (activation == "gelu_tanh") after.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_tanh, 0.0F, 0.0F);
  if (activation == "gelu") after.append_eltwise(1.0F, dnnl::algorithm::eltwise_gelu_erf, 0.0F, 0.0F);
  if (activation == "silu") after.append_eltwise(1.0F, dnnl::algorithm::eltwise_swish, 1.0F, 0.0F);
  attributes.set_post_ops(after);
  return attributes;
}

dnnl::matmul::primitive_desc make_product(const Problem& problem, const RowAxis& rows,
                                          const dnnl::memory::desc& weight) {
  const auto x = onednn::describe(problem.dtype, Shape{rows.extent, problem.k}, Shape{rows.x_stride, 1});
  const auto y = onednn::describe(problem.dtype, Shape{rows.extent, problem.n}, Shape{rows.y_stride, 1});
  const auto attributes = attributes_for(problem.activation);
  if (!problem.bias) return {dnnl::matmul::desc(x, weight, y), attributes, onednn::cpu_engine()};
  const auto bias = onednn::describe(*problem.bias, Shape{1, problem.n}, Shape{problem.n, 1});
  return {dnnl::matmul::desc(x, weight, bias, y), attributes, onednn::cpu_engine()};
}

/// With packing, the layout that oneDNN likes best, unless that is a plain one: then the dense weight does as well.
dnnl::matmul::primitive_desc choose_product(const Problem& problem, const RowAxis& rows) {
  if (problem.pack) {
    auto packed = make_product(problem, rows, onednn::describe_any(problem.dtype, Shape{problem.k, problem.n}));
    if (!onednn::is_plain(packed.weights_desc())) return packed;
  }
  return make_product(problem, rows, dense_weight(problem));
}

class PreparedLinear final : public PreparedKernel {
 public:
  PreparedLinear(const Problem& problem, const Operand& x, const Operand& y, int threads)
      : PreparedLinear(problem, plan_rows(x, y), threads) {}

  [[nodiscard]] std::size_t scratch_bytes() const override { return scratch_bytes_; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
  [[nodiscard]] std::string implementation() const override { return implementation_; }

  void pack(Stream& /*stream*/, std::size_t index, const void* dense, void* packed) const override {
    HR_CHECK_LT(index, packed_.size());
    onednn::checked("onednn.linear", [&] { onednn::convert_layout(dense_weight(problem_), dense, weight_, packed); });
  }

  void launch(const LaunchArguments& arguments) const override {
    const void* const bias = problem_.bias ? arguments.inputs[2] : nullptr;
    std::int64_t launches = 1;
    for (const RowAxis& loop : rows_.loops) launches *= loop.extent;
    for (std::int64_t i = 0; i < launches; ++i) {
      std::int64_t rest = i, x_offset = 0, y_offset = 0;
      for (const RowAxis& loop : rows_.loops) {
        x_offset += rest % loop.extent * loop.x_stride;
        y_offset += rest % loop.extent * loop.y_stride;
        rest /= loop.extent;
      }
      const auto size = static_cast<std::int64_t>(size_of(problem_.dtype));
      call_.run({{DNNL_ARG_SRC, static_cast<const std::byte*>(arguments.inputs[0]) + x_offset * size},
                 {DNNL_ARG_WEIGHTS, arguments.inputs[1]},
                 {DNNL_ARG_BIAS, bias},
                 {DNNL_ARG_DST, static_cast<std::byte*>(arguments.outputs[0]) + y_offset * size},
                 {DNNL_ARG_SCRATCHPAD, arguments.scratch}});
    }
  }

 private:
  PreparedLinear(const Problem& problem, const RowPlan& rows, int threads)
      : PreparedLinear(problem, rows, threads, choose_product(problem, rows.rows)) {}

  PreparedLinear(const Problem& problem, const RowPlan& rows, int threads, const dnnl::matmul::primitive_desc& product)
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

  Problem problem_;
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
    if (spec.op != Op::kLinear) return Rejection{fmt::format("runs linear, not {}", name_of(spec.op))};
    if (target.device != DeviceKind::kCpu)
      return Rejection{fmt::format("runs on a cpu, not on {}", name_of(target.device))};
    for (const TensorType& input : spec.inputs)
      if (Support rejection = onednn::check_dtype(input.dtype, target)) return rejection;
    if (spec.outputs[0].shape.numel() == 0 || spec.inputs[0].shape.numel() == 0)
      return Rejection{"an operand has no elements"};
    const onednn::TeamSize team(target.threads);
    return onednn::find_fast_implementation([&] {
      const RowPlan rows = plan_rows(dense_operand(spec.inputs[0]), dense_operand(spec.outputs[0]));
      return choose_product(problem_of(spec), rows.rows);
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
    const onednn::TeamSize team(target.threads);
    return onednn::checked(name(), [&] {
      return std::make_unique<PreparedLinear>(problem_of(spec), inputs[0], outputs[0], target.threads);
    });
  }
};

}  // namespace

const Kernel& onednn_linear() {
  static const OnednnLinear kernel;
  return kernel;
}

}  // namespace headroom
