#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "backends/cuda/gpu_test.hpp"
#include "base/files/file.hpp"
#include "tune/fastest_algorithm.hpp"
#include "testing/own_cache.hpp"

namespace headroom::cuda {
namespace {

struct NamedWay {
  std::string name;
  std::size_t workspace_bytes = 0;
};

const Work kWork{.text = "some work", .operands = {{.dtype = DType::kF32, .bytes = 400, .is_result = true}}};

/// Ways of these names, of which one that is called "refused" does not run.
Ways<NamedWay> ways_called(std::vector<std::string> names, int* listed = nullptr) {
  const auto list = [names, listed] {
    if (listed != nullptr) ++*listed;
    std::vector<NamedWay> ways;
    for (const std::string& name : names) ways.push_back({.name = name});
    return ways;
  };
  const auto find = [names](const std::string& name) {
    return std::ranges::count(names, name) == 0 ? std::nullopt : std::optional(NamedWay{.name = name});
  };
  const auto run = [](const NamedWay& way, void*, std::span<void* const> operands, void*) {
    EXPECT_EQ(operands.size(), 1U);
    if (way.name == "refused") fail("refused");
  };
  return {.list = list, .find = find, .run = run};
}

/// Of a device that could time nothing.
class UntimedWay : public testing::Test {
 protected:
  std::string find(const std::vector<std::string>& names, bool is_timed) {
    return fastest_way<NamedWay>(search_, kWork, is_timed, NewWork::kMeasure, ways_called(names)).name;
  }

 private:
  const OwnCache cache_;
  const std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  Search search_{*backend_, "no library"};
};

TEST_F(UntimedWay, IsTheFirstOfWorkThatIsSmall) { EXPECT_EQ(find({"one", "two"}, false), "one"); }
TEST_F(UntimedWay, IsTheOnlyOne) { EXPECT_EQ(find({"one"}, true), "one"); }
TEST_F(UntimedWay, IsAnErrorWhereThereIsNone) {
  for (const bool is_timed : {false, true}) EXPECT_THROW(static_cast<void>(find({}, is_timed)), Error);
}

/// Work of which some sizes were measured before, on a device that could time nothing.
class WayOfKin : public testing::Test {
 protected:
  [[nodiscard]] static Work of_size(std::int64_t size) {
    return {.text = fmt::format("work of {}", size),
            .operands = {{.dtype = DType::kF32, .bytes = 400, .is_result = true}},
            .kinship = {.kin = "work", .size = {size}}};
  }
  std::string take_over(std::int64_t size, const Ways<NamedWay>& ways) {
    return fastest_way(search_, of_size(size), true, NewWork::kTakeOver, ways).name;
  }

