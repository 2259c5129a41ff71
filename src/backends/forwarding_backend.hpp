#pragma once

#include <cstdlib>
#include <memory>

#include "backends/backend.hpp"
#include "base/tensors/divide_up.hpp"

namespace headroom {

/// A CPU backend of which a test overrides parts.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(int threads = 1) : cpu_(make_backend(DeviceKind::kCpu, threads)) {}

  [[nodiscard]] DeviceProperties properties() const override { return cpu_->properties(); }
  void copy_from_host(Stream& stream, DevicePointer device, const void* host, std::size_t bytes) override {
    cpu_->copy_from_host(stream, device, host, bytes);
  }
  void copy_to_host(Stream& stream, void* host, DevicePointer device, std::size_t bytes) override {
    cpu_->copy_to_host(stream, host, device, bytes);
  }
  void copy_on_device(Stream& stream, DevicePointer to, DevicePointer from, std::size_t bytes) override {
    cpu_->copy_on_device(stream, to, from, bytes);
  }
  void fill_normal(Stream& stream, DevicePointer device, DType dtype, std::uint64_t count,
                   const NormalStream& from) override {
    cpu_->fill_normal(stream, device, dtype, count, from);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return cpu_->make_stream(); }
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* handle) override { return cpu_->adopt_stream(handle); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 64;
    return std::aligned_alloc(kAlignment, round_up(bytes + 1, kAlignment));
  }
  void free_bytes(void* data, std::size_t /*bytes*/) noexcept override { std::free(data); }

 private:
  std::unique_ptr<Backend> cpu_;
};

}  // namespace headroom
