// Elementwise ops on a GPU that are not of floats alone: comparisons, which make bool of any type, select, which
// takes elements of any type, and arithmetic of i32 and i64, in 64 bits that wrap.
//
// Shapes     any; operands broadcast. Axes that are contiguous in all operands are merged into one row. A row is
//            contiguous in each operand or one repeated element.
// Bytes      each operand once, an element a thread: neighbouring threads read neighbouring elements.

#include <type_traits>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/elementwise/elementwise_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

/// Formulas compute in floats, or in 64-bit integers, which add and multiply as unsigned.
using Word = std::uint64_t;
__device__ __forceinline__ Word number_of(std::int64_t value) { return static_cast<Word>(value); }
__device__ __forceinline__ Word number_of(std::int32_t value) { return number_of(std::int64_t{value}); }
__device__ __forceinline__ Word number_of(std::int8_t value) { return number_of(std::int64_t{value}); }
__device__ __forceinline__ Word number_of(std::uint8_t value) { return value; }
__device__ __forceinline__ float number_of(float value) { return value; }
__device__ __forceinline__ float number_of(Bf16 value) { return to_float(value); }
__device__ __forceinline__ float number_of(F16 value) { return to_float(value); }

struct Math {
  static __device__ __forceinline__ bool less(float a, float b) { return a < b; }
  static __device__ __forceinline__ bool less_equal(float a, float b) { return a <= b; }
  static __device__ __forceinline__ bool equal(float a, float b) { return a == b; }

  static __device__ __forceinline__ std::int64_t signed_of(Word a) { return static_cast<std::int64_t>(a); }
  static __device__ __forceinline__ bool less(Word a, Word b) { return signed_of(a) < signed_of(b); }
  static __device__ __forceinline__ bool less_equal(Word a, Word b) { return signed_of(a) <= signed_of(b); }
  static __device__ __forceinline__ bool equal(Word a, Word b) { return a == b; }
  static __device__ __forceinline__ Word min(Word a, Word b) { return less(a, b) ? a : b; }
  static __device__ __forceinline__ Word max(Word a, Word b) { return less(a, b) ? b : a; }
  static __device__ __forceinline__ Word mod(Word a, Word b) {
    if (b == 0 || signed_of(b) == -1) return 0;
    const std::int64_t rest = signed_of(a) % signed_of(b);
    return static_cast<Word>(rest != 0 && (rest < 0) != (signed_of(b) < 0) ? rest + signed_of(b) : rest);
  }
};

/// The op's formula in elementwise.def.
template <Op kOp, class Number>
__device__ __forceinline__ auto formula(Number a, Number b, Number c) {
  constexpr Math m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
#define HR_UNARY(...)
#define HR_REAL_BINARY(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
}

/// Finds the offset of this thread's element in each operand; false if it has none.
__device__ __forceinline__ bool find_element(const GridRows<4>& grid, std::int64_t (&offsets)[4]) {
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(element, grid.length);
  if (at.quotient >= grid.rows) return false;
  find_row(grid, at.quotient, offsets);
#pragma unroll
  for (int k = 0; k < 4; ++k) offsets[k] += grid.repeats[k] ? 0 : at.remainder;
  return true;
}

template <Op kOp, class T, class Y>
__global__ void __launch_bounds__(kThreads)
    formula_kernel(GridRows<4> grid, std::int64_t given_b, std::int64_t given_c, const T* a, const T* b, Y* y) {
  wait_for_previous();
  using Number = decltype(number_of(T{}));
  std::int64_t offsets[4];
  if (!find_element(grid, offsets)) return;
  const Number second = b == nullptr ? static_cast<Number>(given_b) : number_of(b[offsets[1]]);
  y[offsets[3]] = static_cast<Y>(formula<kOp, Number>(number_of(a[offsets[0]]), second, static_cast<Number>(given_c)));
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    select_kernel(GridRows<4> grid, const std::uint8_t* condition, const T* a, const T* b, T* y) {
  wait_for_previous();
  std::int64_t offsets[4];
  if (!find_element(grid, offsets)) return;
  y[offsets[3]] = condition[offsets[0]] != 0 ? a[offsets[1]] : b[offsets[2]];
}

/// A launch, all but its kernel.
struct Launch {
  cudaStream_t stream;
  const PlainRows& rows;
  const void* const* in;
  void* y;

  [[nodiscard]] dim3 blocks() const { return blocks_along_x(divide_up(rows.grid.rows * rows.grid.length, kThreads)); }

  template <Op kOp, class T, class Y>
  void formula() const {
    launch_early(formula_kernel<kOp, T, Y>, {blocks(), kThreads, stream}, rows.grid, rows.b, rows.c,
                 static_cast<const T*>(in[0]), rows.has_b ? static_cast<const T*>(in[1]) : nullptr, static_cast<Y*>(y));
  }
  template <class T>
  void select() const {
    launch_early(select_kernel<T>, {blocks(), kThreads, stream}, rows.grid, static_cast<const std::uint8_t*>(in[0]),
                 static_cast<const T*>(in[1]), static_cast<const T*>(in[2]), static_cast<T*>(y));
  }
  template <class T>
  void integers() const {
    switch (rows.op) {
#define HR_ANY(enumerator, ...) \
  case Op::enumerator:          \
    return formula<Op::enumerator, T, T>();
#define HR_UNARY(...)
#define HR_REAL_BINARY(...)
#define HR_COMPARISON(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
      default:
        return;
    }
  }
  template <class T>
  void comparison() const {
    switch (rows.op) {
#define HR_ANY(...)
#define HR_COMPARISON(enumerator, ...) \
  case Op::enumerator:                 \
    return formula<Op::enumerator, T, bool>();
#include "ir/elementwise.def"
      default:
        return;
    }
  }
};

bool is_comparison(Op op) {
  switch (op) {
#define HR_ANY(...)
#define HR_COMPARISON(enumerator, ...) case Op::enumerator:
#include "ir/elementwise.def"
    return true;
    default:
      return false;
  }
}

void launch_comparison(const Launch& launch) {
  switch (launch.rows.dtype) {
    case DType::kF32:
      return launch.comparison<float>();
    case DType::kBF16:
      return launch.comparison<Bf16>();
    case DType::kF16:
      return launch.comparison<F16>();
    case DType::kI64:
      return launch.comparison<std::int64_t>();
    case DType::kI32:
      return launch.comparison<std::int32_t>();
    case DType::kI8:
      return launch.comparison<std::int8_t>();
    default:
      return launch.comparison<std::uint8_t>();
  }
}

void launch_select(const Launch& launch) {
  switch (launch.rows.dtype) {
    case DType::kF64:
    case DType::kI64:
      return launch.select<std::uint64_t>();
    case DType::kF32:
    case DType::kI32:
      return launch.select<std::uint32_t>();
    case DType::kBF16:
    case DType::kF16:
      return launch.select<std::uint16_t>();
    default:
      return launch.select<std::uint8_t>();
  }
}

}  // namespace

void launch_plain(void* stream, const PlainRows& rows, const void* const* in, void* y) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  const Launch launch{static_cast<cudaStream_t>(stream), rows, in, y};
  if (rows.op == Op::kSelect)
    launch_select(launch);
  else if (is_comparison(rows.op))
    launch_comparison(launch);
  else if (rows.dtype == DType::kI32)
    launch.integers<std::int32_t>();
  else
    launch.integers<std::int64_t>();
  check_launched("cuda elementwise kernel");
}

}  // namespace headroom::cuda