  const OwnCache cache_;
  const std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  Search search_{*backend_, "no library"};
};

TEST_F(WayOfKin, IsThatOfTheNearestSize) {
  search_.keep(of_size(64), "wide", 9);
  search_.keep(of_size(16), "narrow", 1);
  int listed = 0;
  const Ways<NamedWay> ways = ways_called({"first", "narrow", "wide"}, &listed);
  EXPECT_EQ(take_over(48, ways), "wide, taken over from size 64");
  EXPECT_EQ(take_over(24, ways), "narrow, taken over from size 16");
  EXPECT_EQ(take_over(64, ways), "wide, fastest as measured");
  EXPECT_EQ(listed, 0) << "others are not made";
}

TEST_F(WayOfKin, IsTheNextWhereThisWorkHasNoSuchWayOrItIsRefused) {
  search_.keep(of_size(48), "gone", 5);
  search_.keep(of_size(40), "refused", 4);
  search_.keep(of_size(64), "wide", 9);
  int refusals = 0;
  Ways<NamedWay> ways = ways_called({"first", "refused", "wide"});
  ways.run = [&, run = ways.run](const NamedWay& way, void* stream, std::span<void* const> operands, void* workspace) {
    if (way.name == "refused") ++refusals;
    run(way, stream, operands, workspace);
  };
  EXPECT_EQ(take_over(44, ways), "wide, taken over from size 64");
  search_.keep(of_size(45), "refused", 4);
  EXPECT_EQ(take_over(44, ways), "wide, taken over from size 64");
  EXPECT_EQ(refusals, 2) << "once for each plan, in however many sizes it was the fastest";
}

TEST_F(WayOfKin, IsAGuessWhereThereIsNone) {
  EXPECT_EQ(take_over(48, ways_called({"refused", "first", "second"})), "first");
  Ways<NamedWay> ways = ways_called({"first", "second"});
  ways.guess = [] { return std::vector<NamedWay>{{.name = "refused"}, {.name = "quickly made"}}; };
  EXPECT_EQ(take_over(48, ways), "quickly made");
  search_.keep(of_size(64), "refused", 9);
  EXPECT_EQ(take_over(48, ways), "quickly made");
}

TEST_F(WayOfKin, MayBeFoundInAnotherWayThanWhatIsKnown) {
  search_.keep(of_size(64), "wide 64", 9);
  Ways<NamedWay> ways = ways_called({"wide 48"});
  ways.find_kin = [](const std::string& name) { return std::optional(NamedWay{.name = name.substr(0, 4) + " 48"}); };
  EXPECT_EQ(take_over(48, ways), "wide 48, taken over from size 64");
  ways.find_kin = [](const std::string&) { return std::optional(NamedWay{.name = "wide, taken over from size 64"}); };
  EXPECT_EQ(take_over(48, ways), "wide, taken over from size 64") << "said once";
}

TEST_F(WayOfKin, IsKeptNowhere) {
  search_.keep(of_size(64), "wide", 9);
  const auto files = [&] {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_.folder()))
      if (entry.is_regular_file()) contents[entry.path().string()] = read_file(entry.path());
    return contents;
  };
  const auto before = files();
  EXPECT_EQ(before.size(), 1U);
  EXPECT_EQ(take_over(48, ways_called({"wide"})), "wide, taken over from size 64");
  EXPECT_EQ(take_over(40, ways_called({"first"})), "first");
  EXPECT_EQ(files(), before);
  for (const std::int64_t size : {48, 40}) EXPECT_EQ(search_.find_known(of_size(size)), std::nullopt);
  EXPECT_EQ(search_.find_kin(of_size(47)), (std::vector<Relative>{{"wide", {64}}}));
}

TEST_F(WayOfKin, IsNotTakenWhereNewWorkIsMeasuredOrTooSmall) {
  search_.keep(of_size(64), "wide", 9);
  const Ways<NamedWay> only = ways_called({"only"});
  EXPECT_EQ(fastest_way(search_, of_size(48), true, NewWork::kMeasure, only).name, "only");
  EXPECT_EQ(fastest_way(search_, of_size(48), false, NewWork::kTakeOver, ways_called({"first", "wide"})).name, "first");
}

class FastestWay : public GpuTest {
 protected:
  static std::string measured(Search& search, const Ways<NamedWay>& ways) {
    return fastest_way(search, kWork, true, NewWork::kMeasure, ways).name;
  }

 private:
  const OwnCache cache_;
};

TEST_F(FastestWay, IsMeasuredOnceAndThenFoundByItsName) {
  Search search(backend(), "a library 1.2");
  int listed = 0;
  const Ways<NamedWay> ways = ways_called({"refused", "quick"}, &listed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(measured(search, ways), "quick, fastest as measured");
  EXPECT_EQ(listed, 1);
  EXPECT_EQ(search.find_known(kWork), "quick");
  EXPECT_EQ(measured(search, ways_called({"another"})), "another") << "the known one is gone";
}

TEST_F(FastestWay, IsAnErrorWhereAllAreRefused) {
  Search search(backend(), "a library 1.2");
  EXPECT_THROW(static_cast<void>(measured(search, ways_called({"refused", "refused"}))), Error);
}

TEST_F(FastestWay, IsTakenOverWhereItRuns) {
  Search search(backend(), "a library 1.2");
  const auto of_size = [](std::int64_t size) {
    Work work = kWork;
    work.text = fmt::format("work of {}", size);
    work.kinship = {.kin = "work", .size = {size}};
    return work;
  };
  const Ways<NamedWay> ways = ways_called({"refused", "quick"});
  const std::string measured = fastest_way(search, of_size(64), true, NewWork::kMeasure, ways).name;
  EXPECT_EQ(measured, "quick, fastest as measured");
  search.keep(of_size(40), "refused", 1);
  EXPECT_EQ(fastest_way(search, of_size(48), true, NewWork::kTakeOver, ways).name, "quick, taken over from size 64");
  EXPECT_EQ(search.find_known(of_size(48)), std::nullopt);
  EXPECT_EQ(fastest_way(search, of_size(48), true, NewWork::kMeasure, ways).name, measured);
  EXPECT_EQ(backend().memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom::cuda
