#include "measure/statistics/bootstrap_interval.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(MedianResampler, GivesTheMedianOfWhatItDraws) {
  for (const std::size_t n : {1, 2, 3, 4, 5, 8, 20, 101, 1000}) {
    std::vector<double> sorted;
    for (std::size_t i = 0; i < n; ++i) sorted.push_back(static_cast<double>(i * i));
    MedianResampler resampler(sorted);
    IndexStream stream(42, 1), same(42, 1);
    for (int draw = 0; draw < 50; ++draw) {
      std::vector<double> resample;
      for (std::size_t i = 0; i < n; ++i) resample.push_back(sorted[same.draw(n)]);
      EXPECT_EQ(resampler.draw(stream), median(resample)) << n;
    }
  }
}

}  // namespace
}  // namespace headroom
