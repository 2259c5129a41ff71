// The library is column-major: a row-major c[m, n] is its column-major [n, m]. So c = a * b^T is requested as c' =
// b * a'. There b is read as [k, n], transposed if it is stored as [n, k], and the bias runs along the rows of c'.
// The library's scales of A are thus the scales of b here, one for each row of c'.

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/vendor/cublaslt/gemm.hpp"
#include "kernels/vendor/cublaslt/library.cuh"
#include "kernels/vendor/cublaslt/rounding.hpp"

namespace headroom::cublaslt {
namespace {

/// One of the library's algorithms for a GEMM.
struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes = 0;
};

/// NVIDIA's recommendation for Hopper, and enough for any other GPU.
constexpr std::size_t kMostWorkspaceBytes = std::size_t{32} << 20;
constexpr std::uint32_t kAlignedBytes = 16;
constexpr int kCandidates = 8;

/// A tile, and how the library's kernel is distributed over several tiles. The library's heuristic leaves these
/// out: for FP8 GEMMs with a scale for each row it names one algorithm alone. (Rows and columns of the tile are
/// those of its column-major result, in the library's names.)
struct Variant {
  cublasLtMatmulTile_t tile;
  std::uint32_t option;
  cublasLtClusterShape_t cluster;
};
/// Chosen from the first 400 of 3,312 combinations that the library takes of 634 tiles, 4 options and 10 clusters,
/// on 22 GEMMs of tokens at 1024x1024 and 512x512 (docs/gpu_facts.md). The best of these and of the heuristic's own
/// is at most 0.4% slower than the best of the 400. The heuristic's own is up to 40% slower, if rows fill few tiles
/// of 128.
constexpr Variant kVariants[] = {{CUBLASLT_MATMUL_TILE_128x128, 3, CUBLASLT_CLUSTER_SHAPE_1x2x1},
                                 {CUBLASLT_MATMUL_TILE_128x128, 1, CUBLASLT_CLUSTER_SHAPE_2x1x1},
                                 {CUBLASLT_MATMUL_TILE_96x128, 2, CUBLASLT_CLUSTER_SHAPE_1x2x1},
                                 {CUBLASLT_MATMUL_TILE_96x128, 0, CUBLASLT_CLUSTER_SHAPE_2x1x1},
                                 {CUBLASLT_MATMUL_TILE_128x96, 3, CUBLASLT_CLUSTER_SHAPE_1x2x1}};

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  if (dtype == DType::kF16) return CUDA_R_16F;
  if (dtype == DType::kF8E4M3) return CUDA_R_8F_E4M3;
  if (dtype == DType::kF8E5M2) return CUDA_R_8F_E5M2;
  HR_CHECK(dtype == DType::kBF16);
  return CUDA_R_16BF;
}

cublasLtEpilogue_t epilogue_of(const GemmSpec& spec) {
  if (spec.epilogue == Epilogue::kGelu) return spec.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return spec.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// Owns one of the library's descriptions.
template <typename T>
using Handle = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(library().MatmulDescSetAttribute(operation, name, &value, sizeof value));
}

cublasLtMatmulDesc_t make_operation(const GemmSpec& spec) {
  cublasLtMatmulDesc_t operation = nullptr;
  check(library().MatmulDescCreate(&operation, spec.rounds_to_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                   CUDA_R_32F));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, spec.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, spec.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec));
  if (spec.fast_sums) set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  if (spec.has_scales) {
    constexpr auto kRows = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    // The heuristic reads no scale, but how an address is aligned.
    const void* const somewhere = reinterpret_cast<const void*>(std::uintptr_t{256});
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kRows);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kRows);
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
  }
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

std::string to_hex(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const std::byte byte : std::as_bytes(std::span(&algorithm, 1)))
    text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::optional<cublasLtMatmulAlgo_t> from_hex(std::string_view text) {
  cublasLtMatmulAlgo_t algorithm{};
  const auto bytes = std::as_writable_bytes(std::span(&algorithm, 1));
  if (text.size() != 2 * bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::string_view digits = text.substr(2 * i, 2);
    unsigned value = 0;
    if (std::from_chars(digits.data(), digits.data() + 2, value, 16).ptr != digits.data() + 2) return std::nullopt;
    bytes[i] = static_cast<std::byte>(value);
  }
  return algorithm;
}

}  // namespace

