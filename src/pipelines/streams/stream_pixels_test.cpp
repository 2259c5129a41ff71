#include "pipelines/streams/stream_pixels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "base/test_util.hpp"
#include "ir/interpreter.hpp"
#include "pipelines/streams/stream_model.hpp"
#include "run/compile.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

constexpr ImageSize kSize{.height = 3, .width = 5};
constexpr std::int64_t kBytes = 45;

HostTensor random_pixels(std::uint64_t seed) {
  HostTensor pixels(DType::kU8, {kSize.height, kSize.width, 3});
  std::vector<float> numbers(kBytes);
  fill_uniform(numbers, seed, 1);
  for (std::int64_t i = 0; i < kBytes; ++i)
    pixels.set(i, std::floor(256.0 * static_cast<double>(numbers[static_cast<std::size_t>(i)])));
  return pixels;
}

/// A stream that shows the negative of the camera's image.
Graph negative_frame(bool is_filtered) {
  return build_stream_frame("negative", kSize, is_filtered, [](Builder& b, ValueId image) { return b.neg(image); });
}

std::vector<std::uint8_t> bytes_of(const HostTensor& tensor) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) bytes.push_back(static_cast<std::uint8_t>(tensor.at(i)));
  return bytes;
}

TEST(StreamPixels, GoThereAndBackUnchanged) {
  const Graph graph = build_stream_frame("same", kSize, false, [](Builder&, ValueId image) { return image; });
  const auto backend = make_backend(DeviceKind::kCpu);
  const Compiled compiled = compile(graph, SwitchSet::parse("lossless"), backend->properties().target);
  WeightStore weights(*backend);
  Session session(compiled.program, weights, *backend);
  HostTensor all(DType::kU8, {kSize.height, kSize.width, 3});
  for (int first = 0; first < 256; first += kBytes) {
    for (std::int64_t i = 0; i < kBytes; ++i) all.set(i, static_cast<double>((first + i) % 256));
    session.set_input(kFramePixels, all);
    session.run();
    EXPECT_EQ(bytes_of(session.output(kShownPixels)), bytes_of(all)) << first;
  }
}

TEST(StreamPixels, AreClampedAndInTheirPlaces) {
  // Scales away from gray, so that values beyond black and white are clamped; and swaps red and blue.
  const Graph graph = build_stream_frame("far", kSize, false, [](Builder& b, ValueId image) {
    const ValueId red = b.slice(image, 1, 0, 1), others = b.slice(image, 1, 1, 2);
    return b.mul_scalar(b.concat({others, red}, 1), 1.7);
  });
  const HostTensor pixels = random_pixels(3);
  const OracleResult result = interpret(graph, {{kFramePixels, pixels}}, {});
  for (std::int64_t i = 0; i < kBytes / 3; ++i)
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      const double from = pixels.at(3 * i + (channel + 1) % 3) / 127.5 - 1;
      const double shown = std::nearbyint((std::clamp(1.7 * from, -1.0, 1.0) + 1) * 127.5);
      EXPECT_EQ(result.outputs.at(kShownPixels).at(3 * i + channel), shown) << i << ' ' << channel;
    }
}

/// The filter's definition, in plain loops.
class PlainFilter {
 public:
  explicit PlainFilter(const SimilarityFilter& filter) : filter_(filter) {}

  /// Whether a frame is skipped.
  bool skips(const HostTensor& frame) {
    const auto number = static_cast<std::uint64_t>(count_++);
    bool is_skipped = false;
    if (filter_.threshold > 0 && !last_.empty()) {
      double dot = 0, now = 0, before = 0;
      for (std::int64_t i = 0; i < frame.numel(); ++i) {
        const double a = frame.at(i) / 127.5 - 1, b = last_[static_cast<std::size_t>(i)];
        dot += a * b;
        now += a * a;
        before += b * b;
      }
      const double cosine = dot / std::max(std::sqrt(now * before), 1e-8);
      std::vector<float> draw(1);
      fill_uniform(draw, filter_.seed, number);
      is_skipped =
          static_cast<double>(draw[0]) <= 1 - (1 - cosine) / (1 - filter_.threshold) && in_row_ < filter_.most_in_row;
    }
    in_row_ = is_skipped ? in_row_ + 1 : 0;
    if (!is_skipped) {
      last_.clear();
      for (std::int64_t i = 0; i < frame.numel(); ++i) last_.push_back(frame.at(i) / 127.5 - 1);
    }
    return is_skipped;
  }

 private:
  SimilarityFilter filter_;
  std::vector<double> last_;
  std::int64_t in_row_ = 0, count_ = 0;
};

/// Frames that do not change, change a little, or differ completely.
HostTensor changing_frame(int i) {
  if (i % 17 == 16) return random_pixels(static_cast<std::uint64_t>(i));
  HostTensor frame = random_pixels(static_cast<std::uint64_t>(i / 17));
  for (std::int64_t k = 0; k < kBytes; ++k)
    frame.set(k, std::clamp(frame.at(k) + static_cast<double>((i % 17) * ((k + i) % 5 - 2)), 0.0, 255.0));
  return frame;
}

TEST(SimilarityFilter, SkipsByItsRuleAndShowsTheLastOutput) {
  const auto backend = make_backend(DeviceKind::kCpu);
  for (const SimilarityFilter filter :
       {SimilarityFilter{.threshold = 0.9, .most_in_row = 3, .seed = 5}, SimilarityFilter{.threshold = 0.98, .seed = 6},
        SimilarityFilter{.threshold = 0}}) {
    for (const char* switches : {"baseline", "lossless"}) {
      const Compiled compiled = compile(negative_frame(true), SwitchSet::parse(switches), backend->properties().target);
      WeightStore weights(*backend);
      Session session(compiled.program, weights, *backend);
      set_similarity_filter(session, filter);
      for (int stream = 0; stream < 2; ++stream) {  // the second stream must not depend on the first
        start_similarity_filter(session);
        PlainFilter plain(filter);
        std::vector<std::uint8_t> expected;
        int skipped = 0;
        for (int i = 0; i < 60; ++i) {
          const HostTensor frame = changing_frame(i);
          const bool is_skipped = plain.skips(frame);
          if (!is_skipped) {
            expected = bytes_of(frame);
            for (std::uint8_t& byte : expected) byte = static_cast<std::uint8_t>(255 - byte);
          }
          session.set_input(kFramePixels, frame);
          session.run();
          ASSERT_EQ(session.output(kIsRepeated).at(0) != 0, is_skipped) << i << ' ' << switches;
          ASSERT_EQ(bytes_of(session.output(kShownPixels)), expected) << i << ' ' << switches;
          skipped += is_skipped ? 1 : 0;
        }
        EXPECT_EQ(skipped > 5, filter.threshold > 0) << skipped;
      }
    }
  }
}

TEST(SimilarityFilter, IsWrittenAsACosineAndACount) {
  EXPECT_EQ(parse_similarity("0.98").threshold, 0.98);
  EXPECT_EQ(parse_similarity("0.98").most_in_row, 10);
  EXPECT_EQ(parse_similarity("0.9:3").most_in_row, 3);
  for (const char* wrong : {"", "1", "0", "1.5", "x", "0.9:", "0.9:0", "0.9:x", "0.9:3:4"})
    EXPECT_THROW(static_cast<void>(parse_similarity(wrong)), Error) << wrong;
}

}  // namespace
}  // namespace headroom
