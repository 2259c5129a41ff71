#include <vector>

#include "base/tensors/block_test_util.hpp"
#include "base/tensors/dtype.hpp"
#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

class CudaUnpackBlocks : public cuda::KernelTest {
 protected:
  static std::vector<const BlockFormat*> formats() {
    std::vector<const BlockFormat*> formats;
    for (const BlockFormat& format : block_formats())
      if (format.is_packed()) formats.push_back(&format);
    return formats;
  }
  static OpSpec spec_of(const BlockFormat& format, std::int64_t rows, std::int64_t blocks, DType to) {
    std::vector<TensorType> operands = {{DType::kU8, {rows, blocks, format.bytes}}};
    if (to == DType::kF8E4M3) operands.push_back({DType::kF32, {rows}});
    return make_spec(Op::kUnpackBlocks, std::move(operands),
                     {{attr::kFormat, std::string(format.name)}, {attr::kDType, to}});
  }

  std::vector<float> unpack(const BlockFormat& format, const std::vector<std::byte>& blocks) {
    constexpr std::int64_t kRows = 64;
    const std::int64_t count = std::ssize(blocks) / format.bytes;
    const OpSpec spec = spec_of(format, kRows, count / kRows, DType::kF32);
    const auto prepared = prepare_dense("cuda.unpack_blocks", spec, target());
    const auto stream = backend().make_stream();
    std::vector<float> values(static_cast<std::size_t>(count * format.elements));
    const Buffer from = backend().allocate(blocks.size(), MemoryCategory::kActivations);
    const Buffer to = backend().allocate(values.size() * sizeof(float), MemoryCategory::kActivations);
    backend().copy_from_host(*stream, from.at(), blocks.data(), blocks.size());
    const DevicePointer source = from.at(), target = to.at();
    prepared->launch({.stream = *stream, .inputs = {&source, 1}, .outputs = {&target, 1}, .scratch = {}});
    backend().copy_to_host(*stream, values.data(), to.at(), values.size() * sizeof(float));
    stream->synchronize();
    return values;
  }
};

// Less than a thread block, several, and rows of which packs are not aligned.
TEST_F(CudaUnpackBlocks, IsTheOracleBitForBit) {
  for (const BlockFormat* const format : formats())
    for (const DType to : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3})
      for (const auto& [rows, blocks] : {std::pair{1, 1}, {7, 3}, {65, 40}})
        expect_matches_oracle("cuda.unpack_blocks", spec_of(*format, rows, blocks, to), {.relative_l2 = 0});
}

TEST_F(CudaUnpackBlocks, IsExactForEveryScale) {
  const nlohmann::json golden = read_scales_golden();
  for (const BlockFormat* const format : formats()) {
    const std::string name(format->name);
    const std::vector<std::byte> blocks = blocks_of_all_scales(*format, get_int_array(golden.at(name), "at", name));
    std::vector<float> expected(65536 * static_cast<std::size_t>(format->elements));
    unpack_blocks(*format, blocks, expected);
    EXPECT_EQ(first_difference(unpack(*format, blocks), expected), -1) << name;
  }
}

}  // namespace
}  // namespace headroom
