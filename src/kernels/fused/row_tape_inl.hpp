// The instructions of a RowTape on vectors, each a loop over the columns of a block. Guarded as simd_inl.hpp is.
//
// Operands are f32 or bf16 in memory and f32 elsewhere; one that is the same for all columns is read with a step of 0, from a vector
// that holds it in every lane. So an instruction is a few loops, over f32 alone and where operands are bf16 as is the rule,
// for each kind of result; in one for all else what an operand is costs a branch that never changes. Other dtypes are converted by
// instructions of their own.

#if defined(HEADROOM_KERNELS_FUSED_ROW_TAPE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_FUSED_ROW_TAPE_INL
#undef HEADROOM_KERNELS_FUSED_ROW_TAPE_INL
#else
#define HEADROOM_KERNELS_FUSED_ROW_TAPE_INL
#endif

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/functions_inl.hpp"
#include "kernels/fused/row_tape.hpp"
#include "kernels/fused/small_floats_inl.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// An instruction on rows of a block.
struct Call {
  struct Operand {
    const char* at;
    std::int64_t row_bytes;  ///< to the next row
    std::int64_t step;       ///< bytes to the next column
    DType dtype;
  };
  std::array<Operand, kMostTapeArguments> x;
  char* y;
  std::int64_t y_row_bytes;
  DType dtype;              ///< of y
  bool past_cache;          ///< where y goes
  bool asks_ahead;          ///< for what the operands have kAheadBytes further on
  const char* ahead;        ///< memory that is asked for on the way, for later chunks, where ahead_step is not 0
  std::int64_t ahead_step;  ///< bytes of it for every two vectors, kMostAheadStep at most
  std::int64_t rows, columns;
  char* reduced;           ///< of row 0; kTapeLanes of f32 for each
  bool is_first, is_last;  ///< block of the row
  char* also;              ///< where else y goes, or null
  std::int64_t also_row_bytes;
  DType also_dtype;
  bool also_past_cache;
};
using Run = void (*)(const Call& call);

inline constexpr std::int64_t kMostAheadStep = 2 * kCacheLine;

HWY_INLINE void ask_second_level(const char* at) { __builtin_prefetch(at, 0, 2); }

/// What a loop asks for on the way, so that memory has work while it computes: asked for all at once, lines would wait for one another
/// and the loop for them. Into the second-level cache: the first has no room for a chunk and the next.
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

/// Which operands are bf16, of those that are not the same for all columns.
enum class Mix : std::uint8_t { kNone, kFirst, kAll, kAny };

template <Mix kMix, int k>
HWY_INLINE bool reads_bf16(bool is_bf16) {
  if constexpr (kMix == Mix::kNone) return false;
  if constexpr (kMix == Mix::kFirst) return k == 0;
  if constexpr (kMix == Mix::kAll) return true;
  return is_bf16;
}
Mix mix_of(const Call& call, int operands) {
  bool is_all = true, is_any_behind = false;
  for (int k = 0; k < operands; ++k) {
    const bool is_bf16 = call.x[static_cast<std::size_t>(k)].dtype == DType::kBF16;
    is_all = is_all && is_bf16;
    is_any_behind = is_any_behind || (k > 0 && is_bf16);
  }
  if (operands > 1 && is_all) return Mix::kAll;
  if (is_any_behind) return Mix::kAny;
  return call.x[0].dtype == DType::kBF16 ? Mix::kFirst : Mix::kNone;
}

