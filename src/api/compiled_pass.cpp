#include <utility>

#include "api/impl.hpp"
#include "run/memory_need.hpp"

namespace headroom::v1 {
namespace {

TensorInfo info_of(std::string_view name, const TensorType& type) {
  return {.name = std::string(name), .dtype = outer(type.dtype), .shape = outer(type.shape)};
}

Launch launch_of(const Step& step) {
  Launch launch{.path = step.label,
                .op = "copy",
                .kernel = "copy",
                .implementation = "",
                .flops = step.cost.flops,
                .bytes = step.cost.bytes};
  if (step.kernel != nullptr) {
    launch.op = name_of(step.op);
    launch.kernel = step.kernel->name();
    launch.implementation = step.prepared->implementation();
  }
  return launch;
}

}  // namespace

std::vector<Declined> outer(const std::vector<headroom::Declined>& declined) {
  std::vector<Declined> declinations;
  for (const headroom::Declined& one : declined) declinations.push_back({one.switch_name, one.reason});
  return declinations;
}

CompiledPass::Impl::Impl(Component of, ForwardPass forward, SwitchSet asked, Compiled made)
    : component(std::move(of)),
      pass(std::move(forward)),
      switches(std::move(asked)),
      compiled(std::move(made)),
      switch_names(switches.names()),
      declined(outer(compiled.declined)) {
  const Graph& graph = compiled.program->graph;
  for (const ValueId input : graph.values_of(ValueKind::kInput))
    inputs.push_back(info_of(graph.value(input).name, graph.type(input)));
  for (const Output& output : graph.outputs()) outputs.push_back(info_of(output.name, graph.type(output.value)));
  for (const Step& step : compiled.program->steps) launches.push_back(launch_of(step));
}

std::string CompiledPass::name() const { return impl_->pass.request.at("pass").get<std::string>(); }
const Component& CompiledPass::component() const { return impl_->component; }
const std::vector<TensorInfo>& CompiledPass::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& CompiledPass::outputs() const { return impl_->outputs; }
const std::vector<std::string>& CompiledPass::switches() const { return impl_->switch_names; }
const std::vector<std::string>& CompiledPass::applied() const { return impl_->compiled.applied; }
const std::vector<Declined>& CompiledPass::declined() const { return impl_->declined; }
const std::vector<Launch>& CompiledPass::launches() const { return impl_->launches; }

MemoryNeed CompiledPass::memory_need() const {
  return translated([&] {
    const headroom::MemoryNeed need = headroom::memory_need(*impl_->compiled.program, impl_->component.impl_->weights);
    return MemoryNeed{.weights = need.weights,
                      .activations = need.activations,
                      .inputs = need.inputs + need.state,
                      .loading = need.loading};
  });
}

std::string CompiledPass::plan_text(bool with_rejections) const {
  return translated([&] { return to_text(*impl_->compiled.program, with_rejections); });
}

}  // namespace headroom::v1
