// Loops and branches on the device, made of copies alone. The counter of a loop selects a row of a table, and fill
// kernels or copies of single words record what the loop did.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "backends/region_recording.hpp"

namespace headroom {
namespace {

/// Words on the device that rise by one wherever add_one() is recorded. The backend has no kernel for this, so a
/// table of numbers is shifted by one word, and the first word is the count.
class Tally {
 public:
  static constexpr std::size_t kMost = 64;

  explicit Tally(Backend& backend)
      : backend_(backend),
        numbers_(backend.allocate((kMost + 1) * sizeof(std::uint32_t), MemoryCategory::kActivations)),
        shifted_(backend.allocate((kMost + 1) * sizeof(std::uint32_t), MemoryCategory::kActivations)) {}

  void reset(Stream& stream) {
    std::vector<std::uint32_t> numbers(kMost + 1);
    for (std::uint32_t i = 0; i <= kMost; ++i) numbers[i] = i;
    backend_.copy_from_host(stream, numbers_.at(), numbers.data(), numbers.size() * sizeof numbers[0]);
  }
  void add_one(Stream& stream) {
    constexpr std::size_t kBytes = kMost * sizeof(std::uint32_t);
    backend_.copy_on_device(stream, shifted_.at(), numbers_.at(sizeof(std::uint32_t)), kBytes);
    backend_.copy_on_device(stream, numbers_.at(), shifted_.at(), kBytes);
  }
  [[nodiscard]] std::uint32_t read(Stream& stream) const {
    std::uint32_t count = 0;
    backend_.copy_to_host(stream, &count, numbers_.at(), sizeof count);
    stream.synchronize();
    return count;
  }

 private:
  Backend& backend_;
  Buffer numbers_, shifted_;
};

class ConditionalGraphTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    device_ = dynamic_cast<RegionBackend*>(&backend());
    ASSERT_NE(device_, nullptr);
    for (std::unique_ptr<Stream>& stream : streams_) stream = backend().make_stream();
    for (std::unique_ptr<Tally>& tally : tallies_) {
      tally = std::make_unique<Tally>(backend());
      tally->reset(outer());
    }
  }

  [[nodiscard]] Stream& outer() { return *streams_[0]; }
  [[nodiscard]] Stream& inside(std::size_t depth = 1) { return *streams_[depth]; }
  [[nodiscard]] Tally& tally(std::size_t i = 0) { return *tallies_[i]; }
  [[nodiscard]] std::uint32_t count(std::size_t i = 0) { return tally(i).read(outer()); }

  [[nodiscard]] std::unique_ptr<RegionRecording> record(const std::function<void(RegionRecorder&)>& submit) {
    return device_->record_regions(outer(), submit);
  }
  template <class Word>
  [[nodiscard]] Buffer make_word(Word value) {
    Buffer buffer = backend().allocate(sizeof value, MemoryCategory::kInputs);
    write(buffer, value);
    return buffer;
  }
  template <class Word>
  void write(const Buffer& to, Word value) {
    backend().copy_from_host(outer(), to.at(), &value, sizeof value);
  }
  template <class Word>
  [[nodiscard]] Word read(const Buffer& from) {
    Word value{};
    backend().copy_to_host(outer(), &value, from.at(), sizeof value);
    outer().synchronize();
    return value;
  }

  RegionBackend* device_ = nullptr;

 private:
  std::unique_ptr<Stream> streams_[4];
  std::unique_ptr<Tally> tallies_[3];
};

TEST_F(ConditionalGraphTest, ALoopRunsItsTripsAndCounts) {
  const Buffer counter = make_word<std::int32_t>(-1);
  const Buffer seen = backend().allocate(sizeof(std::int32_t), MemoryCategory::kActivations);
  const auto recording = record([&](RegionRecorder& recorder) {
    tally(1).add_one(outer());
    recorder.loop(outer(), 5, counter.at(), inside(), [&] {
      tally().add_one(inside());
      backend().copy_on_device(inside(), seen.at(), counter.at(), sizeof(std::int32_t));
    });
    tally(1).add_one(outer());
  });
  EXPECT_EQ(count(), 0U) << "recording must not run what it records";
  for (const std::uint32_t run : {1U, 2U, 3U}) {
    recording->replay(outer());
    EXPECT_EQ(count(), 5 * run);
    EXPECT_EQ(count(1), 2 * run);
    EXPECT_EQ(read<std::int32_t>(seen), 4);
    EXPECT_EQ(read<std::int32_t>(counter), 4) << "of the last iteration";
  }
}

