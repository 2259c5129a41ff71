#include "run/session/device_tensor.hpp"

#include <memory>

namespace headroom {

HostTensor to_host(const DeviceTensor& tensor, Backend& backend) {
  HostTensor host(tensor.dtype, tensor.shape);
  const std::unique_ptr<Stream> stream = backend.make_stream();
  backend.copy_to_host(*stream, host.bytes().data(), tensor.memory.at(), host.bytes().size());
  stream->synchronize();
  return host;
}

}  // namespace headroom