/// The columns of a row, f of those of its operands. The last kSplats operands are the same for all columns.
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
    if (asks_ahead_)
      for (int k = 0; k < kOperands - kSplats; ++k) hwy::Prefetch(at_[k] + i * step_[k] + kAheadBytes);
    if constexpr (kOperands == 1) return F()(one<0>(i));
    if constexpr (kOperands == 2) return F()(one<0>(i), one<1>(i));
    if constexpr (kOperands == 3) return F()(one<0>(i), one<1>(i), one<2>(i));
    if constexpr (kOperands == 4) return F()(one<0>(i), one<1>(i), one<2>(i), one<3>(i));
    if constexpr (kOperands == 5) return F()(one<0>(i), one<1>(i), one<2>(i), one<3>(i), one<4>(i));
  }
  /// Two vectors at i, where all operands that vary are bf16: of even columns and of odd ones, which take half the work to take apart.
  HWY_INLINE Pairs pairs(std::int64_t i) const {
    if (asks_ahead_)
      for (int k = 0; k < kOperands - kSplats; ++k) hwy::Prefetch(at_[k] + i * step_[k] + kAheadBytes);
    if constexpr (kOperands == 1) return of_pairs(pair<0>(i));
    if constexpr (kOperands == 2) return of_pairs(pair<0>(i), pair<1>(i));
    if constexpr (kOperands == 3) return of_pairs(pair<0>(i), pair<1>(i), pair<2>(i));
  }
  /// The first `count` lanes of the vector at i.
  HWY_INLINE Vector some(std::int64_t i, std::int64_t count) const {
    if constexpr (kOperands == 1) return F()(some_of<0>(i, count));
    if constexpr (kOperands == 2) return F()(some_of<0>(i, count), some_of<1>(i, count));
    if constexpr (kOperands == 3) return F()(some_of<0>(i, count), some_of<1>(i, count), some_of<2>(i, count));
    if constexpr (kOperands == 4)
      return F()(some_of<0>(i, count), some_of<1>(i, count), some_of<2>(i, count), some_of<3>(i, count));
    if constexpr (kOperands == 5)
      return F()(some_of<0>(i, count), some_of<1>(i, count), some_of<2>(i, count), some_of<3>(i, count),
                 some_of<4>(i, count));
  }

 private:
  template <class... P>
  static HWY_INLINE Pairs of_pairs(const P&... x) {
    return {F()(x.even...), F()(x.odd...)};
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
    const char* from = at_[k] + i * step_[k];
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

/// How many of an instruction's last operands have one element for all columns, where two are told apart at most.
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
  const __m256i in_turns = _mm256_packus_epi32(_mm256_srli_epi32(round_to_bf16_bits(first).raw, 16),
                                               _mm256_srli_epi32(round_to_bf16_bits(second).raw, 16));
  const __m256i halves = _mm256_permute4x64_epi64(in_turns, 0xD8);  // 0, 2, 1, 3
  if (past_cache) return _mm256_stream_si256(reinterpret_cast<__m256i*>(y), halves);
  return _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), halves);
#endif
  if (past_cache) return store_two(first, second, PastCache<Bf16>{y});
  store_two(first, second, y);
}

/// Whether all of so many operands that vary are bf16.
template <Mix kMix>
constexpr bool are_all_bf16(int varying) {
  return kMix == Mix::kAll || (kMix == Mix::kFirst && varying == 1);
}

/// How results in bf16 are rounded: with ties away from 0 what is no better than that, which takes fewer instructions.
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

template <class F, int kOperands, class T, int kSplats>
Run map_with(const Call& call) {
  if constexpr (kSplats + 1 < kOperands)
    if (splats_of(call, kOperands) > kSplats) return map_with<F, kOperands, T, kSplats + 1>(call);
  switch (mix_of(call, kOperands - kSplats)) {
    case Mix::kNone:
      return map_rows<F, kOperands, Mix::kNone, T, kSplats>;
    case Mix::kFirst:
      return map_rows<F, kOperands, Mix::kFirst, T, kSplats>;
    case Mix::kAll:
      return map_rows<F, kOperands, Mix::kAll, T, kSplats>;
    case Mix::kAny:
      return map_rows<F, kOperands, Mix::kAny, T, kSplats>;
  }
  return nullptr;
}
/// The fastest loop there is for what is done in most bodies.
template <class F, int kOperands>
Run map_of(const Call& call) {
  return call.dtype == DType::kBF16 ? map_with<F, kOperands, Bf16, 0>(call) : map_with<F, kOperands, float, 0>(call);
}
/// One loop for all that is seldom done, or takes much longer than reading.
template <class F, int kOperands>
Run plain_map_of(const Call& call) {
  if (call.dtype == DType::kBF16) return map_rows<F, kOperands, Mix::kAny, Bf16>;
  return map_rows<F, kOperands, Mix::kAny, float>;
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
/// NaN where one is, as in Min and Peak.
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
/// The bits of magnitudes have their order as integers, with NaN above them all.
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

/// Joins what a block has with what the blocks before it had, and spreads it behind the last one.
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

/// The reduction of f(x...); where `kStored`, that is y as well.
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
  constexpr int kVarying = kOperands - kSplats;
  const Mix mix = mix_of(call, kVarying);
  if (mix == Mix::kNone) return reduce_rows<F, kOperands, kSplats, Join, Mix::kNone, kStored>;
  return reduce_rows < F, kOperands, kSplats, Join, kVarying == 1 ? Mix::kFirst : Mix::kAny, kStored > ;
}

