// Weights that are unloaded and reloaded under programs, sessions and recordings.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

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

/// A weight that can be unloaded, unchanged or packed, and one that is too small.
constexpr const char* kUnloadedLinear = R"(graph linear {
  input %x: f32[4, 1024]
  param %w: f32[640, 1024]
  param %b: f32[640]
  %3: f32[4, 640] = linear(%x, %w, %b) {epilogue = sum, tf32 = 0}
  output y = %3
})";

/// The same weight in another program.
constexpr const char* kActivated = R"(graph activated {
  input %x: f32[4, 1024]
  param %w: f32[640, 1024]
  param %b: f32[640]
  %3: f32[4, 640] = linear(%x, %w, %b) {epilogue = sum, tf32 = 0}
  %4: f32[4, 640] = relu(%3)
  output y = %4
})";

/// The two results of one node: one can be unloaded, the other is too small. Both are outputs. They are quantized to
/// the device's type.
std::string quantized_for(const Backend& backend) {
  return fmt::format(R"(graph quantized {{
  param %v: f32[2560, 1024]
  %1: {0}[2560, 1024], %2: f32[2560] = quantize(%v) {{dtype = {0}}}
  output data = %1
  output scales = %2
}})",
                     backend.properties().target.device == DeviceKind::kCuda ? "f8e4m3" : "i8");
}

/// A device with separate memory: unloaded contents are lost, and the host keeps copies.
class OwnMemoryBackend final : public ForwardingBackend {
 public:
  [[nodiscard]] std::size_t reserve_granularity() const override { return std::size_t{1} << 20; }
  [[nodiscard]] std::unique_ptr<HostCopy> make_host_copy(std::size_t bytes) override {
    return std::make_unique<Copy>(*this, bytes);
  }
  void fill_normal(Stream& stream, DevicePointer device, DType dtype, std::uint64_t count,
                   const NormalStream& from) override {
    ++drawn;
    ForwardingBackend::fill_normal(stream, device, dtype, count, from);
  }

  int saved = 0, restored = 0, drawn = 0;

 protected:
  [[nodiscard]] void* reserve_bytes(std::size_t bytes) override { return allocate_bytes(bytes); }
  void unload_bytes(void* buffer, std::size_t bytes) override { std::memset(buffer, 0xFF, bytes); }
  void reload_bytes(void* /*buffer*/, std::size_t /*bytes*/) override {}
  void free_reserved_bytes(void* buffer, std::size_t bytes) noexcept override { free_bytes(buffer, bytes); }

 private:
  class Copy final : public HostCopy {
   public:
    Copy(OwnMemoryBackend& backend, std::size_t bytes) : backend_(backend), bytes_(bytes) {}
    void save(Stream& stream, DevicePointer from) override {
      ++backend_.saved;
      backend_.copy_to_host(stream, bytes_.data(), from, bytes_.size());
    }
    void restore(Stream& stream, DevicePointer to) override {
      ++backend_.restored;
      backend_.copy_from_host(stream, to, bytes_.data(), bytes_.size());
    }

   private:
    OwnMemoryBackend& backend_;
    std::vector<std::byte> bytes_;
  };
};

std::shared_ptr<const Program> make_program(const std::string& text, Backend& backend, bool arena = true) {
  const bool records = arena && backend.properties().target.device == DeviceKind::kCuda;
  return std::make_shared<Program>(
      plan(parse_graph(text), backend.properties().target, {.arena = arena, .graph = records}));
}

/// A store on a device, and the expected results of a program.
struct Weights {
  explicit Weights(Backend& backend_of) : backend(backend_of), store(backend_of, checkpoint) {
    for (const char* name : {"w", "b", "v"}) values[name] = checkpoint.read(name);
  }
  void change(const std::string& name, const HostTensor& value) {
    values[name] = value;
    store.change_param(name, value);
  }
  [[nodiscard]] HostTensor expected(const char* text) const {
    const Graph graph = parse_graph(text);
    NamedTensors params;
    for (const ValueId param : graph.values_of(ValueKind::kParam))
      params[graph.value(param).name] = values.at(graph.value(param).name);
    return interpret(graph, {{"x", x}}, params).outputs.at("y");
  }
  [[nodiscard]] std::unique_ptr<Session> make_session(const std::shared_ptr<const Program>& program) {
    auto session = std::make_unique<Session>(program, store, backend);
    session->set_input("x", x);
    return session;
  }
  /// The bytes of the program that can be unloaded.
  [[nodiscard]] std::size_t large_bytes(const Program& program) const {
    std::size_t bytes = 0;
    for (const WeightUse& use : program.weights)
      if (use.bytes >= backend.reserve_granularity()) bytes += backend.reserved_size(use.bytes);
    return bytes;
  }
  [[nodiscard]] std::size_t held() const {
    return backend.memory_use().used.at(static_cast<std::size_t>(MemoryCategory::kWeights));
  }

