// Every combination of the exact switches against the baseline, on one forward pass and on the denoise loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "run/compile.hpp"
#include "run/generator.hpp"
#include "run/model.hpp"

namespace headroom {
namespace {

/// All sets of exact switches that take no argument.
std::vector<SwitchSet> combinations() {
  std::vector<SwitchSet> sets = {{}};
  for (const SwitchInfo& info : all_switches()) {
    if (!info.exact || !info.value.empty()) continue;
    const SwitchSet single = SwitchSet::parse(info.name);
    for (std::size_t i = 0, count = sets.size(); i < count; ++i) sets.push_back(sets[i].with(single));
  }
  return sets;
}

double relative_l2(const HostTensor& actual, const HostTensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    difference += std::pow(actual.at(i) - expected.at(i), 2);
    norm += std::pow(expected.at(i), 2);
  }
  return std::sqrt(difference / norm);
}

class ExactSwitchesTest : public testing::TestWithParam<const char*> {
 protected:
  ExactSwitchesTest() : model_(open_model(std::string(HEADROOM_SOURCE_DIR) + "/" + GetParam())) {}

  HostTensor forward(const SwitchSet& switches, std::vector<Declined>& declined) {
    const Compiled compiled =
        compile(build_flux_forward(model_.config, {.batch = 2, .image_tokens = 12, .text_tokens = 5}, model_.params()),
                switches, backend_->properties().target);
    declined = compiled.declined;
    Session session(compiled.program, weights_, *backend_);
    std::uint64_t stream = 0;
    for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
      const Value& value = compiled.program->graph.value(input);
      HostTensor tensor(value.type.dtype, value.type.shape);
      fill_uniform(tensor.as<float>(), 5, stream++);
      session.set_input(value.name, tensor);
    }
    session.run();
    return session.output("sample");
  }

  HostTensor denoise(const SwitchSet& switches, std::vector<Declined>& declined) {
    Generator generator(model_, *backend_, weights_,
                        {.images = 2, .token_rows = 3, .token_columns = 4, .steps = 3, .switches = switches});
    declined = generator.compiled().declined;
    return generator.generate(std::vector<ImageRequest>{{.label = 1, .seed = 2}, {.label = 3, .seed = 4}});
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  Model model_;
  WeightStore weights_{*backend_, model_.checkpoint};
};

TEST_P(ExactSwitchesTest, KeepAForwardPassInAnyCombination) {
  std::vector<Declined> declined;
  const HostTensor baseline = forward({}, declined);
  for (const SwitchSet& switches : combinations()) {
    EXPECT_LE(relative_l2(forward(switches, declined), baseline), 1e-5) << switches.to_string();
    for (const Declined& one : declined) EXPECT_EQ(one.switch_name, "hoist") << one.reason;
  }
}

TEST_P(ExactSwitchesTest, KeepADenoiseLoopInAnyCombination) {
  if (model_.config.in_channels != model_.config.out_channels) GTEST_SKIP() << "its output is no velocity of its input";
  std::vector<Declined> declined;
  const HostTensor baseline = denoise({}, declined);
  for (const SwitchSet& switches : combinations()) {
    EXPECT_LE(relative_l2(denoise(switches, declined), baseline), 1e-5) << switches.to_string();
    EXPECT_TRUE(declined.empty()) << declined.front().switch_name << ": " << declined.front().reason;
  }
}

INSTANTIATE_TEST_SUITE_P(Flux, ExactSwitchesTest,
                         testing::Values("models/fashion-flux", "tests/goldens/flux/tiny-guidance",
                                         "tests/goldens/flux/tiny-no-double", "tests/goldens/flux/tiny-no-single"),
                         [](const auto& parameter) {
                           const std::string path = parameter.param;
                           std::string name = path.substr(path.rfind('/') + 1);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace headroom
