#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "backends/backend.hpp"

/// What tests of sessions share; included by *_test.cpp only.
namespace headroom {

/// A CPU of which no more than `limit` bytes can be had. It only says so: what is allocated all the same, is.
class LimitedBackend final : public Backend {
 public:
  explicit LimitedBackend(std::size_t limit) : limit_(limit) {}
  void set_limit(std::size_t limit) { limit_ = limit; }

  [[nodiscard]] DeviceProperties properties() const override {
    DeviceProperties properties = cpu_->properties();
    properties.available_bytes = limit_ - std::min(limit_, memory_use().total);
    return properties;
  }
  void copy_from_host(Stream& stream, void* device, const void* host, std::size_t bytes) override {
    cpu_->copy_from_host(stream, device, host, bytes);
  }
  void copy_to_host(Stream& stream, void* host, const void* device, std::size_t bytes) override {
    cpu_->copy_to_host(stream, host, device, bytes);
  }
  void copy_on_device(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    cpu_->copy_on_device(stream, to, from, bytes);
  }
  void fill_normal(Stream& stream, void* device, DType dtype, std::uint64_t count, const NormalStream& from) override {
    cpu_->fill_normal(stream, device, dtype, count, from);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return cpu_->make_stream(); }
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void* handle) override { return cpu_->adopt_stream(handle); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 64;
    return std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
  }
  void free_bytes(void* data, std::size_t /*bytes*/) noexcept override { std::free(data); }

 private:
  std::unique_ptr<Backend> cpu_ = make_backend(DeviceKind::kCpu, 1);
  std::size_t limit_;
};

}  // namespace headroom