  Backend& backend;
  Checkpoint checkpoint = Checkpoint::random(nlohmann::json::object(),
                                             {{.name = "w", .dtype = DType::kF32, .shape = {640, 1024}},
                                              {.name = "b", .dtype = DType::kF32, .shape = {640}},
                                              {.name = "v", .dtype = DType::kF32, .shape = {2560, 1024}}},
                                             7);
  NamedTensors values;
  HostTensor x = random_f32({4, 1024}, 1);
  WeightStore store;
};

void leave_and_come_back_a_hundred_times(Backend& backend) {
  Weights weights(backend);
  const auto program = make_program(kUnloadedLinear, backend);
  const auto session = weights.make_session(program);
  session->run();
  const HostTensor y = session->output("y");
  expect_near(y, weights.expected(kUnloadedLinear));
  const std::size_t total = backend.memory_use().total, held = weights.held(), bytes = weights.store.bytes();
  const std::size_t large = weights.large_bytes(*program);
  const std::int64_t recordings = session->recordings_made();
  ASSERT_GT(large, 0U);
  for (int turn = 0; turn < 100; ++turn) {
    SCOPED_TRACE(turn);
    weights.store.unload(*program);
    ASSERT_EQ(weights.held(), held - large);
    ASSERT_EQ(weights.store.bytes(), bytes - large);
    ASSERT_EQ(backend.memory_use().total, total - large);
    weights.store.reload(*program);
    session->run();
    ASSERT_NO_FATAL_FAILURE(expect_same(session->output("y"), y));
    ASSERT_EQ(backend.memory_use().total, total);
    ASSERT_EQ(weights.store.bytes(), bytes);
  }
  EXPECT_EQ(session->recordings_made(), recordings);
}

TEST(UnloadedWeights, ComeBackAHundredTimes) {
  leave_and_come_back_a_hundred_times(*make_backend(DeviceKind::kCpu, 2));
}

TEST(UnloadedWeights, ComeFromTheHostsCopyWhereTheDeviceHasMemoryOfItsOwn) {
  OwnMemoryBackend backend;
  leave_and_come_back_a_hundred_times(backend);
  EXPECT_EQ(backend.saved, 1);
  EXPECT_EQ(backend.restored, 100);
  EXPECT_EQ(backend.drawn, 2) << "nothing is folded again";
}

using UnloadedWeightsOnAGpu = GpuTest;

TEST_F(UnloadedWeightsOnAGpu, ComeBackAHundredTimes) { leave_and_come_back_a_hundred_times(backend()); }

/// Whatever happens to a param meanwhile, a reloaded weight has the param's current value.
void change_while_away(Backend& backend) {
  Weights weights(backend);
  const auto linear = make_program(kUnloadedLinear, backend), quantized = make_program(quantized_for(backend), backend);
  const auto session = weights.make_session(linear);
  Session outputs(quantized, weights.store, backend);
  const auto expect_right = [&] {
    Weights anew(backend);
    for (const auto& [name, value] : weights.values) anew.change(name, value);
    const auto expected_session = anew.make_session(linear);
    Session expected_outputs(quantized, anew.store, backend);
    for (Session* each : {session.get(), &outputs, expected_session.get(), &expected_outputs}) each->run();
    expect_same(session->output("y"), expected_session->output("y"));
    for (const char* name : {"data", "scales"}) expect_same(outputs.output(name), expected_outputs.output(name));
  };
  const auto unload = [&] {
    weights.store.unload(*linear);
    weights.store.unload(*quantized);
  };
  const auto reload = [&] {
    weights.store.reload(*quantized);
    weights.store.reload(*linear);
  };
  const std::size_t held = weights.held();
  ASSERT_NO_FATAL_FAILURE(expect_right());
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    SCOPED_TRACE(turn);
    unload();
    weights.change("w", random_f32({640, 1024}, 10 + turn));
    if (turn % 2 == 0) weights.change("v", random_f32({2560, 1024}, 20 + turn));
    weights.change("b", random_f32({640}, 30 + turn));
    reload();
    ASSERT_NO_FATAL_FAILURE(expect_right());
    weights.change("w", random_f32({640, 1024}, 40 + turn));  // while loaded: the host copy is then outdated
    ASSERT_NO_FATAL_FAILURE(expect_right());
    unload();
    reload();
    ASSERT_NO_FATAL_FAILURE(expect_right());
  }
  unload();
  weights.store.restore_param("w");
  weights.values["w"] = weights.checkpoint.read("w");
  reload();
  ASSERT_NO_FATAL_FAILURE(expect_right());
  EXPECT_EQ(weights.held(), held);
}

