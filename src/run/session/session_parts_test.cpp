// Outputs of one session passed to another part by part without the host, and states that are drawn on the device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/gpu_test.hpp"
#include "base/tensors/random.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "plan/plan.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

constexpr const char* kMaker = R"(graph maker {
  input %x: f32[1, 3, 40]
  %1: f32[1, 3, 40] = silu(%x)
  output y = %1
})";

constexpr const char* kTaker = R"(graph taker {
  input %x: f32[2, 3, 40]
  state %s: f32[2, 24]
  %2: f32[2, 3, 40] = relu(%x)
  %3: f32[2, 24] = silu(%s)
  next %s = %3
  output y = %2
})";

constexpr const char* kKeeper = R"(graph keeper {
  state %s: f32[2, 3, 40]
  %2: f32[2, 3, 40] = relu(%s)
  next %s = %2
})";

std::shared_ptr<const Program> parts_program(const char* text, Backend& backend) {
  const bool records = backend.properties().target.device == DeviceKind::kCuda;
  return std::make_shared<Program>(
      plan(parse_graph(text), backend.properties().target, {.arena = true, .graph = records}));
}

void hand_over(Backend& backend) {
  Session maker(parts_program(kMaker, backend), backend), taker(parts_program(kTaker, backend), backend);
  HostTensor given(DType::kF32, {2, 3, 40});
  for (std::int64_t part = 1; part >= 0; --part) {
    const HostTensor x = random_f32({1, 3, 40}, static_cast<std::uint64_t>(part));
    maker.set_input("x", x);
    maker.run();
    const DeviceTensor made = maker.device_output("y");
    const HostTensor seen = to_host(made, backend);
    expect_near(seen, interpret(parse_graph(kMaker), {{"x", x}}, {}).outputs.at("y"));
    taker.set_input_part("x", part, made);
    std::ranges::copy(seen.bytes(), given.bytes().begin() + (part == 1 ? 3 * 40 * sizeof(float) : 0));
  }  // the source tensors are destroyed
  HostTensor drawn(DType::kF32, {2, 24});
  for (std::uint64_t part = 0; part < 2; ++part) {
    const NormalStream values{.seed = 7 + part, .stream = 3};
    taker.set_state_normal("s", static_cast<std::int64_t>(part), values);
    store_normal(drawn.bytes().data() + part * 24 * sizeof(float), DType::kF32, 24, values);
  }
  expect_same(taker.state("s"), drawn);
  taker.run();
  const OracleResult expected = interpret(parse_graph(kTaker), {{"x", given}}, {}, {{"s", drawn}});
  expect_near(taker.output("y"), expected.outputs.at("y"));
  expect_near(taker.state("s"), expected.states.at("s"));

  Session keeper(parts_program(kKeeper, backend), backend);
  HostTensor kept(DType::kF32, {2, 3, 40});
  keeper.set_state_part("s", 1, maker.device_output("y"));  // of part 0, the most recent result
  keeper.set_state_part("s", 0, maker.zero_output("y"));
  std::ranges::copy(to_host(maker.device_output("y"), backend).bytes(), kept.bytes().begin() + 3 * 40 * sizeof(float));
  expect_same(keeper.state("s"), kept);
}

/// Rows of two outputs of different lengths, one after the other.
void hand_over_rows(Backend& backend) {
  constexpr const char* kRowsMaker =
      "graph rows_maker {\n  input %x: f32[1, 5, 3]\n  %1: f32[1, 5, 3] = relu(%x)\n  output y = %1\n}";
  constexpr const char* kRowsTaker =
      "graph rows_taker {\n  input %x: f32[6, 3]\n  %1: f32[6, 3] = relu(%x)\n  output y = %1\n}";
  Session maker(parts_program(kRowsMaker, backend), backend), taker(parts_program(kRowsTaker, backend), backend);
  const HostTensor x = random_f32({1, 5, 3}, 1);
  maker.set_input("x", x);
  maker.run();
  HostTensor expected(DType::kF32, {6, 3});
  std::int64_t row = 0;
  for (const auto& [first, count] : {std::pair{1, 4}, std::pair{3, 2}}) {
    const DeviceTensor rows = maker.device_output_rows("y", first, count);
    EXPECT_EQ(rows.shape, (Shape{count, 3}));
    taker.set_input_part("x", row, rows);
    for (std::int64_t i = 0; i < 3 * count; ++i) expected.set(3 * row + i, std::max(0.0, x.at(3 * first + i)));
    row += count;
  }
  taker.run();
  expect_same(taker.output("y"), expected);
}

TEST(SessionParts, OfSeveralRowsFollowEachOther) { hand_over_rows(*make_backend(DeviceKind::kCpu)); }

TEST(SessionParts, GoFromOneSessionToAnother) { hand_over(*make_backend(DeviceKind::kCpu)); }

using SessionPartsOnAGpu = GpuTest;
TEST_F(SessionPartsOnAGpu, OfSeveralRowsFollowEachOther) { hand_over_rows(backend()); }
TEST_F(SessionPartsOnAGpu, GoFromOneSessionToAnother) { hand_over(backend()); }

TEST(SessionParts, OfOtherShapesAndDtypesAreRefused) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  Session taker(parts_program(kTaker, *backend), *backend);
  const auto part = [&](DType dtype, const Shape& shape) {
    return DeviceTensor{
        .dtype = dtype,
        .shape = shape,
        .memory = backend->allocate(static_cast<std::size_t>(shape.numel()) * size_of(dtype), MemoryCategory::kInputs)};
  };
  const auto refusal = [&](DType dtype, const Shape& shape) {
    return message_of([&] { taker.set_input_part("x", 0, part(dtype, shape)); });
  };
  EXPECT_THAT(refusal(DType::kF32, {1, 3, 41}), HasSubstr("part 0 of input 'x' is f32[1, 3, 41], of f32[2, 3, 40]"));
  EXPECT_THAT(refusal(DType::kF32, {3, 3, 40}), HasSubstr("f32[3, 3, 40], of"));
  EXPECT_THAT(refusal(DType::kF32, {1, 120}), HasSubstr("f32[1, 120], of"));
  EXPECT_THAT(refusal(DType::kBF16, {1, 3, 40}), HasSubstr("bf16[1, 3, 40], of"));
  EXPECT_THAT(message_of([&] { taker.set_input_part("z", 0, part(DType::kF32, {1})); }),
              HasSubstr("no input called 'z'"));
  EXPECT_THAT(message_of([&] {
                taker.set_state_part("s", 0, part(DType::kF32, {1, 25}));
              }),
              HasSubstr("part 0 of state 's' is f32[1, 25], of f32[2, 24]"));
}

}  // namespace
}  // namespace headroom
