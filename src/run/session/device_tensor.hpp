#pragma once

#include "backends/backend.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/shape.hpp"

namespace headroom {

/// A dense row-major tensor in device memory: written by one session, read by others.
struct DeviceTensor {
  DType dtype = DType::kF32;
  Shape shape;
  Buffer memory;
};

/// A copy on the host.
[[nodiscard]] HostTensor to_host(const DeviceTensor& tensor, Backend& backend);

}  // namespace headroom
