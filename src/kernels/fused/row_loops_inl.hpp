// The loops over the columns of a block that implement the instructions of a RowTape: an elementwise function, its
// reduction, or both. Guarded as simd_inl.hpp is.
//
// Operands are f32 or bf16 in memory and f32 elsewhere. An operand that is constant along a row is read with a step
// of 0, from a vector that holds it in every lane. For each kind of result, an instruction has specialized loops:
// over f32 alone, and for the usual mix of bf16 operands. One general loop covers all other cases; an operand's
// dtype costs it a branch that never changes.

#if defined(HEADROOM_KERNELS_FUSED_ROW_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_FUSED_ROW_LOOPS_INL
#undef HEADROOM_KERNELS_FUSED_ROW_LOOPS_INL
#else
#define HEADROOM_KERNELS_FUSED_ROW_LOOPS_INL
#endif

#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/core/row_loop.hpp"
#include "kernels/core/simd_inl.hpp"
#include "kernels/elementwise/functions_inl.hpp"
#include "kernels/fused/row_tape.hpp"
#include "kernels/fused/tape_call.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

using Call = TapeCall;
using Run = TapeLoop;

HWY_INLINE void ask_second_level(const char* at) { __builtin_prefetch(at, 0, 2); }

/// Prefetches memory during a loop, which keeps memory busy while the loop computes: requested all at once, lines
/// would wait for each other and the loop for them. Prefetches go to the second-level cache: the first has no room
/// for two chunks.
class AskAhead {
 public:
  HWY_INLINE explicit AskAhead(const Call& call) : at_(call.ahead), step_(call.ahead_step) {}
  /// Once for every two vectors.
  HWY_INLINE void operator()() {
    if (step_ == 0) return;
    ask_second_level(at_);
    if (step_ > kCacheLine) ask_second_level(at_ + kCacheLine);
    at_ += step_;
  }

 private:
  const char* at_;
  std::int64_t step_;
};

// Operands.

/// The operands that are bf16, among those that vary along a row. With kAny this is checked at each element, and
/// some may not vary.
enum class Mix : std::uint8_t { kNone, kFirst, kSecond, kFirstTwo, kAll, kAny };

template <Mix kMix, int k>
HWY_INLINE constexpr bool reads_bf16(bool is_bf16) {
  if constexpr (kMix == Mix::kNone) return false;
  if constexpr (kMix == Mix::kFirst) return k == 0;
  if constexpr (kMix == Mix::kSecond) return k == 1;
  if constexpr (kMix == Mix::kFirstTwo) return k < 2;
  if constexpr (kMix == Mix::kAll) return true;
  return is_bf16;
}
Mix mix_of(const Call& call, int operands) {
  unsigned bf16 = 0;  // a bit for each
  for (int k = 0; k < operands; ++k) {
    const Call::Operand& x = call.x[static_cast<std::size_t>(k)];
    if (x.step == 0) return Mix::kAny;
    bf16 |= static_cast<unsigned>(x.dtype == DType::kBF16) << static_cast<unsigned>(k);
  }
  if (bf16 == 0) return Mix::kNone;
  if (bf16 == 1) return Mix::kFirst;
  if (bf16 == (1U << static_cast<unsigned>(operands)) - 1) return Mix::kAll;
  if (bf16 == 2) return Mix::kSecond;
  return bf16 == 3 ? Mix::kFirstTwo : Mix::kAny;
}

