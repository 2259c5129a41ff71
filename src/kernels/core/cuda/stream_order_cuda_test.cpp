// Kernels begin before earlier ones have ended (programmatic dependent launch), but their reads and writes stay
// ordered: on streams, in captures, and in the bodies of loops and branches. KernelTest checks how the kernel of an
// op waits whenever it compares one; here are the kernels that belong to no op.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "backends/cuda/early_launch.cuh"
#include "backends/cuda/gpu_test.hpp"
#include "backends/region_recording.hpp"
#include "base/tensors/random.hpp"
#include "kernels/conv/direct_form.hpp"
#include "kernels/core/cuda/copy_rows.hpp"
#include "kernels/core/cuda/fill_words.hpp"
#include "testing/late_work.hpp"

namespace headroom::cuda {
namespace {

class StreamOrder : public GpuTest {
 protected:
  static constexpr std::size_t kWords = 5000;
  static constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    for (std::unique_ptr<Stream>& stream : streams_) stream = backend().make_stream();
  }
  [[nodiscard]] Stream& stream(std::size_t i = 0) { return *streams_[i]; }

  [[nodiscard]] Buffer make_words(std::uint32_t value, std::size_t words = kWords) {
    Buffer buffer = backend().allocate(words * sizeof(std::uint32_t), MemoryCategory::kActivations);
    write(buffer, value);
    return buffer;
  }
  void write(const Buffer& to, std::uint32_t value) {
    const std::vector<std::uint32_t> values(to.bytes() / sizeof value, value);
    backend().copy_from_host(stream(), to.at(), values.data(), to.bytes());
  }
  [[nodiscard]] std::vector<std::uint32_t> read(const Buffer& from) {
    std::vector<std::uint32_t> values(from.bytes() / sizeof(std::uint32_t));
    backend().copy_to_host(stream(), values.data(), from.at(), from.bytes());
    stream().synchronize();
    return values;
  }
  [[nodiscard]] static std::vector<std::uint32_t> all(std::uint32_t value) {
    return std::vector<std::uint32_t>(kWords, value);
  }

  /// All of `from`, late and after that by a kernel of ours.
  static void submit_late_copy(Stream& to_stream, const Buffer& from, const Buffer& to) {
    const std::array<LateCopy, 1> copies = {{{from.at(), to.at(), from.bytes()}}};
    submit_late_copies(to_stream, copies);
  }
  static void submit_copy(Stream& to_stream, const Buffer& from, const Buffer& to) {
    const Shape extents{static_cast<std::int64_t>(from.bytes())}, strides{1};
    launch_copy(to_stream.native_handle(), copy_rows(DType::kU8, extents, strides, strides), from.at().address<void>(),
                to.at().address<void>());
  }

  /// Numbers from 0 on, for submit_shift().
  [[nodiscard]] Buffer make_numbers() {
    Buffer buffer = make_words(0);
    std::vector<std::uint32_t> values(kWords);
    std::iota(values.begin(), values.end(), 0U);
    backend().copy_from_host(stream(), buffer.at(), values.data(), kBytes);
    return buffer;
  }
  /// Moves each number one place forward, by a late kernel and one of ours: the first number counts the shifts.
  static void submit_shift(Stream& to_stream, const Buffer& numbers, const Buffer& copied) {
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    const std::array<LateCopy, 1> copies = {{{numbers.at(kWord), copied.at(), kBytes - kWord}}};
    submit_late_copies(to_stream, copies);
    submit_copy(to_stream, copied, numbers);
  }

  /// `write_words` must give equal results for words that a late kernel writes too, and for words that no other
  /// kernel writes.
  template <class WriteWords>
  void expect_overwrites_what_is_late(const WriteWords& write_words) {
    const Buffer poison = make_words(0xFFFFFFFF), words = make_words(1), alone = make_words(2);
    write_words(alone.at());  // which also loads its code
    const std::vector<std::uint32_t> expected = read(alone);
    submit_late_copy(stream(), poison, words);
    write_words(words.at());
    EXPECT_EQ(read(words), expected);
  }

