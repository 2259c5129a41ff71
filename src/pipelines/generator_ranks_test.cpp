#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "passes/step_caches/step_cache.hpp"
#include "pipelines/generator.hpp"
#include "run/ranks.hpp"

// A denoise loop that ranks share, against the same loop on one rank.

namespace headroom {
namespace {

constexpr double kLatentsError = 1e-5;  // relative L2

struct Made {
  HostTensor latents;
  std::vector<bool> computed;
  std::vector<Declined> declined = {};
  std::vector<std::string> applied = {};
};

class SharedLoop {
 public:
  explicit SharedLoop(const std::string& folder, DeviceKind device = DeviceKind::kCpu, double limit = kLatentsError)
      : limit_(limit),
        backend_(make_backend(device)),
        pipeline_(open_pipeline((source_dir(kSourceDir) / folder).string())),
        weights_(*backend_, pipeline_->components()) {}

  Made make(RequestOptions options, const std::string& switches) {
    options.switches = SwitchSet::parse(switches);
    std::vector<ImageRequest> images;
    for (std::int64_t i = 0; i < options.images; ++i)
      images.push_back({.label = i, .seed = 5 + static_cast<std::uint64_t>(i)});
    Generator generator(*pipeline_, *backend_, weights_, options);
    Made made{.latents = generator.generate(images), .computed = generator.computed_steps()};
    made.declined = generator.compiled().declined;
    made.applied = generator.compiled().applied;
    return made;
  }

  /// Compares the loop under these switches on one rank with each form of ranks.
  void expect_equal(const RequestOptions& options, const std::string& switches, const std::vector<std::string>& forms) {
    const Made one = make(options, switches);
    for (const std::string& form : forms) {
      SCOPED_TRACE(fmt::format("cp={} with {}", form, switches));
      const Made shared = make(options, fmt::format("cp={},{}", form, switches));
      EXPECT_LE(relative_l2(shared.latents, one.latents), limit_);
      EXPECT_EQ(shared.computed, one.computed);
      EXPECT_EQ(std::ranges::count(shared.applied, "cp=" + form), 1);
    }
  }

  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  Backend& backend() { return *backend_; }
  WeightStore& weights() { return weights_; }

