#include "cli/live/status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::HasSubstr;

StreamFacts prompted_stream() {
  return {
      .model = "tiny", .device = "cpu", .switches = "fuse", .width = 2, .height = 1, .fps = 25, .takes_prompt = true};
}

void show_times(LiveView& view, double latency_ms) {
  const std::vector<std::uint8_t> pixels(6);
  view.show({.latency_ms = latency_ms, .device_ms = 2}, pixels, pixels);
}

TEST(LiveStatus, TellsPercentilesOfWhatWasShown) {
  LiveView view(prompted_stream(), {.prompt = "a fox"});
  EXPECT_FALSE(live_status(view).contains("latency_ms")) << "nothing is known yet";
  for (int i = 1; i <= 1001; ++i) show_times(view, i);  // only the last 1024 are remembered
  view.drop();
  const json status = live_status(view);
  EXPECT_EQ(status.at("shown"), 1001);
  EXPECT_EQ(status.at("dropped"), 1);
  EXPECT_EQ(status.at("latency_ms"), json::parse(R"({"p50": 501.0, "p90": 901.0, "p99": 991.0, "p99_9": 1000.0})"));
  EXPECT_EQ(status.at("parts_ms").at("device"), 2);
  EXPECT_EQ(status.at("controls"), json({{"prompt", "a fox"}})) << "what it does not take is not there";
}

TEST(LiveStatus, DrawsTheWorstOfFramesThatSharePoint) {
  LiveView view(prompted_stream(), {});
  for (int i = 0; i < 240; ++i) show_times(view, i);
  json curve = live_status(view).at("curve");
  EXPECT_EQ(curve.at("frames_each"), 1);
  EXPECT_EQ(curve.at("worst_ms").size(), 240U);
  show_times(view, 1000);
  curve = live_status(view).at("curve");
  EXPECT_EQ(curve.at("frames_each"), 2);
  ASSERT_EQ(curve.at("worst_ms").size(), 121U);
  EXPECT_EQ(curve.at("worst_ms").front(), 1);
  EXPECT_EQ(curve.at("worst_ms").back(), 1000);
}

TEST(LiveControls, ChangeWhatIsNamed) {
  const StreamControls now{.prompt = "a fox", .steps = 2, .strength = 0.5};
  StreamControls expected = now;
  EXPECT_EQ(change_controls("{}", "wish", now), now);
  expected.prompt = "an <owl> & more, \xC3\xA9";
  expected.strength = 0.25;
  expected.paused = true;
  EXPECT_EQ(change_controls(R"({"prompt": "an <owl> & more, é", "strength": 0.25, "paused": true})", "wish", now),
            expected);
  EXPECT_EQ(change_controls(R"({"seed": 9007199254740991})", "wish", now).seed, 9007199254740991U);
}

TEST(LiveControls, AreOfTheirTypesAndSizes) {
  const auto refusal = [](std::string_view text) { return error_of([&] { (void)change_controls(text, "wish", {}); }); };
  const std::string long_prompt(2001, 'a');
  for (const std::string& text : std::vector<std::string>{
           "", "x", "[]", "null", R"("prompt")", "{\"prompt\": \"\xFF\"}", R"({"prompt": 1})", R"({"prompt": null})",
           R"({"steps": 1.5})", R"({"steps": "1"})", R"({"steps": 1e30})", R"({"strength": "1"})",
           R"({"strength": NaN})", R"({"paused": 1})", R"({"seed": -1})", R"({"seed": 18446744073709551615})",
           R"({"colour": 1})", R"({"prompt": "a", "prompt": "b"})", std::string(300, '{')})
    EXPECT_NE(refusal(text), "(no error)") << text;
  EXPECT_EQ(refusal(R"({"prompt": ")" + long_prompt + "\"}"), "wish: prompt has 2001 bytes, expected at most 2000");
  EXPECT_THAT(refusal(R"({"prompt": "a\u001b[2J"})"), HasSubstr("prompt holds a control character, U+001B"));
  EXPECT_THAT(refusal(R"({"__proto__": {}})"), HasSubstr("'__proto__' is nothing that can be changed"));
}

}  // namespace
}  // namespace headroom