TEST_F(ConditionalGraphTest, ALoopWithoutACounterOrATrip) {
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), 7, {}, inside(), [&] { tally().add_one(inside()); });
    recorder.loop(outer(), 0, {}, inside(), [&] { tally(1).add_one(inside()); });
    recorder.loop(outer(), 1, {}, inside(), [&] { tally(2).add_one(inside()); });
  });
  recording->replay(outer());
  EXPECT_EQ(count(), 7U);
  EXPECT_EQ(count(1), 0U);
  EXPECT_EQ(count(2), 1U);
}

TEST_F(ConditionalGraphTest, ABranchGoesTheWayThatTheDeviceSays) {
  const Buffer hit = make_word(false);
  const auto both = record([&](RegionRecorder& recorder) {
    recorder.branch(
        outer(), hit.at(), inside(), [&] { tally(0).add_one(inside()); }, [&] { tally(1).add_one(inside()); });
    tally(2).add_one(outer());
  });
  const auto only_else = record([&](RegionRecorder& recorder) {
    recorder.branch(outer(), hit.at(), inside(), {}, [&] { tally(1).add_one(inside()); });
  });
  const auto only_then = record([&](RegionRecorder& recorder) {
    recorder.branch(outer(), hit.at(), inside(), [&] { tally(0).add_one(inside()); }, {});
  });
  std::uint32_t hits = 0, misses = 0;
  for (const bool value : {true, false, false, true, true}) {
    write(hit, value);
    for (const auto* recording : {&both, &only_else, &only_then}) (*recording)->replay(outer());
    (value ? hits : misses) += 2;
    EXPECT_EQ(count(0), hits);
    EXPECT_EQ(count(1), misses);
  }
  EXPECT_EQ(count(2), 5U);
}

TEST_F(ConditionalGraphTest, ABranchInALoopIsDecidedInEachIteration) {
  // Iteration i finds pattern[i], which each iteration shifts to the front.
  constexpr std::size_t kTrips = 6;
  const bool pattern[kTrips] = {true, false, false, true, false, true};
  const Buffer rest = backend().allocate(kTrips, MemoryCategory::kInputs);
  const Buffer shifted = backend().allocate(kTrips, MemoryCategory::kActivations);
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), kTrips, {}, inside(1), [&] {
      recorder.branch(
          inside(1), rest.at(), inside(2), [&] { tally(0).add_one(inside(2)); }, [&] { tally(1).add_one(inside(2)); });
      backend().copy_on_device(inside(1), shifted.at(), rest.at(1), kTrips - 1);
      backend().copy_on_device(inside(1), rest.at(), shifted.at(), kTrips - 1);
    });
  });
  for (const std::uint32_t run : {1U, 2U}) {
    backend().copy_from_host(outer(), rest.at(), pattern, sizeof pattern);
    recording->replay(outer());
    EXPECT_EQ(count(0), 3 * run);
    EXPECT_EQ(count(1), 3 * run);
  }
}

TEST_F(ConditionalGraphTest, LoopsAndBranchesNest) {
  const Buffer outer_counter = make_word<std::int32_t>(0), inner_counter = make_word<std::int32_t>(0);
  const Buffer hit = make_word(true), no = make_word(false);
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), 3, outer_counter.at(), inside(1), [&] {
      recorder.loop(inside(1), 4, inner_counter.at(), inside(2), [&] {
        tally(0).add_one(inside(2));
        recorder.branch(inside(2), hit.at(), inside(3), [&] { tally(1).add_one(inside(3)); }, {});
      });
      recorder.branch(inside(1), hit.at(), inside(2),
                      [&] { recorder.branch(inside(2), no.at(), inside(3), {}, [&] { tally(2).add_one(inside(3)); }); },
                      {});
    });
  });
  recording->replay(outer());
  EXPECT_EQ(count(0), 12U);
  EXPECT_EQ(count(1), 12U);
  EXPECT_EQ(count(2), 3U);
  EXPECT_EQ(read<std::int32_t>(outer_counter), 2);
  EXPECT_EQ(read<std::int32_t>(inner_counter), 3);
}