/// Where nothing is reduced.
struct NoJoin : Sum {
  static HWY_INLINE Vector join(Vector a, Vector) { return a; }
};

/// y = f(x...) in f32, its reduction, and y where `also` says.
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
/// A loop of its own where nothing is bf16, and where `kMix` are, as is the rule; one for all else.
template <class F, int kOperands, int kSplats, class Join, Mix kMix>
Run joint_with(const Call& call) {
  const Mix mix = mix_of(call, kOperands - kSplats);
  if (mix == Mix::kNone) return joint_rows<F, kOperands, kSplats, Join, Mix::kNone>;
  if (mix == kMix) return joint_rows<F, kOperands, kSplats, Join, kMix>;
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
    case Do::kMaxOfNumbers:
      return joint_with<F, kOperands, kSplats, MaxOfNumbers, kMix>(call);
    case Do::kPeak:
      return joint_with<F, kOperands, kSplats, Peak, kMix>(call);
    default:
      return joint_with<F, kOperands, kSplats, Sum, kMix>(call);
  }
}

// What is done with elements.

template <Op kOp, Precision kPrecision>
struct FormulaOf {
  static constexpr bool kIsCoarse = kPrecision == Precision::kBf16;
  template <class... V>
  HWY_INLINE Vector operator()(V... x) const {
    return formula<kOp, kPrecision, Functions<kPrecision>>(x...);
  }
};
/// An activation of a sum, or times something.
template <Op kOp, Precision kPrecision>
struct ActivationOfSum {
  static constexpr bool kIsCoarse = kPrecision == Precision::kBf16;
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return formula<kOp, kPrecision>(hn::Add(a, b)); }
};
template <Op kOp, Precision kPrecision>
struct GatedBy {
  static constexpr bool kIsCoarse = kPrecision == Precision::kBf16;
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Mul(formula<kOp, kPrecision>(a), b); }
};
struct SumOfProducts {
  HWY_INLINE Vector operator()(Vector a, Vector b, Vector c, Vector d) const { return hn::MulAdd(a, b, hn::Mul(c, d)); }
};
struct Same {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};
struct ProductOfTwo {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Mul(a, b); }
};
struct ProductOfThree {
  HWY_INLINE Vector operator()(Vector a, Vector b, Vector c) const { return hn::Mul(hn::Mul(a, b), c); }
};
struct ShiftedScale {
  HWY_INLINE Vector operator()(Vector a, Vector b, Vector c) const { return hn::Mul(hn::Sub(a, b), c); }
};
struct Normalized {
  HWY_INLINE Vector operator()(Vector x, Vector factor, Vector term, Vector mean, Vector inverse) const {
    return hn::MulAdd(hn::Mul(hn::Sub(x, mean), inverse), factor, term);
  }
};
struct SquareOfDifference {
  HWY_INLINE Vector operator()(Vector a, Vector b) const {
    const Vector difference = hn::Sub(a, b);
    return hn::Mul(difference, difference);
  }
};
struct Selected {
  HWY_INLINE Vector operator()(Vector condition, Vector a, Vector b) const {
    return hn::IfThenElse(hn::Ne(condition, hn::Zero(Float())), a, b);
  }
};
/// As ops.def says under quantize.
struct ScaleOfPeak {
  HWY_INLINE Vector operator()(Vector peak, Vector largest) const {
    return hn::IfThenElse(hn::Lt(peak, hn::Set(Float(), 0x1p-100F)), hn::Set(Float(), 1.0F), hn::Div(peak, largest));
  }
};
struct InverseOfPeak {
  HWY_INLINE Vector operator()(Vector peak, Vector largest) const {
    const auto has_scale = hn::And(hn::Ge(peak, hn::Set(Float(), 0x1p-100F)),
                                   hn::Le(peak, hn::Set(Float(), std::numeric_limits<float>::max())));
    return hn::IfThenElseZero(has_scale, hn::Div(largest, peak));
  }
};
struct Quantized {
  HWY_INLINE Vector operator()(Vector x, Vector inverse) const {
    return hn::IfThenZeroElse(hn::Eq(inverse, hn::Zero(Float())), hn::Mul(x, inverse));
  }
};
template <DType kTo>
struct Rounded {
  HWY_INLINE Vector operator()(Vector x) const { return Stored<kTo>::decoded(Stored<kTo>::encoded(x)); }
};

