// Programs with a setup, which runs after a change of its inputs or weights.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/cuda/gpu_test.hpp"
#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "run/compile.hpp"
#include "run/memory_need.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

constexpr const char* kFrame = R"(graph frame {
  input %x: f32[4, 8]
  input %text: f32[4, 8]
  input %scale: f32[4, 16]
  param %w: f32[16, 8]
  state %s: f32[4, 16]
  %1: f32[4, 16] = linear(%text, %w)
  %2: f32[4, 16] = linear(%x, %w)
  %3: f32[4, 16] = mul(%1, %2)
  %4: f32[4, 16] = mul(%3, %scale)
  %5: f32[4, 16] = add(%4, %s)
  next %s = %5
  output y = %5
})";

Checkpoint make_checkpoint() {
  return Checkpoint::random(nlohmann::json::object(), {{.name = "w", .dtype = DType::kF32, .shape = {16, 8}}}, 7);
}

const CompileOptions kFresh{.fresh_inputs = std::vector<std::string>{"x"}};

std::shared_ptr<const Program> make_program(const std::string& switches, const Backend& backend) {
  return compile(parse_graph(kFrame), SwitchSet::parse(switches), backend.properties().target, kFresh).program;
}

/// A session, and the expected results of its runs.
class Expected {
 public:
  explicit Expected(Checkpoint& checkpoint) : params_{{"w", checkpoint.read("w")}} {
    states_["s"] = HostTensor(DType::kF32, {4, 16});
  }
  void set(Session& session, const std::string& name, std::uint64_t seed) {
    const Shape shape = name == "scale" ? Shape{4, 16} : Shape{4, 8};
    inputs_[name] = random_f32(shape, seed);
    session.set_input(name, inputs_[name]);
  }
  void set_param(WeightStore& weights, std::uint64_t seed) {
    params_["w"] = random_f32({16, 8}, seed);
    weights.change_param("w", params_["w"]);
  }
  void begin(Session& session) { session.set_state("s", states_["s"]); }
  void expect_run(Session& session) {
    session.submit();
    const OracleResult oracle = interpret(graph_, inputs_, params_, states_);
    expect_near(session.output("y"), oracle.outputs.at("y"));
    states_ = oracle.states;
  }

 private:
  Graph graph_ = parse_graph(kFrame);
  NamedTensors inputs_, params_, states_;
};

void expect_setups(Backend& backend, const std::string& switches) {
  Checkpoint checkpoint = make_checkpoint();
  WeightStore weights(backend, checkpoint);
  Session session(make_program(switches, backend), weights, backend);
  ASSERT_NE(session.setup(), nullptr);
  Expected expected(checkpoint);
  for (const char* name : {"x", "text", "scale"}) expected.set(session, name, 1);
  expected.begin(session);
  for (std::uint64_t i = 0; i < 3; ++i) {
    expected.set(session, "x", 10 + i);
    expected.expect_run(session);
  }
  EXPECT_EQ(session.setups(), 1) << "nothing else has changed";
  expected.set(session, "scale", 2);  // which the setup does not read
  expected.expect_run(session);
  EXPECT_EQ(session.setups(), 1);
  expected.set(session, "text", 3);
  expected.expect_run(session);
  expected.expect_run(session);
  EXPECT_EQ(session.setups(), 2);
  expected.set_param(weights, 4);
  expected.expect_run(session);
  expected.expect_run(session);
  EXPECT_EQ(session.setups(), 3);
}

TEST(SessionSetup, RunsWhereSomethingHasChangedThatItReads) {
  const auto backend = make_backend(DeviceKind::kCpu);
  for (const char* switches : {"hoist", "arena,hoist", "lossless"}) {
    SCOPED_TRACE(switches);
    expect_setups(*backend, switches);
  }
}

TEST(SessionSetup, IsThereUnderHoistAlone) {
  const auto backend = make_backend(DeviceKind::kCpu);
  EXPECT_EQ(make_program("arena,fuse", *backend)->setup, nullptr);
  const DeviceTarget target = backend->properties().target;
  const Compiled hoisted = compile(parse_graph(kFrame), SwitchSet::parse("hoist"), target, kFresh);
  EXPECT_NE(hoisted.program->setup, nullptr);
  EXPECT_TRUE(hoisted.declined.empty());
  EXPECT_EQ(compile(parse_graph(kFrame), SwitchSet::parse("hoist"), target).program->setup, nullptr);
}

TEST(SessionSetup, NeedsItsInputsLikeAnyOther) {
  const auto backend = make_backend(DeviceKind::kCpu);
  Checkpoint checkpoint = make_checkpoint();
  WeightStore weights(*backend, checkpoint);
  Session session(make_program("arena,hoist", *backend), weights, *backend);
  Expected expected(checkpoint);
  for (const char* name : {"x", "scale"}) expected.set(session, name, 1);
  expected.begin(session);
  EXPECT_EQ(message_of([&] { session.run(); }), "frame needs 'text', which has not been given");
  EXPECT_NE(message_of([&] { session.set_input("text", random_f32({4, 9}, 1)); }), "nothing was thrown");
  expected.set(session, "text", 1);
  expected.expect_run(session);
}

