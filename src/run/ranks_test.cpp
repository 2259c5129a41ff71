#include "run/ranks.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/out_of_memory.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

/// A collective as each rank has it: its own types, and attributes apart from the group.
struct Case {
  std::vector<std::string> x, y;
  std::string op, attributes;

  [[nodiscard]] int ranks() const { return static_cast<int>(x.size()); }
  [[nodiscard]] Graph graph(int rank) const {
    std::vector<int> group;
    for (int i = 0; i < ranks(); ++i) group.push_back(i);
    const auto at = static_cast<std::size_t>(rank);
    return parse_graph(
        fmt::format("graph g {{\n  input %x: {}\n  %1: {} = neg(%x)\n"
                    "  %2: {} = {}(%1) {{group = [{}], rank = {}{}}}\n  output y = %2\n}}",
                    x[at], x[at], y[at], op, fmt::join(group, ", "), rank, attributes));
  }
};

std::vector<Case> cases() {
  const auto same = [](std::string type) { return std::vector<std::string>(3, std::move(type)); };
  return {
      {{"f32[3, 2, 5]", "f32[3, 4, 5]"}, {"f32[3, 6, 5]", "f32[3, 6, 5]"}, "all_gather", ", axis = 1, shares = [2, 4]"},
      {{"f32[1, 2, 5]", "f32[1, 1, 5]", "f32[1, 3, 5]"},
       same("f32[1, 6, 5]"),
       "all_gather",
       ", axis = 1, shares = [2, 1, 3]"},
      {same("f32[4, 6]"), {"f32[4, 1]", "f32[4, 2]", "f32[4, 3]"}, "reduce_scatter", ", axis = 1, shares = [1, 2, 3]"},
      {same("f32[6, 4]"),
       {"f32[1, 4]", "f32[2, 4]", "f32[3, 4]"},
       "reduce_scatter",
       ", axis = 0, shares = [1, 2, 3], largest = 1"},
      {same("f32[7, 3]"), same("f32[7, 3]"), "all_reduce", ""},
      {same("f32[]"), same("f32[]"), "all_reduce", ", largest = 1"},
      // Heads for tokens, and back.
      {{"f32[2, 5, 3, 4]", "f32[2, 5, 2, 4]", "f32[2, 5, 1, 4]"},
       {"f32[2, 1, 6, 4]", "f32[2, 2, 6, 4]", "f32[2, 2, 6, 4]"},
       "all_to_all",
       ", axis = 2, shares = [3, 2, 1], split_axis = 1, split = [1, 2, 2]"},
      {{"f32[1, 1, 6, 4]", "f32[1, 2, 6, 4]", "f32[1, 2, 6, 4]"},
       {"f32[1, 5, 3, 4]", "f32[1, 5, 2, 4]", "f32[1, 5, 1, 4]"},
       "all_to_all",
       ", axis = 1, shares = [1, 2, 2], split_axis = 2, split = [3, 2, 1]"},
      {{"f32[2, 1]", "f32[2, 2]", "f32[2, 3]", "f32[2, 4]"},
       {"f32[2, 4]", "f32[2, 1]", "f32[2, 2]", "f32[2, 3]"},
       "shift",
       ", axis = 1, shares = [1, 2, 3, 4]"},
      {{"f32[3]", "f32[3]"}, {"f32[3]", "f32[3]"}, "shift", ", axis = 0, shares = [3, 3]"},
  };
}

/// The sessions of all ranks of a case.
class RankSessions {
 public:
  explicit RankSessions(const Case& of, bool arena = true)
      : own_(make_backend(DeviceKind::kCpu, 2)), ranks_(*own_, of.ranks()) {
    open(of, {.arena = arena});
  }
  RankSessions(const Case& of, Backend& backend, const PlanOptions& options) : ranks_(backend, of.ranks()) {
    open(of, options);
  }

