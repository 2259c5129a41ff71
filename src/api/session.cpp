#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "api/impl.hpp"
#include "base/error.hpp"

namespace headroom::v1 {
namespace {

/// Throws Error if the graph has no such input, or if the tensor does not fit it.
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

headroom::DeviceMemory inner_memory(const DeviceMemory& memory) {
  return {.at = {.buffer = memory.data}, .bytes = memory.bytes};
}

}  // namespace

headroom::Session& Session::Impl::here() {
  (void)pass.component().device().impl_->here();
  return session;
}

Session::Session(const CompiledPass& pass, const SessionOptions& options)
    : impl_(translated([&] {
        const CompiledPass::Impl& compiled = *pass.impl_;
        Component::Impl& component = *compiled.component.impl_;
        Backend& backend = component.device.impl_->here();
        if (options.stream != nullptr && !backend.properties().target.device->has_launches)
          fail_usage("a stream was given for {}, which has none", component.device.name());
        require_fit(compiled.compiled, compiled.pass, compiled.switches, component.weights, backend);
        std::shared_ptr<Stream> stream;
        if (options.stream != nullptr) stream = backend.adopt_stream(options.stream);
        return std::unique_ptr<Impl>(
            new Impl{pass, {compiled.compiled.program, component.weights, backend, std::move(stream)}});
      })) {}

Session::~Session() = default;
Session::Session(Session&& other) noexcept = default;
Session& Session::operator=(Session&& other) noexcept = default;

const CompiledPass& Session::pass() const { return impl_->pass; }

void Session::set_input(std::string_view name, const TensorView& tensor) {
  translated([&] {
    headroom::Session& session = impl_->here();
    require_input(session.program().graph, name, tensor);
    session.set_input_bytes(name, tensor.bytes);
  });
}

void Session::bind_input(std::string_view name, const DeviceMemory& memory) {
  translated([&] { impl_->here().bind_input(name, inner_memory(memory)); });
}
void Session::bind_output(std::string_view name, const DeviceMemory& memory) {
  translated([&] { impl_->here().bind_output(name, inner_memory(memory)); });
}
void Session::unbind_input(std::string_view name) {
  translated([&] { impl_->here().unbind_input(name); });
}
void Session::unbind_output(std::string_view name) {
  translated([&] { impl_->here().unbind_output(name); });
}

void Session::run() {
  submit();
  wait();
}

void Session::submit() {
  translated([&] {
    impl_->has_run = false;
    impl_->here().submit();
    impl_->has_run = true;
  });
}

void Session::wait() {
  translated([&] { impl_->here().stream().synchronize(); });
}

void* Session::stream() const { return impl_->session.stream().native_handle(); }

void Session::Impl::require_output(std::string_view name) const {
  if (!has_run) fail("output '{}' was asked for, but the pass has not run", name);
}

Tensor Session::output(std::string_view name) const {
  return translated([&] {
    impl_->require_output(name);
    return outer(impl_->here().output(name));
  });
}

DeviceTensor Session::device_output(std::string_view name) const {
  return translated([&] {
    impl_->require_output(name);
    return DeviceTensor(std::make_shared<DeviceTensor::Impl>(
        DeviceTensor::Impl{.device = impl_->pass.component().device(), .tensor = impl_->here().device_output(name)}));
  });
}

std::size_t Session::copied_bytes() const { return impl_->session.copied_bytes(); }

void Session::observe_launches(LaunchObserver observer) {
  if (!observer) return impl_->session.observe_launches({});
  impl_->session.observe_launches(
      [observer = std::move(observer), launches = std::cref(impl_->pass.launches())](int step, const LaunchTime& time) {
        observer(launches.get()[static_cast<std::size_t>(step)], time.milliseconds);
      });
}

}  // namespace headroom::v1