/// f of a row's columns of its operands. The last kSplats operands are the same for all columns.
template <class F, int kOperands, int kSplats, Mix kMix>
class Columns {
 public:
  HWY_INLINE Columns(const Call& call, std::int64_t row) : asks_ahead_(call.asks_ahead) {
    for (int k = 0; k < kOperands; ++k) {
      const Call::Operand& x = call.x[static_cast<std::size_t>(k)];
      at_[k] = x.at + row * x.row_bytes;
      step_[k] = x.step;
      is_bf16_[k] = x.dtype == DType::kBF16;
    }
    if constexpr (kSplats > 0) last_ = load_all(reinterpret_cast<const float*>(at_[kOperands - 1]));
    if constexpr (kSplats > 1) before_ = load_all(reinterpret_cast<const float*>(at_[kOperands - 2]));
  }
  HWY_INLINE Vector operator()(std::int64_t i) const {
    if (asks_ahead_) ask(i, Varying());
    return of_whole(i, All());
  }
  /// Two vectors at i if all operands that vary are bf16: of even columns and of odd ones, which halves the cost of
  /// unpacking.
  HWY_INLINE Pairs pairs(std::int64_t i) const {
    if (asks_ahead_) ask(i, Varying());
    return of_pairs(i, All());
  }
  /// The first `count` lanes of the vector at i.
  HWY_INLINE Vector some(std::int64_t i, std::int64_t count) const { return of_some(i, count, All()); }

 private:
  using All = std::make_integer_sequence<int, kOperands>;
  using Varying = std::make_integer_sequence<int, kOperands - kSplats>;

  template <int k>
  HWY_INLINE const char* address(std::int64_t i) const {
    if constexpr (kMix == Mix::kAny) return at_[k] + i * step_[k];
    return at_[k] + i * static_cast<std::int64_t>(reads_bf16<kMix, k>(false) ? sizeof(Bf16) : sizeof(float));
  }
  template <int... k>
  HWY_INLINE void ask(std::int64_t i, std::integer_sequence<int, k...>) const {
    (hwy::Prefetch(address<k>(i) + kAheadBytes), ...);
  }
  template <int... k>
  HWY_INLINE Vector of_whole(std::int64_t i, std::integer_sequence<int, k...>) const {
    return F()(one<k>(i)...);
  }
  template <int... k>
  HWY_INLINE Vector of_some(std::int64_t i, std::int64_t count, std::integer_sequence<int, k...>) const {
    return F()(some_of<k>(i, count)...);
  }
  template <int... k>
  HWY_INLINE Pairs of_pairs(std::int64_t i, std::integer_sequence<int, k...>) const {
    const Pairs x[] = {pair<k>(i)...};
    return {F()(x[k].even...), F()(x[k].odd...)};
  }
  template <int k>
  HWY_INLINE Pairs pair(std::int64_t i) const {
    if constexpr (k == kOperands - 1 && kSplats > 0) return {last_, last_};
    if constexpr (k == kOperands - 2 && kSplats > 1) return {before_, before_};
    return load_all_pairs(reinterpret_cast<const Bf16*>(at_[k]) + i);
  }
  template <int k>
  HWY_INLINE Vector one(std::int64_t i) const {
    if constexpr (k == kOperands - 1 && kSplats > 0) return last_;
    if constexpr (k == kOperands - 2 && kSplats > 1) return before_;
    const char* from = address<k>(i);
    if (reads_bf16<kMix, k>(is_bf16_[k])) return load_all(reinterpret_cast<const Bf16*>(from));
    return load_all(reinterpret_cast<const float*>(from));
  }
  template <int k>
  HWY_INLINE Vector some_of(std::int64_t i, std::int64_t count) const {
    if (k >= kOperands - kSplats || step_[k] == 0) return one<k>(i);
    const char* from = at_[k] + i * step_[k];
    if (reads_bf16<kMix, k>(is_bf16_[k])) return load(reinterpret_cast<const Bf16*>(from), count);
    return load(reinterpret_cast<const float*>(from), count);
  }

  const char* at_[kOperands];
  std::int64_t step_[kOperands];
  bool is_bf16_[kOperands];
  bool asks_ahead_;
  Vector last_, before_;
};

/// The number of an instruction's last operands that have one element for all columns; at most two are
/// distinguished.
int splats_of(const Call& call, int operands) {
  int splats = 0;
  while (splats < operands - 1 && call.x[static_cast<std::size_t>(operands - 1 - splats)].step == 0) ++splats;
  return splats;
}

