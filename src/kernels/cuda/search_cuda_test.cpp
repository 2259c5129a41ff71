#include <gtest/gtest.h>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "kernels/cuda/own_cache.hpp"
#include "kernels/cuda/search.hpp"

namespace headroom::cuda {
namespace {

class SearchTest : public GpuTest {
 protected:
  [[nodiscard]] std::unique_ptr<Search> search() { return std::make_unique<Search>(backend(), "a library 1.2"); }

  const OwnCache cache_;
  const Work work_{.text = "some work",
                   .operands = {{.dtype = DType::kBF16, .bytes = 1000, .copies = 3},
                                {.dtype = DType::kF32, .bytes = 400, .is_result = true}}};
  const std::vector<Candidate> candidates_ = {{"slow", 10}, {"refused", 5000}, {"quick", 0}};
};

TEST_F(SearchTest, GivesEachLaunchItsOperandsAndRemembersTheChoice) {
  std::vector<int> launches(candidates_.size());
  const auto launch = [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
    ASSERT_EQ(operands.size(), 2U);
    EXPECT_NE(stream, nullptr);
    EXPECT_GE(static_cast<std::byte*>(operands[1]) - static_cast<std::byte*>(operands[0]), 1000);
    EXPECT_GE(static_cast<std::byte*>(workspace) - static_cast<std::byte*>(operands[1]), 400);
    ++launches[index];
    if (index == 1) fail("refused");
  };
  const auto first = search();
  EXPECT_EQ(first->find_known(work_.text), std::nullopt);
  const std::optional<Choice> choice = first->find_fastest(work_, candidates_, launch);
  ASSERT_TRUE(choice.has_value());
  EXPECT_TRUE(choice->is_measured);
  EXPECT_NE(choice->index, 1U);
  EXPECT_EQ(launches[1], 1);
  EXPECT_GT(launches[0], 1);

  launches.assign(candidates_.size(), 0);
  const auto second = search();
  for (Search* again : {first.get(), second.get()}) {  // in this process, and from the disk
    EXPECT_EQ(again->find_known(work_.text), candidates_[choice->index].name);
    EXPECT_EQ(again->find_fastest(work_, candidates_, launch)->index, choice->index);
  }
  EXPECT_EQ(launches, std::vector<int>(candidates_.size()));
  EXPECT_EQ(backend().memory_use().total, 0U);
}

TEST_F(SearchTest, FindsNothingWhereAllIsRefused) {
  const auto refuse = [](std::size_t, void*, std::span<void* const>, void*) { fail("refused"); };
  const auto made = search();
  EXPECT_EQ(made->find_fastest(work_, candidates_, refuse), std::nullopt);
  EXPECT_EQ(made->find_known(work_.text), std::nullopt);
}

TEST_F(SearchTest, TakesTheFirstWhereThereIsNoMemoryToMeasureWith) {
  Work large = work_;
  large.operands[0].bytes = std::size_t{1} << 40;
  const auto refuse = [](std::size_t, void*, std::span<void* const>, void*) { fail("refused"); };
  const std::optional<Choice> choice = search()->find_fastest(large, candidates_, refuse);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->index, 0U);
  EXPECT_FALSE(choice->is_measured);
}

}  // namespace
}  // namespace headroom::cuda
