// Value semantics: the cases run several times, with and without an arena, in memory of the session and of the
// caller, and are compared with the interpreter.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ir/interpreter.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/pass.hpp"
#include "plan/plan.hpp"
#include "run/session/semantic_cases.hpp"
#include "run/session/session.hpp"
#include "run/test_util.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

Graph graph_of(const SemanticCase& tried) {
  Graph graph = parse_graph(std::string(kSemanticDeclarations) + tried.body + "\n}\n");
  verify(graph);
  return graph;
}

void expect_all_near(const NamedTensors& actual, const NamedTensors& expected) {
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(actual.contains(name));
    expect_near(actual.at(name), tensor);
  }
}

/// Memory of the caller for all values that a session can bind.
class BoundMemory {
 public:
  BoundMemory(Session& session, Backend& backend) : session_(session), backend_(backend) {
    const Graph& graph = session.program().graph;
    for (const ValueId input : graph.values_of(ValueKind::kInput))
      session.bind_input(graph.value(input).name, add("input", graph.value(input).name, graph.type(input)));
    for (const ValueId state : graph.values_of(ValueKind::kState))
      session.bind_state(graph.value(state).name, add("state", graph.value(state).name, graph.type(state)));
    for (const Output& output : graph.outputs())
      session.bind_output(output.name, add("output", output.name, graph.type(output.value)));
  }

  [[nodiscard]] HostTensor read(const std::string& what, const std::string& name) const {
    const auto& [type, buffer] = buffers_.at({what, name});
    HostTensor tensor(type.dtype, type.shape);
    backend_.copy_to_host(session_.stream(), tensor.bytes().data(), buffer.at(), tensor.bytes().size());
    session_.stream().synchronize();
    return tensor;
  }

 private:
  DeviceMemory add(const std::string& what, const std::string& name, const TensorType& type) {
    Buffer buffer = backend_.allocate(type.bytes(), MemoryCategory::kInputs);
    const DeviceMemory memory{.at = buffer.at(), .bytes = type.bytes()};
    buffers_.emplace(std::pair(what, name), std::pair(type, std::move(buffer)));
    return memory;
  }

  Session& session_;
  Backend& backend_;
  std::map<std::pair<std::string, std::string>, std::pair<TensorType, Buffer>> buffers_;
};

Checkpoint semantic_checkpoint() {
  return Checkpoint::random(nlohmann::json::object(), {{.name = "w", .dtype = DType::kF32, .shape = {4, 4}}}, 5);
}

/// Sets the initial values of all states.
NamedTensors give_states(const Graph& graph, Session& session) {
  NamedTensors given;
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    const std::string& name = graph.value(state).name;
    given[name] = random_tensor(graph.type(state), 100 + index_of(state));
    session.set_state(name, given[name]);
  }
  return given;
}

/// Sets all inputs of a run; `hit` decides the branches.
NamedTensors give_inputs(const Graph& graph, Session& session, std::uint64_t run, std::uint64_t hit) {
  NamedTensors given;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    given[name] = random_tensor(graph.type(input), name == "hit" ? hit : 10 * run + index_of(input));
    session.set_input(name, given[name]);
  }
  return given;
}

enum class Memory : std::uint8_t { kOfTheSession, kOfTheCaller };

class SessionSemantics : public testing::TestWithParam<std::tuple<SemanticCase, bool, Memory>> {};

TEST_P(SessionSemantics, IsWhatTheOracleDoesRunAfterRun) {
  const auto& [tried, arena, memory] = GetParam();
  const bool is_bound = memory == Memory::kOfTheCaller;
  const Graph graph = graph_of(tried);
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const Checkpoint checkpoint = semantic_checkpoint();
  WeightStore weights(*backend, checkpoint);
  const auto program =
      std::make_shared<Program>(plan(graph, backend->properties().target, {.arena = arena, .outputs_apart = is_bound}));
  Session session(program, weights, *backend);
  std::optional<BoundMemory> bound;
  if (is_bound) bound.emplace(session, *backend);
  NamedTensors states = give_states(graph, session);
  for (std::uint64_t run = 0; run < 4; ++run) {
    SCOPED_TRACE(run);
    const NamedTensors inputs = give_inputs(graph, session, run, run / 2);
    session.run();
    const OracleResult oracle = interpret(graph, inputs, {{"w", checkpoint.read("w")}}, states);
    NamedTensors outputs;
    for (const auto& [name, tensor] : oracle.outputs)
      outputs[name] = is_bound ? bound->read("output", name) : session.output(name);
    NamedTensors left;
    for (const auto& [name, tensor] : states) left[name] = is_bound ? bound->read("state", name) : session.state(name);
    expect_all_near(outputs, oracle.outputs);
    expect_all_near(left, oracle.states);
    if (is_bound)
      for (const auto& [name, given] : inputs) {
        const HostTensor after = bound->read("input", name);
        EXPECT_EQ(std::memcmp(after.bytes().data(), given.bytes().data(), given.bytes().size()), 0)
            << "a run wrote over the input " << name;
      }
    states = left;
  }
}

/// `body` with a trip count of one for every loop.
std::string with_one_turn(std::string body) {
  const std::string word = "loop ";
  for (std::size_t at = body.find(word); at != std::string::npos; at = body.find(word, at)) {
    at += word.size();
    body.replace(at, body.find(' ', at) - at, "1");
  }
  return body;
}

/// Each case with loops that run once, as a straight line.
TEST(SessionSemanticsWithoutLoops, IsTheSameWhereTheyRunOnce) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const Checkpoint checkpoint = semantic_checkpoint();
  WeightStore weights(*backend, checkpoint);
  int inlined = 0;
  for (const SemanticCase& tried : kSemanticCases) {
    SCOPED_TRACE(tried.name);
    const std::string body = with_one_turn(tried.body);
    const Graph graph = graph_of({tried.name, body.c_str()});
    Graph straight = graph;
    const OptimizeReport report =
        optimize(straight, {}, backend->properties().target, {.disabled = {}, .verify = true});
    for (const PassRecord& pass : report.passes)
      if (pass.name == "inline-loops") inlined += pass.rewrites;
    Session session(std::make_shared<Program>(plan(straight, backend->properties().target, {.arena = true})), weights,
                    *backend);
    NamedTensors states = give_states(graph, session);
    for (std::uint64_t run = 0; run < 4; ++run) {
      const NamedTensors inputs = give_inputs(graph, session, run, run);
      session.run();
      const OracleResult oracle = interpret(graph, inputs, {{"w", checkpoint.read("w")}}, states);
      for (const auto& [name, tensor] : oracle.outputs) expect_near(session.output(name), tensor);
      for (const auto& [name, tensor] : oracle.states) expect_near(session.state(name), tensor);
      states = oracle.states;
    }
  }
  EXPECT_GT(inlined, 10);
}

INSTANTIATE_TEST_SUITE_P(All, SessionSemantics,
                         testing::Combine(testing::ValuesIn(kSemanticCases), testing::Bool(),
                                          testing::Values(Memory::kOfTheSession, Memory::kOfTheCaller)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) +
                                  (std::get<1>(param.param) ? "_arena" : "_eager") +
                                  (std::get<2>(param.param) == Memory::kOfTheCaller ? "_bound" : "");
                         });

}  // namespace
}  // namespace headroom
