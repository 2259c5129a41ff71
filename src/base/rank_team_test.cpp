#include "base/rank_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

/// What every rank holds after each has sent its number, times 10 plus the number of the run, to all others.
std::vector<std::vector<int>> gather_numbers(RankTeam& team, int run) {
  const int ranks = team.ranks();
  std::vector<std::vector<int>> held(static_cast<std::size_t>(ranks),
                                     std::vector<int>(static_cast<std::size_t>(ranks)));
  team.run([&](int rank) {
    std::vector<int>& own = held[static_cast<std::size_t>(rank)];
    const int number = 10 * rank + run;
    own[static_cast<std::size_t>(rank)] = number;
    std::vector<RankTeam::Sent> sent;
    std::vector<RankTeam::Received> received;
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      sent.push_back({.to = other, .bytes = std::as_bytes(std::span(&number, 1))});
      received.push_back(
          {.from = other, .bytes = std::as_writable_bytes(std::span(own).subspan(static_cast<std::size_t>(other), 1))});
    }
    team.exchange(rank, sent, received);
  });
  return held;
}

TEST(RankTeam, EveryRankGetsWhatTheOthersSend) {
  for (const int ranks : {1, 2, 3, 4}) {
    RankTeam team(ranks);
    for (int run = 0; run < 20; ++run)
      for (const std::vector<int>& held : gather_numbers(team, run))
        for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(held[static_cast<std::size_t>(rank)], 10 * rank + run);
  }
}

TEST(RankTeam, SendsRoundARing) {
  RankTeam team(3);
  std::vector<int> held(3);
  team.run([&](int rank) {
    int mine = rank, next = -1;
    for (int hop = 0; hop < 100; ++hop) {
      const RankTeam::Sent sent{.to = (rank + 1) % 3, .bytes = std::as_bytes(std::span(&mine, 1))};
      const RankTeam::Received received{.from = (rank + 2) % 3, .bytes = std::as_writable_bytes(std::span(&next, 1))};
      team.exchange(rank, std::span(&sent, 1), std::span(&received, 1));
      mine = next;
    }
    held[static_cast<std::size_t>(rank)] = mine;
  });
  EXPECT_EQ(held, (std::vector<int>{2, 0, 1}));  // 100 hops are one more than 33 rounds
}

TEST(RankTeam, AnExceptionEndsAllRanksAndComesFirst) {
  RankTeam team(4);
  std::atomic<int> stopped = 0;
  const auto run = [&] {
    team.run([&](int rank) {
      if (rank == 2) throw Error("rank 2 is out of memory");
      int byte = 0;
      const RankTeam::Received received{.from = 2, .bytes = std::as_writable_bytes(std::span(&byte, 1))};
      try {
        team.exchange(rank, {}, std::span(&received, 1));
      } catch (const RankStopped&) {
        ++stopped;
        throw;
      }
    });
  };
  try {
    run();
    FAIL() << "the exception of rank 2 was lost";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2 is out of memory");
  }
  // A rank that had not begun to wait before rank 2 returned is stopped as well.
  EXPECT_EQ(stopped, 3);
  EXPECT_EQ(gather_numbers(team, 1).size(), 4U) << "the team runs again";
}

TEST(RankTeam, WhatIsSentIsNotReadAfterItsSenderHasStopped) {
  RankTeam team(3);
  EXPECT_THROW(team.run([&](int rank) {
    if (rank == 0) throw Error("rank 0 ends");
    std::vector<int> mine(1000, rank), other(1000);
    const RankTeam::Sent sent{.to = 3 - rank, .bytes = std::as_bytes(std::span(mine))};
    const RankTeam::Received received{.from = 3 - rank, .bytes = std::as_writable_bytes(std::span(other))};
    for (int i = 0; i < 1'000'000; ++i) team.exchange(rank, std::span(&sent, 1), std::span(&received, 1));
  }),
               Error);
}

TEST(RankTeam, CopiesRowsThatAreCutDifferently) {
  std::vector<std::byte> from(3 * 10), to(2 * 20, std::byte{99});
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  copy_rows({from.data(), 3, 8, 10}, {to.data(), 2, 12, 20});
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(to[i / 12 * 20 + i % 12], from[i / 8 * 10 + i % 8]) << i;
  EXPECT_EQ(to[12], std::byte{99}) << "between the rows";
}

TEST(RankTeam, AllMeetBeforeOneGoesOn) {
  RankTeam team(4);
  std::atomic<int> arrived = 0;
  std::atomic<bool> too_early = false;
  team.run([&](int) {
    for (int meeting = 1; meeting <= 100; ++meeting) {
      ++arrived;
      team.meet();
      if (arrived < 4 * meeting) too_early = true;
    }
  });
  EXPECT_FALSE(too_early);
  int told = 0;
  EXPECT_THROW(team.run(
                   [&](int rank) {
                     if (rank == 3) throw Error("rank 3 ends");
                     team.meet();
                   },
                   [&] { ++told; }),
               Error);
  EXPECT_EQ(told, 1);
  EXPECT_THROW(team.run([&](int rank) {
    if (rank != 1) team.meet();
  }),
               std::logic_error);
}

TEST(RankTeam, WaitsForARankThatSleeps) {
  RankTeam team(2);
  int held = 0;
  team.run([&](int rank) {
    int number = 7;
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const RankTeam::Sent sent{.to = 0, .bytes = std::as_bytes(std::span(&number, 1))};
    const RankTeam::Received received{.from = 1, .bytes = std::as_writable_bytes(std::span(&held, 1))};
    if (rank == 1) team.exchange(rank, std::span(&sent, 1), {});
    if (rank == 0) team.exchange(rank, {}, std::span(&received, 1));
  });
  EXPECT_EQ(held, 7);
}

TEST(RankTeam, AnExchangeWithARankThatHasEndedIsAnError) {
  RankTeam team(2);
  try {
    team.run([&](int rank) {
      if (rank == 1) return;
      int number = 0;
      const RankTeam::Received received{.from = 1, .bytes = std::as_writable_bytes(std::span(&number, 1))};
      team.exchange(rank, {}, std::span(&received, 1));
    });
    FAIL() << "rank 0 waited for nothing";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "rank 1 has ended before an exchange that another rank waits for");
  }
}

TEST(RankTeam, RefusesPiecesOfOtherSizes) {
  RankTeam team(2);
  EXPECT_THROW(team.run([&](int rank) {
    std::int64_t large = 0;
    std::int32_t small = 0;
    const RankTeam::Sent sent{.to = 1, .bytes = std::as_bytes(std::span(&large, 1))};
    const RankTeam::Received received{.from = 0, .bytes = std::as_writable_bytes(std::span(&small, 1))};
    if (rank == 0) team.exchange(rank, std::span(&sent, 1), {});
    if (rank == 1) team.exchange(rank, {}, std::span(&received, 1));
  }),
               std::logic_error);
}

}  // namespace
}  // namespace headroom
