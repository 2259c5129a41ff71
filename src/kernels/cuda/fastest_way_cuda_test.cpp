#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/gpu_test.hpp"
#include "kernels/cuda/fastest_way.hpp"
#include "kernels/cuda/own_cache.hpp"

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
    return fastest_way<NamedWay>(search_, kWork, is_timed, ways_called(names)).name;
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

class FastestWay : public GpuTest {
  const OwnCache cache_;
};

TEST_F(FastestWay, IsMeasuredOnceAndThenFoundByItsName) {
  Search search(backend(), "a library 1.2");
  int listed = 0;
  const Ways<NamedWay> ways = ways_called({"refused", "quick"}, &listed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fastest_way(search, kWork, true, ways).name, "quick, fastest as measured");
  EXPECT_EQ(listed, 1);
  EXPECT_EQ(search.find_known(kWork.text), "quick");
  EXPECT_EQ(fastest_way(search, kWork, true, ways_called({"another"})).name, "another") << "the known one is gone";
}

TEST_F(FastestWay, IsAnErrorWhereAllAreRefused) {
  Search search(backend(), "a library 1.2");
  EXPECT_THROW(static_cast<void>(fastest_way(search, kWork, true, ways_called({"refused", "refused"}))), Error);
}

}  // namespace
}  // namespace headroom::cuda
