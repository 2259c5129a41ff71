#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "report/charts/charts.hpp"
#include "report/charts/option_test_util.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;

TEST(StageTimes, PutsStagesOfPeersWhereOursAre) {
  std::vector<Result> results = {test::make_result({}, {10, 10, 10}), test::make_peer("eager", {10, 10, 10})};
  const auto add = [&](const std::string& name, double ms, bool is_on_device) {
    for (Result& result : results) {
      result.trials.push_back(make_series(name, Trials{.wall_ms = {ms, ms, ms}}));
      const bool has_memory = is_on_device && result.source.name == "headroom";
      result.stages.push_back({.name = name,
                               .memory_bytes = has_memory ? std::optional<std::int64_t>(1) : std::nullopt,
                               .weights_bytes = {},
                               .floor_ms = {}});
    }
  };
  add("tokenize", 1, false);
  add("text_encoder", 10, true);
  add("denoise", 80, true);
  const json series = charts::stage_times(test::make_dataset({test::make_file(results)})).charts.at(0).option["series"];
  EXPECT_EQ(series[0]["name"], "text_encoder");
  EXPECT_EQ(series[0]["data"][1]["value"], 10.0) << "not on the host, though the result has no memory";
  EXPECT_EQ(series[2]["name"], "on the host");
  EXPECT_EQ(series[2]["data"][1]["value"], 1.0);
}

}  // namespace
}  // namespace headroom
