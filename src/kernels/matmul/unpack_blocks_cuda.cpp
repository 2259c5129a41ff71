#include "kernels/matmul/unpack_blocks_cuda.hpp"

#include "base/error.hpp"
#include "base/tensors/block_format.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"

namespace headroom {
namespace {

using cuda::CudaKernel;

Support supports_unpack(const OpSpec& spec) {
  constexpr std::int64_t kMost = std::int64_t{1} << 34;  // packs of 8 elements are counted in 31 bits
  if (spec.outputs[0].shape.numel() >= kMost) return Rejection{"needs less than 2^34 elements"};
  return std::nullopt;
}

KernelPlan plan_unpack(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const cuda::UnpackBlocks work{.format = find_block_format(binding.spec.attributes[attr::kFormat])->number,
                                .to = y.type.dtype,
                                .rows = y.type.shape[0],
                                .columns = y.type.shape[1],
                                .row_stride = y.strides[0]};
  return {[work, has_scale = binding.inputs.size() > 1](const LaunchArguments& arguments) {
    cuda::launch_unpack_blocks(arguments.stream.native_handle(), work, arguments.input(0),
                               has_scale ? arguments.input<float>(1) : nullptr, arguments.output(0));
  }};
}

}  // namespace

const Kernel& cuda_unpack_blocks() {
  static const CudaKernel kernel({.name = "cuda.unpack_blocks",
                                  .op = Op::kUnpackBlocks,
                                  .supports = supports_unpack,
                                  .strides = StrideRule::kDense,
                                  .output_strides = StrideRule::kInnerDense,
                                  .plan = plan_unpack});
  return kernel;
}

}  // namespace headroom
