// Sessions whose arenas are unloaded and reloaded.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/gpu_test.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Program> program_of(const char* text, Backend& backend, bool arena = true) {
  const bool records = arena && backend.properties().target.device == DeviceKind::kCuda;
  return std::make_shared<Program>(
      plan(parse_graph(text), backend.properties().target, {.arena = arena, .graph = records}));
}

/// An arena that can be unloaded, and a state that stays.
constexpr const char* kLarge = R"(graph large {
  input %x: f32[1024, 1024]
  state %s: f32[1024]
  %2: f32[1024, 1024] = add(%x, %s)
  %3: f32[1024] = silu(%s)
  %4: f32[1024, 1024] = silu(%2)
  next %s = %3
  output y = %4
  output s = %s
})";

void unload_a_session(Backend& backend) {
  const auto program = program_of(kLarge, backend);
  WeightStore weights(backend);
  Session session(program, weights, backend);
  const HostTensor x = random_f32({1024, 1024}, 1);
  HostTensor state = random_f32({1024}, 2);
  session.set_input("x", x);
  session.set_state("s", state);
  const auto run = [&] {
    const OracleResult expected = interpret(parse_graph(kLarge), {{"x", x}}, {}, {{"s", state}});
    session.run();
    expect_near(session.output("y"), expected.outputs.at("y"));
    state = session.state("s");
    expect_near(state, expected.states.at("s"));
  };
  run();
  const std::size_t total = backend.memory_use().total;
  const std::int64_t recordings = session.recordings_made();
  for (int turn = 0; turn < 3; ++turn) {
    session.unload();
    session.unload();
    EXPECT_EQ(backend.memory_use().total, total - backend.reserved_size(program->arena_bytes));
    EXPECT_THAT(message_of([&] { session.run(); }), HasSubstr("large is unloaded"));
    EXPECT_THAT(message_of([&] { (void)session.output("y"); }), HasSubstr("outputs with it"));
    expect_same(session.state("s"), state);
    session.reload();
    EXPECT_EQ(backend.memory_use().total, total);
    EXPECT_THAT(message_of([&] { (void)session.output("y"); }), HasSubstr("outputs with it"));
    ASSERT_NO_FATAL_FAILURE(run());
  }
  EXPECT_EQ(session.recordings_made(), recordings);
}

TEST(UnloadedSessions, KeepInputsAndStatesAndRunWhenTheyAreBack) {
  unload_a_session(*make_backend(DeviceKind::kCpu, 2));
}

using UnloadedSessionsOnAGpu = GpuTest;

TEST_F(UnloadedSessionsOnAGpu, KeepInputsAndStatesAndRunWhenTheyAreBack) { unload_a_session(backend()); }

TEST(UnloadedSessions, HaveAnArena) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  WeightStore weights(*backend);
  Session session(program_of(kLarge, *backend, false), weights, *backend);
  EXPECT_THAT(message_of([&] { session.unload(); }), HasSubstr("no arena"));
}

}  // namespace
}  // namespace headroom