  void set_inputs(std::uint64_t seed) {
    given_.clear();
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) {
      const HostTensor x =
          random_tensor(graphs_[rank].type(graphs_[rank].find(ValueKind::kInput, "x")), 10 * seed + rank);
      given_.push_back({.inputs = {{"x", x}}});
      ranks_.run_on(static_cast<int>(rank), [&] { sessions_[rank].set_input("x", x); });
    }
  }
  void run() {
    ranks_.run([&](int rank) { sessions_[static_cast<std::size_t>(rank)].run(); });
  }
  void expect_what_the_interpreter_computes() {
    const std::vector<OracleResult> expected = interpret_ranks(graphs_, given_);
    for (std::size_t rank = 0; rank < graphs_.size(); ++rank) expect_near(output(rank), expected[rank].outputs.at("y"));
  }
  [[nodiscard]] Ranks& ranks() { return ranks_; }
  [[nodiscard]] HostTensor output(std::size_t rank) {
    HostTensor output;
    ranks_.run_on(static_cast<int>(rank), [&] { output = sessions_[rank].output("y"); });
    return output;
  }

 private:
  void open(const Case& of, const PlanOptions& options) {
    for (int rank = 0; rank < of.ranks(); ++rank) {
      graphs_.push_back(of.graph(rank));
      ranks_.run_on(rank, [&] {
        sessions_.emplace_back(std::make_shared<Program>(plan(graphs_.back(), ranks_.target(rank), options)),
                               ranks_.backend(rank));
      });
    }
  }

  std::unique_ptr<Backend> own_;
  Ranks ranks_;
  std::vector<Graph> graphs_;
  std::deque<Session> sessions_;
  std::vector<RankTensors> given_;
};

TEST(Ranks, CollectivesComputeWhatTheInterpreterDoes) {
  for (const Case& one : cases())
    for (const bool arena : {true, false}) {
      SCOPED_TRACE(fmt::format("{} of {}{}", one.op, fmt::join(one.x, ", "), arena ? "" : ", eager"));
      RankSessions sessions(one, arena);
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        sessions.set_inputs(seed);
        sessions.run();
        sessions.expect_what_the_interpreter_computes();
      }
    }
}

class RanksOnGpus : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    try {
      const Ranks ranks(backend(), 2);
    } catch (const Error& error) {
      GTEST_SKIP() << "needs two GPUs: " << error.what();
    }
  }
};

TEST_F(RanksOnGpus, CollectivesComputeWhatTheInterpreterDoes) {
  const auto same = [](std::string type) { return std::vector<std::string>(2, std::move(type)); };
  std::vector<Case> of_two = {
      {{"f32[3, 2, 5]", "f32[3, 4, 5]"}, {"f32[3, 6, 5]", "f32[3, 6, 5]"}, "all_gather", ", axis = 1, shares = [2, 4]"},
      {same("f32[4, 6]"), {"f32[4, 2]", "f32[4, 4]"}, "reduce_scatter", ", axis = 1, shares = [2, 4]"},
      {same("f32[700, 301]"), same("f32[700, 301]"), "all_reduce", ""},
      {same("f32[]"), same("f32[]"), "all_reduce", ", largest = 1"},
      {{"f32[2, 5, 300, 64]", "f32[2, 5, 200, 64]"},
       {"f32[2, 2, 500, 64]", "f32[2, 3, 500, 64]"},
       "all_to_all",
       ", axis = 2, shares = [300, 200], split_axis = 1, split = [2, 3]"},
      {{"f32[1, 1, 6, 5]", "f32[1, 2, 6, 5]"},
       {"f32[1, 3, 4, 5]", "f32[1, 3, 2, 5]"},
       "all_to_all",
       ", axis = 1, shares = [1, 2], split_axis = 2, split = [4, 2]"},
      {{"f32[2, 1]", "f32[2, 2]"}, {"f32[2, 2]", "f32[2, 1]"}, "shift", ", axis = 1, shares = [1, 2]"},
  };
  for (const Case& one : of_two)
    for (const PlanOptions& options :
         {PlanOptions{.arena = false}, PlanOptions{.arena = true}, PlanOptions{.arena = true, .graph = true}}) {
      SCOPED_TRACE(fmt::format("{} of {}{}{}", one.op, fmt::join(one.x, ", "), options.arena ? "" : ", eager",
                               options.graph ? ", recorded" : ""));
      RankSessions sessions(one, backend(), options);
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        sessions.set_inputs(seed);
        sessions.run();
        sessions.expect_what_the_interpreter_computes();
      }
    }
}

