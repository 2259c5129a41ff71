// The distilled model that ships draws in a few steps what its own record says, judged by the classifier in its folder.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "measure/quality/judge.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kBatch = 20;
constexpr std::int64_t kDrawnImages = 40;

class TurboTest : public testing::Test {
 protected:
  /// Pixels of kDrawnImages images and what a judge makes of them.
  struct Drawn {
    std::vector<float> pixels;
    double right = 0;
  };

  Drawn draw(std::int64_t steps) {
    Generator generator(*pipeline_, *backend_, weights_,
                        {.images = kBatch, .steps = steps, .switches = SwitchSet::parse("lossless")});
    Drawn drawn;
    for (std::int64_t first = 0; first < kDrawnImages; first += kBatch) {
      const std::vector<ImageRequest> requests = make_image_requests(*pipeline_, first, kBatch, 1);
      std::vector<std::int64_t> labels;
      for (const ImageRequest& request : requests) labels.push_back(request.label);
      const HostTensor pixels = generator.decode(generator.generate(requests));
      drawn.right += judge(*classifier_, pixels, labels).accuracy.value * kBatch;
      drawn.pixels.insert(drawn.pixels.end(), pixels.as<float>().begin(), pixels.as<float>().end());
    }
    return drawn;
  }

  std::filesystem::path folder_ = source_dir(kSourceDir) / "models/fashion-flux-turbo";
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline(folder_.string());
  WeightStore weights_{*backend_, pipeline_->components()};
  std::unique_ptr<ClassifierJudge> classifier_ = pipeline_->open_judge(*backend_);
};

TEST_F(TurboTest, DrawsInFourStepsWithoutGuidance) {
  const Request own = pipeline_->resolve({.images = 3, .switches = {}});
  EXPECT_EQ(own.steps, 4);
  EXPECT_EQ(own.batch(), 3);
}

TEST_F(TurboTest, FewStepsDrawTheSameAsFourAndAreJudgedRightAsOftenAsItsRecordSays) {
  const nlohmann::json record = read_json(folder_ / "training.json").at("evaluation").at("steps");
  std::vector<float> in_four;
  for (const std::int64_t steps : {4, 2, 1}) {
    const Drawn drawn = draw(steps);
    const double rate = record.at(std::to_string(steps)).at("accuracy").get<double>();
    EXPECT_NEAR(drawn.right, kDrawnImages * rate, 4 * std::sqrt(kDrawnImages * rate * (1 - rate))) << steps << " steps";
    if (in_four.empty()) in_four = drawn.pixels;
    double squares = 0;
    for (std::size_t i = 0; i < in_four.size(); ++i) squares += std::pow(drawn.pixels[i] - in_four[i], 2);
    // Of pixels in [-1, 1]; undistilled, the network draws in one step an average of the class.
    EXPECT_LT(std::sqrt(squares / static_cast<double>(in_four.size())), 0.1) << steps << " steps";
  }
}

}  // namespace
}  // namespace headroom
