#include "measure/ladder.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace headroom {
namespace {

TEST(Climb, TellsHowManyStepsARungTakes) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Model model = open_model(std::string(HEADROOM_SOURCE_DIR) + "/models/fashion-flux");
  LadderOptions options;
  options.switches = SwitchSet::parse("arena");
  options.request.images = 1;
  options.request.token_rows = options.request.token_columns = 2;
  options.request.steps = 2;
  options.min_trials = 4;  // after 5 of warm-up
  std::map<std::string, LadderProgress> last;
  (void)climb(model, *backend, options, [&](const LadderProgress& at) { last[at.rung] = at; });
  ASSERT_EQ(last.size(), 2U);
  for (const auto& [rung, at] : last) {
    EXPECT_EQ(at.steps_total, 10) << "9 steps, in whole generations of 2";
    EXPECT_EQ(at.steps_done, at.steps_total) << rung;
  }
}

}  // namespace
}  // namespace headroom
