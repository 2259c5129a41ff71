#include "measure/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Sweep : public testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return folder_ / "sweep.json"; }

  /// A cell that takes as many ms as its resolution; above 1000 pixels it does not fit.
  ResultFile measure(const SweepCell& cell) {
    ++measured_;
    ResultFile file;
    file.created = "2026-01-01T00:00:00Z";
    file.machine.cpu = cpu_;
    Result result{
        .id = "a",
        .name = cell.switches,
        .subject = {.kind = SubjectKind::kModel, .name = "m", .request = {{"steps", cell.steps}}},
        .source = {},
        .configuration =
            {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = {}, .baseline_dtype = {}},
        .trials = {},
        .memory = {},
        .quality = {},
        .tags = {},
        .plan = {}};
    const auto ms = static_cast<double>(cell.resolution);
    if (cell.resolution > 1000)
      result.tags.emplace_back(kOutOfMemoryTag);
    else
      result.trials = {make_series("step", Trials{.wall_ms = {ms, ms}}), make_series("image", Trials{.wall_ms = {ms}})};
    file.results.push_back(std::move(result));
    return file;
  }
  ResultFile sweep_all(bool force = false) {
    return sweep(
        path(), "m", cells_, [this](const SweepCell& cell) { return measure(cell); }, force);
  }

  std::vector<SweepCell> cells_ = list_cells(
      {.switches = {"baseline", "fast"}, .resolutions = {512, 2048, 256}, .steps = {4, 28}, .batches = {1, 2}});
  std::string cpu_ = "Xeon";
  int measured_ = 0;

 private:
  TempFolder folder_;
};

TEST_F(Sweep, ListsEveryCombinationOnceSmallFirst) {
  EXPECT_EQ(cells_.size(), 24U);
  EXPECT_EQ(cells_.front(), (SweepCell{.switches = "baseline", .resolution = 256, .steps = 4, .batch = 1}));
  EXPECT_EQ(cells_.back(), (SweepCell{.switches = "fast", .resolution = 2048, .steps = 28, .batch = 2}));
  EXPECT_EQ(list_cells({.switches = {"a", "a"}, .resolutions = {1}, .steps = {1, 1}, .batches = {1}}).size(), 1U);
}

TEST_F(Sweep, GoesOnAfterACellThatDoesNotFit) {
  const ResultFile file = sweep_all();
  EXPECT_EQ(file, read_results(path()));
  ASSERT_EQ(file.results.size(), 24U);
  int without_memory = 0;
  for (const Result& result : file.results) without_memory += result.trials.empty() ? 1 : 0;
  EXPECT_EQ(without_memory, 8);
  const std::string table = to_sweep_table(file, "m", cells_);
  EXPECT_THAT(table, HasSubstr("out of memory"));
  EXPECT_THAT(table, HasSubstr("512 ms"));
}

TEST_F(Sweep, MeasuresOnlyWhatIsMissing) {
  const std::vector<SweepCell> all = cells_;
  cells_.resize(5);
  (void)sweep_all();
  EXPECT_EQ(measured_, 5);
  cells_ = all;
  const ResultFile file = sweep_all();
  EXPECT_EQ(measured_, 24);
  std::set<std::string> ids;
  for (const Result& result : file.results) ids.insert(result.id);
  EXPECT_EQ(ids.size(), 24U);
  (void)sweep_all();
  EXPECT_EQ(measured_, 24);
}

TEST_F(Sweep, KeepsWhatIsDoneWhereACellFails) {
  int left = 3;
  const auto failing = [&](const SweepCell& cell) {
    if (left-- == 0) fail("the device is lost");
    return measure(cell);
  };
  EXPECT_THROW((void)sweep(path(), "m", cells_, failing, false), Error);
  EXPECT_EQ(read_results(path()).results.size(), 3U);
}

TEST_F(Sweep, RefusesToMixMachines) {
  const std::vector<SweepCell> all = cells_;
  cells_.resize(5);
  (void)sweep_all();
  cells_ = all;
  cpu_ = "EPYC";
  try {
    (void)sweep_all();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("CPU: Xeon against EPYC"));
  }
  EXPECT_EQ(read_results(path()).results.size(), 5U);
  EXPECT_EQ(sweep_all(true).results.size(), 24U);
}

TEST_F(Sweep, TellsHowMuchWorkIsDone) {
  std::vector<double> shares;
  (void)sweep(
      path(), "m", cells_, [this](const SweepCell& cell) { return measure(cell); }, false,
      [&](const SweepProgress& progress) {
        EXPECT_EQ(progress.cells, 24U);
        shares.push_back(progress.work_done);
      });
  ASSERT_EQ(shares.size(), 25U);
  EXPECT_EQ(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
  EXPECT_LT(shares[12], 0.2);  // the large half is most of the work
  EXPECT_TRUE(std::ranges::is_sorted(shares));
}

}  // namespace
}  // namespace headroom
