// Exchanges between GPUs of one process: eager, recorded, in a loop on the device, and ended by a rank that fails.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "backends/cuda/communicator.cuh"
#include "backends/cuda/gpu_test.hpp"
#include "backends/rank_backend.hpp"
#include "backends/region_recording.hpp"

namespace headroom {
namespace {

/// Rows of a piece on either side, in bytes.
struct Cut {
  std::size_t rows, row_bytes, pitch;
};
struct PieceCase {
  Cut sent, received;
};

std::vector<PieceCase> pieces() {
  constexpr std::size_t kMebi = std::size_t{1} << 20;
  return {{{1, 1, 1}, {1, 1, 1}},
          {{1, 17, 17}, {1, 17, 17}},
          {{1, 8191, 8191}, {1, 8191, 8191}},
          {{1, kMebi + 6, kMebi + 6}, {1, kMebi + 6, kMebi + 6}},
          {{1, 20 * kMebi, 20 * kMebi}, {1, 20 * kMebi, 20 * kMebi}},
          {{12, 1024, 4096}, {3, 4096, 8192}},
          {{5, 6, 10}, {15, 2, 2}},
          {{1, 12 * 300000, 12 * 300000}, {12, 300000, 700016}},
          {{7, 48 * 1000, 48 * 1024}, {1, 7 * 48 * 1000, 7 * 48 * 1000}}};
}

std::uint8_t byte_of(int rank, std::size_t i, int run) {
  return static_cast<std::uint8_t>((i * 31 + i / 251 + static_cast<std::size_t>(rank * 101 + run * 7)) & 0xFF);
}

/// What one rank has on its GPU: a piece that it sends, and memory for what it receives and keeps.
struct Side {
  std::unique_ptr<Stream> stream;
  Buffer sent, received, kept;
  std::unique_ptr<Recording> recording;
};

class GpuCommunicator : public GpuTest, public testing::WithParamInterface<cuda::LinkMemoryKind> {
 protected:
  static constexpr int kRanks = 2;

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    devices_ = dynamic_cast<RankBackend*>(&backend());
    try {
      for (int rank = 0; rank < kRanks; ++rank) backends_.push_back(&devices_->backend_of_rank(rank));
    } catch (const Error& error) {
      GTEST_SKIP() << "needs two GPUs: " << error.what();
    }
    team_ = std::make_shared<RankTeam>(kRanks);
    constexpr int kGpus[] = {0, 1};
    if (GetParam() == cuda::LinkMemoryKind::kReceiver && cuda::best_link_memory(kGpus) != GetParam())
      GTEST_SKIP() << "needs GPUs that can write each other's memory";
    communicators_ = cuda::connect_gpus(team_, kGpus, GetParam());
  }

  void run(const std::function<void(int rank, Backend& backend, Communicator& communicator)>& body) {
    try {
      team_->run(
          [&](int rank) {
            const auto at = static_cast<std::size_t>(rank);
            backends_[at]->make_current();
            body(rank, *backends_[at], *communicators_[at]);
          },
          [&] { communicators_.front()->stop(); });
    } catch (...) {
      communicators_.front()->restart();
      throw;
    }
  }

  /// Gives both sides memory, the sent rows filled for that run.
  void fill(std::vector<Side>& sides, const PieceCase& piece, int number) {
    sides.resize(kRanks);
    run([&](int rank, Backend& backend, Communicator&) {
      Side& side = sides[static_cast<std::size_t>(rank)];
      if (side.stream == nullptr) {
        side.stream = backend.make_stream();
        side.sent = backend.allocate(piece.sent.rows * piece.sent.pitch, MemoryCategory::kActivations);
        side.received = backend.allocate(piece.received.rows * piece.received.pitch, MemoryCategory::kActivations);
        side.kept = backend.allocate(piece.received.rows * piece.received.pitch, MemoryCategory::kActivations);
      }
      std::vector<std::uint8_t> bytes(side.sent.bytes());
      std::size_t i = 0;
      for (std::size_t row = 0; row < piece.sent.rows; ++row)
        for (std::size_t column = 0; column < piece.sent.row_bytes; ++column)
          bytes[row * piece.sent.pitch + column] = byte_of(rank, i++, number);
      backend.copy_from_host(*side.stream, side.sent.at(), bytes.data(), bytes.size());
      const std::vector<std::uint8_t> before(side.received.bytes(), 0xEE);
      backend.copy_from_host(*side.stream, side.received.at(), before.data(), before.size());
      side.stream->synchronize();
    });
  }

  static void submit(Side& side, const PieceCase& piece, int rank, Communicator& communicator, Stream& stream) {
    const auto rows = [](const Buffer& buffer, const Cut& cut) {
      return Communicator::Rows{buffer.at(), cut.rows, cut.row_bytes, cut.pitch};
    };
    const Communicator::Sent sent{.to = 1 - rank, .from = rows(side.sent, piece.sent)};
    const Communicator::Received received{.from = 1 - rank, .to = rows(side.received, piece.received)};
    const Communicator::Kept kept{.from = rows(side.sent, piece.sent), .to = rows(side.kept, piece.received)};
    communicator.exchange(stream, {&sent, 1}, {&received, 1}, {&kept, 1});
  }

