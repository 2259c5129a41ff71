// What the report advises of every committed result: no model and machine of whose quality anything is known is left
// without a recommendation, and none is recommended against a measure.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/test_paths.hpp"
#include "report/advice/decision_html.hpp"
#include "report/advice/deploy.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

class CommittedAdvice : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::vector<fs::path> paths = {fs::path(kSourceDir) / "bench/results"};
    dataset_ = std::make_unique<Dataset>(Dataset::read(paths));
    views_ = std::make_unique<std::vector<View>>(views_of(*dataset_));
  }
  static void TearDownTestSuite() {
    views_.reset();
    dataset_.reset();
  }

  /// Of ours, timed and settled.
  static std::vector<std::pair<const Scenario*, const Measurement*>> timed_in(const View& view) {
    std::vector<std::pair<const Scenario*, const Measurement*>> timed;
    for (const Scenario* scenario : view.scenarios)
      for (const Measurement* m : scenario->current)
        if (!m->is_peer && m->timing && !m->unsettled) timed.emplace_back(scenario, m);
    return timed;
  }
  /// The view of a model on a machine whose title has these words.
  static const View& view_of(const std::string& title, const std::string& hardware) {
    const auto found = std::ranges::find_if(*views_, [&](const View& view) {
      return view.title.starts_with(title) && view.hardware.starts_with(hardware);
    });
    EXPECT_NE(found, views_->end()) << title << " on " << hardware;
    return found == views_->end() ? views_->front() : *found;
  }

  static inline std::unique_ptr<Dataset> dataset_;
  static inline std::unique_ptr<std::vector<View>> views_;
};

TEST_F(CommittedAdvice, IsThereWhereverAnyQualityIsKnown) {
  int recommended = 0;
  for (const View& view : *views_) {
    if (view.is_of_kernels) continue;
    const Decision decision = decide(*dataset_, view, 0.01);
    recommended += decision.deploy ? 1 : 0;
    const auto timed = timed_in(view);
    const bool is_known = std::ranges::any_of(
        timed, [&](const auto& one) { return quality_loss(*dataset_, *one.first, *one.second, 0.01).has_value(); });
    const std::string html = decision_html(*dataset_, view, decision, 0.01);
    const bool says_what = html.starts_with("<h2>Deploy ");
    EXPECT_EQ(says_what, is_known) << view.title << " on " << view.hardware << "\n" << html.substr(0, 600);
    if (!is_known) {
      EXPECT_TRUE(timed.empty() || html.find("not measured") != std::string::npos) << view.title;
    }
  }
  EXPECT_GE(recommended, 30);
}

TEST_F(CommittedAdvice, IsNeverAgainstAMeasure) {
  for (const View& view : *views_) {
    const Decision decision = decide(*dataset_, view, 0.01);
    if (!decision.deploy) continue;
    const Candidate& c = *decision.deploy;
    const OutputKind kind = output_kind_of(c.measurement->result->configuration);
    for (const MeasuredLoss& loss : measures_of(*dataset_, *c.scenario, *c.measurement)) {
      if (kind == OutputKind::kSame || (kind == OutputKind::kOtherLoop && loss.is_nearness())) continue;
      EXPECT_LE(loss.at_worst(), 0.01) << view.title << ": " << c.measurement->label << ", " << loss.metric->name;
    }
  }
}

TEST_F(CommittedAdvice, TakesTheBetterSamplerOfEqualTimes) {
  const Decision decision =
      decide(*dataset_, view_of("fashion-flux, 32x32, 200 images at once, 16 steps", "NVIDIA H200"), 0.01);
  ASSERT_TRUE(decision.deploy);
  EXPECT_EQ(decision.deploy->measurement->label, "sampler=unipc:shift=0.5+steps=8");
  EXPECT_EQ(decision.beyond_limit, std::vector<std::string>{"steps=8"});
}

TEST_F(CommittedAdvice, CountsErrorsOfPassesOfUNets) {
  const Decision decision = decide(*dataset_, view_of("pixel-unet, 64x64", "NVIDIA H100"), 0.01);
  ASSERT_TRUE(decision.deploy);
  EXPECT_LT(decision.deploy->measurement->time().median_ms, 2) << decision.deploy->measurement->label;
  EXPECT_TRUE(decide(*dataset_, view_of("sd-turbo-unet, 512x512", "NVIDIA H100"), 0.01).deploy);
}

}  // namespace
}  // namespace headroom
