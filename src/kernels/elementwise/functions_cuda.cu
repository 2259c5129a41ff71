// Elementwise functions on a GPU: y = f(x) (elementwise_launch.cuh).

#include "kernels/elementwise/elementwise_launch.cuh"

namespace headroom::cuda {
namespace {

template <class T>
void launch_typed(cudaStream_t stream, const ElementwiseRows& rows, const void* const* in, void* y) {
  switch (rows.op) {
#define HR_ANY(...)
#define HR_UNARY(enumerator, ...) \
  case Op::enumerator:            \
    return launch_op<Op::enumerator, 1, T>(stream, rows, in, y);
#include "ir/elementwise.def"
    default:
      return;
  }
}

}  // namespace

void launch_function(void* stream, const ElementwiseRows& rows, const void* const* in, void* y) {
  with_type_of(rows.dtype,
               [&](auto type) { launch_typed<decltype(type)>(static_cast<cudaStream_t>(stream), rows, in, y); });
}

}  // namespace headroom::cuda