// Dtypes that have no loops of their own.

template <DType kFrom>
void convert_rows(const Call& call) {
  using S = Stored<kFrom>;
  const std::int64_t n = call.columns;
  AskAhead ask(call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const auto* x = reinterpret_cast<const typename S::Element*>(call.x[0].at + row * call.x[0].row_bytes);
    auto* y = reinterpret_cast<float*>(call.y + row * call.y_row_bytes);
    std::int64_t i = 0;
    for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
      ask();
      store_all(S::decoded(S::load(x + i)), y + i);
      store_all(S::decoded(S::load(x + i + lanes())), y + i + lanes());
    }
    for (; i + lanes() <= n; i += lanes()) store_all(S::decoded(S::load(x + i)), y + i);
    if (i < n) {
      HWY_ALIGN typename S::Element padded[lanes()] = {};
      std::memcpy(padded, x + i, static_cast<std::size_t>(n - i) * sizeof(typename S::Element));
      store_all(S::decoded(S::load(padded)), y + i);
    }
  }
}

/// y = f(x...) rounded to kTo. Where it `kBounded`, f is a product with what its row is scaled by to be within the numbers of kTo, or
/// with 0 where the row becomes 0.
template <DType kTo, class F, int kOperands, bool kBounded, Mix kMix>
void store_rows(const Call& call) {
  using S = Stored<kTo>;
  using Element = typename S::Element;
  constexpr bool kIsByte = sizeof(Element) == 1;
  const auto encoded = [](Vector v) HWY_ATTR {
    if constexpr (kBounded) return S::bounded(v);
    return S::encoded(v);
  };
  const std::int64_t n = call.columns;
  AskAhead ask(call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const Columns<F, kOperands, kBounded ? 1 : 0, kMix> f(call, row);
    auto* y = reinterpret_cast<Element*>(call.y + row * call.y_row_bytes);
    if (kBounded && *reinterpret_cast<const float*>(call.x[1].at + row * call.x[1].row_bytes) == 0) {
      std::memset(y, 0, static_cast<std::size_t>(n) * sizeof(Element));
      continue;
    }
    const auto at = [&](std::int64_t i) HWY_ATTR { return encoded(f(i)); };
    std::int64_t i = 0;
    if constexpr (kIsByte) {
      for (; i + 4 * lanes() <= n; i += 4 * lanes()) {
        ask();
        const Word first = at(i), second = at(i + lanes());
        ask();
        store_bytes(first, second, at(i + 2 * lanes()), at(i + 3 * lanes()), y + i, call.past_cache);
      }
    } else if (call.past_cache && lanes() > 4) {
      for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
        ask();
        S::stream(at(i), y + i);
        S::stream(at(i + lanes()), y + i + lanes());
      }
    }
    for (; i + lanes() <= n; i += lanes()) S::store(at(i), y + i);
    if (i < n) {
      HWY_ALIGN Element padded[lanes()];
      S::store(encoded(f.some(i, n - i)), padded);
      std::memcpy(y + i, padded, static_cast<std::size_t>(n - i) * sizeof(Element));
    }
  }
}
template <class F, int kOperands, Mix kMix>
Run store_of(const Call& call) {
  switch (call.dtype) {
    case DType::kF32:
    case DType::kBF16:
      return plain_map_of<F, kOperands>(call);
    case DType::kF16:
      return store_rows<DType::kF16, F, kOperands, false, kMix>;
    case DType::kF8E4M3:
      return store_rows<DType::kF8E4M3, F, kOperands, false, kMix>;
    case DType::kI8:
      return store_rows<DType::kI8, F, kOperands, false, kMix>;
    default:
      return store_rows<DType::kU8, F, kOperands, false, kMix>;
  }
}
template <Mix kMix>
Run quantizer_of(DType dtype) {
  if (dtype == DType::kI8) return store_rows<DType::kI8, ProductOfTwo, 2, true, kMix>;
  return store_rows<DType::kF8E4M3, ProductOfTwo, 2, true, kMix>;
}
Run conversion_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return map_rows<Same, 1, Mix::kNone, float>;
    case DType::kBF16:
      return map_rows<Same, 1, Mix::kFirst, float>;
    case DType::kF16:
      return convert_rows<DType::kF16>;
    case DType::kF8E4M3:
      return convert_rows<DType::kF8E4M3>;
    case DType::kI8:
      return convert_rows<DType::kI8>;
    case DType::kBool:
      return convert_rows<DType::kBool>;
    default:
      return convert_rows<DType::kU8>;
  }
}

