#include <fmt/ranges.h>

#include "api/impl.hpp"
#include "base/error.hpp"

namespace headroom::v1 {
namespace {

/// Throws Error unless the graph has such an input and the tensor is one.
void require_input(const Graph& graph, std::string_view name, const TensorView& tensor) {
  const ValueId input = graph.find(ValueKind::kInput, name);
  if (input == kNoValue) {
    std::vector<std::string_view> names;
    for (const ValueId one : graph.values_of(ValueKind::kInput)) names.push_back(graph.value(one).name);
    fail("there is no input '{}'; the pass has {}", name, fmt::join(names, ", "));
  }
  const TensorType& type = graph.type(input);
  const headroom::Shape shape = inner(tensor.shape);
  if (inner(tensor.dtype) != type.dtype || !(shape == type.shape))
    fail("input '{}' is {}{}, expected {}{}", name, inner(tensor.dtype), shape, type.dtype, type.shape);
  if (tensor.bytes.size() != type.bytes())
    fail("input '{}' has {} bytes, and as {}{} takes {}", name, tensor.bytes.size(), type.dtype, shape, type.bytes());
}

}  // namespace

Session::Session(const CompiledPass& pass)
    : impl_(translated([&] {
        const CompiledPass::Impl& compiled = *pass.impl_;
        Component::Impl& component = *compiled.component.impl_;
        Backend& backend = component.device.impl_->here();
        require_fit(compiled.compiled, compiled.pass, compiled.switches, component.weights, backend);
        return std::unique_ptr<Impl>(new Impl{pass, {compiled.compiled.program, component.weights, backend}});
      })) {}

Session::~Session() = default;
Session::Session(Session&& other) noexcept = default;
Session& Session::operator=(Session&& other) noexcept = default;

const CompiledPass& Session::pass() const { return impl_->pass; }

void Session::set_input(std::string_view name, const TensorView& tensor) {
  translated([&] {
    (void)impl_->pass.component().device().impl_->here();
    require_input(impl_->session.program().graph, name, tensor);
    impl_->session.set_input_bytes(name, tensor.bytes);
  });
}

void Session::run() {
  translated([&] {
    (void)impl_->pass.component().device().impl_->here();
    impl_->has_run = false;
    impl_->session.run();
    impl_->has_run = true;
  });
}

Tensor Session::output(std::string_view name) const {
  return translated([&] {
    (void)impl_->pass.component().device().impl_->here();
    if (!impl_->has_run) fail("output '{}' was asked for, but the pass has not run", name);
    const HostTensor output = impl_->session.output(name);
    Tensor copy(outer(output.dtype()), outer(output.shape()));
    std::ranges::copy(output.bytes(), copy.bytes().begin());
    return copy;
  });
}

void Session::observe_launches(LaunchObserver observer) {
  if (!observer) return impl_->session.observe_launches({});
  impl_->session.observe_launches(
      [observer = std::move(observer), launches = std::cref(impl_->pass.launches())](int step, const LaunchTime& time) {
        observer(launches.get()[static_cast<std::size_t>(step)], time.milliseconds);
      });
}

}  // namespace headroom::v1
