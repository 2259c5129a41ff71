// linear with an activation, in bf16 on AMX tiles: y[..., j] = activation(sum_i x[..., i] weight[j, i] + bias[j])
//
// Shapes   x[..., k], weight[n, k], bias[n] or none -> y[..., n]; k and n multiples of 32, at least 32 rows.
// Dtypes   bf16 with f32 sums, a bias in f32 or bf16; one rounding, of the activation.
// Layout   x and y: innermost stride 1. The weight, which must be one of the checkpoint, is packed once into tiles.
// Bytes    (m*k + n*k + n + m*n) * 2
// FLOPs    2*m*n*k, and the activation's on the vector unit
//
// The sums of 32 rows by 32 columns fill four tiles; the vector unit activates them from 4 KB of the first-level cache
// as soon as they are made. Rows go by pieces of 64, for each of which all weights are read: they must fit in the
// second-level cache. Up to k = 224 a piece's rows and the weights of 32 columns also fit in the first-level one.
//
// Tried, at 5440x192x576 with an activation of 10 cycles for 16 elements: activating one block between the products of
// the next, and pieces of 160 rows; both take as long.

#include "kernels/activation_rows.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_rows.hpp"
#include "kernels/parallel.hpp"
#include "kernels/support.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/divide_up.hpp"
#include "base/error.hpp"
#include "kernels/activation_avx512_inl.hpp"
#include "kernels/amx_tile_shape_inl.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,fma")
namespace headroom::amx {
namespace {

using Bits = std::uint16_t;  // of a bf16

constexpr std::int64_t kBlock = 32;      ///< rows and columns of a block, and elements of k in a product
constexpr std::int64_t kTile = 512;      ///< bf16 elements of a tile
constexpr std::int64_t kPieceRows = 64;  ///< two blocks

/// What the pieces of a product have in common.
struct Product {
  std::int64_t n, k;
  std::int64_t x_stride, y_stride;  ///< from one row to the next, in elements
  const Bits* weight;               ///< [n / 32][k / 32][2] tiles of [16 pairs of k][16 columns][2]
  const void* bias;                 ///< or null
  DType bias_dtype;

  [[nodiscard]] __m512 bias_of(std::int64_t column) const {
    if (bias == nullptr) return _mm512_setzero_ps();
    if (bias_dtype == DType::kF32) return _mm512_loadu_ps(static_cast<const float*>(bias) + column);
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const Bits*>(bias) + column));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
};

/// y of up to 32 rows by 32 columns, from their sums.
template <Activation kActivation>
void activate(const Product& product, std::int64_t column, std::int64_t rows, const float* sums, Bits* y) {
  const __m512 bias0 = product.bias_of(column), bias1 = product.bias_of(column + 16);
  for (std::int64_t row = 0; row < rows; ++row, sums += kBlock, y += product.y_stride) {
    const __m512 first = avx512::activation_of_sum<kActivation>(_mm512_add_ps(_mm512_load_ps(sums), bias0));
    const __m512 second = avx512::activation_of_sum<kActivation>(_mm512_add_ps(_mm512_load_ps(sums + 16), bias1));
    const __m512bh packed = _mm512_cvtne2ps_pbh(second, first);
    __m512i bits;
    std::memcpy(&bits, &packed, sizeof bits);
    _mm512_storeu_si512(y, bits);
  }
}

/// y for up to 64 rows of x. `last_rows` are those of the last block where it is not whole, copied to where there is
/// room for 32; `sums` is for a block.
template <Activation kActivation>
void make_piece(const Product& product, std::int64_t rows, const Bits* x, const Bits* last_rows, Bits* y, float* sums) {
  const std::int64_t steps = product.k / kBlock;
  for (std::int64_t column = 0; column < product.n; column += kBlock) {
    const Bits* const weight = product.weight + column / kBlock * steps * 2 * kTile;
    for (std::int64_t row = 0; row < rows; row += kBlock) {
      const bool whole = rows - row >= kBlock;
      const Bits* const from = whole ? x + row * product.x_stride : last_rows;
      const std::int64_t stride = whole ? product.x_stride : product.k;
      order_memory();
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      for (std::int64_t step = 0; step < steps; ++step) {
        _tile_loadd(6, weight + step * 2 * kTile, 64);
        _tile_loadd(4, from + step * kBlock, 2 * stride);
        _tile_loadd(7, weight + (step * 2 + 1) * kTile, 64);
        _tile_loadd(5, from + step * kBlock + 16 * stride, 2 * stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(0, sums, 4 * kBlock);
      _tile_stored(1, sums + 16, 4 * kBlock);
      _tile_stored(2, sums + 16 * kBlock, 4 * kBlock);
      _tile_stored(3, sums + 16 * kBlock + 16, 4 * kBlock);
      order_memory();
      activate<kActivation>(product, column, std::min(kBlock, rows - row), sums, y + row * product.y_stride + column);
    }
  }
}

/// What one thread needs: a block of sums, and the rows of a last block.
std::int64_t thread_bytes(std::int64_t k) { return kBlock * kBlock * 4 + kBlock * k * 2; }

void make_pieces(const Product& product, Activation activation, const RowPlan& rows, std::int64_t begin,
                 std::int64_t end, const Bits* x, Bits* y, std::byte* scratch) {
  HR_CHECK(activation != Activation::kNone);  // supports() declines it
  const TileShape shape;
  auto* const sums = reinterpret_cast<float*>(scratch);
  auto* const last_rows = reinterpret_cast<Bits*>(scratch + kBlock * kBlock * 4);
  const std::int64_t pieces = divide_up(rows.rows.extent, kPieceRows);
  for (std::int64_t i = begin; i < end; ++i) {
    const RowPlan::Offsets offsets = rows.offsets(i / pieces);
    const std::int64_t first = i % pieces * kPieceRows;
    const std::int64_t count = std::min(kPieceRows, rows.rows.extent - first);
    const Bits* const from = x + offsets.x + first * product.x_stride;
    // Those behind the last row are whatever lies there: nobody reads their sums.
    for (std::int64_t row = count / kBlock * kBlock; row < count; ++row)
      std::copy_n(from + row * product.x_stride, product.k, last_rows + row % kBlock * product.k);
    Bits* const to = y + offsets.y + first * product.y_stride;
    with_activation(activation, [&](auto form) { make_piece<form()>(product, count, from, last_rows, to, sums); });
  }
}

void pack_weight(std::int64_t n, std::int64_t k, const Bits* dense, Bits* packed) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t tile = (j / 32 * (k / 32) + i / 32) * 2 + j % 32 / 16;
      packed[tile * kTile + i % 32 / 2 * 32 + j % 16 * 2 + i % 2] = dense[j * k + i];
    }
}

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES
#endif

namespace headroom {
namespace {

constexpr std::size_t kMostWeightBytes = std::size_t{1} << 20;

class PreparedAmxLinear final : public PreparedKernel {
 public:
  PreparedAmxLinear(const OpSpec& spec, RowPlan rows, int threads)
      : n_(spec.inputs[1].shape[0]),
        k_(spec.inputs[1].shape[1]),
        bias_(spec.inputs.size() > 2 ? spec.inputs[2].dtype : DType::kF32),
        has_bias_(spec.inputs.size() > 2),
        activation_(parse_activation(spec.attributes.get_text("activation"))),
        rows_(std::move(rows)),
        threads_(threads),
        packed_{{1, "amx_tiles", static_cast<std::size_t>(n_ * k_ * 2)}} {}

