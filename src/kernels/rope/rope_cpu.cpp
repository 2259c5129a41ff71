// rope:          y[2i]     = x[2i] cos[s, i] - x[2i+1] sin[s, i]        (RoFormer, Su et al. 2021, equation 34)
//                y[2i + 1] = x[2i] sin[s, i] + x[2i+1] cos[s, i]
// qk_norm_rope:  rope(x / sqrt(mean(x^2) + eps) * weight), mean over one head; x[b, s, heads*d] -> y[b, heads, s, d]
//
// Dtypes   x, y f32 or bf16; weight the same or f32; cos, sin[s, d/2] f32; f32 arithmetic, one rounding.
// Strides  rows of d with stride 1; alignment none.
// Bytes    x read and y written once; a row of cos and sin serves all heads of a position (qk_norm_rope), or comes from
//          cache.
// FLOPs    3 (rope) and 7 an element: bound by memory.
//
// Cosines and sines are loaded once per position (for qk_norm_rope multiplied by the weight) and rotate all heads.
// Rope takes a block of positions head by head, so that the block's part of a head, which is contiguous, is read and
// written in one piece. Share of a copy's rate beyond the caches for 24 heads of 128 in bf16 and f32, two cores with
// AMX, variants alternating:
//   position by position, each with all its heads    0.67 to 0.70  0.63 to 0.75
//   as here                                          0.90 to 1.04  1.06 to 1.07
//
// For qk_norm_rope memory takes 18 cycles a core for 32 elements in bf16, and arithmetic 9, so memory must never
// wait. Norms of a block of positions are computed together (one by one, a head of 64 in bf16 takes 48 cycles),
// while the heads of the previous block are rotated. Share of a copy's rate for 24 heads of 128 in bf16 and f32, two
// cores:
//   norms of a block, then its rotations, prefetch of the next in halves, blocks of 24 KiB   0.80  0.90
//   as here, blocks of 24 KiB, so that 4 rows of a head are written in one piece             0.88  0.89
//   as here, blocks of 12 KiB                                                                0.95  0.94
//   as here, blocks of 6 KiB                                                                 0.96  0.93
// Rounding to bf16 by an addition changes nothing here.
//
// Within the caches, when a matmul has just left x in another core's caches, a prefetch distance of 2 KiB saves 40%
// of the time: 0.49 ms instead of 0.86 for a query and a key of 20 images, 272 positions and 3 heads of 64 in bf16,
// two cores, and 0.67 instead of 1.16 in f32. Prefetching only the next position, 384 bytes ahead, saves half of
// that.

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/tensors/divide_up.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/rope/rope_positions.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope/rope_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_ROPE_ROWS
#define HEADROOM_KERNELS_ROPE_ROWS
namespace headroom {
namespace {

/// The bound parameters of both kernels.
struct RopeRows : RopePositions {
  DType dtype;
  DType weight_dtype;  ///< of qk_norm_rope, like the next two
  bool norm;           ///< this is qk_norm_rope
  double eps;

