#include "base/tensors/host_tensor.hpp"

#include <cmath>

namespace headroom {

HostTensor convert(const HostTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  HostTensor result(dtype, tensor.shape());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) result.set(i, tensor.at(i));
  return result;
}

double relative_l2(const HostTensor& actual, const HostTensor& expected) {
  if (!(actual.shape() == expected.shape()))
    fail("a tensor of shape {} cannot be compared with one of shape {}", actual.shape(), expected.shape());
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    const double value = expected.at(i), difference = actual.at(i) - value;
    error += difference * difference;
    norm += value * value;
  }
  return error == 0 && norm == 0 ? 0 : std::sqrt(error / norm);
}

}  // namespace headroom
