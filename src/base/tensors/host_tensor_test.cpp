#include "base/tensors/host_tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace headroom {
namespace {

TEST(HostTensorTest, IsZeroFilledAndSizedByItsType) {
  const HostTensor tensor(DType::kBF16, Shape{3, 5});
  EXPECT_EQ(tensor.numel(), 15);
  EXPECT_EQ(tensor.bytes().size(), 30U);
  EXPECT_TRUE(std::ranges::all_of(tensor.bytes(), [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(HostTensorTest, AScalarHasOneElementAndADefaultTensorNone) {
  EXPECT_EQ(HostTensor(DType::kF32, Shape{}).bytes().size(), 4U);
  EXPECT_EQ(HostTensor().numel(), 0);
  EXPECT_TRUE(HostTensor().bytes().empty());
}

TEST(HostTensorTest, TypedViewsSeeTheSameBytes) {
  HostTensor tensor(DType::kF32, Shape{2, 2});
  tensor.as<float>()[3] = 2.5F;
  EXPECT_EQ(tensor.at(3), 2.5);
  tensor.set(0, -1);
  EXPECT_EQ(tensor.as<float>()[0], -1.0F);
  const HostTensor& view = tensor;
  EXPECT_EQ(view.as<float>().data(), tensor.as<float>().data());
}

TEST(HostTensorTest, ViewsOfAnotherTypeAreRefused) {
  HostTensor tensor(DType::kF32, Shape{4});
  EXPECT_THROW((void)tensor.as<double>(), std::logic_error);
  EXPECT_THROW((void)tensor.as<std::int32_t>(), std::logic_error);
}

TEST(HostTensorTest, CopiesOwnTheirElements) {
  HostTensor original(DType::kI32, Shape{2});
  const HostTensor copy = original;
  original.set(0, 9);
  EXPECT_EQ(copy.at(0), 0);
}

TEST(ConvertTest, RoundsToNearestEvenAndKeepsTheShape) {
  HostTensor tensor(DType::kF32, Shape{2, 2});
  const float values[] = {1.00390625F, 1.01171875F, -3.0F,
                          std::numeric_limits<float>::infinity()};  // 1 + 1/256, 1 + 3/256
  std::ranges::copy(values, tensor.as<float>().begin());
  const HostTensor converted = convert(tensor, DType::kBF16);
  EXPECT_EQ(converted.dtype(), DType::kBF16);
  EXPECT_EQ(converted.shape(), (Shape{2, 2}));
  EXPECT_EQ(converted.at(0), 1.0);       // a tie: down to the even mantissa
  EXPECT_EQ(converted.at(1), 1.015625);  // a tie: up to the even mantissa
  EXPECT_EQ(converted.at(2), -3.0);
  EXPECT_TRUE(std::isinf(converted.at(3)));
}

TEST(ConvertTest, SaturatesIntegers) {
  HostTensor tensor(DType::kF64, Shape{2});
  tensor.set(0, 1e6);
  tensor.set(1, -2.5);
  const HostTensor converted = convert(tensor, DType::kI8);
  EXPECT_EQ(converted.at(0), 127);
  EXPECT_EQ(converted.at(1), -2);
}

TEST(ConvertTest, ToTheSameDTypeCopiesBitForBit) {
  HostTensor tensor(DType::kI64, Shape{1});
  tensor.as<std::int64_t>()[0] = (std::int64_t{1} << 60) + 1;  // no double holds it
  EXPECT_EQ(convert(tensor, DType::kI64).as<std::int64_t>()[0], (std::int64_t{1} << 60) + 1);
}

HostTensor vector_of(DType dtype, double a, double b) {
  HostTensor tensor(dtype, Shape{2});
  tensor.set(0, a);
  tensor.set(1, b);
  return tensor;
}

TEST(RelativeL2, IsTheNormOfTheDifferenceOverTheExpected) {
  const HostTensor expected = vector_of(DType::kF32, 3, 4);
  EXPECT_DOUBLE_EQ(relative_l2(vector_of(DType::kF64, 3, 4.5), expected), 0.1);
  EXPECT_EQ(relative_l2(vector_of(DType::kBF16, 3, 4), expected), 0);
}

TEST(RelativeL2, OfZerosAndOfNoNumbers) {
  const HostTensor zeros = vector_of(DType::kF32, 0, 0);
  EXPECT_EQ(relative_l2(zeros, zeros), 0);
  EXPECT_TRUE(std::isinf(relative_l2(vector_of(DType::kF32, 0, 1), zeros)));
  EXPECT_TRUE(std::isnan(relative_l2(vector_of(DType::kF32, 0, std::nan("")), vector_of(DType::kF32, 3, 4))));
  EXPECT_THROW((void)relative_l2(HostTensor(DType::kF32, Shape{3}), zeros), Error);
}

}  // namespace
}  // namespace headroom
