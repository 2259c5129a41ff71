#include "models/unets/live_stream_unet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/test_util.hpp"
#include "ir/verify.hpp"
#include "models/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string live_config_error(const char* key, const nlohmann::json& value) {
  nlohmann::json config = live_stream_unet_config();
  config[key] = value;
  return error_of([&] { static_cast<void>(parse_live_stream_unet_config(config)); });
}

Graph build_live(std::string_view pass, InputShapes changed = {}) {
  const nlohmann::json config = live_stream_unet_config();
  const ComponentClass& kind = class_of(config);
  const ComponentPass& found = pass_named(kind, pass);
  changed.merge(found.shapes(config, kind.own_size(config)));
  Graph graph = found.build(config, changed, f32_params());
  verify(graph);
  return graph;
}

TEST(LiveStreamUNetConfig, NamesWhatIsNotSupported) {
  EXPECT_THAT(live_config_error("in_channels", 6), HasSubstr("in_channels is 6, expected 9"));
  EXPECT_THAT(live_config_error("attention_head_dim", 48), HasSubstr("attention_head_dim is 48"));
  EXPECT_THAT(live_config_error("memory_frames", 0), HasSubstr("memory_frames is 0"));
  EXPECT_THAT(live_config_error("resnet_time_scale_shift", "default"), HasSubstr("expected \"scale_shift\""));
  EXPECT_THAT(live_config_error("mid_block_type", nullptr), HasSubstr("mid_block_type is null"));
}

TEST(LiveStreamUNet, Has880MillionParameters) {
  std::set<std::string> names;
  std::int64_t count = 0;
  for (const char* pass : {"step", "blend", "remember"}) {
    const Graph graph = build_live(pass);
    for (const ValueId param : graph.values_of(ValueKind::kParam))
      if (names.insert(graph.value(param).name).second) count += graph.type(param).shape.numel();
  }
  EXPECT_EQ(count, 881'981'700);
  EXPECT_LE(std::abs(static_cast<double>(count) / 880e6 - 1), 0.02);
}

TEST(LiveStreamUNet, TakesOneMemoryForAllFramesOfABatchOrOneForEach) {
  const Shape frames{3, 3, 64, 64};
  const auto build = [&](std::int64_t streams) {
    return build_live("step", {{"sample", frames},
                               {"frame", frames},
                               {"previous", frames},
                               {"timestep", {3}},
                               {"memory", {streams, 32, 512}}});
  };
  EXPECT_NO_THROW(build(1));
  EXPECT_NO_THROW(build(3));
  EXPECT_THAT(error_of([&] { build(2); }), HasSubstr("'memory' is of 2 streams, expected 1 or 3"));
}

TEST(LiveStreamUNet, SaysWhichSizesItTakes) {
  const Shape odd{1, 3, 60, 64};
  EXPECT_THAT(error_of([&] { build_live("step", {{"sample", odd}}); }), HasSubstr("multiples of 8"));
  EXPECT_THAT(error_of([&] {
                build_live("blend", {{"previous", {1, 3, 32, 64}}});
              }),
              HasSubstr("'previous' is [1, 3, 32, 64], expected [1, 3, 64, 64] like the other frames"));
}

}  // namespace
}  // namespace headroom
