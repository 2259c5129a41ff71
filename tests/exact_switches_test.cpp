// Every combination of the exact switches against the baseline, on one forward pass and on the denoise loop.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "models/transformers/flux.hpp"
#include "pipelines/generator.hpp"
#include "run/compile.hpp"

namespace headroom {
namespace {

constexpr int kThreads = 2;  // of a CPU: as many as 8 samples are enough parts for

/// All sets of exact switches that take no argument; on a CPU without those that decline there, but for one with all.
std::vector<SwitchSet> combinations(bool on_gpu) {
  std::vector<SwitchSet> sets = {{}};
  // Those for images and for weights in blocks decline here: vae_test.cpp and packed tests have them.
  for (const SwitchInfo& info : all_switches()) {
    if (!info.exact || !info.value.empty() || info.name == "channels-last" || info.name == "align" ||
        info.name == "packed")
      continue;
    if (!on_gpu && (info.name == "streams" || info.name == "graph")) continue;
    const SwitchSet single = SwitchSet::parse(info.name);
    for (std::size_t i = 0, count = sets.size(); i < count; ++i) sets.push_back(sets[i].with(single));
  }
  if (!on_gpu) sets.push_back(SwitchSet::parse("lossless"));
  return sets;
}

struct Case {
  const char* model;
  DeviceKind device;
};

class ExactSwitchesTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    try {
      backend_ = make_backend(GetParam().device, on_gpu() ? 0 : kThreads);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    pipeline_ = open_pipeline((source_dir(kSourceDir) / GetParam().model).string());
    weights_ = std::make_unique<WeightStore>(*backend_, pipeline_->components());
  }

  bool is_fashion() const { return GetParam().model == std::string_view("models/fashion-flux"); }
  bool on_gpu() const { return GetParam().device == DeviceKind::kCuda; }

  /// The outputs of one run, or on a GPU of three, for `graph` records the first and replays all.
  std::vector<HostTensor> forward(const FluxShape& shape, const SwitchSet& switches, std::vector<Declined>& declined) {
    const Component& network = pipeline_->denoiser();
    const Compiled compiled = compile(build_flux_forward(parse_flux_config(network.config), shape, network.params()),
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

  std::vector<HostTensor> denoise(std::int64_t images, std::int64_t rows, const SwitchSet& switches,
                                  std::vector<Declined>& declined) {
    Generator generator(*pipeline_, *backend_, *weights_,
                        {.images = images, .token_rows = rows, .token_columns = 8, .steps = 3, .switches = switches});
    declined = generator.compiled().declined;
    std::vector<HostTensor> outputs;
    for (int run = 0; run < (on_gpu() ? 3 : 1); ++run)
      outputs.push_back(generator.generate(make_image_requests(*pipeline_, 1, images, 2)));
    return outputs;
  }

  /// There are no images; `graph` and `streams` are for GPUs, `tile` is for CPUs and large enough batches, and the last two need `arena`.
  bool may_decline(std::string_view name, const SwitchSet& switches, bool is_large) const {
    if (name == "channels-last" || name == "align") return true;
    if (name == "graph") return !on_gpu();
    if (name == "streams") return !on_gpu() || !switches.has("arena");
    constexpr std::size_t kRoom = std::size_t{1} << 20;  // what the large shapes need of a core's cache
    const bool has_room = backend_->properties().target.core_cache_bytes >= kRoom;
    return name == "tile" && (on_gpu() || !has_room || !switches.has("arena") || !is_large);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<WeightStore> weights_;
};

TEST_P(ExactSwitchesTest, KeepAForwardPassInAnyCombination) {
  std::vector<Declined> declined;
  // Streams are joined in place where a batch is one request.
  for (const FluxShape& shape : {FluxShape{.batch = 1, .image_tokens = 12, .text_tokens = 5},
                                 FluxShape{.batch = 2, .image_tokens = 12, .text_tokens = 5},
                                 FluxShape{.batch = 8, .image_tokens = 64, .text_tokens = 5}}) {
    const HostTensor baseline = forward(shape, {}, declined).front();
    const bool is_large = shape.batch == 8 && is_fashion();
    for (const SwitchSet& switches : combinations(on_gpu())) {
      for (const HostTensor& output : forward(shape, switches, declined))
        EXPECT_LE(relative_l2(output, baseline), 1e-5) << switches.to_string() << ", batch " << shape.batch;
      for (const Declined& one : declined)
        EXPECT_TRUE(one.switch_name == "hoist" || may_decline(one.switch_name, switches, is_large))
            << one.switch_name << ": " << one.reason;
    }
  }
}

/// Rounding in between happens to the same values, but products may add up in another order.
TEST_P(ExactSwitchesTest, TilesKeepWhatLowPrecisionGives) {
  if (on_gpu()) GTEST_SKIP() << "tiles are for CPUs";
  const FluxShape shape{.batch = 8, .image_tokens = 64, .text_tokens = 5};
  for (const char* precision : {"bf16", "int8", "bf16,int8"}) {
    const SwitchSet whole = SwitchSet::parse(std::string("arena,flash,fuse,") + precision);
    std::vector<Declined> declined;
    const HostTensor expected = forward(shape, whole, declined).front();
    const HostTensor tiled = forward(shape, whole.with(SwitchSet::parse("tile")), declined).front();
    for (const Declined& one : declined)
      EXPECT_TRUE(one.switch_name == "int8" || one.switch_name == "bf16" ||
                  may_decline(one.switch_name, whole, is_fashion()))
          << one.switch_name << ": " << one.reason;
    EXPECT_LE(relative_l2(tiled, expected), 1e-3) << precision;
  }
}

TEST_P(ExactSwitchesTest, KeepADenoiseLoopInAnyCombination) {
  const FluxConfig config = parse_flux_config(pipeline_->denoiser().config);
  if (config.in_channels != config.out_channels) GTEST_SKIP() << "its output is no velocity of its input";
  std::vector<Declined> declined;
  for (const std::int64_t images : {2, 8}) {
    const bool is_large = images == 8 && is_fashion();
    const std::int64_t rows = images == 8 ? 8 : 2;
    const HostTensor baseline = denoise(images, rows, {}, declined).front();
    for (const SwitchSet& switches : combinations(on_gpu())) {
      for (const HostTensor& output : denoise(images, rows, switches, declined))
        EXPECT_LE(relative_l2(output, baseline), 1e-5) << switches.to_string() << ", " << images << " images";
      for (const Declined& one : declined)
        EXPECT_TRUE(may_decline(one.switch_name, switches, is_large)) << one.switch_name << ": " << one.reason;
    }
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