HWY_INLINE void write_two(Vector first, Vector second, float* y, bool past_cache) {
  if (past_cache) {
    hn::Stream(first, Float(), y);
    hn::Stream(second, Float(), y + lanes());
  } else {
    store_all(first, y);
    store_all(second, y + lanes());
  }
}
HWY_INLINE void write_two(Vector first, Vector second, Bf16* y, bool past_cache) {
#if HWY_TARGET == HWY_AVX2
  const __m256i interleaved = _mm256_packus_epi32(_mm256_srli_epi32(round_to_bf16_bits(first).raw, 16),
                                                  _mm256_srli_epi32(round_to_bf16_bits(second).raw, 16));
  const __m256i halves = _mm256_permute4x64_epi64(interleaved, 0xD8);  // 0, 2, 1, 3
  if (past_cache) return _mm256_stream_si256(reinterpret_cast<__m256i*>(y), halves);
  return _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), halves);
#endif
  if (past_cache) return store_two(first, second, PastCache<Bf16>{y});
  store_two(first, second, y);
}

/// Whether all `varying` operands are bf16.
template <Mix kMix>
constexpr bool are_all_bf16(int varying) {
  return kMix == Mix::kAll || (kMix == Mix::kFirst && varying == 1);
}

/// The rounding of bf16 results: ties away from 0 for functions that are no more accurate than that, which takes
/// fewer instructions.
template <class F>
constexpr Ties ties_of() {
  if constexpr (requires { F::kIsCoarse; }) return F::kIsCoarse ? Ties::kAway : Ties::kToEven;
  return Ties::kToEven;
}

/// y = f(x...)
template <class F, int kOperands, Mix kMix, class T, int kSplats = 0>
void map_rows(const Call& call) {
  const std::int64_t n = call.columns;
  const bool past_cache = call.past_cache;
  AskAhead ask(call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const Columns<F, kOperands, kSplats, kMix> f(call, row);
    T* y = reinterpret_cast<T*>(call.y + row * call.y_row_bytes);
    std::int64_t i = 0;
    if constexpr (std::is_same_v<T, Bf16> && are_all_bf16<kMix>(kOperands - kSplats)) {
      for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
        ask();
        if (past_cache)
          store_all_pairs<ties_of<F>()>(f.pairs(i), PastCache<Bf16>{y + i});
        else
          store_all_pairs<ties_of<F>()>(f.pairs(i), y + i);
      }
    }
    for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
      ask();
      write_two(f(i), f(i + lanes()), y + i, past_cache);
    }
    for (; i < n; i += lanes()) store(f.some(i, HWY_MIN(lanes(), n - i)), y + i, HWY_MIN(lanes(), n - i));
  }
}

/// Every loop takes about a tenth of a second to compile for each vector unit, so only those are specialized that an
/// operand's dtype makes a fifth faster, and none for CPUs without vectors of 256 bits.
inline constexpr bool kIsSpecialized = HWY_TARGET != HWY_SCALAR;

/// Where there are no loops whose results are f32 alone (simd_inl.hpp), run_of() takes the other unit's, and the
/// functions that would return them return none.
template <class T>
inline constexpr bool kHasLoops = kHasFloatLoops || std::is_same_v<T, Bf16>;

template <class F, int kOperands, Mix kMix, class T, int kSplats = 0>
Run map_loop() {
  if constexpr (kHasLoops<T>) return map_rows<F, kOperands, kMix, T, kSplats>;
  return nullptr;
}