 private:
  double limit_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Pipeline> pipeline_;
  WeightStore weights_;
};

constexpr const char* kTinyFlux = "tests/goldens/pipelines/flux-dev";

/// 15 image tokens and 7 of text.
RequestOptions odd_tokens() {
  return {.images = 1, .token_rows = 5, .token_columns = 3, .text_tokens = 7, .steps = 4, .switches = {}};
}

TEST(GeneratorRanks, FluxOfOddTokensInEveryForm) {
  SharedLoop(kTinyFlux).expect_equal(odd_tokens(), "arena,flash,fuse,hoist",
                                     {"2", "2:ulysses", "2:ring", "3", "3:ring", "4", "4:ring", "4:2x2"});
}

TEST(GeneratorRanks, QwenImageOfTextsOfAnyLength) {
  SharedLoop loop("tests/goldens/pipelines/qwen-image");
  const RequestOptions one{.images = 1, .token_rows = 3, .token_columns = 5, .steps = 3, .switches = {}};
  RequestOptions several = one;  // texts of several lengths
  several.images = 3;
  RequestOptions guided = one;
  guided.true_cfg_scale = 4;
  for (const RequestOptions& options : {one, several, guided}) loop.expect_equal(options, "lossless", {"2", "3:ring"});
}

TEST(GeneratorRanks, FluxWithoutOtherSwitches) {
  SharedLoop(kTinyFlux).expect_equal(odd_tokens(), "steps=4", {"2", "3:ring"});  // eager
}

TEST(GeneratorRanks, FashionFluxWithThreeHeads) {
  SharedLoop("models/fashion-flux")
      .expect_equal({.images = 1, .steps = 4, .switches = {}}, "lossless", {"2", "2:ulysses", "3", "4", "4:2x2"});
}

TEST(GeneratorRanks, StepCachesDecideAlike) {
  SharedLoop loop(kTinyFlux);
  RequestOptions options = odd_tokens();
  options.steps = 12;
  for (const std::string cache : {"fbcache=0.283", "fbcache=0.394:run=2:taylor=1", "teacache=0.203",
                                  "teacache=0.203:run=2:taylor=1", "meancache=5:schedule=111000100010"}) {
    const std::string switches = cache + ",lossless";
    loop.expect_equal(options, switches, {"2", "3:ring"});
    const std::vector<bool> computed = loop.make(options, switches).computed;
    EXPECT_GT(std::ranges::count(computed, true), 0) << cache;
    EXPECT_GT(std::ranges::count(computed, false), 0) << cache;
  }
}

TEST(GeneratorRanks, SeveralImagesAndAnotherSampler) {
  SharedLoop loop("models/fashion-flux");
  for (const char* sampler : {"dpm++2m", "dpm++2m-sde"})  // with history, and with fresh noise
    loop.expect_equal({.images = 2, .steps = 3, .switches = {}}, fmt::format("lossless,sampler={}", sampler), {"2"});
}

/// Two GPUs: f32 networks differ by the order of sums in other kernels, bf16 ones by their roundings.
class GeneratorRanksOnGpus : public GpuTest {
 protected:
  static constexpr double kF32Error = 1e-4, kBf16Error = 2e-2;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    try {
      const Ranks ranks(backend(), 2);
    } catch (const Error& error) {
      GTEST_SKIP() << "needs two GPUs: " << error.what();
    }
  }
};

TEST_F(GeneratorRanksOnGpus, FluxOfOddTokensInEveryForm) {
  SharedLoop loop(kTinyFlux, DeviceKind::kCuda, kF32Error);
  for (const char* switches : {"steps=4", "arena,flash,fuse,hoist", "arena,flash,fuse,hoist,graph", "lossless"})
    loop.expect_equal(odd_tokens(), switches, {"2", "2:ring"});
}

TEST_F(GeneratorRanksOnGpus, FashionFluxWithThreeHeads) {
  SharedLoop loop("models/fashion-flux", DeviceKind::kCuda, kBf16Error);
  for (const char* switches : {"arena,flash,fuse,hoist", "lossless"})
    loop.expect_equal({.images = 1, .steps = 4, .switches = {}}, switches, {"2", "2:ring"});
}

TEST_F(GeneratorRanksOnGpus, QwenImageOfTextsOfAnyLength) {
  SharedLoop loop("tests/goldens/pipelines/qwen-image", DeviceKind::kCuda, kF32Error);
  RequestOptions options{.images = 2, .token_rows = 3, .token_columns = 5, .steps = 3, .switches = {}};
  loop.expect_equal(options, "lossless", {"2", "2:ring"});
}

TEST_F(GeneratorRanksOnGpus, StepCachesDecideAlike) {
  SharedLoop loop(kTinyFlux, DeviceKind::kCuda, kF32Error);
  RequestOptions options = odd_tokens();
  options.steps = 12;
  for (const std::string cache :
       {"fbcache=0.283", "teacache=0.203:run=2:taylor=1", "meancache=5:schedule=111000100010"})
    for (const std::string rest : {",lossless", ",arena,flash,fuse"})
      loop.expect_equal(options, cache + rest, {"2", "2:ring"});
}

TEST_F(GeneratorRanksOnGpus, AnObserverThatThrowsEndsAllRanks) {
  SharedLoop loop(kTinyFlux, DeviceKind::kCuda);
  for (const char* switches : {"cp=2,arena,flash", "cp=2:ring,lossless"}) {
    RequestOptions options = odd_tokens();
    options.switches = SwitchSet::parse(switches);
    Generator generator(loop.pipeline(), loop.backend(), loop.weights(), options);
    const std::vector<ImageRequest> images = {{.label = 1, .seed = 2}};
    const HostTensor before = generator.generate(images);
    EXPECT_THROW(
        static_cast<void>(generator.generate(images, [](std::int64_t, double) { throw Error("interrupted"); })), Error);
    EXPECT_EQ(relative_l2(generator.generate(images), before), 0) << "the next request is as the first";
  }
}

TEST(GeneratorRanks, AnEarlierRequestHasNoEffect) {
  SharedLoop loop(kTinyFlux);
  RequestOptions options = odd_tokens();
  options.switches = SwitchSet::parse("cp=2,fbcache=0.283,lossless");
  Generator generator(loop.pipeline(), loop.backend(), loop.weights(), options);
  const std::vector<ImageRequest> images = {{.label = 1, .seed = 2}}, others = {{.label = 2, .seed = 3}};
  const HostTensor first = generator.generate(images);
  EXPECT_GT(relative_l2(generator.generate(others), first), 0.1);
  EXPECT_EQ(relative_l2(generator.generate(images), first), 0);
}

TEST(GeneratorRanks, DeclinesWithTheReason) {
  SharedLoop flux(kTinyFlux);
  const auto reason = [&](SharedLoop& loop, const RequestOptions& options, const std::string& switches) {
    for (const Declined& declined : loop.make(options, switches).declined)
      if (declined.switch_name == "cp") return declined.reason;
    return std::string("applied");
  };
  EXPECT_EQ(reason(flux, odd_tokens(), "cp=1"), "one rank has all tokens already");
  EXPECT_EQ(reason(flux, odd_tokens(), "cp=8"), "8 ranks cannot share 7 tokens");
  EXPECT_EQ(reason(flux, odd_tokens(), "cp=2"), "applied");
  EXPECT_THROW(static_cast<void>(reason(flux, odd_tokens(), "cp=2:both")), Error);
}

TEST(GeneratorRanks, AnObserverThatThrowsEndsAllRanks) {
  SharedLoop loop(kTinyFlux);
  RequestOptions options = odd_tokens();
  options.switches = SwitchSet::parse("cp=3:ring,lossless");
  Generator generator(loop.pipeline(), loop.backend(), loop.weights(), options);
  const std::vector<ImageRequest> images = {{.label = 1, .seed = 2}};
  const HostTensor before = generator.generate(images);
  int iterations = 0;
  EXPECT_THROW(static_cast<void>(generator.generate(images,
                                                    [&](std::int64_t, double) {
                                                      if (++iterations == 2) throw Error("interrupted");
                                                    })),
               Error);
  EXPECT_EQ(iterations, 2);
  EXPECT_EQ(relative_l2(generator.generate(images), before), 0) << "the next request is as the first";
}

}  // namespace
}  // namespace headroom
