#include "backends/device.hpp"

#include "api/impl.hpp"

namespace headroom::v1 {

Device::Device(const std::string& name, int threads)
    : impl_(translated([&] {
        if (threads < 0) fail_usage("{} threads were asked for, expected 1 or more, or 0 for all there are", threads);
        return std::make_shared<Impl>(Impl{make_backend(find_device(name), threads)});
      })) {}

std::string Device::name() const { return name_of(device_of(*impl_->backend)); }

std::string Device::description() const {
  return translated([&] { return impl_->here().properties().name; });
}

int Device::threads() const {
  return translated([&] { return impl_->here().properties().target.threads; });
}

std::size_t Device::alignment() const { return device_of(*impl_->backend).kind->alignment; }

void Device::order(void* before, void* after) const {
  if (!device_of(*impl_->backend).kind->has_launches) return;
  translated([&] {
    Backend& backend = impl_->here();
    const std::unique_ptr<Stream> first = backend.adopt_stream(before), second = backend.adopt_stream(after);
    const std::unique_ptr<Event> event = backend.make_event();
    event->record(*first);
    second->wait(*event);
  });
}

MemoryUse Device::memory() const {
  return translated([&] {
    const Backend& backend = impl_->here();
    const DeviceProperties properties = backend.properties();
    const headroom::MemoryUse use = backend.memory_use();
    return MemoryUse{.installed = properties.memory_bytes,
                     .available = properties.available_bytes,
                     .used = use.total,
                     .peak = use.peak};
  });
}

}  // namespace headroom::v1
