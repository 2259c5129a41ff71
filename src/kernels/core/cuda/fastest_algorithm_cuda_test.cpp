#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "backends/cuda/gpu_test.hpp"
#include "base/files/file.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "testing/own_cache.hpp"
#include "tune/fastest_algorithm.hpp"

namespace headroom::cuda {
namespace {

struct NamedAlgorithm {
  std::string name;
  std::size_t workspace_bytes = 0;
};

const tune::Work kWork{.text = "some work", .operands = {{.dtype = DType::kF32, .bytes = 400, .is_result = true}}};

/// Algorithms of these names; one that is called "refused" does not run.
tune::Algorithms<NamedAlgorithm> algorithms_called(std::vector<std::string> names, int* listed = nullptr) {
  const auto list = [names, listed] {
    if (listed != nullptr) ++*listed;
    std::vector<NamedAlgorithm> algorithms;
    for (const std::string& name : names) algorithms.push_back({.name = name});
    return algorithms;
  };
  const auto find = [names](const std::string& name) {
    return std::ranges::count(names, name) == 0 ? std::nullopt : std::optional(NamedAlgorithm{.name = name});
  };
  const auto run = [](const NamedAlgorithm& algorithm, void*, std::span<void* const> operands, void*) {
    EXPECT_EQ(operands.size(), 1U);
    if (algorithm.name == "refused") fail("refused");
  };
  return {.list = list, .find = find, .run = run};
}

/// On a device that could time nothing.
class UntimedAlgorithm : public testing::Test {
 protected:
  std::string find(const std::vector<std::string>& names, bool is_timed) {
    return tune::fastest_algorithm<NamedAlgorithm>(search_, kWork, is_timed, NewWork::kMeasure,
                                                   algorithms_called(names))
        .name;
  }

 private:
  const OwnCache cache_;
  const std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  tune::Tuner search_{*backend_, driver_version(), "no library", fill_random};
};

TEST_F(UntimedAlgorithm, IsTheFirstOfWorkThatIsSmall) { EXPECT_EQ(find({"one", "two"}, false), "one"); }
TEST_F(UntimedAlgorithm, IsTheOnlyOne) { EXPECT_EQ(find({"one"}, true), "one"); }
TEST_F(UntimedAlgorithm, IsAnErrorWhereThereIsNone) {
  for (const bool is_timed : {false, true}) EXPECT_THROW(static_cast<void>(find({}, is_timed)), Error);
}

/// Work of which some sizes were measured before, on a device that could time nothing.
class AlgorithmOfNearestSize : public testing::Test {
 protected:
  [[nodiscard]] static tune::Work of_size(std::int64_t size) {
    return {.text = fmt::format("work of {}", size),
            .operands = {{.dtype = DType::kF32, .bytes = 400, .is_result = true}},
            .size_key = {.family = "work", .size = {size}}};
  }
  std::string take_over(std::int64_t size, const tune::Algorithms<NamedAlgorithm>& algorithms) {
    return tune::fastest_algorithm(search_, of_size(size), true, NewWork::kTakeOver, algorithms).name;
  }