/// One loop for all instructions that are rare, or much slower than their reads.
template <class F, int kOperands>
Run plain_map_of(const Call& call) {
  if (call.dtype == DType::kBF16) return map_loop<F, kOperands, Mix::kAny, Bf16>();
  return map_loop<F, kOperands, Mix::kAny, float>();
}
/// The fastest loop if the last kSplats operands have one element for all columns.
template <class F, int kOperands, class T, int kSplats>
Run map_splats(const Call& call) {
  constexpr int kVarying = kOperands - kSplats;
  const Mix mix = mix_of(call, kVarying);
  if (mix == Mix::kNone) return map_loop<F, kOperands, Mix::kNone, T, kSplats>();
  if constexpr (kIsSpecialized) {
    if (mix == Mix::kFirst) return map_loop<F, kOperands, Mix::kFirst, T, kSplats>();
    if constexpr (kVarying > 1)
      if (mix == Mix::kAll) return map_loop<F, kOperands, Mix::kAll, T, kSplats>();
  }
  return map_loop<F, kOperands, Mix::kAny, T, kSplats>();
}
template <class F, int kOperands, int kSplats>
Run map_splats_of(const Call& call) {
  if (call.dtype == DType::kBF16) return map_splats<F, kOperands, Bf16, kSplats>(call);
  return map_splats<F, kOperands, float, kSplats>(call);
}
/// The fastest loop for the instructions of most bodies.
template <class F, int kOperands>
Run map_of(const Call& call) {
  if constexpr (kIsSpecialized)
    if (splats_of(call, kOperands) > 0) return map_splats_of<F, kOperands, 1>(call);
  return map_splats_of<F, kOperands, 0>(call);
}
/// For F whose arithmetic hides what an operand's dtype costs, unless pairs of bf16 become one of bf16.
template <class F, int kOperands>
Run activation_map_of(const Call& call) {
  if constexpr (kIsSpecialized && F::kIsCoarse)
    if (call.dtype == DType::kBF16) return map_splats<F, kOperands, Bf16, 0>(call);
  if constexpr (kIsSpecialized)
    if (call.dtype != DType::kBF16 && mix_of(call, kOperands) == Mix::kNone)
      return map_loop<F, kOperands, Mix::kNone, float>();
  return plain_map_of<F, kOperands>(call);
}

// Reductions: four vectors of partial results for a block, joined across lanes; sums of blocks in double.

struct Sum {
  static HWY_INLINE Vector merge(Vector a, Vector b) { return hn::Add(a, b); }
  static HWY_INLINE Vector neutral() { return hn::Zero(Float()); }
  static HWY_INLINE Vector join(Vector a, Vector b) { return hn::Add(a, b); }
  static HWY_INLINE float all(Vector a) { return hn::GetLane(hn::SumOfLanes(Float(), a)); }
};
struct SumOfSquares : Sum {
  static HWY_INLINE Vector join(Vector a, Vector b) { return hn::MulAdd(b, b, a); }
};
/// NaN if any element is, as in Min and Peak.
struct Max {
  static HWY_INLINE Vector merge(Vector a, Vector b) { return join(a, b); }
  static HWY_INLINE Vector neutral() { return hn::Set(Float(), -std::numeric_limits<float>::infinity()); }
  static HWY_INLINE Vector join(Vector a, Vector b) { return Functions<Precision::kF32>::max(a, b); }
  static HWY_INLINE float all(Vector a) {
    if (!hn::AllFalse(Float(), hn::IsNaN(a))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MaxOfLanes(Float(), a));
  }
};
struct MaxOfNumbers : Max {
  static HWY_INLINE Vector merge(Vector a, Vector b) { return join(a, b); }
  static HWY_INLINE Vector join(Vector a, Vector b) { return hn::Max(b, a); }
};
struct Min {
  static HWY_INLINE Vector merge(Vector a, Vector b) { return join(a, b); }
  static HWY_INLINE Vector neutral() { return hn::Set(Float(), std::numeric_limits<float>::infinity()); }
  static HWY_INLINE Vector join(Vector a, Vector b) { return Functions<Precision::kF32>::min(a, b); }
  static HWY_INLINE float all(Vector a) {
    if (!hn::AllFalse(Float(), hn::IsNaN(a))) return std::numeric_limits<float>::quiet_NaN();
    return hn::GetLane(hn::MinOfLanes(Float(), a));
  }
};
/// As integers, the bits of magnitudes have the same order, with NaN above all.
struct Peak {
  static HWY_INLINE Vector merge(Vector a, Vector b) { return join(a, b); }
  static HWY_INLINE Vector neutral() { return hn::Zero(Float()); }
  static HWY_INLINE Vector join(Vector a, Vector b) {
    const hn::RebindToSigned<Float> d32;
    return hn::BitCast(Float(), hn::Max(hn::BitCast(d32, a), hn::BitCast(d32, hn::Abs(b))));
  }
  static HWY_INLINE float all(Vector a) {
    const hn::RebindToSigned<Float> d32;
    const auto largest = hn::MaxOfLanes(d32, hn::BitCast(d32, a));
    return hn::GetLane(hn::BitCast(Float(), largest));
  }
};

