// Params that change while sessions hold the folded weights.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

/// One param that is used unchanged or packed as a weight, and one that is cast first.
constexpr const char* kLinear = R"(graph linear {
  input %x: f32[4, 8]
  param %w: f32[16, 8]
  param %b: bf16[16]
  %3: f32[16] = cast(%b) {dtype = f32}
  %4: f32[4, 16] = linear(%x, %w, %3) {epilogue = sum, tf32 = 0}
  output y = %4
})";

/// The same param as part of another weight, and another param as an output.
constexpr const char* kMerged = R"(graph merged {
  input %x: f32[4, 8]
  param %w: f32[16, 8]
  param %v: f32[16, 8]
  %3: f32[32, 8] = concat(%w, %v) {axis = 0}
  %4: f32[4, 32] = linear(%x, %3) {epilogue = sum, tf32 = 0}
  %5: f32[4, 32] = silu(%4)
  output y = %5
  output v = %v
})";

Checkpoint make_checkpoint(std::uint64_t seed) {
  return Checkpoint::random(nlohmann::json::object(),
                            {{.name = "w", .dtype = DType::kF32, .shape = {16, 8}},
                             {.name = "v", .dtype = DType::kF32, .shape = {16, 8}},
                             {.name = "b", .dtype = DType::kBF16, .shape = {16}}},
                            seed);
}

std::shared_ptr<const Program> make_program(const char* text, Backend& backend, bool arena = true) {
  const bool records = arena && backend.properties().target.device == DeviceKind::kCuda;
  return std::make_shared<Program>(
      plan(parse_graph(text), backend.properties().target, {.arena = arena, .graph = records}));
}

/// A store, and the expected values of its params.
struct Params {
  explicit Params(Backend& backend) : store(backend, checkpoint) {
    for (const char* name : {"w", "v", "b"}) values[name] = checkpoint.read(name);
  }
  void change(const std::string& name, const HostTensor& value) {
    values[name] = value;
    store.change_param(name, value);
  }
  void restore(const std::string& name) {
    values[name] = checkpoint.read(name);
    store.restore_param(name);
  }
  [[nodiscard]] HostTensor output(const char* text, const HostTensor& x, const char* name = "y") const {
    const Graph graph = parse_graph(text);
    NamedTensors params;
    for (const ValueId param : graph.values_of(ValueKind::kParam))
      params[graph.value(param).name] = values.at(graph.value(param).name);
    return interpret(graph, {{"x", x}}, params).outputs.at(name);
  }

  Checkpoint checkpoint = make_checkpoint(7);
  NamedTensors values;
  WeightStore store;
};

/// A param changes between requests of two sessions on two streams; nothing waits before a result is read.
void change_a_thousand_times(Backend& backend) {
  Params params(backend);
  Session first(make_program(kLinear, backend), params.store, backend);
  Session second(make_program(kMerged, backend, false), params.store, backend, backend.make_stream());
  const HostTensor x = random_f32({4, 8}, 1);
  for (Session* session : {&first, &second}) {
    session->set_input("x", x);
    session->run();
  }
  const std::size_t bytes = backend.memory_use().total, weights = params.store.size();
  const std::uint64_t store_bytes = params.store.bytes();
  HostTensor before = params.output(kLinear, x);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    SCOPED_TRACE(i);
    first.submit();  // still with the earlier weights
    if (i % 10 == 9)
      params.restore("w");
    else
      params.change("w", random_f32({16, 8}, 100 + i));
    second.submit();
    ASSERT_NO_FATAL_FAILURE(expect_near(first.output("y"), before));
    before = params.output(kLinear, x);
    ASSERT_NO_FATAL_FAILURE(expect_near(second.output("y"), params.output(kMerged, x)));
  }
  EXPECT_EQ(backend.memory_use().total, bytes);
  EXPECT_EQ(params.store.size(), weights);
  EXPECT_EQ(params.store.bytes(), store_bytes);
}

TEST(WeightChanges, ReachEverySessionInOrderAndHoldNoMemory) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  change_a_thousand_times(*backend);
}

using WeightChangesOnAGpu = GpuTest;

TEST_F(WeightChangesOnAGpu, ReachEverySessionInOrderAndHoldNoMemory) { change_a_thousand_times(backend()); }

TEST(WeightChanges, KeepAddressesAndConcernOnlyWhatDependsOnTheParam) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Params params(*backend);
  const auto program = make_program(kMerged, *backend);
  Session session(program, params.store, *backend);
  std::vector<DevicePointer> places;
  for (const WeightUse& use : program->weights) places.push_back(params.store.weight(use)->at());
  const HostTensor x = random_f32({4, 8}, 1);
  session.set_input("x", x);
  params.change("w", random_f32({16, 8}, 2));
  session.run();
  expect_near(session.output("y"), params.output(kMerged, x));
  expect_near(session.output("v"), params.values.at("v"));
  params.change("v", random_f32({16, 8}, 3));
  session.run();
  expect_near(session.output("y"), params.output(kMerged, x));
  expect_near(session.output("v"), params.values.at("v"));
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(params.store.weight(program->weights[i])->at(), places[i]);
}

