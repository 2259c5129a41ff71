#include "measure/suites/body_suite.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/switches.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/random.hpp"
#include "io/checkpoint.hpp"
#include "measure/results/describe.hpp"
#include "run/compile.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

/// A body on random inputs, compiled with the suite's switches.
class BodyRun {
 public:
  BodyRun(Backend& backend, const BodyCase& one, const SwitchSet& switches)
      : checkpoint_(Checkpoint::random(nlohmann::json::object(), {}, 0)),
        weights_(backend, checkpoint_),
        compiled_(compile(one.graph, switches, backend.properties().target)),
        session_(compiled_.program, weights_, backend) {
    const std::vector<ValueId> inputs = one.graph.values_of(ValueKind::kInput);
    for (std::size_t i = 0; i < inputs.size(); ++i) fill(one.graph.value(inputs[i]), one.inputs[i], i);
  }

  [[nodiscard]] Session& session() { return session_; }
  [[nodiscard]] const Compiled& compiled() const { return compiled_; }

 private:
  void fill(const Value& input, const BodyInput& how, std::uint64_t stream) {
    if (how.columns == 0)
      return session_.set_input_normal(input.name,
                                       {.seed = 0, .stream = stream, .mean = how.mean, .deviation = how.deviation});
    constexpr std::int64_t kApart = 7919;  // a prime, so that rows have different indices
    HostTensor places(input.type.dtype, input.type.shape);
    for (std::int64_t row = 0; row < input.type.shape[0]; ++row)
      places.set(row, static_cast<double>(row * how.columns + row * kApart % how.columns));
    session_.set_input(input.name, places);
  }

  Checkpoint checkpoint_;
  WeightStore weights_;
  Compiled compiled_;
  Session session_;
};

std::vector<TensorType> input_types(const Graph& graph) {
  std::vector<TensorType> types;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) types.push_back(graph.type(input));
  return types;
}

std::vector<TensorType> output_types(const Graph& graph) {
  std::vector<TensorType> types;
  for (const Output& output : graph.outputs()) types.push_back(graph.type(output.value));
  return types;
}

double least_bytes(const Graph& graph) {
  std::size_t bytes = 0;
  for (const TensorType& type : input_types(graph)) bytes += type.bytes();
  for (const TensorType& type : output_types(graph)) bytes += type.bytes();
  return static_cast<double>(bytes);
}

ReadyCase prepare(Backend& backend, const BodyCase& one, MachineRates& rates) {
  const SwitchSet switches = SwitchSet::parse("arena,fuse");
  const auto run = std::make_shared<BodyRun>(backend, one, switches);
  const double bytes = least_bytes(one.graph);
  Result result = describe_kernel(
      backend, one.name, one.body,
      {{"inputs", operand_json(input_types(one.graph))}, {"outputs", operand_json(output_types(one.graph))}});
  result.configuration = describe_configuration(switches, run->compiled(), backend);
  return {.session = {run, &run->session()}, .floor = floor_of(one.graph, bytes, rates), .result = std::move(result)};
}

}  // namespace

ResultFile bench_bodies(Backend& backend, const KernelBenchOptions& options, const KernelBenchObserver& on_progress,
                        const KernelBenchSkips& on_skip) {
  std::vector<SuiteCase> cases;
  for (BodyCase& body : list_body_cases()) {
    const auto one = std::make_shared<const BodyCase>(std::move(body));
    cases.push_back({one->name, [&backend, one](MachineRates& rates) { return prepare(backend, *one, rates); }});
  }
  return bench_cases(backend, "body", std::move(cases), options, on_progress, on_skip);
}

}  // namespace headroom