 private:
  std::array<std::unique_ptr<Stream>, 3> streams_;
};

TEST_F(StreamOrder, AKernelBeginsBeforeTheOneInFrontHasEnded) {
  if (backend().properties().target.compute_capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  const Buffer begun = make_words(0, 1), found = make_words(7, 1);
  submit_begun(stream(), begun.at());  // loads its code
  write(begun, 0);
  submit_until_begun(stream(), begun.at(), found.at());
  submit_begun(stream(), begun.at());
  EXPECT_EQ(read(found), std::vector<std::uint32_t>{1}) << "the second kernel waited for the end of the first";
}

TEST_F(StreamOrder, AKernelBeginsEarlyInARecordingToo) {
  if (backend().properties().target.compute_capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  const Buffer begun = make_words(0, 1), found = make_words(7, 1);
  const auto recording = backend().record(stream(), [&] {
    submit_until_begun(stream(), begun.at(), found.at());
    submit_begun(stream(), begun.at());
  });
  recording->replay(stream());
  EXPECT_EQ(read(found), std::vector<std::uint32_t>{1});
}

TEST_F(StreamOrder, ARecordingShowsWhatBeginsEarly) {
  if (backend().properties().target.compute_capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  const Buffer words = make_words(0);
  const auto fill = [&](cudaStream_t to) { launch_fill_words(to, 0, 7, words.at().address(), kWords); };
  EXPECT_TRUE(uses_dependent_launch(fill));
  EXPECT_FALSE(uses_dependent_launch([&](cudaStream_t to) {
    cudaMemsetAsync(words.at().address(), 1, kBytes, to);
    fill(to);  // early, but not before the previous kernel has ended
  }));
  EXPECT_EQ(read(words), all(0)) << "nothing of it has run";
}

/// A library may call what is not allowed while a stream is captured, and may or may not report it.
TEST_F(StreamOrder, AFailedRecordingLeavesNoError) {
  const Buffer words = make_words(0);
  for (const bool reports : {true, false}) {
    const auto synchronize = [&](cudaStream_t to) {
      EXPECT_NE(cudaStreamSynchronize(to), cudaSuccess);
      if (reports) fail("not while it is captured");
    };
    EXPECT_THROW(static_cast<void>(uses_dependent_launch(synchronize)), Error);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << (reports ? "reported" : "unreported");
  }
  launch_fill_words(stream().native_handle(), 0, 7, words.at().address(), kWords);
  EXPECT_EQ(read(words), all(7));
}

TEST_F(StreamOrder, AKernelBeginsEarlyInTheBodyOfALoopToo) {
  auto* const regions = dynamic_cast<RegionBackend*>(&backend());
  ASSERT_NE(regions, nullptr);
  if (backend().properties().target.compute_capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  const Buffer begun = make_words(0, 1), found = make_words(7, 1);
  const auto recording = regions->record_regions(stream(), [&](RegionRecorder& recorder) {
    recorder.loop(stream(), 1, {}, stream(1), [&] {
      submit_until_begun(stream(1), begun.at(), found.at());
      submit_begun(stream(1), begun.at());
    });
  });
  recording->replay(stream());
  EXPECT_EQ(read(found), std::vector<std::uint32_t>{1});
}

TEST_F(StreamOrder, WhatComesLaterWaitsForAllBefore) {
  const Buffer a = make_words(3), b = make_words(0), c = make_words(0), d = make_words(0);
  submit_copy(stream(), b, d);  // loads its code
  submit_late_copy(stream(), a, b);
  submit_late_copy(stream(), b, c);  // begins and lets the next begin while the first is late
  submit_copy(stream(), c, d);
  EXPECT_EQ(read(d), all(3));
}

TEST_F(StreamOrder, RecordingsAreInOrder) {
  const Buffer numbers = make_numbers(), copied = make_words(0);
  const auto recording = backend().record(stream(), [&] {
    submit_shift(stream(), numbers, copied);
    submit_shift(stream(), numbers, copied);
  });
  for (int i = 0; i < 3; ++i) recording->replay(stream());
  submit_shift(stream(), numbers, copied);
  recording->replay(stream());
  EXPECT_EQ(read(numbers)[0], 9U);
}

TEST_F(StreamOrder, StreamsThatJoinAreInOrder) {
  const Buffer a = make_words(8), b = make_words(0), c = make_words(0), d = make_words(0), e = make_words(0);
  const auto forked = backend().make_event(), joined = backend().make_event();
  const auto recording = backend().record(stream(), [&] {
    forked->record(stream());
    stream(1).wait(*forked);
    submit_late_copy(stream(1), a, b);
    submit_copy(stream(), a, c);
    joined->record(stream(1));
    stream().wait(*joined);
    submit_copy(stream(), b, d);  // after a kernel of each stream
    submit_copy(stream(), c, e);
  });
  recording->replay(stream());
  EXPECT_EQ(read(d), all(8));
  EXPECT_EQ(read(e), all(8));
}

TEST_F(StreamOrder, FillsWait) {
  expect_overwrites_what_is_late([&](DevicePointer to) {
    launch_fill_words(stream().native_handle(), 0xFFFF0000, 3, to.address<void>(), kWords);
  });
  expect_overwrites_what_is_late(
      [&](DevicePointer to) { backend().fill_normal(stream(), to, DType::kF32, kWords, {.seed = 11}); });
}

TEST_F(StreamOrder, PackedWeightsWait) {
  using convolutions::Pace;
  for (const Pace pace : {Pace::kSame, Pace::kDoubled}) {
    const std::size_t words = convolutions::packed_narrow_bytes(pace) / sizeof(std::uint32_t);
    const Buffer weight = make_words(0x11112222, words), late = make_words(0, words), packed = make_words(0, words);
    const auto pack = [&](const Buffer& from) {
      convolutions::pack_narrow(stream().native_handle(), pace, from.at().address<void>(), packed.at().address<void>());
    };
    pack(weight);
    const std::vector<std::uint32_t> expected = read(packed);
    write(packed, 0);
    submit_late_copy(stream(), weight, late);
    pack(late);
    EXPECT_EQ(read(packed), expected);
  }
}

class RegionOrder : public StreamOrder {
 protected:
  void SetUp() override {
    StreamOrder::SetUp();
    if (IsSkipped()) return;
    regions_ = dynamic_cast<RegionBackend*>(&backend());
    ASSERT_NE(regions_, nullptr);
  }
  [[nodiscard]] std::unique_ptr<RegionRecording> record(const std::function<void(RegionRecorder&)>& submit) {
    return regions_->record_regions(stream(), submit);
  }

 private:
  RegionBackend* regions_ = nullptr;
};

TEST_F(RegionOrder, ABranchIsDecidedByWhatIsLate) {
  const Buffer yes = make_words(0x01010101, 1), no = make_words(0, 1), given = make_words(0, 1), hit = make_words(0, 1);
  const Buffer one = make_words(1), two = make_words(2), made = make_words(0), seen = make_words(0);
  const auto recording = record([&](RegionRecorder& recorder) {
    submit_late_copy(stream(), given, hit);
    recorder.branch(
        stream(), hit.at(), stream(1), [&] { submit_late_copy(stream(1), one, made); },
        [&] { submit_late_copy(stream(1), two, made); });
    submit_copy(stream(), made, seen);  // after the branch
  });
  for (const bool is_hit : {true, false, true}) {
    write(given, is_hit ? 0x01010101 : 0);
    write(hit, is_hit ? 0 : 0x01010101);
    recording->replay(stream());
    EXPECT_EQ(read(seen), all(is_hit ? 1 : 2));
  }
}

TEST_F(RegionOrder, ALoopsCounterChangesWhenItsBodyHasReadIt) {
  constexpr std::size_t kTrips = 4;
  const Buffer counter = make_words(77, 1), before = make_words(0, 1);
  const Buffer seen = make_words(99, kTrips + 1), shifted = make_words(0, kTrips + 1);
  const auto recording = record([&](RegionRecorder& recorder) {
    submit_late_copy(stream(), counter, before);  // which the loop's beginning overwrites
    recorder.loop(stream(), kTrips, counter.at(), stream(1), [&] {
      constexpr std::size_t kRest = kTrips * sizeof(std::uint32_t);
      backend().copy_on_device(stream(1), shifted.at(), seen.at(sizeof(std::uint32_t)), kRest);
      backend().copy_on_device(stream(1), seen.at(), shifted.at(), kRest);
      const std::array<LateCopy, 1> copies = {{{counter.at(), seen.at(kRest), sizeof(std::uint32_t)}}};
      submit_late_copies(stream(1), copies);
    });
    submit_copy(stream(), seen, shifted);
  });
  recording->replay(stream());
  EXPECT_EQ(read(before), std::vector<std::uint32_t>{77});
  EXPECT_EQ(read(shifted), (std::vector<std::uint32_t>{99, 0, 1, 2, 3}));
}

TEST_F(RegionOrder, IterationsFollowEachOther) {
  const Buffer numbers = make_numbers(), copied = make_words(0);
  const auto recording = record([&](RegionRecorder& recorder) {
    submit_shift(stream(), numbers, copied);
    recorder.loop(stream(), 3, {}, stream(1), [&] {
      submit_shift(stream(1), numbers, copied);
      recorder.loop(stream(1), 2, {}, stream(2), [&] { submit_shift(stream(2), numbers, copied); });
      submit_shift(stream(1), numbers, copied);
    });
    submit_shift(stream(), numbers, copied);
  });
  for (const std::uint32_t run : {1U, 2U}) {
    recording->replay(stream());
    EXPECT_EQ(read(numbers)[0], 14 * run);
  }
}

}  // namespace
}  // namespace headroom::cuda