TEST(WeightChanges, AreSeenByWhatIsLoadedLaterAndReachWhatIsDroppedAndHeld) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Params params(*backend);
  const HostTensor x = random_f32({4, 8}, 1);
  Session first(make_program(kLinear, *backend), params.store, *backend);
  params.change("b", convert(random_f32({16}, 2), DType::kBF16));
  params.change("w", random_f32({16, 8}, 3));
  const auto merged = make_program(kMerged, *backend);
  Session later(merged, params.store, *backend);
  for (Session* session : {&first, &later}) session->set_input("x", x);
  first.run();
  later.run();
  expect_near(first.output("y"), params.output(kLinear, x));
  expect_near(later.output("y"), params.output(kMerged, x));

  params.store.keep_only(*merged);
  params.change("b", convert(random_f32({16}, 4), DType::kBF16));
  params.restore("w");
  first.run();
  expect_near(first.output("y"), params.output(kLinear, x));
  Session again(make_program(kLinear, *backend), params.store, *backend);
  again.set_input("x", x);
  again.run();
  expect_near(again.output("y"), params.output(kLinear, x));
}

TEST(WeightChanges, MakeAgainWhatOneNodeMakes) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Params params(*backend);
  const char* const text = R"(graph quantized {
    param %w: f32[16, 8]
    %1: i8[16, 8], %2: f32[16] = quantize(%w) {dtype = i8}
    output data = %1
    output scales = %2
  })";
  Session session(make_program(text, *backend), params.store, *backend);
  session.run();
  const HostTensor before = session.output("scales");
  params.change("w", random_f32({16, 8}, 5));
  session.run();
  const OracleResult expected = interpret(parse_graph(text), {}, {{"w", params.values.at("w")}});
  for (std::int64_t i = 0; i < 16; ++i) {
    EXPECT_NE(before.at(i), session.output("scales").at(i));
    EXPECT_NEAR(session.output("scales").at(i), expected.outputs.at("scales").at(i), 1e-6);
  }
  for (std::int64_t i = 0; i < 16 * 8; ++i)
    EXPECT_EQ(session.output("data").at(i), expected.outputs.at("data").at(i)) << "element " << i;
}

TEST(WeightChanges, RefuseWhatIsNotTheParam) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Checkpoint unnamed = make_checkpoint(1), named = make_checkpoint(2);
  WeightStore store(*backend, unnamed);
  store.add("vae", named);
  const auto change = [&](const std::string& param, DType dtype, const Shape& shape) {
    return message_of([&] { store.change_param(param, HostTensor(dtype, shape)); });
  };
  EXPECT_THAT(change("w", DType::kF32, {8, 16}), testing::HasSubstr("'w' is f32[16, 8] and cannot become f32[8, 16]"));
  EXPECT_THAT(change("vae:b", DType::kF32, {16}),
              testing::AllOf(testing::HasSubstr("vae ("), testing::HasSubstr("'b'")));
  EXPECT_THAT(change("vae:x", DType::kF32, {16}),
              testing::AllOf(testing::HasSubstr("vae ("), testing::HasSubstr("'x'")));
  EXPECT_THAT(change("unet:w", DType::kF32, {16, 8}), testing::HasSubstr("unet:w"));
  EXPECT_THAT(message_of([&] { store.restore_param("y"); }), testing::HasSubstr("'y'"));
  EXPECT_THAT(message_of([&] { store.add("vae", named); }), testing::HasSubstr("'vae' already"));
  EXPECT_THAT(message_of([&] { store.add("v:e", named); }), testing::HasSubstr("'v:e'"));
  WeightStore only_named(*backend);
  only_named.add("vae", named);
  EXPECT_THAT(message_of([&] { only_named.restore_param("unet:w"); }), testing::HasSubstr("called 'unet'"));
}

TEST(NamedCheckpoints, KeepTensorsOfTheSameNameApart) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const Checkpoint unnamed = make_checkpoint(1), named = make_checkpoint(2);
  WeightStore store(*backend, unnamed);
  store.add("vae", named);
  const Graph graph = parse_graph(R"(graph both {
    input %x: f32[16, 8]
    param %w: f32[16, 8]
    param %"vae:w": f32[16, 8]
    %3: f32[16, 8] = add(%x, %w)
    %4: f32[16, 8] = mul(%3, %"vae:w")
    output y = %4
  })");
  EXPECT_EQ(canonical_text(parse_graph(print(graph))), canonical_text(graph));
  const auto program = std::make_shared<Program>(plan(graph, backend->properties().target, {.arena = true}));
  Session session(program, store, *backend);
  EXPECT_EQ(store.size(), 2U);
  const HostTensor x = random_f32({16, 8}, 3);
  session.set_input("x", x);
  session.run();
  NamedTensors params = {{"w", unnamed.read("w")}, {"vae:w", named.read("w")}};
  expect_near(session.output("y"), interpret(graph, {{"x", x}}, params).outputs.at("y"));

  store.change_param("vae:w", params["vae:w"] = random_f32({16, 8}, 4));
  session.run();
  expect_near(session.output("y"), interpret(graph, {{"x", x}}, params).outputs.at("y"));
}

TEST(WeightChanges, AStoreMayGoBeforeItsSessions) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  auto params = std::make_unique<Params>(*backend);
  const HostTensor x = random_f32({4, 8}, 1), expected = params->output(kLinear, x);
  Session session(make_program(kLinear, *backend), params->store, *backend);
  params.reset();
  session.set_input("x", x);
  session.run();
  expect_near(session.output("y"), expected);
}

}  // namespace
}  // namespace headroom
