#include "base/host_tensor.hpp"

namespace headroom {

HostTensor convert(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  HostTensor result(dtype, tensor.shape());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) result.set(i, tensor.at(i));
  return result;
}

}  // namespace headroom
