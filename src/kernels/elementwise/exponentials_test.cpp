#include "kernels/elementwise/exponentials.hpp"

#include <cmath>
#include <vector>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

TEST(RepeatExponentials, TakesEachNumberAsOftenAsAskedAsWellAsItsDtypeNeeds) {
  for_each_highway_target([] {
    for (const auto& [dtype, error] : {std::pair(DType::kF32, 1e-6), std::pair(DType::kBF16, 2e-4)}) {
      std::vector<float> numbers;
      for (int i = 0; i < 48; ++i) numbers.push_back(static_cast<float>(i) / 47);
      std::vector<double> expected(numbers.begin(), numbers.end());
      for (double& x : expected)
        for (int i = 0; i < 3; ++i) x = std::exp(-x);
      repeat_exponentials(dtype, numbers, 3);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        EXPECT_NEAR(numbers[i], expected[i], error) << name_of(dtype) << " " << i;
    }
  });
}

TEST(RepeatExponentials, EndsWhereNothingChanges) {
  std::vector<float> numbers(2048, 0.5F);
  repeat_exponentials(DType::kF32, numbers, 128);
  for (const float x : numbers) ASSERT_NEAR(x, 0.567143290, 1e-6);  // the solution of x e^x = 1
}

}  // namespace
}  // namespace headroom
