#include "report/configuration_label.hpp"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(ConfigurationLabel, NamesAPresetWhereAllItsSwitchesWereAskedFor) {
  struct Case {
    const char* device;
    std::vector<std::string> asked, applied;
    const char* label;
  };
  const std::vector<std::string> lossless_gpu = {"arena", "flash",         "fuse",    "hoist",
                                                 "align", "channels-last", "streams", "graph"};
  const auto with = [](std::vector<std::string> list, std::initializer_list<const char*> more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  const Case cases[] = {
      {"cuda", {}, {}, "baseline"},
      {"cuda", {"tile"}, {}, "tile"},
      {"cuda", {"arena", "fuse"}, {"arena", "fuse"}, "arena+fuse"},
      {"cuda", lossless_gpu, {"arena", "flash"}, "lossless"},
      {"cuda", with(lossless_gpu, {"fp8"}), with({"arena", "graph"}, {"fp8"}), "lossless+fp8"},
      {"cuda", with(lossless_gpu, {"fp8=fast"}), {"arena", "fp8=fast"}, "lossless+fp8=fast"},
      {"cuda", with(lossless_gpu, {"bf16", "fp8"}), with(lossless_gpu, {"bf16", "fp8"}), "fast"},
      {"cuda", with(lossless_gpu, {"bf16", "fp8", "steps=4"}), {"arena", "bf16", "steps=4"}, "fast+steps=4"},
      {"cuda", with(lossless_gpu, {"fp16"}), {"arena", "fp16"}, "lossless+fp16"},
      {"cpu", lossless_gpu, {"arena", "flash"}, "arena+flash"},  // tile, which is for CPUs, was not asked for
      {"cpu", {"arena", "flash", "fuse", "hoist", "channels-last", "tile"}, {"arena", "flash"}, "lossless"},
      {"cuda", {"lossless", "fp8"}, {"lossless", "fp8"}, "lossless+fp8"},
      {"cpu", {"auto", "steps=4"}, {"arena", "steps=4"}, "auto+steps=4"},
  };
  for (const Case& one : cases) {
    Configuration configuration;
    configuration.device = one.device;
    configuration.asked = one.asked;
    configuration.applied = one.applied;
    EXPECT_EQ(configuration_label(configuration), one.label);
  }
}

}  // namespace
}  // namespace headroom
