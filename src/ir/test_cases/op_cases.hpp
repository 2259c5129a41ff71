#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/infer.hpp"
#include "ir/test_cases/tolerance.hpp"

/// The table of cases: problems of each op by name. The row of an op in ir/ops/ adds them, and these read them:
///
///   kernel tests            small cases with random and with special values, on every kernel (testing/compare.hpp)
///   headroom conformance    small cases, to list what a device runs (testing/conformance.hpp)
///   the fuzzer of graphs    small cases, with operands from the graph (tests/differential)
///   headroom bench kernels  the benchmarks (measure/suites/kernel_suite.hpp)
///
/// Elementwise ops get theirs from elementwise.def.
namespace headroom {

/// Special values, which random operands do not contain.
enum class Special : std::uint8_t { kNaN, kInfinities, kZeros };
inline constexpr std::array kSpecials = {Special::kNaN, Special::kInfinities, Special::kZeros};
/// "NaN", "infinities", "a row of zeros"
[[nodiscard]] std::string_view name_of(Special special);

/// The dtypes that small cases are made in.
struct CaseTypes {
  DType data = DType::kF32;    ///< of the main operands
  DType vector = DType::kF32;  ///< of per-channel vectors: `data`, or f32 if that is wider
  friend bool operator==(const CaseTypes&, const CaseTypes&) = default;
};
/// All that small cases are made in. Only ops that take integers (OpDefinition::takes_integers) have cases in those.
inline constexpr std::array kCaseTypes = {CaseTypes{DType::kF32, DType::kF32},  CaseTypes{DType::kBF16, DType::kBF16},
                                          CaseTypes{DType::kBF16, DType::kF32}, CaseTypes{DType::kF16, DType::kF16},
                                          CaseTypes{DType::kF16, DType::kF32},  CaseTypes{DType::kI32, DType::kI32},
                                          CaseTypes{DType::kI64, DType::kI64}};

/// One problem of an op.
struct OpCase {
  /// Small cases: unique among those of an op and its dtypes: "5x31 to 7, bias, relu". Benchmarks: unique among all:
  /// "linear bf16 5440x768x192".
  std::string name;
  OpSpec spec;
  /// The largest error of a kernel, on operands drawn from their value_range().
  Tolerance tolerance = {.relative_l2 = 0};
  /// Whether the definition leaves open where these special values of an input go; null: it never does.
  bool (*leaves_open)(std::size_t input, Special special) = nullptr;
  /// A benchmark of a fused op that is also measured as the plain ops that the op replaces: how they are called.
  std::string apart = {};
  bool is_for_gpus = false;  ///< a benchmark that is left out on a CPU, which has plain loops for it or takes minutes
};

/// The cases of one op, in the making.
class CaseList {
 public:
  CaseList(Op op, CaseTypes types) : op_(op), types_(types) {}

  [[nodiscard]] Op op() const noexcept { return op_; }
  [[nodiscard]] CaseTypes types() const noexcept { return types_; }
  /// A main operand.
  [[nodiscard]] TensorType data(const Shape& shape, Layout layout = Layout::kRowMajor) const {
    return {types_.data, shape, layout};
  }
  /// A per-channel vector.
  [[nodiscard]] TensorType vector(const Shape& shape) const { return {types_.vector, shape}; }

  /// Adds a case with the default tolerance of its first result, to be changed by the caller.
  OpCase& add(std::string name, OpSpec spec);
  OpCase& add(std::string name, std::vector<TensorType> inputs, NamedAttributes attributes = {},
              std::vector<bool> is_weight = {});

  /// The cases added so far.
  [[nodiscard]] auto begin() { return cases_.begin(); }
  [[nodiscard]] auto end() { return cases_.end(); }
  [[nodiscard]] std::vector<OpCase> take() { return std::move(cases_); }

 private:
  Op op_;
  CaseTypes types_;
  std::vector<OpCase> cases_;
};

/// The small cases of an op in these dtypes: odd and even extents, every layout, optional operand and epilogue. None if
/// the op does not take the dtype.
[[nodiscard]] std::vector<OpCase> small_cases(Op op, CaseTypes types);

/// Those of every op.
[[nodiscard]] std::vector<OpCase> all_small_cases(CaseTypes types);

/// The benchmarks of an op, in the sizes of models; none for most ops.
[[nodiscard]] std::vector<OpCase> benchmark_cases(Op op);

// Benchmarks of memory-bound ops read and write tensors of this size, which no last-level cache holds, with rows of
// the width of a model of 12 B parameters: 24 heads of 128.
inline constexpr std::int64_t kLargeTensorBytes = std::int64_t{384} << 20;
inline constexpr std::int64_t kLargeWidth = 3072;
inline constexpr std::int64_t kLargeHeads = 24;
[[nodiscard]] constexpr std::int64_t large_rows(std::size_t element_bytes) {
  return kLargeTensorBytes / kLargeWidth / static_cast<std::int64_t>(element_bytes);
}
/// [1, rows, width] of that size.
[[nodiscard]] TensorType large_tokens(DType dtype);

}  // namespace headroom