  /// Positions of a block. For qk_norm_rope as many as 6 KiB hold, so that two blocks, their rotation coefficients
  /// and the prefetched data stay in the first-level cache; for rope as many as make a head's part 4 KiB.
  [[nodiscard]] std::int64_t block() const {
    const std::int64_t positions = norm ? (6 << 10) / position_bytes() : (4 << 10) * heads / position_bytes();
    return std::clamp<std::int64_t>(positions, 1, kMostPositions);
  }
  /// The prefetch distance from the head of x whose norm is computed, in elements: whole positions, of about 2 KiB
  /// together.
  [[nodiscard]] std::int64_t ahead() const {
    constexpr std::int64_t kBytes = 2 << 10;
    if (loop.rank == 0) return 0;
    return loop.outer[loop.rank - 1].strides[0] * std::max<std::int64_t>(1, kBytes / position_bytes());
  }
  /// Floats of a thread's scratch, for qk_norm_rope only: the factors of each position of a block, then the norms of
  /// the heads of two blocks.
  [[nodiscard]] std::int64_t turn_floats() const { return 4 * whole_vectors(loop.inner.extent / 2); }
  [[nodiscard]] std::int64_t norm_floats() const { return whole_vectors(block() * heads); }
  [[nodiscard]] std::int64_t scratch() const { return norm ? block() * turn_floats() + 2 * norm_floats() : 0; }
  [[nodiscard]] std::int64_t position_bytes() const {
    return heads * loop.inner.extent * static_cast<std::int64_t>(size_of(dtype));
  }
  static constexpr std::int64_t kMostPositions = 16;
  static std::int64_t whole_vectors(std::int64_t floats) {
    constexpr std::int64_t kMaxLanes = 16;
    return round_up(floats, kMaxLanes);
  }
};

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// The coefficients that rotate the pairs of a position: y_even = x_even a - x_odd b, y_odd = x_even c + x_odd e.
/// For rope a and e are the cosines, b and c the sines; qk_norm_rope's weight is multiplied in.
struct Turn {
  Vector a;
  Vector b;
  Vector c;
  Vector e;
};

HWY_INLINE Pairs turn(Pairs x, const Turn& by) {
  return {hn::NegMulAdd(x.odd, by.b, hn::Mul(x.even, by.a)), hn::MulAdd(x.even, by.c, hn::Mul(x.odd, by.e))};
}

/// The turns of one position, for `pairs` pairs.
template <bool kNorm>
class Turns {
 public:
  HWY_INLINE Turns(const float* cos, const float* sin, float* scratch) : cos_(cos), sin_(sin), scratch_(scratch) {}

  /// With a weight, must be called before at().
  template <class S>
  HWY_INLINE void multiply(std::int64_t pairs, const S* weight) {
    if constexpr (kNorm) {
      for (std::int64_t i = 0; i < pairs; i += lanes()) {
        const std::int64_t count = HWY_MIN(lanes(), pairs - i);
        const Pairs scale = load_pairs(weight + 2 * i, count);
        const Vector c = load(cos_ + i, count);
        const Vector s = load(sin_ + i, count);
        store_all(hn::Mul(scale.even, c), scratch_ + 4 * i);
        store_all(hn::Mul(scale.odd, s), scratch_ + 4 * i + lanes());
        store_all(hn::Mul(scale.even, s), scratch_ + 4 * i + 2 * lanes());
        store_all(hn::Mul(scale.odd, c), scratch_ + 4 * i + 3 * lanes());
      }
    }
  }

  HWY_INLINE Turn at(std::int64_t i, std::int64_t count) const {
    if constexpr (kNorm) {
      const float* from = scratch_ + 4 * i;
      return {load_all(from), load_all(from + lanes()), load_all(from + 2 * lanes()), load_all(from + 3 * lanes())};
    }
    const Vector c = load(cos_ + i, count);
    const Vector s = load(sin_ + i, count);
    return {c, s, s, c};
  }

