#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "testing/own_cache.hpp"

namespace headroom::cuda {
namespace {

class SearchTest : public GpuTest {
 protected:
  [[nodiscard]] std::unique_ptr<tune::Tuner> search() {
    return std::make_unique<tune::Tuner>(backend(), driver_version(), "a library 1.2", fill_random);
  }

  const OwnCache cache_;
  const tune::Work work_{.text = "some work",
                         .operands = {{.dtype = DType::kBF16, .bytes = 1000, .copies = 3},
                                      {.dtype = DType::kF32, .bytes = 400, .is_result = true}}};
  const std::vector<tune::Candidate> candidates_ = {{"slow", 10}, {"refused", 5000}, {"quick", 0}};
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
  EXPECT_EQ(first->find_known(work_), std::nullopt);
  const std::optional<tune::Choice> choice = first->find_fastest(work_, candidates_, launch);
  ASSERT_TRUE(choice.has_value());
  EXPECT_TRUE(choice->is_measured);
  EXPECT_NE(choice->index, 1U);
  EXPECT_EQ(launches[1], 1);
  EXPECT_GT(launches[0], 1);

  launches.assign(candidates_.size(), 0);
  const auto second = search();
  for (tune::Tuner* again : {first.get(), second.get()}) {  // in this process, and from the disk
    EXPECT_EQ(again->find_known(work_), candidates_[choice->index].name);
    EXPECT_EQ(again->find_fastest(work_, candidates_, launch)->index, choice->index);
  }
  EXPECT_EQ(launches, std::vector<int>(candidates_.size()));
  EXPECT_EQ(backend().memory_use().total, 0U);
}

TEST_F(SearchTest, FindsNothingWhereAllIsRefused) {
  const auto refuse = [](std::size_t, void*, std::span<void* const>, void*) { fail("refused"); };
  const auto made = search();
  EXPECT_EQ(made->find_fastest(work_, candidates_, refuse), std::nullopt);
  EXPECT_EQ(made->find_known(work_), std::nullopt);
}

TEST_F(SearchTest, TakesTheFirstWhereThereIsNoMemoryToMeasureWith) {
  tune::Work large = work_;
  large.operands[0].bytes = std::size_t{1} << 40;
  const auto refuse = [](std::size_t, void*, std::span<void* const>, void*) { fail("refused"); };
  const std::optional<tune::Choice> choice = search()->find_fastest(large, candidates_, refuse);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->index, 0U);
  EXPECT_FALSE(choice->is_measured);
}

TEST_F(SearchTest, AcceptsWhatIsLaunchedOnce) {
  int launches = 0;
  const auto launch = [&](std::size_t index, void* stream, std::span<void* const> operands, void*) {
    EXPECT_EQ(index, 0U);
    EXPECT_NE(stream, nullptr);
    EXPECT_EQ(operands.size(), 2U);
    ++launches;
  };
  const auto refuse = [](std::size_t, void*, std::span<void* const>, void*) { fail("refused"); };
  const auto made = search();
  EXPECT_TRUE(made->accepts(work_, candidates_[0], launch));
  EXPECT_EQ(launches, 1);
  EXPECT_FALSE(made->accepts(work_, candidates_[0], refuse));
  EXPECT_EQ(made->find_known(work_), std::nullopt);
  EXPECT_EQ(backend().memory_use().total, 0U);
}

/// Without a device that could time anything.
class KnownSizes : public testing::Test {
 protected:
  [[nodiscard]] static tune::Work work_of(std::vector<std::int64_t> size, const std::string& family = "work") {
    return {.text = fmt::format("{} of {}", family, fmt::join(size, "x")),
            .operands = {},
            .size_key = {.family = family, .size = std::move(size)}};
  }
  [[nodiscard]] std::unique_ptr<tune::Tuner> search() {
    return std::make_unique<tune::Tuner>(*backend_, driver_version(), "a library 1.2", fill_random);
  }

 private:
  const OwnCache cache_;
  const std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
};

TEST_F(KnownSizes, IsFoundInThisProcessAndOnDisk) {
  const auto first = search();
  first->keep(work_of({1, 64}), "wide", 5);
  first->keep(work_of({1, 16}), "narrow", 1);
  first->keep(work_of({1, 60}, "other work"), "another", 1);
  first->keep({.text = "alone", .operands = {}}, "single", 1);
  const std::vector<tune::TunedSize> expected = {{"wide", {1, 64}}, {"narrow", {1, 16}}};
  const auto second = search();
  for (tune::Tuner* each : {first.get(), second.get()}) {
    EXPECT_EQ(each->find_nearest(work_of({1, 48})), expected);
    EXPECT_EQ(each->find_nearest(work_of({1, 20})).front().algorithm, "narrow");
    EXPECT_TRUE(each->find_nearest({.text = "lonely", .operands = {}}).empty());
    EXPECT_EQ(each->find_known(work_of({1, 48})), std::nullopt);
    EXPECT_EQ(each->find_known(work_of({1, 64})), "wide");
  }
}

/// A choice that an earlier version kept on disk joins its size family when it is looked up.
TEST_F(KnownSizes, IsLearntFromWhatIsKnownByItsText) {
  tune::Work nameless = work_of({1, 64});
  nameless.size_key = {};
  search()->keep(nameless, "wide", 5);
  const auto later = search();
  EXPECT_TRUE(later->find_nearest(work_of({1, 48})).empty());
  EXPECT_EQ(later->find_known(work_of({1, 64})), "wide");
  EXPECT_EQ(later->find_nearest(work_of({1, 48})), (std::vector<tune::TunedSize>{{"wide", {1, 64}}}));
}

TEST_F(KnownSizes, IsWhatWasMeasuredLast) {
  const auto made = search();
  made->keep(work_of({1, 64}), "wide", 5);
  made->keep(work_of({1, 64}), "wider", 4);
  EXPECT_EQ(made->find_nearest(work_of({1, 48})), (std::vector<tune::TunedSize>{{"wider", {1, 64}}}));
}

}  // namespace
}  // namespace headroom::cuda