class Gemm::Impl {
 public:
  Impl(const GemmSpec& spec, const DeviceTarget& target)
      : spec_(spec),
        backend_(*target.backend),
        context_(target.backend->context<Context>()),
        operation_(make_operation(spec), library().MatmulDescDestroy),
        b_(spec.transpose_b ? make_layout(spec.b_dtype(), spec.k, spec.n, spec.b_row, spec.batch, spec.b_batch)
                            : make_layout(spec.b_dtype(), spec.n, spec.k, spec.b_row, spec.batch, spec.b_batch),
           library().MatrixLayoutDestroy),
        a_(spec.transpose_a ? make_layout(spec.dtype, spec.m, spec.k, spec.a_row, spec.batch, spec.a_batch)
                            : make_layout(spec.dtype, spec.k, spec.m, spec.a_row, spec.batch, spec.a_batch),
           library().MatrixLayoutDestroy),
        c_(make_layout(spec.c_dtype, spec.n, spec.m, spec.c_row, spec.batch, spec.c_batch),
           library().MatrixLayoutDestroy),
        added_(spec.has_residual ? make_layout(spec.c_dtype, spec.n, spec.m, spec.residual_row, 1, 0) : nullptr,
               library().MatrixLayoutDestroy) {
    find_aligned(*target.backend->context<cuda::TunerOf<version_text>>(), target.new_work);
    if (spec.dtype == DType::kF8E4M3) return;
    const std::vector<Algorithm> found = candidates(static_cast<std::uint32_t>(size_of(spec.dtype)), 1);
    if (!found.empty()) unaligned_ = found.front();
  }

  /// Whether there is an algorithm for operands at any address that the dtype takes.
  [[nodiscard]] bool is_complete() const {
    return aligned_.has_value() && (spec_.dtype == DType::kF8E4M3 || unaligned_.has_value());
  }

  [[nodiscard]] std::size_t workspace_bytes() const {
    return std::max(aligned_->workspace_bytes, unaligned_ ? unaligned_->workspace_bytes : 0);
  }
  [[nodiscard]] std::string implementation() const {
    return fmt::format("algorithm {}{}", algorithm_number(aligned_->algorithm), found_as_);
  }

  void run(void* stream, const GemmOperands& operands, void* workspace) const {
    HR_CHECK(operands.residual == nullptr || operands.residual != operands.c || spec_.c_dtype == DType::kF32);
    std::uintptr_t bits = 0;
    for (const void* operand :
         {operands.a, operands.b, operands.bias, operands.residual, static_cast<const void*>(operands.c)})
      bits |= reinterpret_cast<std::uintptr_t>(operand);
    const bool is_aligned = bits % kAlignedBytes == 0;
    if (!is_aligned && !unaligned_)
      fail("a product in {} needs operands at multiples of {} bytes", spec_.dtype, kAlignedBytes);
    launch(static_cast<cudaStream_t>(stream), operands, is_aligned ? *aligned_ : *unaligned_, workspace);
  }

 private:
  void launch(cudaStream_t stream, const GemmOperands& operands, const Algorithm& chosen, void* workspace) const {
    const std::scoped_lock lock(mutex_);  // addresses of bias and scales are part of the description
    if (spec_.has_bias) set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    if (spec_.has_scales) {
      set(operation_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.b_scale);
      set(operation_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.a_scale);
    }
    const float one = 1.0F, residual = spec_.has_residual ? 1.0F : 0.0F;
    check(library().Matmul(context_->handle(), operation_.get(), &one, operands.b, b_.get(), operands.a, a_.get(),
                           &residual, spec_.has_residual ? operands.residual : operands.c, added(), operands.c,
                           c_.get(), &chosen.algorithm, workspace, chosen.workspace_bytes, stream));
  }

  /// The layout of the residual, or of c: the library requires one even if nothing is added.
  [[nodiscard]] cublasLtMatrixLayout_t added() const { return spec_.has_residual ? added_.get() : c_.get(); }