 private:
  const float* cos_;
  const float* sin_;
  float* scratch_;
};

/// The sum of squares of a head of 2 `pairs`. `ahead` is prefetched.
template <class T>
HWY_INLINE float sum_squares(std::int64_t pairs, const T* head, const T* ahead) {
  const Float d;
  Vector even = hn::Zero(d);
  Vector odd = hn::Zero(d);
  for (std::int64_t i = 0; i < 2 * pairs; i += kGroup) {
    prefetch_group(ahead + i);
    const Pairs v = load_group<T>(head + i, HWY_MIN(kGroup, 2 * pairs - i));
    even = hn::MulAdd(v.even, v.even, even);
    odd = hn::MulAdd(v.odd, v.odd, odd);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
}

/// sums[i] = 1 / sqrt(sums[i] / n + eps)
HWY_INLINE void invert_norms(std::int64_t count, std::int64_t n, float eps, float* sums) {
  const Float d;
  const Vector per_element = hn::Set(d, static_cast<float>(1.0 / static_cast<double>(n)));
  for (std::int64_t i = 0; i < count; i += lanes()) {
    const Vector mean = hn::MulAdd(hn::LoadU(d, sums + i), per_element, hn::Set(d, eps));
    hn::StoreU(hn::Div(hn::Set(d, 1.0F), hn::Sqrt(mean)), d, sums + i);
  }
}

/// Rotates one head. `inverse` is read by qk_norm_rope only; for rope, `ahead` is prefetched if y uses non-temporal
/// stores.
template <bool kNorm, class T, class Y>
HWY_INLINE void turn_head(std::int64_t pairs, const T* from, Y to, float inverse, const Turns<kNorm>& turns,
                          const std::type_identity_t<T>* ahead = nullptr) {
  const Vector scale = hn::Set(Float(), inverse);
  const auto result = [&](std::int64_t i, std::int64_t count) HWY_ATTR {
    Pairs v = load_pairs(from + 2 * i, count);
    if constexpr (kNorm) v = {hn::Mul(v.even, scale), hn::Mul(v.odd, scale)};
    return turn(v, turns.at(i, count));
  };
  std::int64_t i = 0;
  for (; i + lanes() <= pairs; i += lanes()) {
    if constexpr (Destination<Y>::kPastCache && !kNorm) prefetch_group(ahead + 2 * i);
    store_all_pairs(result(i, lanes()), to + 2 * i);
  }
  if (i < pairs) store_pairs(result(i, pairs - i), to + 2 * i, pairs - i);
}

/// Positions that are worked on together: where each operand starts. Y is T* or PastCache<T>. By operand, since
/// compilers compute the four of a position as one vector, which waits for the cursor's last writes.
template <class T, class Y>
struct RopeBlock {
  std::int64_t count;
  std::array<const T*, RopeRows::kMostPositions> x;
  std::array<const float*, RopeRows::kMostPositions> cos;
  std::array<const float*, RopeRows::kMostPositions> sin;
  std::array<Y, RopeRows::kMostPositions> y;
  float* inverses;  ///< of the norms of all their heads, position by position; for qk_norm_rope

  /// Takes the next `positions`.
  HWY_INLINE void take(RowCursor<4>& cursor, std::int64_t positions, const RowPart& part) {
    const std::size_t tables = part.arguments.inputs.size() - 2;
    count = positions;
    for (std::int64_t k = 0; k < count; ++k, cursor.next()) {
      x[k] = part.input<T>(0) + cursor.offset(0);
      cos[k] = part.input<float>(tables) + cursor.offset(1);
      sin[k] = part.input<float>(tables + 1) + cursor.offset(2);
      y[k] = Destination<Y>::at(part.output(0)) + cursor.offset(3);
    }
  }
};

/// Goes through the heads of a block in the order in which they are read, to find their norms.
template <class T, class Y>
class Norms {
 public:
  HWY_INLINE Norms(const RopeRows& bound, const RopeBlock<T, Y>& block)
      : bound_(bound), block_(block), ahead_(bound.ahead()) {}

  HWY_INLINE bool done() const { return position_ == block_.count; }
  /// One head more; not where done.
  HWY_INLINE void add() {
    const std::int64_t pairs = bound_.loop.inner.extent / 2;
    if (head_ == 0) {
      prefetch_floats(block_.cos[position_], pairs);
      prefetch_floats(block_.sin[position_], pairs);
    }
    const T* head = block_.x[position_] + head_ * bound_.x_head;
    block_.inverses[position_ * bound_.heads + head_] = sum_squares(pairs, head, head + ahead_);
    if (++head_ == bound_.heads) {
      head_ = 0;
      ++position_;
    }
  }

 private:
  static HWY_INLINE void prefetch_floats(const float* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += kCacheLine / 4) hwy::Prefetch(from + i);
  }

  const RopeRows& bound_;
  const RopeBlock<T, Y>& block_;
  std::int64_t ahead_;
  std::int64_t position_ = 0;
  std::int64_t head_ = 0;
};

/// Head by head, since a head's positions are contiguous: rope prefetches the block's part of the next head. For
/// qk_norm_rope, each rotation of a head is paired with the norm of a head of the next block. Memory reads and
/// writes then proceed at the same rate throughout. S is the storage type of the weight.
template <bool kNorm, class S, class Y>
void rope_rows_of(const RopeRows& bound, const RowPart& part) {
  using T = typename Destination<Y>::Element;
  const std::int64_t pairs = bound.loop.inner.extent / 2;
  const std::int64_t heads = bound.heads;
  std::array<RopeBlock<T, Y>, 2> blocks;
  RopeBlock<T, Y>* block = &blocks[0];
  RopeBlock<T, Y>* next = &blocks[1];
  if constexpr (kNorm) {
    block->inverses = part.scratch + bound.block() * bound.turn_floats();
    next->inverses = block->inverses + bound.norm_floats();
  }
  RowCursor cursor(bound.loop, part.begin);
  const auto take = [&](std::int64_t row)
                        HWY_ATTR { next->take(cursor, std::min(bound.block(), part.end - row), part); };
  const auto invert = [&] HWY_ATTR {
    if constexpr (kNorm) invert_norms(next->count * heads, 2 * pairs, static_cast<float>(bound.eps), next->inverses);
  };
  take(part.begin);
  if constexpr (kNorm)
    for (Norms<T, Y> norms(bound, *next); !norms.done();) norms.add();
  invert();
  for (std::int64_t row = part.begin; row < part.end; row += block->count) {
    std::swap(block, next);
    take(row + block->count);
    const auto turns_of = [&](std::int64_t k) HWY_ATTR {
      return Turns<kNorm>(block->cos[k], block->sin[k], part.scratch + k * bound.turn_floats());
    };
    if constexpr (kNorm)
      for (std::int64_t k = 0; k < block->count; ++k) turns_of(k).multiply(pairs, part.input<S>(1));
    Norms<T, Y> norms(bound, *next);
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t k = 0; k < block->count; ++k) {
        const T* from = block->x[k] + head * bound.x_head;
        const Y to = block->y[k] + head * bound.y_head;
        if constexpr (kNorm) {
          if (!norms.done()) norms.add();
          turn_head<true>(pairs, from, to, block->inverses[k * heads + head], turns_of(k));
        } else {
          const T* ahead = head + 1 < heads ? from + bound.x_head : k < next->count ? next->x[k] : from;
          turn_head<false>(pairs, from, to, 1.0F, turns_of(k), ahead);
        }
      }
    invert();
  }
  finish_writes<Y>();
}

void rope_rows(const RopeRows& bound, const RowPart& part) {
  HR_TAKE_FLOAT_LOOPS(bound.dtype == DType::kF32, rope_rows(bound, part));
  with_destination(bound.dtype, part.past_cache, [&](auto destination) {
    using Y = decltype(destination);
    if (!bound.norm) return rope_rows_of<false, float, Y>(bound, part);
    if (bound.weight_dtype == DType::kF32) return rope_rows_of<true, float, Y>(bound, part);
    if constexpr (kAllBf16<typename Destination<Y>::Element>) rope_rows_of<true, Bf16, Y>(bound, part);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(rope_rows);

KernelPlan plan_rope(const KernelBinding& binding) {
  const bool norm = binding.spec.op == Op::kQkNormRope;
  const DType dtype = binding.inputs[0].type.dtype;
  const RopeRows bound{rope_positions(binding), dtype, binding.inputs[1].type.dtype, norm,
                       norm ? binding.spec.attributes[attr::kEps] : 0};
  RowWork work = row_work(binding, bound.loop);
  work.elements *= bound.heads;
  work.may_pass_cache &= bound.y_head * static_cast<std::int64_t>(size_of(dtype)) % kCacheLine == 0;
  work.scratch_elements = bound.scratch();
  return share_rows(work, [bound](const RowPart& part) { HWY_DYNAMIC_DISPATCH(rope_rows)(bound, part); });
}

}  // namespace

const Kernel& highway_rope() {
  static const CpuKernel kernel(
      {.name = "highway.rope", .op = Op::kRope, .supports = supports_rows, .in_place = true, .plan = plan_rope});
  return kernel;
}

const Kernel& highway_qk_norm_rope() {
  static const CpuKernel kernel(
      {.name = "highway.qk_norm_rope", .op = Op::kQkNormRope, .supports = supports_rows, .plan = plan_rope});
  return kernel;
}

}  // namespace headroom
#endif
