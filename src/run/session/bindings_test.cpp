// Sessions in memory of the caller.

#include "run/session/bindings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <nlohmann/json.hpp>

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

constexpr const char* kBoundLoop = R"(graph loop {
  input %d: f32[3, 64]
  input %x: f32[64]
  state %s: f32[64]
  %3: f32[64] = silu(%x)
  loop 3 %i {
    %5: f32[64] = row(%d, %i)
    %6: f32[64] = mul(%5, %3)
    %7: f32[64] = add(%s, %6)
    next %s = %7
    yield %8: f32[64] = %6
  }
  %9: f32[64] = relu(%3)
  %10: f32[32] = slice(%9) {axis = 0, start = 16, size = 32}
  output last = %8
  output relu = %9
  output part = %10
})";

class BindingTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);

  std::shared_ptr<const Program> make_program(const char* text, bool apart = true) const {
    return std::make_shared<Program>(
        plan(parse_graph(text), backend_->properties().target, {.arena = GetParam(), .outputs_apart = apart}));
  }
};
INSTANTIATE_TEST_SUITE_P(Plans, BindingTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Arena" : "Eager"; });

/// An f32 tensor in device memory outside the session.
class Outside {
 public:
  Outside(Backend& backend, const Shape& shape, std::uint64_t seed)
      : backend_(backend),
        tensor_(random_tensor({DType::kF32, shape}, seed)),
        buffer_(backend.allocate(tensor_.bytes().size(), MemoryCategory::kInputs)) {
    backend_.copy_from_host(*stream_, buffer_.at(), tensor_.bytes().data(), buffer_.bytes());
    stream_->synchronize();
  }
  [[nodiscard]] HostTensor read() const {
    HostTensor tensor(DType::kF32, tensor_.shape());
    backend_.copy_to_host(*stream_, tensor.bytes().data(), buffer_.at(), buffer_.bytes());
    stream_->synchronize();
    return tensor;
  }
  [[nodiscard]] const HostTensor& written() const { return tensor_; }
  [[nodiscard]] DeviceMemory memory() const { return {.at = buffer_.at(), .bytes = buffer_.bytes()}; }

 private:
  Backend& backend_;
  std::unique_ptr<Stream> stream_ = backend_.make_stream();
  HostTensor tensor_;
  Buffer buffer_;
};

/// Two sets of memory to which a session of kBoundLoop is bound alternately.
struct Set {
  Set(Backend& backend, std::uint64_t seed)
      : d(backend, {3, 64}, seed),
        x(backend, {64}, seed + 1),
        s(backend, {64}, seed + 2),
        last(backend, {64}, seed + 3),
        relu(backend, {64}, seed + 4),
        part(backend, {32}, seed + 5) {}
  void bind_to(Session& session) const {
    session.bind_input("d", d.memory());
    session.bind_input("x", x.memory());
    session.bind_state("s", s.memory());
    session.bind_output("last", last.memory());
    session.bind_output("relu", relu.memory());
    session.bind_output("part", part.memory());
  }
  /// Checks a run that began with `state`.
  void expect_run(const HostTensor& state) const {
    const OracleResult oracle =
        interpret(parse_graph(kBoundLoop), {{"d", d.written()}, {"x", x.written()}}, {}, {{"s", state}});
    expect_near(last.read(), oracle.outputs.at("last"));
    expect_near(relu.read(), oracle.outputs.at("relu"));
    expect_near(part.read(), oracle.outputs.at("part"));
    expect_near(s.read(), oracle.states.at("s"));
    expect_near(d.read(), d.written());
    expect_near(x.read(), x.written());
  }

  Outside d, x, s, last, relu, part;
};

TEST_P(BindingTest, NothingIsCopiedOfWhatKernelsReadAndWriteThere) {
  Session session(make_program(kBoundLoop), *backend_);
  const MemoryUse own = backend_->memory_use();
  const Set first(*backend_, 1), second(*backend_, 11);
  const std::size_t outside = backend_->memory_use().total - own.total;
  for (int turn = 0; turn < 3; ++turn)
    for (const Set* set : {&first, &second}) {
      set->bind_to(session);
      const HostTensor state = set->s.read();
      session.run();
      EXPECT_EQ(session.copied_bytes(), 0U);
      ASSERT_NO_FATAL_FAILURE(set->expect_run(state));
      expect_near(session.output("last"), set->last.read());
      expect_near(session.state("s"), set->s.read());
    }
  const std::size_t given_up = first.d.memory().bytes + first.x.memory().bytes;
  const auto held = [&](MemoryCategory category) {
    return backend_->memory_use().used.at(static_cast<std::size_t>(category));
  };
  EXPECT_EQ(held(MemoryCategory::kState), 0U) << "the session gave up its own";
  EXPECT_EQ(held(MemoryCategory::kInputs),
            own.used.at(static_cast<std::size_t>(MemoryCategory::kInputs)) + outside - given_up);
}

TEST_P(BindingTest, WhatNoKernelWritesThereIsCopiedAndCounted) {
  constexpr const char* kElsewhere = R"(graph elsewhere {
    input %x: f32[64]
    param %w: f32[64]
    state %s: f32[64]
    %3: f32[64] = add(%s, %x)
    %4: f32[64] = mul(%x, %w)
    next %s = %3
    output x = %x
    output w = %w
    output s = %s
    output y = %4
    output again = %4
  })";
  const Checkpoint checkpoint =
      Checkpoint::random(nlohmann::json::object(), {{.name = "w", .dtype = DType::kF32, .shape = {64}}}, 1);
  WeightStore weights(*backend_, checkpoint);
  for (const bool apart : {true, false}) {
    Session session(make_program(kElsewhere, apart), weights, *backend_);
    const Outside x(*backend_, {64}, 2), s(*backend_, {64}, 3);
    session.bind_input("x", x.memory());
    session.set_state("s", s.written());
    const OracleResult oracle =
        interpret(parse_graph(kElsewhere), {{"x", x.written()}}, {{"w", checkpoint.read("w")}}, {{"s", s.written()}});
    std::deque<std::pair<std::string, Outside>> outputs;
    for (const char* name : {"x", "w", "s", "y", "again"}) {
      outputs.emplace_back(std::piecewise_construct, std::tuple(name), std::tuple(std::ref(*backend_), Shape{64}, 4));
      session.bind_output(name, outputs.back().second.memory());
    }
    session.run();
    for (const auto& [name, outside] : outputs) {
      SCOPED_TRACE(name);
      expect_near(outside.read(), oracle.outputs.at(name));
      expect_near(session.output(name), oracle.outputs.at(name));
    }
    EXPECT_EQ(session.copied_bytes(), (apart ? 4 : 5) * x.memory().bytes) << "all but y where outputs are apart";
    for (const auto& [name, outside] : outputs) session.unbind_output(name);
    session.run();
    EXPECT_EQ(session.copied_bytes(), 0U);
    expect_near(session.output("y"), oracle.outputs.at("y"));
  }
}