TEST(Ranks, AllRanksGetTheSameBitsOfASum) {
  RankSessions sessions(
      {std::vector<std::string>(3, "f32[1000]"), std::vector<std::string>(3, "f32[1000]"), "all_reduce", ""});
  sessions.set_inputs(1);
  sessions.run();
  expect_same(sessions.output(1), sessions.output(0));
  expect_same(sessions.output(2), sessions.output(0));
}

TEST(Ranks, MoveElementsOfAnyDtype) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Ranks ranks(*backend, 2);
  std::deque<Session> sessions;
  for (int rank = 0; rank < 2; ++rank) {
    const Graph graph = parse_graph(fmt::format(
        "graph g {{\n  input %x: i64[2, {}]\n  %1: i64[2, 3] = all_gather(%x) {{group = [0, 1], rank = {}, axis = 1, "
        "shares = [1, 2]}}\n  output y = %1\n}}",
        rank + 1, rank));
    sessions.emplace_back(std::make_shared<Program>(plan(graph, ranks.target(rank), {.arena = true})), *backend);
    HostTensor x(DType::kI64, {2, rank + 1});
    for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(10 * rank + i));
    sessions.back().set_input("x", x);
  }
  ranks.run([&](int rank) { sessions[static_cast<std::size_t>(rank)].run(); });
  for (const Session& session : sessions) {
    const HostTensor y = session.output("y");
    EXPECT_EQ((std::vector<double>{y.at(0), y.at(1), y.at(2), y.at(3), y.at(4), y.at(5)}),
              (std::vector<double>{0, 10, 11, 1, 12, 13}));
  }
}

TEST(Ranks, WhatOneThrowsEndsAllAndTheNextRunWorks) {
  RankSessions sessions(cases()[4]);
  sessions.set_inputs(1);
  const auto fail_rank = [&](int failing) {
    sessions.ranks().run([&](int rank) {
      if (rank == failing) throw OutOfMemory("rank 1 is out of memory");
      std::byte byte{};
      const auto stream = make_backend(DeviceKind::kCpu, 1)->make_stream();
      const Communicator::Received received{.from = failing, .to = Communicator::contiguous({&byte, 0}, 1)};
      sessions.ranks().target(rank).communicator->exchange(*stream, {}, std::span(&received, 1), {});
    });
  };
  EXPECT_THROW(fail_rank(1), OutOfMemory);
  sessions.run();
  sessions.expect_what_the_interpreter_computes();
}

TEST(Ranks, ARankThatSleepsIsWaitedFor) {
  RankSessions sessions(cases()[0]);
  sessions.set_inputs(1);
  sessions.ranks().run([&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  sessions.run();
  sessions.expect_what_the_interpreter_computes();
}

TEST(Ranks, ShareTheThreadsOfACpu) {
  const auto backend = make_backend(DeviceKind::kCpu);
  const int threads = backend->properties().target.threads;
  for (const int count : {1, 2, 3}) {
    const Ranks ranks(*backend, count);
    int sum = 0;
    for (int rank = 0; rank < count; ++rank) {
      EXPECT_GE(ranks.target(rank).threads, 1);
      sum += ranks.target(rank).threads;
    }
    EXPECT_EQ(sum, std::max(threads, count));
    EXPECT_EQ(ranks.target(count - 1).communicator->rank(), count - 1);
  }
}

TEST(Ranks, AProgramOfSeveralRanksDoesNotRunOnOne) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Graph graph = cases()[4].graph(0);
  Session session(std::make_shared<Program>(plan(graph, backend->properties().target, {.arena = true})), *backend);
  session.set_input("x", random_f32({7, 3}, 1));
  EXPECT_EQ(message_of([&] { session.run(); }),
            "a program of 3 ranks cannot run on one: run it as a request with the switch cp");
}

}  // namespace
}  // namespace headroom
