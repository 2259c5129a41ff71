#include <gtest/gtest.h>

#include "backends/backend.hpp"
#include "testing/compare.hpp"

namespace headroom {
namespace {

TEST(RandomKernel, MakesTheBitsOfTheOracle) {
  for (const char* distribution : {"normal", "uniform"})
    for (const auto& [keys, offset] : {std::pair(DType::kI64, DType::kI32), std::pair(DType::kI32, DType::kI64)})
      for (const Ints& shape : {Ints{}, Ints{1}, Ints{3, 5}, Ints{4, 33, 61}})
        for (const int threads : {1, 2}) {
          const OpSpec spec = make_spec(Op::kRandom, {{keys, {3}}, {offset, {}}},
                                        {{"shape", shape}, {"distribution", std::string(distribution)}});
          const Comparison result =
              compare_with_oracle(kernel_named("highway.random"), spec, Target{.threads = threads}, 1,
                                  {.relative_l2 = 0, .max_ulps_of_peak = 0});
          EXPECT_TRUE(result.passed) << distribution << ": " << result.message;
        }
}

}  // namespace
}  // namespace headroom