  [[nodiscard]] std::string implementation() const override { return "intrinsics:amx_bf16"; }
  [[nodiscard]] std::span<const PackedWeight> packed_weights() const override { return packed_; }
#if defined(__x86_64__)
  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(threads_ * amx::thread_bytes(k_));
  }
  void pack(Stream& /*stream*/, std::size_t /*index*/, const void* dense, void* packed) const override {
    amx::pack_weight(n_, k_, static_cast<const amx::Bits*>(dense), static_cast<amx::Bits*>(packed));
  }
  void launch(const LaunchArguments& arguments) const override {
    const amx::Product product{.n = n_,
                               .k = k_,
                               .x_stride = rows_.rows.x_stride,
                               .y_stride = rows_.rows.y_stride,
                               .weight = static_cast<const amx::Bits*>(arguments.inputs[1]),
                               .bias = has_bias_ ? arguments.inputs[2] : nullptr,
                               .bias_dtype = bias_};
    const std::int64_t pieces = rows_.count() * divide_up(rows_.rows.extent, amx::kPieceRows);
    parallel_for(threads_, pieces, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      amx::make_pieces(product, activation_, rows_, begin, end, static_cast<const amx::Bits*>(arguments.inputs[0]),
                       static_cast<amx::Bits*>(arguments.outputs[0]),
                       static_cast<std::byte*>(arguments.scratch) + thread * amx::thread_bytes(k_));
    });
  }
#else
  void launch(const LaunchArguments& /*arguments*/) const override {
    HR_CHECK(false);  // supports() declines everywhere else
  }
#endif

 private:
  std::int64_t n_, k_;
  DType bias_;
  bool has_bias_;
  Activation activation_;
  RowPlan rows_;
  int threads_;
  std::vector<PackedWeight> packed_;
};

class AmxLinear final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "amx.linear"; }
  [[nodiscard]] Op op() const override { return Op::kLinear; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (Support rejection = check_amx_op(op(), spec, target)) return rejection;
    if (spec.attributes.get_text("activation") == "none") return Rejection{"is for products with an activation"};
    if (spec.is_weight.size() < 2 || !spec.is_weight[1]) return Rejection{"packs the weight, which here changes"};
    const Shape& weight = spec.inputs[1].shape;
    if (weight.numel() == 0) return Rejection{"an operand has no elements"};
    if (weight[0] % 32 != 0 || weight[1] % 32 != 0)
      return Rejection{fmt::format("takes weights of multiples of 32, not {}", weight)};
    const TensorType& type = spec.inputs[1];
    if (type.bytes() > kMostWeightBytes)
      return Rejection{fmt::format("takes weights of up to {} KiB, half of a core's cache, not {}",
                                   kMostWeightBytes >> 10, type.bytes() >> 10)};
    const std::int64_t rows = spec.inputs[0].shape.numel() / weight[1];
    if (rows < 32) return Rejection{fmt::format("takes 32 rows or more, not {}", rows)};
    return std::nullopt;
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int input) const override {
    return input == 0 ? StrideRule::kInnerDense : StrideRule::kDense;
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kBF16; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    return std::make_unique<PreparedAmxLinear>(spec, plan_rows(inputs[0], outputs[0]), target.threads);
  }
};

}  // namespace

const Kernel& amx_linear() {
  static const AmxLinear kernel;
  return kernel;
}

}  // namespace headroom
