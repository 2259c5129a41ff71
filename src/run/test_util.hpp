#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "backends/backend.hpp"
#include "backends/forwarding_backend.hpp"
#include "base/error.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/random.hpp"
#include "ir/graph.hpp"

/// Utilities shared by tests of sessions; included by *_test.cpp only.
namespace headroom {

/// Standard normal values; for bools, one element that is true for odd seeds.
inline HostTensor random_tensor(const TensorType& type, std::uint64_t seed) {
  HostTensor tensor(type.dtype, type.shape);
  if (type.dtype == DType::kBool)
    tensor.set(0, static_cast<double>(seed % 2));
  else
    fill_normal(tensor.as<float>(), seed, 0);
  return tensor;
}

inline HostTensor random_f32(const Shape& shape, std::uint64_t seed) {
  return random_tensor({DType::kF32, shape}, seed);
}

inline void expect_near(const HostTensor& actual, const HostTensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  for (std::int64_t i = 0; i < actual.numel(); ++i)
    ASSERT_NEAR(actual.at(i), expected.at(i), 1e-5 * (1 + std::fabs(expected.at(i)))) << "element " << i;
}

inline void expect_same(const HostTensor& actual, const HostTensor& expected) {
  ASSERT_EQ(actual.bytes().size(), expected.bytes().size());
  ASSERT_EQ(std::memcmp(actual.bytes().data(), expected.bytes().data(), expected.bytes().size()), 0);
}

/// The message of the Error that `act` throws.
inline std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A CPU that reports at most `limit` bytes of memory. The limit is only reported; larger allocations still succeed.
class LimitedBackend final : public ForwardingBackend {
 public:
  explicit LimitedBackend(std::size_t limit) : limit_(limit) {}
  void set_limit(std::size_t limit) { limit_ = limit; }

  [[nodiscard]] DeviceProperties properties() const override {
    DeviceProperties properties = ForwardingBackend::properties();
    properties.available_bytes = limit_ - std::min(limit_, memory_use().total);
    return properties;
  }

 private:
  std::size_t limit_;
};

}  // namespace headroom