  const OwnCache cache_;
  const std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  tune::Tuner search_{*backend_, driver_version(), "no library", fill_random};
};

TEST_F(AlgorithmOfNearestSize, IsThatOfTheNearestSize) {
  search_.keep(of_size(64), "wide", 9);
  search_.keep(of_size(16), "narrow", 1);
  int listed = 0;
  const tune::Algorithms<NamedAlgorithm> algorithms = algorithms_called({"first", "narrow", "wide"}, &listed);
  EXPECT_EQ(take_over(48, algorithms), "wide, taken over from size 64");
  EXPECT_EQ(take_over(24, algorithms), "narrow, taken over from size 16");
  EXPECT_EQ(take_over(64, algorithms), "wide, fastest as measured");
  EXPECT_EQ(listed, 0) << "others are not made";
}

TEST_F(AlgorithmOfNearestSize, IsTheNextWhereThisWorkHasNoSuchAlgorithmOrItIsRefused) {
  search_.keep(of_size(48), "gone", 5);
  search_.keep(of_size(40), "refused", 4);
  search_.keep(of_size(64), "wide", 9);
  int refusals = 0;
  tune::Algorithms<NamedAlgorithm> algorithms = algorithms_called({"first", "refused", "wide"});
  algorithms.run = [&, run = algorithms.run](const NamedAlgorithm& algorithm, void* stream,
                                             std::span<void* const> operands, void* workspace) {
    if (algorithm.name == "refused") ++refusals;
    run(algorithm, stream, operands, workspace);
  };
  EXPECT_EQ(take_over(44, algorithms), "wide, taken over from size 64");
  search_.keep(of_size(45), "refused", 4);
  EXPECT_EQ(take_over(44, algorithms), "wide, taken over from size 64");
  EXPECT_EQ(refusals, 2) << "once for each plan, in however many sizes it was the fastest";
}

TEST_F(AlgorithmOfNearestSize, IsAGuessWhereThereIsNone) {
  EXPECT_EQ(take_over(48, algorithms_called({"refused", "first", "second"})), "first");
  tune::Algorithms<NamedAlgorithm> algorithms = algorithms_called({"first", "second"});
  algorithms.guess = [] { return std::vector<NamedAlgorithm>{{.name = "refused"}, {.name = "quickly made"}}; };
  EXPECT_EQ(take_over(48, algorithms), "quickly made");
  search_.keep(of_size(64), "refused", 9);
  EXPECT_EQ(take_over(48, algorithms), "quickly made");
}

TEST_F(AlgorithmOfNearestSize, MayBeFoundInAnotherAlgorithmThanWhatIsKnown) {
  search_.keep(of_size(64), "wide 64", 9);
  tune::Algorithms<NamedAlgorithm> algorithms = algorithms_called({"wide 48"});
  algorithms.find_nearest = [](const std::string& name) {
    return std::optional(NamedAlgorithm{.name = name.substr(0, 4) + " 48"});
  };
  EXPECT_EQ(take_over(48, algorithms), "wide 48, taken over from size 64");
  algorithms.find_nearest = [](const std::string&) {
    return std::optional(NamedAlgorithm{.name = "wide, taken over from size 64"});
  };
  EXPECT_EQ(take_over(48, algorithms), "wide, taken over from size 64") << "said once";
}

TEST_F(AlgorithmOfNearestSize, IsKeptNowhere) {
  search_.keep(of_size(64), "wide", 9);
  const auto files = [&] {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_.folder()))
      if (entry.is_regular_file()) contents[entry.path().string()] = read_file(entry.path());
    return contents;
  };
  const auto before = files();
  EXPECT_EQ(before.size(), 1U);
  EXPECT_EQ(take_over(48, algorithms_called({"wide"})), "wide, taken over from size 64");
  EXPECT_EQ(take_over(40, algorithms_called({"first"})), "first");
  EXPECT_EQ(files(), before);
  for (const std::int64_t size : {48, 40}) EXPECT_EQ(search_.find_known(of_size(size)), std::nullopt);
  EXPECT_EQ(search_.find_nearest(of_size(47)), (std::vector<tune::TunedSize>{{"wide", {64}}}));
}

TEST_F(AlgorithmOfNearestSize, IsNotTakenWhereNewWorkIsMeasuredOrTooSmall) {
  search_.keep(of_size(64), "wide", 9);
  const tune::Algorithms<NamedAlgorithm> only = algorithms_called({"only"});
  EXPECT_EQ(tune::fastest_algorithm(search_, of_size(48), true, NewWork::kMeasure, only).name, "only");
  EXPECT_EQ(
      tune::fastest_algorithm(search_, of_size(48), false, NewWork::kTakeOver, algorithms_called({"first", "wide"}))
          .name,
      "first");
}

class FastestAlgorithm : public GpuTest {
 protected:
  static std::string measured(tune::Tuner& search, const tune::Algorithms<NamedAlgorithm>& algorithms) {
    return tune::fastest_algorithm(search, kWork, true, NewWork::kMeasure, algorithms).name;
  }

 private:
  const OwnCache cache_;
};

TEST_F(FastestAlgorithm, IsMeasuredOnceAndThenFoundByItsName) {
  tune::Tuner search(backend(), driver_version(), "a library 1.2", fill_random);
  int listed = 0;
  const tune::Algorithms<NamedAlgorithm> algorithms = algorithms_called({"refused", "quick"}, &listed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(measured(search, algorithms), "quick, fastest as measured");
  EXPECT_EQ(listed, 1);
  EXPECT_EQ(search.find_known(kWork), "quick");
  EXPECT_EQ(measured(search, algorithms_called({"another"})), "another") << "the known one is gone";
}

TEST_F(FastestAlgorithm, IsAnErrorWhereAllAreRefused) {
  tune::Tuner search(backend(), driver_version(), "a library 1.2", fill_random);
  EXPECT_THROW(static_cast<void>(measured(search, algorithms_called({"refused", "refused"}))), Error);
}

TEST_F(FastestAlgorithm, IsTakenOverWhereItRuns) {
  tune::Tuner search(backend(), driver_version(), "a library 1.2", fill_random);
  const auto of_size = [](std::int64_t size) {
    tune::Work work = kWork;
    work.text = fmt::format("work of {}", size);
    work.size_key = {.family = "work", .size = {size}};
    return work;
  };
  const tune::Algorithms<NamedAlgorithm> algorithms = algorithms_called({"refused", "quick"});
  const std::string measured = tune::fastest_algorithm(search, of_size(64), true, NewWork::kMeasure, algorithms).name;
  EXPECT_EQ(measured, "quick, fastest as measured");
  search.keep(of_size(40), "refused", 1);
  EXPECT_EQ(tune::fastest_algorithm(search, of_size(48), true, NewWork::kTakeOver, algorithms).name,
            "quick, taken over from size 64");
  EXPECT_EQ(search.find_known(of_size(48)), std::nullopt);
  EXPECT_EQ(tune::fastest_algorithm(search, of_size(48), true, NewWork::kMeasure, algorithms).name, measured);
  EXPECT_EQ(backend().memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom::cuda
