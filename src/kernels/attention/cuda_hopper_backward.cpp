// attention_backward on Hopper: binds the passes of hopper_backward.cu to operands.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/tensors/divide_up.hpp"
#include "kernels/attention/hopper.hpp"
#include "kernels/attention/hopper_backward_form.hpp"
#include "kernels/core/library_kernel.hpp"

namespace headroom {
namespace {

using namespace attentions;

int as_int(std::int64_t value) { return static_cast<int>(value); }

AttentionProblem::Strides strides_of(const Operand& operand, std::int64_t heads) {
  return {operand.strides[0], operand.strides[1], operand.strides[2], heads / operand.type.shape[1]};
}

/// An operand in boxes of `rows` tokens.
cuda::BoxedTensor in_boxes(const Operand& operand, int rows) {
  const Shape& shape = operand.type.shape;  // [batch, heads, tokens, dim]
  return boxed(operand.type.dtype, shape[3], shape[2], shape[1], shape[0], strides_of(operand, shape[1]), rows);
}

/// A pass's boxes, and which operands and results they are of.
struct Pass {
  BackwardPass pass;
  cuda::BoxedTensor own_scored, own_made, unit_scored, unit_made, scored_gradient, made_gradient;
};

KernelPlan plan_backward(const KernelBinding& binding) {
  const Operand &q = binding.input(Role::kQ), &k = binding.input(Role::kK), &v = binding.input(Role::kV),
                &made = binding.input(Role::kGradient);
  const Operand &d_q = binding.outputs[0], &d_k = binding.outputs[1], &d_v = binding.outputs[2];
  const Shape &of_q = q.type.shape, &of_v = v.type.shape;
  BackwardForm form;
  form.batch = as_int(of_q[0]), form.heads = as_int(of_q[1]), form.sharers = as_int(of_q[1] / of_v[1]);
  form.queries = as_int(of_q[2]), form.keys = as_int(of_v[2]);
  form.padded_queries = as_int(round_up<std::int64_t>(of_q[2], kBackwardPadding));
  form.diagonal = as_int(diagonal_of(binding.spec.attributes, of_q[2], of_v[2]));
  form.width = std::max(of_q[3], of_v[3]) <= kPieceDim ? kPieceDim : kMostDim;
  form.scale = static_cast<float>(binding.spec.attributes[attr::kScale]);
  const BackwardTile by_keys = backward_tile(BackwardPass::kKeys, form.width),
                     by_queries = backward_tile(BackwardPass::kQueries, form.width);
  const Pass keys{BackwardPass::kKeys,       in_boxes(k, by_keys.rows()),  in_boxes(v, by_keys.rows()),
                  in_boxes(q, by_keys.unit), in_boxes(made, by_keys.unit), in_boxes(d_k, kGroupRows),
                  in_boxes(d_v, kGroupRows)};
  const Pass queries{BackwardPass::kQueries,       in_boxes(q, by_queries.rows()), in_boxes(made, by_queries.rows()),
                     in_boxes(k, by_queries.unit), in_boxes(v, by_queries.unit),   in_boxes(d_q, kGroupRows),
                     in_boxes(d_q, kGroupRows)};
  const std::size_t numbers = sizeof(QueryNumbers) * static_cast<std::size_t>(form.batch) *
                              static_cast<std::size_t>(form.heads) * static_cast<std::size_t>(form.padded_queries);
  const auto launch = [=, dtype = q.type.dtype](const LaunchArguments& arguments) {
    void* const stream = arguments.stream.native_handle();
    const BackwardPlaces places{.logsumexp = arguments.input<float>(4),
                                .delta = arguments.input<float>(5),
                                .numbers = arguments.scratch_memory<QueryNumbers>(),
                                .tickets = reinterpret_cast<int*>(arguments.scratch_memory<std::byte>() + numbers)};
    const auto run = [&](const Pass& pass, const void* own_scored, const void* own_made, const void* unit_scored,
                         const void* unit_made, void* scored_gradient, void* made_gradient) {
      launch_backward_pass(stream, dtype, pass.pass, form,
                           {.own_scored = cuda::make_tensor_map(pass.own_scored, own_scored),
                            .own_made = cuda::make_tensor_map(pass.own_made, own_made),
                            .unit_scored = cuda::make_tensor_map(pass.unit_scored, unit_scored),
                            .unit_made = cuda::make_tensor_map(pass.unit_made, unit_made),
                            .scored_gradient = cuda::make_tensor_map(pass.scored_gradient, scored_gradient),
                            .made_gradient = cuda::make_tensor_map(pass.made_gradient, made_gradient)},
                           places);
    };
    launch_backward_numbers(stream, form, places);
    run(keys, arguments.input(1), arguments.input(2), arguments.input(0), arguments.input(3), arguments.output(1),
        arguments.output(2));
    run(queries, arguments.input(0), arguments.input(3), arguments.input(1), arguments.input(2), arguments.output(0),
        arguments.output(0));
  };
  return {launch, numbers + 2 * sizeof(int),
          fmt::format("hopper {} keys x {} queries, {} queries x {} keys", by_keys.rows(), by_keys.unit,
                      by_queries.rows(), by_queries.unit)};
}

Support supports_backward(const OpSpec& spec, const Target& target) {
  if (target.compute_capability != 90) return Rejection{"is for GPUs of compute capability 9.0"};
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF16) return Rejection{fmt::format("takes bf16 or f16, not {}", dtype)};
  for (const std::size_t index : {0U, 1U, 2U, 3U}) {
    const TensorType& operand = spec.inputs[index];
    if (operand.shape[3] % 8 != 0 || operand.shape[3] > kMostDim)
      return Rejection{fmt::format("takes heads of up to {}, a multiple of 8, not {}", kMostDim, operand.shape[3])};
    if (operand.shape.numel() > INT32_MAX) return Rejection{"takes operands of up to 2^31 elements"};
  }
  return supports_row_major(spec);
}

}  // namespace

const Kernel& hopper_attention_backward() {
  static const LibraryKernel kernel({.name = "hopper.attention_backward",
                                     .op = Op::kAttentionBackward,
                                     .device = DeviceKind::kCuda,
                                     .supports = supports_backward,
                                     .strided = 0b1111,
                                     .plan = plan_backward});
  return kernel;
}

}  // namespace headroom
