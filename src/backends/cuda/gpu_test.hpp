#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backends/backend.hpp"
#include "base/error.hpp"

namespace headroom {

/// A test that needs a GPU: `backend()` is one, and where there is none the test is skipped with the reason.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      backend_ = make_backend(DeviceKind::kCuda);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  [[nodiscard]] Backend& backend() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
};

}  // namespace headroom
