// Every combination of the exact switches against the baseline, on one forward pass and on the denoise loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "run/compile.hpp"
#include "run/generator.hpp"
#include "run/model.hpp"
#include "source_dir.hpp"

namespace headroom {
namespace {

/// All sets of exact switches that take no argument; on a CPU without those that decline there, but for one with all.
std::vector<SwitchSet> combinations(bool on_gpu) {
  std::vector<SwitchSet> sets = {{}};
  for (const SwitchInfo& info : all_switches()) {
    if (!info.exact || !info.value.empty()) continue;
    if (!on_gpu && (info.name == "streams" || info.name == "graph")) continue;
    const SwitchSet single = SwitchSet::parse(info.name);
    for (std::size_t i = 0, count = sets.size(); i < count; ++i) sets.push_back(sets[i].with(single));
  }
  if (!on_gpu) sets.push_back(SwitchSet::parse("lossless"));
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

struct Case {
  const char* model;
  DeviceKind device;
};

class ExactSwitchesTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      backend_ = make_backend(GetParam().device);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    model_ = std::make_unique<Model>(open_model((source_dir() / GetParam().model).string()));
    weights_ = std::make_unique<WeightStore>(*backend_, model_->checkpoint);
  }

  bool on_gpu() const { return GetParam().device == DeviceKind::kCuda; }

  /// The outputs of three runs: on a GPU, `graph` records the second and replays from there on.
  std::vector<HostTensor> forward(std::int64_t batch, const SwitchSet& switches, std::vector<Declined>& declined) {
    const Compiled compiled = compile(
        build_flux_forward(model_->config, {.batch = batch, .image_tokens = 12, .text_tokens = 5}, model_->params()),
        switches, backend_->properties().target);
    declined = compiled.declined;
    Session session(compiled.program, *weights_, *backend_);
    std::uint64_t stream = 0;
    for (const ValueId input : compiled.program->graph.values_of(ValueKind::kInput)) {
      const Value& value = compiled.program->graph.value(input);
      HostTensor tensor(value.type.dtype, value.type.shape);
      fill_uniform(tensor.as<float>(), 5, stream++);
      session.set_input(value.name, tensor);
    }
    std::vector<HostTensor> outputs;
    for (int run = 0; run < (on_gpu() ? 3 : 1); ++run) {
      session.run();
      outputs.push_back(session.output("sample"));
    }
    return outputs;
  }

  std::vector<HostTensor> denoise(const SwitchSet& switches, std::vector<Declined>& declined) {
    Generator generator(*model_, *backend_, *weights_,
                        {.images = 2, .token_rows = 3, .token_columns = 4, .steps = 3, .switches = switches});
    declined = generator.compiled().declined;
    std::vector<HostTensor> outputs;
    for (int run = 0; run < (on_gpu() ? 3 : 1); ++run)
      outputs.push_back(
          generator.generate(std::vector<ImageRequest>{{.label = 1, .seed = 2}, {.label = 3, .seed = 4}}));
    return outputs;
  }

  /// `graph` and `streams` are for GPUs, and `streams` needs `arena`.
  bool may_decline(std::string_view name, const SwitchSet& switches) const {
    return (name == "graph" && !on_gpu()) || (name == "streams" && (!on_gpu() || !switches.has("arena")));
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<WeightStore> weights_;
};

TEST_P(ExactSwitchesTest, KeepAForwardPassInAnyCombination) {
  std::vector<Declined> declined;
  for (const std::int64_t batch : {1, 2}) {  // streams are joined in place where a batch is one request
    const HostTensor baseline = forward(batch, {}, declined).front();
    for (const SwitchSet& switches : combinations(on_gpu())) {
      for (const HostTensor& output : forward(batch, switches, declined))
        EXPECT_LE(relative_l2(output, baseline), 1e-5) << switches.to_string() << ", batch " << batch;
      for (const Declined& one : declined)
        EXPECT_TRUE(one.switch_name == "hoist" || may_decline(one.switch_name, switches))
            << one.switch_name << ": " << one.reason;
    }
  }
}

TEST_P(ExactSwitchesTest, KeepADenoiseLoopInAnyCombination) {
  if (model_->config.in_channels != model_->config.out_channels)
    GTEST_SKIP() << "its output is no velocity of its input";
  std::vector<Declined> declined;
  const HostTensor baseline = denoise({}, declined).front();
  for (const SwitchSet& switches : combinations(on_gpu())) {
    for (const HostTensor& output : denoise(switches, declined))
      EXPECT_LE(relative_l2(output, baseline), 1e-5) << switches.to_string();
    for (const Declined& one : declined)
      EXPECT_TRUE(may_decline(one.switch_name, switches)) << one.switch_name << ": " << one.reason;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda})
    for (const char* model : {"models/fashion-flux", "tests/goldens/flux/tiny-guidance",
                              "tests/goldens/flux/tiny-no-double", "tests/goldens/flux/tiny-no-single"})
      all.push_back({model, device});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Flux, ExactSwitchesTest, testing::ValuesIn(cases()), [](const auto& parameter) {
  const std::string path = parameter.param.model;
  std::string name = path.substr(path.rfind('/') + 1) + (parameter.param.device == DeviceKind::kCpu ? "" : "OnGpu");
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace headroom