// Rotations.

template <class X, class T>
void rotate_rows_of(const Call& call) {
  const std::int64_t pairs = call.columns / 2;
  AskAhead ask(call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const X* x = reinterpret_cast<const X*>(call.x[0].at + row * call.x[0].row_bytes);
    T* y = reinterpret_cast<T*>(call.y + row * call.y_row_bytes);
    const char* cosine = call.x[1].at + row * call.x[1].row_bytes;
    const char* sine = call.x[2].at + row * call.x[2].row_bytes;
    const auto table = [&](const Call::Operand& operand, const char* at, std::int64_t i, std::int64_t count) HWY_ATTR {
      if (operand.dtype == DType::kBF16) return load(reinterpret_cast<const Bf16*>(at) + i, count);
      return load(reinterpret_cast<const float*>(at) + i, count);
    };
    for (std::int64_t i = 0; i < pairs; i += lanes()) {
      ask();
      const std::int64_t count = HWY_MIN(lanes(), pairs - i);
      const Pairs in = load_pairs(x + 2 * i, count);
      const Vector c = table(call.x[1], cosine, i, count), s = table(call.x[2], sine, i, count);
      const Pairs out{hn::NegMulAdd(in.odd, s, hn::Mul(in.even, c)), hn::MulAdd(in.odd, c, hn::Mul(in.even, s))};
      if (call.past_cache)
        store_pairs(out, PastCache<T>{y + 2 * i}, count);
      else
        store_pairs(out, y + 2 * i, count);
    }
  }
}
Run rotation_of(DType from, DType to) {
  if (from == DType::kBF16) return to == DType::kBF16 ? rotate_rows_of<Bf16, Bf16> : rotate_rows_of<Bf16, float>;
  return to == DType::kBF16 ? rotate_rows_of<float, Bf16> : rotate_rows_of<float, float>;
}

// One element for each row.

void spread_rows(const Call& call) {
  for (std::int64_t row = 0; row < call.rows; ++row)
    spread(static_cast<float>(load_as_double(call.x[0].at + row * call.x[0].row_bytes, call.x[0].dtype)),
           call.y + row * call.y_row_bytes);
}
void store_narrow_rows(const Call& call) {
  for (std::int64_t row = 0; row < call.rows; ++row) {
    const auto* value = reinterpret_cast<const float*>(call.x[0].at + row * call.x[0].row_bytes);
    store_from_double(call.y + row * call.y_row_bytes, call.dtype, static_cast<double>(*value));
  }
}