HWY_INLINE void spread(float value, char* narrow) {
  const Vector everywhere = hn::Set(Float(), value);
  for (std::int64_t i = 0; i < kTapeLanes; i += lanes()) store_all(everywhere, reinterpret_cast<float*>(narrow) + i);
}

/// Combines the partial result of a block with that of earlier blocks, and spreads it over the lanes after the last
/// one.
template <class Join>
HWY_INLINE void reduce_block(const Call& call, std::int64_t row, Vector block) {
  char* narrow = call.reduced + row * kTapeLanes * static_cast<std::int64_t>(sizeof(float));
  if constexpr (std::is_base_of_v<Sum, Join>) {
    double so_far = 0;
    if (!call.is_first) std::memcpy(&so_far, narrow, sizeof(so_far));
    so_far += static_cast<double>(Join::all(block));
    if (call.is_last) return spread(static_cast<float>(so_far), narrow);
    std::memcpy(narrow, &so_far, sizeof(so_far));
  } else {
    if (!call.is_first) block = Join::merge(load_all(reinterpret_cast<const float*>(narrow)), block);
    spread(Join::all(block), narrow);
  }
}

template <class Join>
HWY_INLINE Vector first_or_neutral(Vector v, std::int64_t count) {
  return hn::IfThenElse(hn::FirstN(Float(), static_cast<std::size_t>(count)), v, Join::neutral());
}

/// The reduction of f(x...); with `kStored`, y is that value as well.
template <class F, int kOperands, int kSplats, class Join, Mix kMix, bool kStored>
void reduce_rows(const Call& call) {
  const std::int64_t n = call.columns;
  AskAhead ask(call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const Columns<F, kOperands, kSplats, kMix> f(call, row);
    float* y = reinterpret_cast<float*>(call.y + row * call.y_row_bytes);
    Vector part0 = Join::neutral(), part1 = part0, part2 = part0, part3 = part0;
    const auto one = [&](std::int64_t i) HWY_ATTR {
      const Vector v = f(i);
      if constexpr (kStored) store_all(v, y + i);
      return v;
    };
    std::int64_t i = 0;
    if constexpr (are_all_bf16<kMix>(kOperands - kSplats) && !kStored) {
      for (; i + 4 * lanes() <= n; i += 4 * lanes()) {
        ask();
        const Pairs first = f.pairs(i);
        part0 = Join::join(part0, first.even);
        part1 = Join::join(part1, first.odd);
        ask();
        const Pairs second = f.pairs(i + 2 * lanes());
        part2 = Join::join(part2, second.even);
        part3 = Join::join(part3, second.odd);
      }
    }
    for (; i + 4 * lanes() <= n; i += 4 * lanes()) {
      ask();
      part0 = Join::join(part0, one(i));
      part1 = Join::join(part1, one(i + lanes()));
      ask();
      part2 = Join::join(part2, one(i + 2 * lanes()));
      part3 = Join::join(part3, one(i + 3 * lanes()));
    }
    for (; i + lanes() <= n; i += lanes()) part0 = Join::join(part0, one(i));
    if (i < n) {
      const Vector v = f.some(i, n - i);
      if constexpr (kStored) store(v, y + i, n - i);
      part1 = Join::join(part1, lanes() == 1 ? v : first_or_neutral<Join>(v, n - i));
    }
    reduce_block<Join>(call, row, Join::merge(Join::merge(part0, part1), Join::merge(part2, part3)));
  }
}
template <class F, int kOperands, int kSplats, class Join, bool kStored = false>
Run reduction_of(const Call& call) {
  if constexpr (kHasFloatLoops) {
    constexpr int kVarying = kOperands - kSplats;
    const Mix mix = mix_of(call, kVarying);
    if (mix == Mix::kNone) return reduce_rows<F, kOperands, kSplats, Join, Mix::kNone, kStored>;
    if constexpr (kIsSpecialized && kVarying == 1)
      if (mix == Mix::kFirst) return reduce_rows<F, kOperands, kSplats, Join, Mix::kFirst, kStored>;
    return reduce_rows<F, kOperands, kSplats, Join, Mix::kAny, kStored>;
  }
  return nullptr;
}

