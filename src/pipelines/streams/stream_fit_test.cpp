// Streams that need more memory than there is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/out_of_memory.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "pipelines/streams/frame_stream.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class StreamFit : public testing::Test {
 protected:
  [[nodiscard]] std::string refusal(const StreamModel& model, WeightStore& weights, const std::string& switches,
                                    const std::string& prompt = "") {
    try {
      const FrameStream stream(
          model, backend_, weights,
          {.size = {.height = 64, .width = 64}, .prompt = prompt, .switches = SwitchSet::parse(switches)});
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "it fits";
  }

  LimitedBackend backend_{std::numeric_limits<std::size_t>::max()};
};

TEST_F(StreamFit, OfANetworkIsOneSentenceWithWhatWouldFit) {
  Component network = open_component((source_dir(kSourceDir) / "tests/goldens/live_stream/three-levels").string());
  WeightStore weights(backend_, std::span<const Component>(&network, 1));
  const std::unique_ptr<StreamModel> model = make_stream_model(network);
  EXPECT_EQ(refusal(*model, weights, "baseline"), "it fits");
  weights.keep_only(std::span<const Program* const>());
  backend_.set_limit(1000);
  for (const char* const switches : {"baseline", "lossless", "lossless,bf16"})
    EXPECT_THAT(refusal(*model, weights, switches),
                AllOf(HasSubstr("its stage frame needs"), HasSubstr("there are 1000 B"),
                      AnyOf(HasSubstr("of what was tried nothing fits"), HasSubstr("can be planned"))))
        << switches;
}

TEST_F(StreamFit, OfAPipelineIsOneSentence) {
  const std::unique_ptr<Pipeline> pipeline =
      open_pipeline((source_dir(kSourceDir) / "tests/goldens/pipelines/sd-2.1").string());
  WeightStore weights(backend_, pipeline->components());
  const std::unique_ptr<StreamModel> model = make_stream_model(*pipeline);
  backend_.set_limit(1 << 20);
  EXPECT_THAT(refusal(*model, weights, "baseline", "a fox"), HasSubstr("does not fit in memory as it is asked for"));
}

}  // namespace
}  // namespace headroom