/// e^(x - largest) for x <= largest; 0 below -87, or for bf16 -69, so that no product of it is subnormal.
template <Precision kPrecision>
struct ExpBelow {
  HWY_INLINE Vector operator()(Vector x, Vector largest) const {
    const Float d;
    const Vector log2_e = hn::Set(d, 1.44269504F);
    const Vector distance = hn::Sub(x, largest);
    if constexpr (kPrecision == Precision::kBf16) return exp2_or_zero_for_bf16(hn::Mul(distance, log2_e));
    const Exp2<kPrecision> power(distance, log2_e);
    const Vector y = hn::IfThenZeroElse(hn::Lt(distance, hn::Set(d, -87.0F)), hn::Mul(power.fraction, power.scale));
    return hn::IfThenElse(hn::IsNaN(distance), distance, y);
  }
};
template <Precision kPrecision>
Run exponential_of(const Call& call, bool is_stored) {
  using F = ExpBelow<kPrecision>;
  if (call.reduced == nullptr) return plain_map_of<F, 2>(call);
  return is_stored ? reduction_of<F, 2, 1, Sum, true>(call) : reduction_of<F, 2, 1, Sum>(call);
}

/// f of what.op, an activation.
template <template <Op, Precision> class F, int kOperands>
Run activation_run(const TapeInstruction& what, const Call& call) {
  const auto run = [&]<Op kOp>() -> Run {
    if (what.is_coarse) return map_of<F<kOp, Precision::kBf16>, kOperands>(call);
    if (call.reduced != nullptr) return joint_with<F<kOp, Precision::kF32>, kOperands, 0, Peak, Mix::kFirst>(call);
    return map_of<F<kOp, Precision::kF32>, kOperands>(call);
  };
  switch (what.op) {
    case Op::kGeluTanh:
      return run.template operator()<Op::kGeluTanh>();
    case Op::kGeluErf:
      return run.template operator()<Op::kGeluErf>();
    default:
      return run.template operator()<Op::kSilu>();
  }
}

Run formula_run(const TapeInstruction& what, const Call& call) {
  switch (what.op) {
    case Op::kAdd:
      return map_of<FormulaOf<Op::kAdd, Precision::kF32>, 2>(call);
    case Op::kMul:
      return map_of<FormulaOf<Op::kMul, Precision::kF32>, 2>(call);
    case Op::kGateResidual:
      if (size_of(call.dtype) == 1) return store_of<FormulaOf<Op::kGateResidual, Precision::kF32>, 3, Mix::kAny>(call);
      return map_of<FormulaOf<Op::kGateResidual, Precision::kF32>, 3>(call);
    case Op::kGeluTanh:
    case Op::kGeluErf:
    case Op::kSilu:
      return activation_run<FormulaOf, 1>(what, call);
    default:
      break;
  }
  switch (what.op) {
#define HR_FORM(enumerator, operands) \
  case Op::enumerator:                \
    return plain_map_of<FormulaOf<Op::enumerator, Precision::kF32>, operands>(call);
#define HR_UNARY(enumerator, ...)                                                                  \
  case Op::enumerator:                                                                             \
    if (what.is_coarse) return plain_map_of<FormulaOf<Op::enumerator, Precision::kBf16>, 1>(call); \
    return plain_map_of<FormulaOf<Op::enumerator, Precision::kF32>, 1>(call);
#define HR_SCALAR(...)
#define HR_RANGE(enumerator, ...) HR_FORM(enumerator, 3)
#define HR_TERNARY(enumerator, ...) HR_FORM(enumerator, 3)
#define HR_ANY(enumerator, ...) HR_FORM(enumerator, 2)
#include "ir/elementwise.def"
#undef HR_FORM
    default:
      return nullptr;
  }
}

Run joint_run(const TapeInstruction& what, const Call& call) {
  switch (what.what) {
    case TapeInstruction::Do::kNormalize:
      if (splats_of(call, 5) >= 2) return joint_of<Normalized, 5, 2, Mix::kFirst>(call, what.join);
      return joint_of<Normalized, 5, 0, Mix::kAny>(call, what.join);
    case TapeInstruction::Do::kSumOfProducts:
      return joint_rows<SumOfProducts, 4, 0, NoJoin, Mix::kAny>;
    default:
      if (what.op == Op::kAdd) return joint_of<FormulaOf<Op::kAdd, Precision::kF32>, 2, 0, Mix::kAll>(call, what.join);
      if (splats_of(call, 3) == 1)
        return joint_of<FormulaOf<Op::kGateResidual, Precision::kF32>, 3, 1, Mix::kAll>(call, what.join);
      return joint_of<FormulaOf<Op::kGateResidual, Precision::kF32>, 3, 0, Mix::kAny>(call, what.join);
  }
}

