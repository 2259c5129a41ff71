#include "pipelines/offloader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/out_of_memory.hpp"
#include "base/tensors/random.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "pipelines/generator_pool.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A whole pipeline with random weights, some of them larger than the granularity of reservations.
class Random {
 public:
  Random() {
    const auto golden = source_dir(kSourceDir) / "tests/goldens/pipelines/flux-schnell";
    std::filesystem::copy(golden, folder_ / "flux", std::filesystem::copy_options::recursive);
    widen("text_encoder_2/config.json", {{"d_ff", 40'000}});
    widen("transformer/config.json", {{"num_layers", 1}, {"num_single_layers", 1}, {"num_attention_heads", 64}});
    pipeline_ = open_pipeline((folder_ / "flux").string(), {.random_seed = 1});
  }
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }

 private:
  void widen(const char* file, const nlohmann::json& keys) {
    nlohmann::json config = read_json(folder_ / "flux" / file);
    config.update(keys);
    write_json(folder_ / "flux" / file, config);
  }
  TempFolder folder_;
  std::unique_ptr<Pipeline> pipeline_;
};

/// Makes images with a pool of generators of two sizes, under a memory limit.
class Maker {
 public:
  Maker(const Pipeline& pipeline, Backend& backend, std::size_t limit, std::string_view switches = "lossless")
      : pipeline_(pipeline),
        backend_(backend),
        weights_(backend, pipeline.components()),
        pool_(pipeline, backend, weights_, SwitchSet::parse(switches), limit) {}

  HostTensor draw(std::int64_t rows, const std::string& prompt) {
    Generator& generator =
        pool_.get({.token_rows = rows, .token_columns = 2, .text_tokens = 8, .steps = 2, .switches = {}});
    const ImageRequest image{.seed = 5, .prompt = prompt};
    HostTensor pixels = generator.decode(generator.generate({&image, 1}));
    most_ = std::max(most_, backend_.memory_use().total);
    return pixels;
  }
  void update_params(const ParamUpdates& updates) { static_cast<void>(pool_.update_params(updates)); }
  [[nodiscard]] std::size_t most() const { return most_; }

 private:
  const Pipeline& pipeline_;
  Backend& backend_;
  WeightStore weights_;
  GeneratorPool pool_;
  std::size_t most_ = 0;
};

bool are_equal(const HostTensor& a, const HostTensor& b) { return std::ranges::equal(a.bytes(), b.bytes()); }

void expect_offloading(DeviceKind device, std::string_view switches = "lossless") {
  const Random random;
  const std::unique_ptr<Backend> backend = make_backend(device);
  std::size_t all = 0;
  std::vector<HostTensor> expected;
  {
    Maker whole(random.pipeline(), *backend, 0, switches);
    for (const std::int64_t rows : {2, 3}) expected.push_back(whole.draw(rows, "a fox"));
    all = whole.most();
  }
  const std::size_t limit = all - all / 4;
  Maker maker(random.pipeline(), *backend, limit, switches);
  backend->reset_peak();
  for (int round = 0; round < 3; ++round) {
    const std::string prompt = "hare " + std::to_string(round);
    const HostTensor hare = maker.draw(2, prompt);
    EXPECT_TRUE(are_equal(maker.draw(2, "a fox"), expected[0])) << round;
    EXPECT_TRUE(are_equal(maker.draw(3, "a fox"), expected[1])) << round;
    EXPECT_FALSE(are_equal(hare, expected[0]));
  }
  EXPECT_LE(backend->memory_use().peak, limit);
  EXPECT_GT(maker.most(), limit / 2) << "what there is room for stays";
}

TEST(Offloader, StagesLeaveAndComeBackWithinTheLimit) { expect_offloading(DeviceKind::kCpu); }

TEST(Offloader, LoopsOfRanksLeaveAndComeBackTogether) { expect_offloading(DeviceKind::kCpu, "lossless,cp=2"); }

using GpuOffloader = GpuTest;
TEST_F(GpuOffloader, StagesLeaveAndComeBackWithinTheLimit) { expect_offloading(DeviceKind::kCuda); }

/// A random rank-2 update of every matrix of the transformer and the second text encoder.
ParamUpdates random_updates(const Pipeline& pipeline) {
  ParamUpdates updates;
  for (const char* part : {"transformer", "text_encoder_2"})
    for (const TensorSpec& tensor : pipeline.component(part).checkpoint.tensors()) {
      if (tensor.shape.rank() != 2) continue;
      const auto up = std::make_shared<HostTensor>(DType::kF32, Shape{tensor.shape[0], 2});
      const auto down = std::make_shared<HostTensor>(DType::kF32, Shape{2, tensor.shape[1]});
      fill_normal(up->as<float>(), 1, updates.size());
      fill_normal(down->as<float>(), 2, updates.size());
      const auto view = [](const HostTensor& of) {
        return HostView{.dtype = of.dtype(), .shape = of.shape(), .bytes = of.bytes()};
      };
      const auto owner =
          std::make_shared<std::pair<std::shared_ptr<HostTensor>, std::shared_ptr<HostTensor>>>(up, down);
      updates[std::string(part) + ":" + tensor.name].terms.push_back(
          {.factors = {.up = view(*up), .down = view(*down)}, .scale = 0.01, .owner = owner});
    }
  return updates;
}

/// Params are updated while some of their weights are unloaded, and while there is no memory to fold the rest.
void expect_updates_while_offloading(DeviceKind device) {
  const Random random;
  const std::unique_ptr<Backend> backend = make_backend(device);
  const ParamUpdates updates = random_updates(random.pipeline());
  const auto draw_all = [&](Maker& maker) {
    std::vector<HostTensor> drawn;
    for (const ParamUpdates& each : {updates, ParamUpdates(), updates}) {
      drawn.push_back(maker.draw(2, "a fox"));
      maker.update_params(each);
    }
    drawn.push_back(maker.draw(2, "a fox"));
    return drawn;
  };
  std::size_t all = 0;
  std::vector<HostTensor> expected;
  {
    Maker whole(random.pipeline(), *backend, 0);
    expected = draw_all(whole);
    all = whole.most();
  }
  EXPECT_FALSE(are_equal(expected[0], expected[1]));
  EXPECT_TRUE(are_equal(expected[0], expected[2]));
  // Above the need of one stage while its weights load; with the scratch of a GPU's matmuls, that is nearly the
  // total.
  const std::size_t limit = all - all / (device == DeviceKind::kCuda ? 20 : 4);
  Maker maker(random.pipeline(), *backend, limit);
  backend->reset_peak();
  const std::vector<HostTensor> drawn = draw_all(maker);
  for (std::size_t i = 0; i < drawn.size(); ++i) EXPECT_TRUE(are_equal(drawn[i], expected[i])) << i;
  EXPECT_LE(backend->memory_use().peak, limit + limit / 12) << "memory for folding beyond the weights is not counted";
}

TEST(Offloader, ParamsAreUpdatedWithinTheLimit) { expect_updates_while_offloading(DeviceKind::kCpu); }
TEST_F(GpuOffloader, ParamsAreUpdatedWithinTheLimit) { expect_updates_while_offloading(DeviceKind::kCuda); }

TEST(Offloader, WhatIsSpareGoesWhereMemoryIsShort) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend);
  Offloader offloader(*backend, weights, 10 * kMiB);
  Buffer one = backend->allocate(4 * kMiB, MemoryCategory::kInputs),
         other = backend->allocate(4 * kMiB, MemoryCategory::kInputs);
  offloader.add_spare(&one, [&] { one = {}; });
  offloader.add_spare(&other, [&] { other = {}; });
  offloader.make_room_for(2 * kMiB);
  EXPECT_EQ(backend->memory_use().total, 8 * kMiB) << "there is room";
  offloader.make_room_for(3 * kMiB);
  EXPECT_EQ(backend->memory_use().total, 4 * kMiB) << "one is enough";
  offloader.make_room_for(10 * kMiB);
  EXPECT_EQ(backend->memory_use().total, 0U);
  offloader.remove_spare(&one);
  offloader.remove_spare(&other);
  one = backend->allocate(4 * kMiB, MemoryCategory::kInputs);
  offloader.make_room_for(10 * kMiB);
  EXPECT_EQ(backend->memory_use().total, 4 * kMiB) << "nobody gives any more";
}

TEST(Offloader, RefusesWhatCannotFitBeforeLoading) {
  const Random random;
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  Maker maker(random.pipeline(), *backend, 4 * kMiB);
  try {
    static_cast<void>(maker.draw(2, "a fox"));
    FAIL() << "it fits";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("its stage text_encoder_2 needs"), std::string::npos) << error.what();
  }
  EXPECT_EQ(backend->memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom
