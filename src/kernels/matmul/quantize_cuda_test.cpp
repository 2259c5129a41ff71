#include <cmath>

#include "base/tensors/dtype.hpp"
#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

using CudaQuantize = cuda::KernelTest;

OpSpec quantize_spec(DType from, const Shape& shape, DType to = DType::kF8E4M3) {
  return make_spec(Op::kQuantize, {{from, shape}}, {{"dtype", to}});
}

// One pack, several, a warp, several warps, and (the last) more than registers hold.
const std::vector<Shape> kShapes = {{1},        {7, 1},     {3, 15},    {5, 16},      {2, 17},    {2, 3, 33},
                                    {4, 192},   {300, 127}, {3, 1030},  {2, 2, 3072}, {3, 12288}, {1, 3, 15360},
                                    {2, 18432}, {1, 18440}, {2, 32768}, {1, 2, 40000}};

TEST_F(CudaQuantize, IsTheOracleBitForBit) {
  for (const DType from : {DType::kF32, DType::kBF16, DType::kF16})
    for (const Shape& shape : kShapes)
      for (const DType to : {DType::kF8E4M3, DType::kI8})
        expect_matches_oracle("cuda.quantize", quantize_spec(from, shape, to),
                              {.relative_l2 = 1e-7, .max_ulps_of_peak = 1e-6});
}

struct Quantized {
  std::vector<double> q;
  double scale = 0;
};

class CudaQuantizeRow : public cuda::KernelTest {
 protected:
  Quantized quantize(const std::vector<float>& row) {
    const OpSpec spec = quantize_spec(DType::kF32, Shape{static_cast<std::int64_t>(row.size())});
    const Operand in = dense_operand(spec.inputs[0]);
    const std::vector<Operand> out{dense_operand(spec.outputs[0]), dense_operand(spec.outputs[1])};
    const auto prepared = kernel_named("cuda.quantize").prepare(spec, {&in, 1}, out, target());
    const auto stream = backend().make_stream();
    const Buffer x = backend().allocate(4 * row.size(), MemoryCategory::kActivations);
    const Buffer q = backend().allocate(row.size(), MemoryCategory::kActivations);
    const Buffer scale = backend().allocate(4, MemoryCategory::kActivations);
    backend().copy_from_host(*stream, x.at(), row.data(), 4 * row.size());
    const DevicePointer source = x.at();
    const DevicePointer targets[] = {q.at(), scale.at()};
    prepared->launch({.stream = *stream, .inputs = {&source, 1}, .outputs = targets, .scratch = {}});
    std::vector<std::uint8_t> bytes(row.size());
    float made = 0;
    backend().copy_to_host(*stream, bytes.data(), q.at(), bytes.size());
    backend().copy_to_host(*stream, &made, scale.at(), 4);
    stream->synchronize();
    Quantized result{{}, static_cast<double>(made)};
    for (const std::uint8_t& byte : bytes) result.q.push_back(load_as_double(&byte, DType::kF8E4M3));
    return result;
  }
};

TEST_F(CudaQuantizeRow, RoundsTiesToEvenAndReachesBothEnds) {
  // Above 16 a unit is 2; below 2^-6 it is 2^-9.
  const Quantized result = quantize({-448, 448, 17, 19, -21, 0x1p-9F, 0x1.8p-9F, 0x1p-10F, 0x1.8p-10F, 447});
  EXPECT_EQ(result.scale, 1.0);
  EXPECT_THAT(result.q, testing::ElementsAre(-448, 448, 16, 20, -20, 0x1p-9, 0x1p-8, 0, 0x1p-9, 448));
}

TEST_F(CudaQuantizeRow, RowsOfNothingOrOfNoNumberSayIt) {
  EXPECT_EQ(quantize(std::vector<float>(40, 0.0F)).scale, 1.0);
  EXPECT_EQ(quantize(std::vector<float>(40, 1e-40F)).scale, 1.0);
  EXPECT_THAT(quantize(std::vector<float>(40, 1e-40F)).q, testing::Each(0));
  for (const std::size_t place : {0U, 17U, 39U}) {
    std::vector<float> row(40, 2.0F);
    row[place] = std::nanf("");
    EXPECT_TRUE(std::isnan(quantize(row).scale));
    EXPECT_THAT(quantize(row).q, testing::Each(0));
    row[place] = -INFINITY;
    EXPECT_EQ(quantize(row).scale, static_cast<double>(INFINITY));
    EXPECT_THAT(quantize(row).q, testing::Each(0));
  }
}

TEST_F(CudaQuantize, SaysWhatItTakes) {
  const auto reason = [&](const OpSpec& spec) {
    const Support rejection = kernel_named("cuda.quantize").supports(spec, target());
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(quantize_spec(DType::kF64, {2, 4})), "takes f32, bf16 or f16, not f64");
  EXPECT_EQ(reason(quantize_spec(DType::kF32, {2, 4}, DType::kI8)), "supported");
}

}  // namespace
}  // namespace headroom