  void expect_arrived(std::vector<Side>& sides, const PieceCase& piece, int number) {
    run([&](int rank, Backend& backend, Communicator&) {
      Side& side = sides[static_cast<std::size_t>(rank)];
      std::size_t wrong = 0;
      const auto check = [&](const Buffer& buffer, int from) {
        std::vector<std::uint8_t> bytes(buffer.bytes());
        backend.copy_to_host(*side.stream, bytes.data(), buffer.at(), bytes.size());
        side.stream->synchronize();
        std::size_t i = 0;
        for (std::size_t row = 0; row < piece.received.rows; ++row)
          for (std::size_t column = 0; column < piece.received.row_bytes; ++column)
            wrong += bytes[row * piece.received.pitch + column] != byte_of(from, i++, number);
        if (&buffer == &side.received && piece.received.pitch > piece.received.row_bytes)
          wrong += bytes[piece.received.row_bytes] != 0xEE;  // between the rows
      };
      check(side.received, 1 - rank);
      check(side.kept, rank);
      EXPECT_EQ(wrong, 0U) << "of " << piece.received.rows << " rows of " << piece.received.row_bytes
                           << " bytes on rank " << rank << ", run " << number;
    });
  }

  [[nodiscard]] std::vector<Backend*>& backends() { return backends_; }

 private:
  RankBackend* devices_ = nullptr;
  std::vector<Backend*> backends_;
  std::shared_ptr<RankTeam> team_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
};

INSTANTIATE_TEST_SUITE_P(Links, GpuCommunicator,
                         testing::Values(cuda::LinkMemoryKind::kReceiver, cuda::LinkMemoryKind::kHost),
                         [](const auto& given) {
                           return given.param == cuda::LinkMemoryKind::kReceiver ? "BetweenGpus" : "ThroughTheHost";
                         });

TEST_P(GpuCommunicator, BothRanksGetWhatTheOtherSends) {
  for (const PieceCase& piece : pieces()) {
    std::vector<Side> sides;
    for (int number = 0; number < 3; ++number) {
      fill(sides, piece, number);
      run([&](int rank, Backend&, Communicator& communicator) {
        Side& side = sides[static_cast<std::size_t>(rank)];
        submit(side, piece, rank, communicator, *side.stream);
        side.stream->synchronize();
      });
      expect_arrived(sides, piece, number);
    }
  }
}

TEST_P(GpuCommunicator, RecordingsAreReplayedWithRandomPauses) {
  for (const PieceCase& piece : {pieces()[3], pieces()[7]}) {
    std::vector<Side> sides;
    fill(sides, piece, 0);
    run([&](int rank, Backend& backend, Communicator& communicator) {
      Side& side = sides[static_cast<std::size_t>(rank)];
      side.recording = backend.record(*side.stream, [&] {
        for (int i = 0; i < 3; ++i) submit(side, piece, rank, communicator, *side.stream);
      });
    });
    for (int number = 0; number < 4; ++number) {
      fill(sides, piece, number);
      run([&](int rank, Backend&, Communicator& communicator) {
        Side& side = sides[static_cast<std::size_t>(rank)];
        for (int replay = 0; replay < 200; ++replay) {
          if ((replay * 7 + rank * 13) % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
          communicator.meet();
          side.recording->replay(*side.stream);
        }
        side.stream->synchronize();
      });
      expect_arrived(sides, piece, number);
    }
  }
}

TEST_P(GpuCommunicator, AHundredThousandReplaysEndWithTheRightBytes) {
  const PieceCase piece = pieces()[2];
  std::vector<Side> sides;
  fill(sides, piece, 0);
  run([&](int rank, Backend& backend, Communicator& communicator) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    side.recording = backend.record(*side.stream, [&] { submit(side, piece, rank, communicator, *side.stream); });
  });
  fill(sides, piece, 1);
  run([&](int rank, Backend&, Communicator& communicator) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    for (int replay = 0; replay < 100'000; ++replay) {
      if ((replay * 7 + rank * 13) % 5000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      communicator.meet();
      side.recording->replay(*side.stream);
    }
    side.stream->synchronize();
  });
  expect_arrived(sides, piece, 1);
}

TEST_P(GpuCommunicator, ExchangesInALoopOnTheDevice) {
  const PieceCase piece = pieces()[3];
  std::vector<Side> sides;
  fill(sides, piece, 0);
  run([&](int rank, Backend& backend, Communicator& communicator) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    const std::unique_ptr<Stream> inside = backend.make_stream();
    side.recording = dynamic_cast<RegionBackend&>(backend).record_regions(*side.stream, [&](RegionRecorder& recorder) {
      recorder.loop(*side.stream, 100, {}, *inside, [&] { submit(side, piece, rank, communicator, *inside); });
    });
  });
  for (int number = 1; number < 4; ++number) {
    fill(sides, piece, number);
    run([&](int rank, Backend&, Communicator& communicator) {
      Side& side = sides[static_cast<std::size_t>(rank)];
      communicator.meet();
      side.recording->replay(*side.stream);
      side.stream->synchronize();
    });
    expect_arrived(sides, piece, number);
  }
}

TEST_P(GpuCommunicator, ARankThatThrowsEndsTheOtherAndTheNextRunWorks) {
  const PieceCase piece = pieces()[3];
  std::vector<Side> sides;
  fill(sides, piece, 0);
  run([&](int rank, Backend& backend, Communicator& communicator) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    side.recording = backend.record(*side.stream, [&] { submit(side, piece, rank, communicator, *side.stream); });
  });
  const auto start = std::chrono::steady_clock::now();
  try {
    run([&](int rank, Backend&, Communicator& communicator) {
      Side& side = sides[static_cast<std::size_t>(rank)];
      communicator.meet();
      if (rank == 1) throw Error("rank 1 has failed");
      side.recording->replay(*side.stream);  // waits on the device for rank 1
      side.stream->synchronize();
    });
    FAIL() << "the exception was lost";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 has failed");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  fill(sides, piece, 1);
  run([&](int rank, Backend&, Communicator& communicator) {
    Side& side = sides[static_cast<std::size_t>(rank)];
    communicator.meet();
    side.recording->replay(*side.stream);
    side.stream->synchronize();
  });
  expect_arrived(sides, piece, 1);
}

}  // namespace
}  // namespace headroom
