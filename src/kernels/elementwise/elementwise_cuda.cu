// Elementwise ops of numbers on a GPU: y = f(a, b), f(a, b, c) or f(a, value) (elementwise_launch.cuh).

#include "kernels/elementwise/elementwise_launch.cuh"

namespace headroom::cuda {
namespace {

template <class T>
void launch_typed(cudaStream_t stream, const ElementwiseRows& rows, const void* const* in, void* y) {
  switch (rows.op) {
#define HR_UNARY(enumerator, ...) \
  case Op::enumerator:            \
    return launch_function(stream, rows, in, y);
#define HR_COMPARISON(...)
#define HR_SCALAR(enumerator, ...) \
  case Op::enumerator:             \
    return launch_op<Op::enumerator, 1, T>(stream, rows, in, y);
#define HR_RANGE HR_SCALAR
#define HR_BINARY(enumerator, ...) \
  case Op::enumerator:             \
    return launch_op<Op::enumerator, 2, T>(stream, rows, in, y);
#define HR_REAL_BINARY HR_BINARY
#define HR_TERNARY(enumerator, ...)                                                                   \
  case Op::enumerator:                                                                                \
    if (rows.side == DType::kF32) return launch_op<Op::enumerator, 3, T, float>(stream, rows, in, y); \
    return launch_op<Op::enumerator, 3, T>(stream, rows, in, y);
#include "ir/elementwise.def"
    default:
      return;
  }
}

}  // namespace

void launch_elementwise(void* stream, const ElementwiseRows& rows, const void* const* in, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_type_of(rows.dtype,
               [&](auto type) { launch_typed<decltype(type)>(static_cast<cudaStream_t>(stream), rows, in, y); });
  check_launched("cuda elementwise kernel");
}

}  // namespace headroom::cuda