/// The loop for an instruction and what it is called with.
inline Run run_of(const TapeInstruction& what, const Call& call, bool is_stored) {
  using Do = TapeInstruction::Do;
  const bool is_activation = what.what == Do::kActivationOfSum ||
                             (what.what == Do::kFormula && what.op != Op::kAdd && what.op != Op::kGateResidual);
  const bool is_joint = what.what == Do::kFormula || what.what == Do::kNormalize || what.what == Do::kSumOfProducts;
  if (is_joint && !is_activation && (call.reduced != nullptr || what.also.kind != TapePlace::Kind::kNone))
    return joint_run(what, call);
  switch (what.what) {
    case Do::kFormula:
      return formula_run(what, call);
    case Do::kShiftedScale:
      return map_of<ShiftedScale, 3>(call);
    case Do::kProduct:
      return map_of<ProductOfThree, 3>(call);
    case Do::kSumOfProducts:
      return plain_map_of<SumOfProducts, 4>(call);
    case Do::kActivationOfSum:
      return activation_run<ActivationOfSum, 2>(what, call);
    case Do::kGated:
      return activation_run<GatedBy, 2>(what, call);
    case Do::kNormalize:
      if (call.x[3].step != 0 || call.x[4].step != 0) return plain_map_of<Normalized, 5>(call);
      if (call.dtype == DType::kBF16) return map_rows<Normalized, 5, Mix::kAny, Bf16, 2>;
      return map_rows<Normalized, 5, Mix::kAny, float, 2>;
    case Do::kExpBelow:
      if (what.is_coarse) return exponential_of<Precision::kBf16>(call, is_stored);
      return exponential_of<Precision::kF32>(call, is_stored);
    case Do::kSelect:
      return plain_map_of<Selected, 3>(call);
    case Do::kRound:
      if (what.dtype == DType::kF16) return plain_map_of<Rounded<DType::kF16>, 1>(call);
      return plain_map_of<Rounded<DType::kBF16>, 1>(call);
    case Do::kRotate:
      return rotation_of(call.x[0].dtype, call.dtype);
    case Do::kScale:
      return plain_map_of<ScaleOfPeak, 2>(call);
    case Do::kInverse:
      return plain_map_of<InverseOfPeak, 2>(call);
    case Do::kQuantize:
      return plain_map_of<Quantized, 2>(call);
    case Do::kSum:
      return reduction_of<Same, 1, 0, Sum>(call);
    case Do::kSumProduct:
      return reduction_of<ProductOfTwo, 2, 0, Sum>(call);
    case Do::kSumSquares:
      if (call.x[1].step != 0) return reduction_of<SquareOfDifference, 2, 0, Sum>(call);
      return reduction_of<SquareOfDifference, 2, 1, Sum>(call);
    case Do::kMax:
      return reduction_of<Same, 1, 0, Max>(call);
    case Do::kMaxOfNumbers:
      return reduction_of<Same, 1, 0, MaxOfNumbers>(call);
    case Do::kMin:
      return reduction_of<Same, 1, 0, Min>(call);
    case Do::kPeak:
      return reduction_of<Same, 1, 0, Peak>(call);
    case Do::kConvert:
      return conversion_of(call.x[0].dtype);
    case Do::kStore:
      return store_of<Same, 1, Mix::kAny>(call);
    case Do::kStoreQuantized:
      return call.x[0].dtype == DType::kBF16 ? quantizer_of<Mix::kFirst>(call.dtype)
                                             : quantizer_of<Mix::kNone>(call.dtype);
    case Do::kSpread:
      return spread_rows;
    case Do::kStoreNarrow:
      return store_narrow_rows;
  }
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#endif