  /// Chooses the heuristic's first algorithm, or the fastest of its first ones if that is measured, now or earlier. In
  /// FP8 the library lists algorithms that it refuses at launch, so all are tried if there is memory for it.
  void find_aligned(tune::Tuner& search, NewWork new_work) {
    const bool is_tried = spec_.dtype == DType::kF8E4M3, is_large = is_worth_searching(spec_);
    if (!is_tried && !is_large) return take_first();
    const tune::Work work = trial_of(spec_);
    const bool is_untimed = new_work == NewWork::kTakeOver && !search.find_known(work);
    if (is_untimed && take_over(search, work)) return;
    if (is_untimed && !is_tried) return take_first();
    std::vector<Algorithm> found = candidates(kAlignedBytes, kCandidates);
    if (found.empty()) return;
    if (is_untimed) {
      const auto first = std::ranges::find_if(found, [&](const Algorithm& each) { return runs(search, work, each); });
      if (first != found.end()) aligned_ = *first;
      return;
    }
    if (is_large) add_variants(found);
    if (found.size() == 1 && !is_tried) {
      aligned_ = found.front();
      return;
    }
    std::vector<tune::Candidate> named;
    for (const Algorithm& each : found) named.push_back({to_hex(each.algorithm), each.workspace_bytes});
    const std::optional<tune::Choice> choice = search.find_fastest(
        work, named, [&](std::size_t index, void* stream, std::span<void* const> operands, void* workspace) {
          launch(static_cast<cudaStream_t>(stream), operands_of_trial(spec_, operands), found[index], workspace);
        });
    if (!choice) return;
    aligned_ = found[choice->index];
    if (choice->is_measured && found.size() > 1) found_as_ = fmt::format(", fastest of {}", found.size());
  }

  void take_first() {
    const std::vector<Algorithm> found = candidates(kAlignedBytes, 1);
    if (!found.empty()) aligned_ = found.front();
  }

  [[nodiscard]] bool runs(tune::Tuner& search, const tune::Work& work, const Algorithm& algorithm) const {
    return search.accepts(work, {to_hex(algorithm.algorithm), algorithm.workspace_bytes},
                          [&](std::size_t /*index*/, void* stream, std::span<void* const> operands, void* workspace) {
                            launch(static_cast<cudaStream_t>(stream), operands_of_trial(spec_, operands), algorithm,
                                   workspace);
                          });
  }

  /// The fastest algorithm of the nearest tuned size (other rows), if the library takes it for these rows, too; the
  /// library is asked. Algorithms may be kept and used again with the same version of the library.
  bool take_over(tune::Tuner& search, const tune::Work& work) {
    for (const tune::TunedSize& tuned : search.find_nearest(work)) {
      const std::optional<cublasLtMatmulAlgo_t> algorithm = from_hex(tuned.algorithm);
      if (!algorithm) continue;
      const std::optional<Algorithm> taken = check_algorithm(*algorithm);
      if (!taken || !runs(search, work, *taken)) continue;
      aligned_ = taken;
      found_as_ = tune::taken_over_from(tuned.size);
      return true;
    }
    return false;
  }

  /// Whether algorithms are tried for roundings between the sums and the residual: number 23 of cuBLASLt 13.0 has one
  /// in sums of two terms. Longer sums are not tried.
  [[nodiscard]] bool tries_rounding() const {
    constexpr std::int64_t kMostTerms = 8;
    return spec_.has_residual && spec_.k <= kMostTerms && spec_.epilogue == Epilogue::kNone &&
           spec_.dtype == spec_.c_dtype && size_of(spec_.dtype) == 2;
  }
  [[nodiscard]] bool rounds_once(const Algorithm& algorithm) const {
    return backend_.context<RoundingTrials>()->rounds_once(
        spec_, to_hex(algorithm.algorithm), algorithm.workspace_bytes,
        [&](void* stream, const GemmOperands& operands, void* workspace) {
          launch(static_cast<cudaStream_t>(stream), operands, algorithm, workspace);
        });
  }