TEST_F(ConditionalGraphTest, StreamsForkAndJoinInABody) {
  const auto lane_outside = backend().make_stream(), lane_inside = backend().make_stream();
  const auto forked = backend().make_event(), joined = backend().make_event();
  const auto spread = [&](Stream& stream, Stream& lane, std::size_t first, std::size_t second) {
    forked->record(stream);
    lane.wait(*forked);
    tally(first).add_one(stream);
    tally(second).add_one(lane);
    joined->record(lane);
    stream.wait(*joined);
  };
  const auto recording = record([&](RegionRecorder& recorder) {
    spread(outer(), *lane_outside, 1, 2);
    recorder.loop(outer(), 4, {}, inside(), [&] { spread(inside(), *lane_inside, 0, 1); });
    recorder.loop(outer(), 2, {}, inside(), [&] { spread(inside(), *lane_inside, 0, 2); });
    spread(outer(), *lane_outside, 1, 2);
  });
  recording->replay(outer());
  EXPECT_EQ(count(0), 6U);
  EXPECT_EQ(count(1), 6U);
  EXPECT_EQ(count(2), 4U);
}

TEST_F(ConditionalGraphTest, TellsOfEachIterationOfOuterLoopsAsItEnds) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const Buffer a = backend().allocate(kBytes, MemoryCategory::kActivations);
  const Buffer b = backend().allocate(kBytes, MemoryCategory::kActivations);
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), 3, {}, inside(1), [&] {
      backend().copy_on_device(inside(1), b.at(), a.at(), kBytes);
      recorder.loop(inside(1), 5, {}, inside(2), [&] { tally().add_one(inside(2)); });
    });
    recorder.loop(outer(), 2, {}, inside(1), [&] { tally(1).add_one(inside(1)); });
  });
  for (int run = 0; run < 3; ++run) {
    std::vector<std::int64_t> iterations;
    std::vector<double> times;
    recording->replay_observed(outer(), [&](std::int64_t iteration, double milliseconds) {
      iterations.push_back(iteration);
      times.push_back(milliseconds);
    });
    EXPECT_EQ(iterations, (std::vector<std::int64_t>{0, 1, 2, 0, 1}));
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(times[static_cast<std::size_t>(i)], 0.02) << "no memory moves 512 MiB in less";
      EXPECT_LT(times[static_cast<std::size_t>(i)], 10000.0);
    }
  }
  EXPECT_EQ(count(), 45U);
  EXPECT_EQ(count(1), 6U);
}

struct Stop {};

TEST_F(ConditionalGraphTest, AnObserverThatThrowsEndsTheLoop) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;  // the host must see one iteration before the others end
  constexpr std::int64_t kTrips = 100000;
  const Buffer a = backend().allocate(kBytes, MemoryCategory::kActivations);
  const Buffer b = backend().allocate(kBytes, MemoryCategory::kActivations);
  const Buffer counter = make_word<std::int32_t>(0);
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), kTrips, counter.at(), inside(), [&] {
      backend().copy_on_device(inside(), b.at(), a.at(), kBytes);
      tally().add_one(inside());
    });
    recorder.loop(outer(), 1, {}, inside(), [&] { tally(1).add_one(inside()); });
    tally(2).add_one(outer());
  });
  EXPECT_THROW(recording->replay_observed(outer(),
                                          [](std::int64_t iteration, double) {
                                            if (iteration == 2) throw Stop();
                                          }),
               Stop);
  EXPECT_GE(count(), 3U);
  const auto last = read<std::int32_t>(counter);
  EXPECT_GE(last, 2);
  EXPECT_LT(last, kTrips - 1) << "it ran to its end";
  EXPECT_EQ(count(1), 0U) << "what follows is no loop that anybody waits for";
  EXPECT_EQ(count(2), 1U);
  EXPECT_THROW(recording->replay_observed(outer(), [](std::int64_t, double) { throw Stop(); }), Stop);
  EXPECT_LT(read<std::int32_t>(counter), kTrips - 1) << "and no second time";
}

