#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/dtype.hpp"

namespace headroom::cublaslt {

/// What is done to the product before it is stored; the GELU is the tanh form.
enum class Epilogue : std::uint8_t { kNone, kGelu };

/// c[m, n] = epilogue(a[m, k] * b + bias[n]) in rows, with b[k, n], or b[n, k] where it is transposed; `batch` of them.
/// Innermost strides are 1; the others are in elements, and may be anything where an extent is 1.
struct ProductSpec {
  DType dtype = DType::kF32;  ///< of a, b, c and bias: f32, bf16 or f16
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_b = true;
  std::int64_t a_row = 0, b_row = 0, c_row = 0;
  std::int64_t batch = 1;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;
  bool has_bias = false;
  Epilogue epilogue = Epilogue::kNone;
};

/// A matrix product on the current GPU, its algorithm chosen by the library's heuristic: one for operands at multiples
/// of 16 bytes, and one for any others where those would not do. Sums are in f32; f32 products do not use TF32.
class Product {
 public:
  /// Throws Error where the library has no algorithm, or is not there.
  explicit Product(const ProductSpec& spec);
  ~Product();
  Product(Product&&) noexcept;
  Product& operator=(Product&&) noexcept;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// The same, but nothing where the library has no algorithm for the spec.
  [[nodiscard]] static std::optional<Product> find(const ProductSpec& spec);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// "algorithm 66"
  [[nodiscard]] std::string implementation() const;
  void run(void* stream, const void* a, const void* b, const void* bias, void* c, void* workspace) const;

 private:
  class Impl;
  explicit Product(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headroom::cublaslt
