#include <vector>

#include "base/tensors/block_test_util.hpp"
#include "base/tensors/dtype.hpp"
#include "testing/highway_check.hpp"

namespace headroom {
namespace {

std::vector<const BlockFormat*> packed_formats() {
  std::vector<const BlockFormat*> formats;
  for (const BlockFormat& format : block_formats())
    if (format.is_packed()) formats.push_back(&format);
  return formats;
}

OpSpec unpack_spec(const BlockFormat& format, std::int64_t rows, std::int64_t blocks, DType to) {
  return make_spec(Op::kUnpackBlocks, {{DType::kU8, {rows, blocks, format.bytes}}},
                   {{attr::kFormat, std::string(format.name)}, {attr::kDType, to}});
}

TEST(UnpackBlocks, IsTheOracleBitForBit) {
  ASSERT_EQ(packed_formats().size(), 12U);
  for (const BlockFormat* const format : packed_formats())
    for (const DType to : {DType::kF32, DType::kBF16})
      for (const auto& [rows, blocks] : {std::pair{1, 1}, {7, 3}, {64, 2}})
        expect_matches_oracle("highway.unpack_blocks", unpack_spec(*format, rows, blocks, to), {.relative_l2 = 0});
}

/// The kernel on whole blocks.
template <typename T>
std::vector<T> unpack(const BlockFormat& format, const std::vector<std::byte>& blocks, DType to) {
  constexpr std::int64_t kRows = 64;
  const std::int64_t count = std::ssize(blocks) / format.bytes;
  const OpSpec spec = unpack_spec(format, kRows, count / kRows, to);
  const Operand in = dense_operand(spec.inputs[0]), out = dense_operand(spec.outputs[0]);
  const auto stream = make_backend(DeviceKind::kCpu, 1)->make_stream();
  std::vector<T> values(static_cast<std::size_t>(count * format.elements));
  const DevicePointer from = host_place(blocks.data()), to_place = host_place(values.data());
  kernel_named("highway.unpack_blocks")
      .prepare(spec, {&in, 1}, {&out, 1}, Target{})
      ->launch({*stream, {&from, 1}, {&to_place, 1}, {}});
  return values;
}

// On the CPU's own vector unit; on the others for a sixteenth of the scales.
TEST(UnpackBlocks, IsExactForEveryScale) {
  const nlohmann::json golden = read_scales_golden();
  for (const BlockFormat* const format : packed_formats()) {
    const std::string name(format->name);
    std::vector<std::byte> blocks = blocks_of_all_scales(*format, get_int_array(golden.at(name), "at", name));
    std::vector<float> expected(65536 * static_cast<std::size_t>(format->elements));
    unpack_blocks(*format, blocks, expected);
    EXPECT_EQ(first_difference(unpack<float>(*format, blocks, DType::kF32), expected), -1) << name;
    blocks.resize(blocks.size() / 16);
    expected.resize(expected.size() / 16);
    for_each_highway_target(
        [&] { EXPECT_EQ(first_difference(unpack<float>(*format, blocks, DType::kF32), expected), -1) << name; });
  }
}

TEST(UnpackBlocksSupport, DeclinesOtherDtypesWithAReason) {
  const OpSpec spec = unpack_spec(*find_block_format("Q4_K"), 2, 2, DType::kF16);
  EXPECT_EQ(kernel_named("highway.unpack_blocks").supports(spec, Target{}).value_or(Rejection{}).reason,
            "makes f32 or bf16, not f16");
}

}  // namespace
}  // namespace headroom
