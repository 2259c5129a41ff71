// The library speaks of columns: a row-major c[m, n] is its column-major [n, m]. So c = a * b^T is asked for as
// c' = b * a', with b read as [k, n] and transposed where it lies as [n, k], and its bias runs along the rows of c'.

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "kernels/cublaslt/library.cuh"
#include "kernels/cublaslt/product.hpp"

namespace headroom::cublaslt {
namespace {

/// What NVIDIA advises for Hopper, and enough for any other GPU.
constexpr std::size_t kMostWorkspaceBytes = std::size_t{32} << 20;
constexpr std::uint32_t kAlignedBytes = 16;

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  if (dtype == DType::kF16) return CUDA_R_16F;
  HR_CHECK(dtype == DType::kBF16);
  return CUDA_R_16BF;
}

cublasLtEpilogue_t epilogue_of(const ProductSpec& spec) {
  if (spec.epilogue == Epilogue::kGelu) return spec.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return spec.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// Owns one of the library's descriptions.
template <typename T>
class Handle {
 public:
  using Destroy = cublasStatus_t (*)(T);
  Handle(T value, Destroy destroy) noexcept : value_(value), destroy_(destroy) {}
  ~Handle() { static_cast<void>(destroy_(value_)); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  [[nodiscard]] T get() const noexcept { return value_; }

 private:
  T value_;
  Destroy destroy_;
};

cublasLtMatmulDesc_t make_operation(const ProductSpec& spec) {
  cublasLtMatmulDesc_t operation = nullptr;
  check(library().MatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    check(library().MatmulDescSetAttribute(operation, name, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
  return operation;
}

/// A matrix of `columns` rows of ours, `length` elements each.
cublasLtMatrixLayout_t make_layout(DType dtype, std::int64_t length, std::int64_t columns, std::int64_t row,
                                   std::int64_t batch, std::int64_t batch_stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  const std::int64_t step = columns == 1 ? length : row;
  check(library().MatrixLayoutCreate(&layout, data_type(dtype), static_cast<std::uint64_t>(length),
                                     static_cast<std::uint64_t>(columns), step));
  if (batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    check(library().MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    check(library().MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                                             sizeof batch_stride));
  }
  return layout;
}

int algorithm_number(const cublasLtMatmulAlgo_t& algorithm) {
  int number = 0;
  std::size_t written = 0;
  check(library().MatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &number, sizeof number, &written));
  return number;
}

}  // namespace

class Product::Impl {
 public:
  explicit Impl(const ProductSpec& spec)
      : spec_(spec),
        operation_(make_operation(spec), library().MatmulDescDestroy),
        b_(spec.transpose_b ? make_layout(spec.dtype, spec.k, spec.n, spec.b_row, spec.batch, spec.b_batch)
                            : make_layout(spec.dtype, spec.n, spec.k, spec.b_row, spec.batch, spec.b_batch),
           library().MatrixLayoutDestroy),
        a_(make_layout(spec.dtype, spec.k, spec.m, spec.a_row, spec.batch, spec.a_batch),
           library().MatrixLayoutDestroy),
        c_(make_layout(spec.dtype, spec.n, spec.m, spec.c_row, spec.batch, spec.c_batch),
           library().MatrixLayoutDestroy) {
    const auto element = static_cast<std::uint32_t>(size_of(spec.dtype));
    aligned_ = find_algorithm(kAlignedBytes);
    unaligned_ = find_algorithm(element);
  }

  /// Whether there is an algorithm for operands at any address.
  [[nodiscard]] bool is_complete() const { return aligned_.has_value() && unaligned_.has_value(); }

  [[nodiscard]] std::size_t workspace_bytes() const {
    return std::max(aligned_->workspaceSize, unaligned_->workspaceSize);
  }
  [[nodiscard]] std::string implementation() const {
    return fmt::format("algorithm {}", algorithm_number(aligned_->algo));
  }

  void run(void* stream, const void* a, const void* b, const void* bias, void* c, void* workspace) const {
    const std::scoped_lock lock(mutex_);  // the address of the bias is part of the description
    if (spec_.has_bias)
      check(library().MatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    std::uintptr_t bits = 0;
    for (const void* operand : {a, b, bias, static_cast<const void*>(c)})
      bits |= reinterpret_cast<std::uintptr_t>(operand);
    const auto& chosen = bits % kAlignedBytes == 0 ? *aligned_ : *unaligned_;
    const float one = 1.0F, zero = 0.0F;
    check(library().Matmul(library().handle, operation_.get(), &one, b, b_.get(), a, a_.get(), &zero, c, c_.get(), c,
                           c_.get(), &chosen.algo, workspace, chosen.workspaceSize, static_cast<cudaStream_t>(stream)));
  }

 private:
  /// The best algorithm for operands at multiples of `alignment`, or nothing.
  std::optional<cublasLtMatmulHeuristicResult_t> find_algorithm(std::uint32_t alignment) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(library().MatmulPreferenceCreate(&made));
    const Handle<cublasLtMatmulPreference_t> preference(made, library().MatmulPreferenceDestroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      check(library().MatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
    for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(name, alignment);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status =
        library().MatmulAlgoGetHeuristic(library().handle, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                         preference.get(), 1, &result, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || found == 0) return std::nullopt;
    check(status);
    return result;
  }

  ProductSpec spec_;
  mutable std::mutex mutex_;
  Handle<cublasLtMatmulDesc_t> operation_;
  Handle<cublasLtMatrixLayout_t> b_, a_, c_;
  std::optional<cublasLtMatmulHeuristicResult_t> aligned_, unaligned_;
};

Product::Product(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

Product::Product(const ProductSpec& spec) : impl_(std::make_unique<Impl>(spec)) {
  if (!impl_->is_complete())
    fail("cuBLAS has no algorithm for a {} product of {} x {} by {} x {}, {} of them", spec.dtype, spec.m, spec.k,
         spec.k, spec.n, spec.batch);
}

Product::~Product() = default;
Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;

std::optional<Product> Product::find(const ProductSpec& spec) {
  auto impl = std::make_unique<Impl>(spec);
  if (!impl->is_complete()) return std::nullopt;
  return Product(std::move(impl));
}

std::size_t Product::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }
std::string Product::implementation() const { return impl_->implementation(); }
void Product::run(void* stream, const void* a, const void* b, const void* bias, void* c, void* workspace) const {
  impl_->run(stream, a, b, bias, c, workspace);
}

}  // namespace headroom::cublaslt
