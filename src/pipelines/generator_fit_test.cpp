#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/out_of_memory.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/format.hpp"
#include "pipelines/generator.hpp"
#include "run/fit.hpp"
#include "run/memory_need.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class FitTest : public testing::Test {
 protected:
  [[nodiscard]] MemoryNeed need_of(const RequestOptions& options) {
    const Compiled compiled =
        compile_denoise(*pipeline_, pipeline_->resolve(options), options.switches, backend_.properties().target);
    return memory_need(*compiled.program, weights_);
  }
  [[nodiscard]] std::string refusal(const RequestOptions& options) {
    try {
      const Generator generator(*pipeline_, backend_, weights_, options);
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "it fits";
  }
  [[nodiscard]] static std::string bytes(std::size_t count) { return format_bytes(count); }

  LimitedBackend backend_{std::numeric_limits<std::size_t>::max()};
  std::unique_ptr<Pipeline> pipeline_ =
      open_pipeline((source_dir(kSourceDir) / "models/fashion-flux/transformer").string());
  WeightStore weights_{backend_, pipeline_->components()};
  RequestOptions baseline_{
      .images = 8, .token_rows = 16, .token_columns = 16, .text_tokens = 16, .steps = 2, .switches = {}};
};

TEST_F(FitTest, ExactlyWhatIsNeededIsEnough) {
  const std::size_t need = need_of(baseline_).total();
  backend_.set_limit(need);
  EXPECT_EQ(refusal(baseline_), "it fits");
  EXPECT_GT(weights_.bytes(), 0U);
}

TEST_F(FitTest, TheErrorComesBeforeAnythingIsLoadedAndTellsTheNeedByCategory) {
  const MemoryNeed need = need_of(baseline_);
  backend_.set_limit(need.total() - 1);
  const std::string sentence = refusal(baseline_);
  EXPECT_EQ(backend_.memory_use().allocations, 0U);
  EXPECT_EQ(weights_.bytes(), 0U);
  EXPECT_THAT(sentence,
              AllOf(HasSubstr("transformer does not fit in memory as it is asked for: it needs " + bytes(need.total())),
                    HasSubstr(bytes(need.weights) + " of weights"),
                    HasSubstr(bytes(need.activations) + " of activations (scratch "),
                    HasSubstr(bytes(need.state) + " of state"), HasSubstr(bytes(need.inputs) + " of inputs"),
                    HasSubstr("of device cpu there are " + bytes(need.total() - 1))));
}

TEST_F(FitTest, TheErrorTellsWhatWouldFitAsItWasPlanned) {
  RequestOptions arena = baseline_, halved = baseline_, smaller = baseline_;
  arena.switches = SwitchSet::parse("arena");
  halved.images = 4;
  smaller.token_rows = smaller.token_columns = 4;
  backend_.set_limit(need_of(arena).total());
  const std::string sentence = refusal(baseline_);
  EXPECT_THAT(sentence, HasSubstr("it would fit with --opt arena (" + bytes(need_of(arena).total()) + ")"));
  const std::string side = std::to_string(4 * pipeline_->token_pixels());
  EXPECT_THAT(sentence, HasSubstr(side + "x" + side + " pixels (" + bytes(need_of(smaller).total()) + ")"));
  EXPECT_THAT(sentence, Not(HasSubstr("fp8"))) << "which a CPU declines";
  EXPECT_EQ(refusal(arena), "it fits");

  backend_.set_limit(need_of(halved).total());
  EXPECT_THAT(refusal(baseline_), HasSubstr("4 images at once (" + bytes(need_of(halved).total()) + ")"));
}

TEST_F(FitTest, WhereNothingFitsTheErrorTellsTheLeast) {
  backend_.set_limit(1000);
  EXPECT_THAT(refusal(baseline_),
              AllOf(HasSubstr("of what was tried nothing fits: the least is "), Not(HasSubstr("would fit")),
                    AnyOf(HasSubstr("--opt arena"), HasSubstr(" pixels"))));
  baseline_.suggests_what_fits = false;
  EXPECT_THAT(refusal(baseline_), AllOf(HasSubstr("does not fit"), Not(HasSubstr("the least"))));
}

TEST_F(FitTest, AForwardPassIsHeldToItToo) {
  const ForwardPass pass =
      pipeline_->forward_pass({.images = 8, .token_rows = 16, .token_columns = 16, .text_tokens = 16});
  const Compiled compiled = compile(pass, {}, backend_.properties().target);
  const std::size_t need = memory_need(*compiled.program, weights_).total();
  const auto require = [&] { require_fit(compiled, pass, {}, weights_, backend_); };
  backend_.set_limit(need);
  EXPECT_NO_THROW(require());
  backend_.set_limit(need - 1);
  try {
    require();
    FAIL() << "it fits";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("4 images at once"));
  }
}

TEST_F(FitTest, WeightsThatAreThereNeedNoMoreRoom) {
  const std::size_t need = need_of(baseline_).total();
  backend_.set_limit(need + need / 2);
  const Generator first(*pipeline_, backend_, weights_, baseline_);
  EXPECT_EQ(need_of(baseline_).held, weights_.bytes());
  const std::size_t rest = need - weights_.bytes();
  backend_.set_limit(backend_.memory_use().total + rest);
  EXPECT_EQ(refusal(baseline_), "it fits");
  backend_.set_limit(backend_.memory_use().total + rest - (std::size_t{1} << 20));
  EXPECT_THAT(refusal(baseline_), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace headroom