  /// The algorithm and its workspace for this GEMM; nothing if the library refuses it, the workspace is too large, or
  /// it rounds twice.
  [[nodiscard]] std::optional<Algorithm> check_algorithm(const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result{};
    if (library().MatmulAlgoCheck(context_->handle(), operation_.get(), b_.get(), a_.get(), added(), c_.get(),
                                  &algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > kMostWorkspaceBytes)
      return std::nullopt;
    const Algorithm checked{algorithm, result.workspaceSize};
    return tries_rounding() && !rounds_once(checked) ? std::nullopt : std::optional(checked);
  }

  /// Adds the variants in kVariants of the heuristic's first algorithm that the library accepts.
  void add_variants(std::vector<Algorithm>& found) const {
    for (const Variant& variant : kVariants) {
      cublasLtMatmulAlgo_t algorithm = found.front().algorithm;
      const auto tile = static_cast<std::uint32_t>(variant.tile);
      const auto cluster = static_cast<std::uint16_t>(variant.cluster);
      const bool is_set =
          library().MatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile) == 0 &&
          library().MatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &variant.option,
                                                 sizeof variant.option) == 0 &&
          library().MatmulAlgoConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster,
                                                 sizeof cluster) == 0;
      const auto is_same = [&](const Algorithm& other) { return to_hex(other.algorithm) == to_hex(algorithm); };
      if (!is_set || std::ranges::any_of(found, is_same)) continue;
      if (const std::optional<Algorithm> taken = check_algorithm(algorithm)) found.push_back(*taken);
    }
  }

  /// The heuristic's best algorithms for operands at multiples of `alignment`, best first, without those that round
  /// twice.
  [[nodiscard]] std::vector<Algorithm> candidates(std::uint32_t alignment, int most) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(library().MatmulPreferenceCreate(&made));
    const Handle<cublasLtMatmulPreference_t> preference(made, library().MatmulPreferenceDestroy);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      check(library().MatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
    // Parts of a sum are joined in f32, and then rounded once.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const std::uint32_t made_alignment = std::max(alignment, static_cast<std::uint32_t>(size_of(spec_.c_dtype)));
    for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES})
      prefer(name, alignment);
    for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(name, made_alignment);
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
    int found = 0;
    const cublasStatus_t status = library().MatmulAlgoGetHeuristic(
        context_->handle(), operation_.get(), b_.get(), a_.get(), added(), c_.get(), preference.get(),
        tries_rounding() ? kCandidates : most, results.data(), &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || found == 0) return {};
    check(status);
    std::vector<Algorithm> list;
    for (const cublasLtMatmulHeuristicResult_t& result : std::span(results).first(static_cast<std::size_t>(found))) {
      const Algorithm algorithm{result.algo, result.workspaceSize};
      if (list.size() == static_cast<std::size_t>(most)) break;
      if (result.state == CUBLAS_STATUS_SUCCESS && (!tries_rounding() || rounds_once(algorithm)))
        list.push_back(algorithm);
    }
    return list;
  }

  GemmSpec spec_;
  Backend& backend_;
  std::shared_ptr<Context> context_;
  mutable std::mutex mutex_;
  Handle<cublasLtMatmulDesc_t> operation_;
  Handle<cublasLtMatrixLayout_t> b_, a_, c_, added_;
  std::optional<Algorithm> aligned_, unaligned_;
  /// ", fastest of 8" if measured, or the size it was taken over from; empty: the heuristic's choice
  std::string found_as_;
};

std::optional<Gemm> Gemm::find(const GemmSpec& spec, const DeviceTarget& target) {
  auto impl = std::make_shared<const Impl>(spec, target);
  if (!impl->is_complete()) return std::nullopt;
  return Gemm(std::move(impl));
}

Gemm::Gemm(const GemmSpec& spec, const DeviceTarget& target) : impl_(std::make_shared<const Impl>(spec, target)) {
  if (!impl_->is_complete())
    fail("cuBLAS has no algorithm for a {} product of {} x {} by {} x {}, {} of them", spec.dtype, spec.m, spec.k,
         spec.k, spec.n, spec.batch);
}

std::size_t Gemm::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }
std::string Gemm::implementation() const { return impl_->implementation(); }
void Gemm::run(void* stream, const GemmOperands& operands, void* workspace) const {
  impl_->run(stream, operands, workspace);
}

}  // namespace headroom::cublaslt