TEST(UnloadedWeights, AreFoldedOfParamsAsTheyAreWhenTheyComeBack) {
  change_while_away(*make_backend(DeviceKind::kCpu, 2));
}

TEST(UnloadedWeights, AreFoldedOfParamsAsTheyAreWhateverTheHostHasKept) {
  OwnMemoryBackend backend;
  change_while_away(backend);
}

TEST_F(UnloadedWeightsOnAGpu, AreFoldedOfParamsAsTheyAreWhateverTheHostHasKept) { change_while_away(backend()); }

/// A weight is on the device while any loaded program uses it.
void share(Backend& backend) {
  Weights weights(backend);
  const auto first = make_program(kUnloadedLinear, backend), second = make_program(kActivated, backend);
  const auto one = weights.make_session(first), same = weights.make_session(first),
             other = weights.make_session(second);
  ASSERT_EQ(weights.store.size(), 2U) << "both use the same weights";
  const std::size_t held = weights.held(), large = weights.large_bytes(*first);
  const auto expect_runs = [&](Session& session, const char* text) {
    session.run();
    expect_near(session.output("y"), weights.expected(text));
  };
  const auto expect_refused = [&](Session& session, const char* name) {
    EXPECT_THAT(message_of([&] { session.run(); }), HasSubstr(std::string("the weights of ") + name + " are unloaded"));
  };
  weights.store.unload(*first);
  EXPECT_EQ(weights.held(), held);
  expect_refused(*one, "linear");
  expect_refused(*same, "linear");
  expect_runs(*other, kActivated);

  weights.store.unload(*second);
  weights.store.unload(*second);
  EXPECT_EQ(weights.held(), held - large);
  expect_refused(*other, "activated");

  weights.store.reload(*second);
  EXPECT_EQ(weights.held(), held);
  expect_runs(*other, kActivated);
  expect_refused(*one, "linear");
  weights.store.reload(*first);
  expect_runs(*same, kUnloadedLinear);
  expect_runs(*one, kUnloadedLinear);

  weights.store.unload(*first);
  weights.store.unload(*second);
  const auto another = weights.make_session(first);  // loads the missing weights
  EXPECT_EQ(weights.held(), held);
  expect_runs(*another, kUnloadedLinear);
  expect_runs(*one, kUnloadedLinear);
  expect_refused(*other, "activated");
}

TEST(UnloadedWeights, AreThoseThatNoLoadedProgramUses) { share(*make_backend(DeviceKind::kCpu, 2)); }

TEST_F(UnloadedWeightsOnAGpu, AreThoseThatNoLoadedProgramUses) { share(backend()); }

TEST(UnloadedWeights, AreAmongWhatIsNeeded) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  Weights weights(*backend);
  const auto program = make_program(kUnloadedLinear, *backend);
  weights.store.load(*program);
  EXPECT_EQ(weights.store.need_of(*program).weights, 0U);
  weights.store.unload(*program);
  EXPECT_EQ(weights.store.need_of(*program).weights, weights.large_bytes(*program));
  weights.store.load(*program);
  EXPECT_EQ(weights.store.need_of(*program).weights, 0U);
}

TEST(UnloadedWeights, MayBeDroppedWithTheirStoreAndTheirSessions) {
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto program = make_program(kUnloadedLinear, *backend);
  {
    auto weights = std::make_unique<Weights>(*backend);
    const auto session = weights->make_session(program);
    weights->store.unload(*program);
    weights.reset();
    EXPECT_THAT(message_of([&] { session->run(); }), HasSubstr("unloaded"));
  }
  EXPECT_EQ(backend->memory_use().total, 0U);
}

}  // namespace
}  // namespace headroom