TEST_F(ConditionalGraphTest, ARunAfterOneThatWasEndedIsWhole) {
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), 30, {}, inside(), [&] { tally().add_one(inside()); });
    recorder.loop(outer(), 1, {}, inside(), [&] { tally(1).add_one(inside()); });
  });
  EXPECT_THROW(recording->replay_observed(outer(), [](std::int64_t, double) { throw Stop(); }), Stop);
  tally(0).reset(outer());
  tally(1).reset(outer());
  recording->replay(outer());
  EXPECT_EQ(count(0), 30U);
  EXPECT_EQ(count(1), 1U);
}

TEST_F(ConditionalGraphTest, ReplaysThatFollowEachOtherAreInOrder) {
  const auto recording = record(
      [&](RegionRecorder& recorder) { recorder.loop(outer(), 3, {}, inside(), [&] { tally().add_one(inside()); }); });
  for (int i = 0; i < 10; ++i) recording->replay(outer());
  int iterations = 0;
  recording->replay_observed(outer(), [&](std::int64_t, double) { ++iterations; });
  EXPECT_EQ(iterations, 3);
  EXPECT_EQ(count(), 33U);
}

TEST_F(ConditionalGraphTest, MayBeDroppedWhileItRuns) {
  auto recording = record(
      [&](RegionRecorder& recorder) { recorder.loop(outer(), 20, {}, inside(), [&] { tally().add_one(inside()); }); });
  recording->replay(outer());
  recording.reset();
  EXPECT_EQ(count(), 20U);
}

TEST_F(ConditionalGraphTest, AFailureInABodyLeavesTheStreamsUsable) {
  EXPECT_THROW((void)record([&](RegionRecorder& recorder) {
                 recorder.loop(outer(), 2, {}, inside(1), [&] {
                   recorder.loop(inside(1), 2, {}, inside(2), [] { fail("this launch was refused"); });
                 });
               }),
               Error);
  const auto recording = record([&](RegionRecorder& recorder) {
    recorder.loop(outer(), 2, {}, inside(1),
                  [&] { recorder.loop(inside(1), 2, {}, inside(2), [&] { tally().add_one(inside(2)); }); });
  });
  recording->replay(outer());
  EXPECT_EQ(count(), 4U);
}

void call_nothing(void* /*data*/) {}

TEST_F(ConditionalGraphTest, SaysWhatCannotBeInARegion) {
  const Buffer word = make_word<std::uint32_t>(0);
  const auto call_host = [&](Stream& stream) {
    if (cudaLaunchHostFunc(static_cast<cudaStream_t>(stream.native_handle()), call_nothing, nullptr) != cudaSuccess)
      fail("the host could not be called");
  };
  std::uint32_t host = 0;
  EXPECT_EQ(device_->obstacle_in_region(outer(), [&] { tally().add_one(outer()); }), "");
  EXPECT_EQ(device_->obstacle_in_region(outer(), [&] { call_host(outer()); }), "a call of the host");
  EXPECT_EQ(
      device_->obstacle_in_region(outer(), [&] { backend().copy_from_host(outer(), word.at(), &host, sizeof host); }),
      "a copy from the host");
  EXPECT_EQ(
      device_->obstacle_in_region(outer(), [&] { backend().copy_to_host(outer(), &host, word.at(), sizeof host); }),
      "a copy to the host");
  EXPECT_EQ(device_->obstacle_in_region(outer(), [] { fail("this launch was refused"); }), "this launch was refused");
  EXPECT_THROW((void)record([&](RegionRecorder& recorder) {
                 recorder.loop(outer(), 2, {}, inside(), [&] { call_host(inside()); });
               }),
               Error);
  EXPECT_EQ(count(), 0U) << "looking at work must not run it";
  tally().add_one(outer());
  EXPECT_EQ(count(), 1U) << "and the stream is as it was";
}

TEST_F(ConditionalGraphTest, WorksOnAStreamThatIsTheCallers) {
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  {
    const auto stream = backend().adopt_stream(native);
    outer().synchronize();
    const auto recording = device_->record_regions(*stream, [&](RegionRecorder& recorder) {
      recorder.loop(*stream, 3, {}, inside(), [&] { tally().add_one(inside()); });
    });
    recording->replay(*stream);
    stream->synchronize();
    EXPECT_EQ(count(), 3U);
  }
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess);
}

}  // namespace
}  // namespace headroom