TEST_P(BindingTest, WhatIsUnboundIsToBeSetAnew) {
  Session session(make_program(kBoundLoop), *backend_);
  const Set set(*backend_, 1);
  set.bind_to(session);
  const HostTensor before = set.s.read();
  session.run();
  const HostTensor between = set.s.read();
  for (const char* name : {"last", "relu", "part"}) session.unbind_output(name);
  session.unbind_input("x");
  EXPECT_THAT(message_of([&] { session.run(); }), HasSubstr("'x'"));
  session.set_input("x", set.x.written());
  session.unbind_state("s");
  EXPECT_THAT(message_of([&] { session.run(); }), HasSubstr("'s'"));
  session.set_state("s", before);
  session.run();
  expect_near(set.s.read(), between);
  expect_near(session.state("s"), between);
  expect_near(session.output("relu"), set.relu.read());
}

TEST_P(BindingTest, RefusesMemoryThatDoesNotFit) {
  Session session(make_program(kBoundLoop), *backend_);
  const Set set(*backend_, 1);
  const DeviceMemory memory = set.x.memory();
  EXPECT_THAT(message_of([&] { session.bind_input("x", {.at = memory.at, .bytes = memory.bytes - 4}); }),
              HasSubstr("input 'x' cannot lie in 252 bytes: it has 256"));
  EXPECT_THAT(message_of([&] { session.bind_state("s", {.at = memory.at + 4, .bytes = memory.bytes}); }),
              HasSubstr("a multiple of 64"));
  EXPECT_THAT(message_of([&] { session.bind_output("last", {.at = {}, .bytes = memory.bytes}); }),
              HasSubstr("output 'last'"));
  EXPECT_THAT(message_of([&] { session.bind_output("s", memory); }), HasSubstr("no output called 's'"));
  EXPECT_THAT(message_of([&] { session.bind_input("s", memory); }), HasSubstr("no input called 's'"));
  set.bind_to(session);
  session.bind_output("last", set.x.memory());
  EXPECT_THAT(message_of([&] { session.run(); }), HasSubstr("input 'x' and output 'last'"));
  session.bind_output("last", set.last.memory());
  EXPECT_NO_THROW(session.run());
}