/// Binding memory that a setup reads counts as a change, and a reloaded session keeps the setup's results.
TEST(SessionSetup, ReadsWhatIsBoundAndComesBack) {
  const auto backend = make_backend(DeviceKind::kCpu);
  Checkpoint checkpoint = make_checkpoint();
  WeightStore weights(*backend, checkpoint);
  Session session(make_program("arena,hoist", *backend), weights, *backend),
      bound(make_program("arena,hoist", *backend), weights, *backend);
  const HostTensor text = random_f32({4, 8}, 5);
  const Buffer memory = backend->allocate(text.bytes().size(), MemoryCategory::kInputs);
  backend->copy_from_host(bound.stream(), memory.at(), text.bytes().data(), text.bytes().size());
  for (Session* const each : {&session, &bound}) {
    each->set_input("x", random_f32({4, 8}, 6));
    each->set_input("scale", random_f32({4, 16}, 7));
    each->set_state("s", HostTensor(DType::kF32, {4, 16}));
  }
  session.set_input("text", text);
  bound.bind_input("text", {.at = memory.at(), .bytes = text.bytes().size()});
  session.run();
  bound.run();
  expect_same(bound.output("y"), session.output("y"));
  session.unload();
  session.reload();
  for (Session* const each : {&session, &bound}) {
    each->set_state("s", HostTensor(DType::kF32, {4, 16}));
    each->run();
  }
  expect_same(bound.output("y"), session.output("y"));
}

TEST(SessionSetup, CountsInWhatASessionNeeds) {
  const auto backend = make_backend(DeviceKind::kCpu);
  Checkpoint checkpoint = make_checkpoint();
  const WeightStore weights(*backend, checkpoint);
  const auto program = make_program("arena,hoist", *backend);
  Program alone = *program;
  alone.setup = nullptr;
  const MemoryNeed need = memory_need(*program, weights), frame = memory_need(alone, weights),
                   setup = memory_need(*program->setup, weights);
  EXPECT_EQ(need.inputs, frame.inputs + setup.inputs);
  EXPECT_EQ(need.weights, frame.weights + setup.weights);
  EXPECT_EQ(need.activations, frame.activations + setup.activations);
  EXPECT_EQ(memory_need_alone(*program, weights).total(), frame.total());
  EXPECT_EQ(memory_need_alone(*program->setup, weights).total(), setup.total());
}

TEST(SessionSetup, WritesOnlyToTheInputsThatReadIt) {
  const auto backend = make_backend(DeviceKind::kCpu);
  Checkpoint checkpoint = make_checkpoint();
  WeightStore weights(*backend, checkpoint);
  const auto program = make_program("arena,hoist", *backend);
  const MemoryNeed need = memory_need(*program, weights);
  const Session session(program, weights, *backend);
  const auto used = [&](MemoryCategory category) {
    return backend->memory_use().used.at(static_cast<std::size_t>(category));
  };
  EXPECT_EQ(used(MemoryCategory::kActivations), need.activations);
  EXPECT_EQ(used(MemoryCategory::kInputs), need.inputs);
  EXPECT_EQ(session.setup()->activation_peak_bytes(), program->setup->arena_bytes);
}

/// A caller that has the setup's session runs it when it wants, and may unload it in between.
TEST(SessionSetup, BelongsToACallerThatHasItsSession) {
  const auto backend = make_backend(DeviceKind::kCpu);
  Checkpoint checkpoint = make_checkpoint();
  WeightStore weights(*backend, checkpoint);
  const auto program = make_program("arena,hoist", *backend);
  const auto setup = std::make_shared<Session>(program->setup, weights, *backend);
  Session session(program, weights, *backend, setup);
  EXPECT_EQ(session.setup(), setup.get());
  Expected expected(checkpoint);
  for (const char* name : {"x", "text", "scale"}) expected.set(session, name, 1);
  expected.begin(session);
  EXPECT_EQ(message_of([&] { session.run(); }), "the setup of frame has not run on its inputs");
  session.submit_setup();
  setup->unload();
  EXPECT_TRUE(session.is_loaded()) << "the setup is another's to load";
  expected.expect_run(session);
  expected.set(session, "x", 2);
  expected.expect_run(session);
  expected.set(session, "text", 3);
  EXPECT_EQ(message_of([&] { session.submit_setup(); }), "frame_setup is unloaded: reload it first");
  setup->reload();
  session.unload();
  session.reload();
  session.submit_setup();
  expected.expect_run(session);
}

class GpuSessionSetup : public GpuTest {};

TEST_F(GpuSessionSetup, RunsWhereSomethingHasChangedThatItReads) {
  for (const char* switches : {"hoist", "lossless"}) expect_setups(backend(), switches);
}

}  // namespace
}  // namespace headroom
