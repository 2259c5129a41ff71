#pragma once

#include "backends/backend.hpp"
#include "base/tensors/dtype.hpp"
#include "base/tensors/host_tensor.hpp"
#include "base/tensors/shape.hpp"

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
