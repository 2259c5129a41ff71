#pragma once

#include "backends/backend.hpp"
#include "base/dtype.hpp"
#include "base/host_tensor.hpp"
#include "base/shape.hpp"

namespace headroom {

/// A dense row-major tensor in memory of a device: what one session made and others read.
struct DeviceTensor {
  DType dtype = DType::kF32;
  Shape shape;
  Buffer memory;
};

/// A copy of what is there, on the host.
[[nodiscard]] HostTensor to_host(const DeviceTensor& tensor, Backend& backend);

}  // namespace headroom