TEST(Bindings, LetInputsShareMemory) {
  alignas(256) std::array<std::byte, 128> memory{};
  Bindings bindings;
  const DeviceMemory whole{.at = {memory.data()}, .bytes = memory.size()};
  const DeviceMemory half{.at = whole.at + 64, .bytes = 64};
  bindings.add(Bound::kInput, "a", whole, whole.bytes, DeviceKind::kCpu->alignment);
  bindings.add(Bound::kInput, "b", half, half.bytes, DeviceKind::kCpu->alignment);
  EXPECT_NO_THROW(bindings.require_apart());
  bindings.add(Bound::kState, "b", half, half.bytes, DeviceKind::kCpu->alignment);
  EXPECT_THROW(bindings.require_apart(), Error);
  bindings.remove(Bound::kState, "b");
  EXPECT_NO_THROW(bindings.require_apart());
  EXPECT_THROW(bindings.add(Bound::kInput, "a", half, half.bytes, DeviceKind::kCuda->alignment), Error)
      << "not aligned for a GPU";
}

/// `graph`: recordings contain addresses.
class RecordedBindingTest : public GpuTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Plans, RecordedBindingTest, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Arena" : "Eager"; });

TEST_P(RecordedBindingTest, RecordsOnceForEachSetOfMemory) {
  const auto program = std::make_shared<Program>(plan(parse_graph(kBoundLoop), backend().properties().target,
                                                      {.arena = GetParam(), .graph = true, .outputs_apart = true}));
  const std::shared_ptr<Stream> stream = backend().make_stream();
  Session session(program, backend(), stream);
  const std::unique_ptr<Stream> other = backend().make_stream();
  std::deque<Set> sets;
  for (std::uint64_t i = 0; i < Recordings::kMostSets + 1; ++i) sets.emplace_back(backend(), 10 * i);
  const auto run = [&](const Set& set) {
    set.bind_to(session);
    const HostTensor state = set.s.read();
    session.submit();
    other->wait(session.completion());
    other->synchronize();
    ASSERT_NO_FATAL_FAILURE(set.expect_run(state));
    EXPECT_EQ(session.copied_bytes(), 0U);
  };
  run(sets[0]);
  const std::int64_t of_one = session.recordings_made();
  EXPECT_EQ(of_one, 1) << "of the whole program";
  for (int turn = 0; turn < 4; ++turn)
    for (const int set : {1, 0}) run(sets[static_cast<std::size_t>(set)]);
  EXPECT_EQ(session.recordings_made(), 2 * of_one);
  for (const Set& set : sets) run(set);
  EXPECT_EQ(session.recordings_made(), 5 * of_one);
  run(sets[0]);  // was replaced by the last one
  EXPECT_EQ(session.recordings_made(), 6 * of_one);
}

}  // namespace
}  // namespace headroom