/// Placeholder for no reduction.
struct NoJoin : Sum {
  static HWY_INLINE Vector join(Vector a, Vector) { return a; }
};

/// y = f(x...) in f32, its reduction, and a copy of y at `also`.
template <class F, int kOperands, int kSplats, class Join, Mix kMix>
void joint_rows(const Call& call) {
  const std::int64_t n = call.columns;
  const bool is_bf16 = call.also_dtype == DType::kBF16;
  const bool past_cache = call.also_past_cache;
  AskAhead ask(call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const Columns<F, kOperands, kSplats, kMix> f(call, row);
    float* y = reinterpret_cast<float*>(call.y + row * call.y_row_bytes);
    char* also = call.also == nullptr ? nullptr : call.also + row * call.also_row_bytes;
    Vector part0 = Join::neutral(), part1 = part0;
    std::int64_t i = 0;
    for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
      ask();
      const Vector first = f(i), second = f(i + lanes());
      write_two(first, second, y + i, false);
      if (also != nullptr && is_bf16)
        write_two(first, second, reinterpret_cast<Bf16*>(also) + i, past_cache);
      else if (also != nullptr)
        write_two(first, second, reinterpret_cast<float*>(also) + i, past_cache);
      part0 = Join::join(part0, first);
      part1 = Join::join(part1, second);
    }
    for (; i < n; i += lanes()) {
      const std::int64_t count = HWY_MIN(lanes(), n - i);
      const Vector v = f.some(i, count);
      store(v, y + i, count);
      if (also != nullptr && is_bf16)
        store(v, reinterpret_cast<Bf16*>(also) + i, count);
      else if (also != nullptr)
        store(v, reinterpret_cast<float*>(also) + i, count);
      const Vector joined = Join::join(part0, v);
      part0 = count == lanes() ? joined
                               : hn::IfThenElse(hn::FirstN(Float(), static_cast<std::size_t>(count)), joined, part0);
    }
    if constexpr (!std::is_same_v<Join, NoJoin>) reduce_block<Join>(call, row, Join::merge(part0, part1));
  }
}
/// Specialized loops for no bf16 operands and for the usual mix `kMix`, if that is not kAny; one general loop for all
/// other cases.
template <class F, int kOperands, int kSplats, class Join, Mix kMix>
Run joint_with(const Call& call) {
  if constexpr (kIsSpecialized && kMix != Mix::kAny) {
    const Mix mix = mix_of(call, kOperands - kSplats);
    if (mix == Mix::kNone) return joint_rows<F, kOperands, kSplats, Join, Mix::kNone>;
    if (mix == kMix) return joint_rows<F, kOperands, kSplats, Join, kMix>;
  }
  return joint_rows<F, kOperands, kSplats, Join, Mix::kAny>;
}
template <class F, int kOperands, int kSplats, Mix kMix>
Run joint_of(const Call& call, TapeInstruction::Do join) {
  using Do = TapeInstruction::Do;
  if (call.reduced == nullptr) return joint_with<F, kOperands, kSplats, NoJoin, kMix>(call);
  switch (join) {
    case Do::kSumProduct:
      return joint_with<F, kOperands, kSplats, SumOfSquares, kMix>(call);
    case Do::kMax:
      return joint_rows<F, kOperands, kSplats, Max, Mix::kAny>;
    case Do::kMaxOfNumbers:  // of scores with a mask or a bias
      if constexpr (kOperands == 2) return joint_with<F, kOperands, kSplats, MaxOfNumbers, kMix>(call);
      return joint_rows<F, kOperands, kSplats, MaxOfNumbers, Mix::kAny>;
    case Do::kPeak:
      return joint_with<F, kOperands, kSplats, Peak, kMix>(call);
    default:
      return joint_with<F, kOperands, kSplats, Sum, kMix>(call);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
