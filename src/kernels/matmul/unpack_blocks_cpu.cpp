// unpack_blocks: y[n, k] = the elements of blocks[n, b, bytes]
//
// Shapes     blocks dense, rows of y with innermost stride 1.
// Dtypes     y f32 or bf16; f32 arithmetic; equal to the oracle bit for bit.
// Bytes      blocks read once, y written once.
//
// The integers of a group, 16 or 32 elements, are masked in words of 8 bytes and stored in the first-level cache; from
// there vectors of them become floats, with one scale for all.

#include "base/tensors/block_format.hpp"
#include "base/tensors/block_layout_inl.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/unpack_blocks_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// One group of a block.
template <class Layout, class Y>
HWY_INLINE void unpack_group(const std::uint8_t* block, int group, Y y) {
  const Float d;
  const hn::RebindToSigned<Float> d32;
  const hn::Rebind<std::uint8_t, Float> d8;
  alignas(32) std::uint8_t integers[Layout::kGroup];
  for (int i = 0; i < Layout::kGroup; i += 8) {
    const block_layout::Word word = Layout::integers(block, group * Layout::kGroup + i);
    std::memcpy(integers + i, &word, sizeof word);
  }
  const Vector scale = hn::Set(d, Layout::scale(block, group));
  Vector minimum = hn::Zero(d);
  if constexpr (Layout::kHasMinimum) minimum = hn::Set(d, Layout::minimum(block, group));
  for (std::int64_t i = 0; i < Layout::kGroup; i += lanes()) {
    const auto integer = hn::Sub(hn::PromoteTo(d32, hn::LoadU(d8, integers + i)), hn::Set(d32, Layout::kZero));
    const Vector value = hn::Mul(scale, hn::ConvertTo(d, integer));
    if constexpr (Layout::kHasMinimum)
      store_all(hn::Sub(value, minimum), y + i);
    else
      store_all(value, y + i);
  }
}

template <class Layout, class Y>
void unpack_rows_of(const RowLoop<1>& loop, const RowPart& part) {
  const std::int64_t columns = loop.row_length(), blocks = columns / Layout::kElements;
  const auto* block = part.input<std::uint8_t>(0) + part.begin * blocks * Layout::kBytes;
  RowCursor cursor(loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next()) {
    Y y = Destination<Y>::at(part.output(0)) + cursor.offset(0);
    for (std::int64_t i = 0; i < blocks; ++i, block += Layout::kBytes)
      for (int group = 0; group < Layout::kElements / Layout::kGroup; ++group, y = y + Layout::kGroup)
        unpack_group<Layout>(block, group, y);
  }
  finish_writes<Y>();
}

/// The loop has y alone: blocks are dense.
void unpack_rows(std::uint32_t format, DType dtype, const RowLoop<1>& loop, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(dtype == DType::kF32, unpack_rows(format, dtype, loop, part));
  block_layout::with_layout(format, [&](auto layout) {
    with_destination(dtype, part.past_cache, [&]<class Y>(Y) { unpack_rows_of<decltype(layout), Y>(loop, part); });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(unpack_rows);

Support supports_unpack_blocks(const OpSpec& spec) {
  const DType to = spec.outputs[0].dtype;
  if (to != DType::kF32 && to != DType::kBF16) return Rejection{fmt::format("makes f32 or bf16, not {}", to)};
  return std::nullopt;
}

KernelPlan plan_unpack_blocks(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const std::uint32_t format = find_block_format(binding.spec.attributes[attr::kFormat])->number;
  const auto loop = rows_of<1>(y.type.shape, {y.strides});
  return share_rows(row_work(binding, loop), [format, dtype = y.type.dtype, loop](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(unpack_rows)(format, dtype, loop, part);
  });
}

}  // namespace

const Kernel& highway_unpack_blocks() {
  static const CpuKernel kernel({.name = "highway.unpack_blocks",
                                 .op = Op::kUnpackBlocks,
                                 .supports = supports_unpack_blocks,
                                 .strides = StrideRule::kDense,
                                 .output_strides = StrideRule::kInnerDense,
                                 .plan = plan_unpack_blocks});
  return kernel;
}

}  // namespace headroom
#endif
