// The stream model that ships shows what its teacher does, and calmly, at each precision and number of steps; how well, by the judge that
// `headroom stream --quality` asks too.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "component_golden.hpp"
#include "measure/quality/stream_judge.hpp"
#include "pipelines/streams/frame_stream.hpp"
#include "pipelines/streams/stream_model.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kClips = 2, kFrames = 24;
/// Of a frame in so many steps; models/live-ink/README.md has what it reaches on more clips.
struct Least {
  std::int64_t steps;
  double psnr_db;
};
constexpr Least kLeast[] = {{1, 34}, {2, 33}, {4, 31}};
constexpr double kMostFlicker = 1.1;   // of the camera's
constexpr double kNarrowLossDb = 0.5;  // of 16 bits
constexpr int kSide = 64;

class LiveInk {
 public:
  explicit LiveInk(DeviceKind device)
      : backend_(make_backend(device)),
        network_(open_component((source_dir(kSourceDir) / "models/live-ink").string())),
        model_(make_stream_model(network_)),
        weights_(*backend_, std::span<const Component>(&network_, 1)) {}

  StreamJudgement judge(const std::string& switches, std::int64_t steps) {
    FrameStream stream(
        *model_, *backend_, weights_,
        {.size = {.height = kSide, .width = kSide}, .steps = steps, .switches = SwitchSet::parse(switches)});
    StreamTeacher teacher = open_stream_teacher(network_.folder);
    teacher.frames = kFrames;
    return judge_stream(teacher, kClips, stream);
  }

 private:
  std::unique_ptr<Backend> backend_;
  Component network_;
  std::unique_ptr<StreamModel> model_;
  WeightStore weights_;
};

void expect_like_its_teacher(DeviceKind device, const char* narrow) {
  LiveInk ink(device);
  double in_one_step = 0;
  for (const Least& least : kLeast) {
    const StreamJudgement judged = ink.judge("lossless", least.steps);
    if (least.steps == 1) in_one_step = judged.psnr_db.value;
    EXPECT_GT(judged.psnr_db.value, least.psnr_db) << least.steps << " steps";
    EXPECT_LT(judged.flicker.value, kMostFlicker) << least.steps << " steps";
    EXPECT_GT(judged.flicker.value, judged.teacher_flicker.value / 2) << "it moves";
  }
  const StreamJudgement in_16_bits = ink.judge(narrow, 1);
  EXPECT_GT(in_16_bits.psnr_db.value, in_one_step - kNarrowLossDb);
  EXPECT_LT(in_16_bits.flicker.value, kMostFlicker);
}

TEST(LiveInk, ShowsWhatItsTeacherDoes) { expect_like_its_teacher(DeviceKind::kCpu, "lossless,bf16"); }

class GpuLiveInk : public GpuTest {};

TEST_F(GpuLiveInk, ShowsWhatItsTeacherDoes) { expect_like_its_teacher(DeviceKind::kCuda, "lossless,fp16"); }

}  // namespace
}  // namespace headroom
