#include "kernels/vendor/onednn/linear_gemm.hpp"

#include "ir/activation.hpp"

namespace headroom::onednn {
namespace {

dnnl::primitive_attr attributes_for(Activation activation) {
  dnnl::primitive_attr attributes = attributes_with_user_scratch();
  dnnl::post_ops end;
  append_activation(end, activation);
  attributes.set_post_ops(end);
  return attributes;
}

}  // namespace

LinearProblem linear_problem(const OpSpec& spec) {
  LinearProblem problem{.dtype = spec.inputs[0].dtype,
                        .n = spec.input(Role::kWeight).shape[0],
                        .k = spec.input(Role::kWeight).shape[1],
                        .bias = std::nullopt,
                        .activation = form_of(spec.attributes[attr::kEpilogue])->activation,
                        .pack = spec.has_weight_at(1)};
  if (spec.has(Role::kBias)) problem.bias = spec.input(Role::kBias).dtype;
  return problem;
}

dnnl::memory::desc dense_weight(const LinearProblem& problem) {
  return describe(problem.dtype, Shape{problem.k, problem.n}, Shape{1, problem.k});
}

dnnl::matmul::primitive_desc make_gemm(const LinearProblem& problem, const RowAxis& rows, GemmEpilogue end,
                                       const dnnl::memory::desc& weight) {
  const bool activated = end == GemmEpilogue::kActivated;
  const auto x = describe(problem.dtype, Shape{rows.extent, problem.k}, Shape{rows.x_stride, 1});
  const auto y =
      describe(activated ? problem.dtype : DType::kF32, Shape{rows.extent, problem.n}, Shape{rows.y_stride, 1});
  const auto attributes = attributes_for(activated ? problem.activation : Activation::kNone);
  if (!problem.bias || !activated) return {dnnl::matmul::desc(x, weight, y), attributes, cpu_engine()};
  const auto bias = describe(*problem.bias, Shape{1, problem.n}, Shape{problem.n, 1});
  return {dnnl::matmul::desc(x, weight, bias, y), attributes, cpu_engine()};
}

dnnl::matmul::primitive_desc choose_gemm(const LinearProblem& problem, const RowAxis& rows, GemmEpilogue end) {
  if (problem.pack) {
    auto packed = make_gemm(problem, rows, end, describe_any(problem.dtype, Shape{problem.k, problem.n}));
    if (!is_plain(packed.weights_desc())) return packed;
  }
  return make_gemm(problem, rows, end, dense_weight(problem));
}

}  // namespace headroom::onednn
