// The instructions of a RowTape on vectors: the element function of each, and its loop (row_loops_inl.hpp). Guarded
// as simd_inl.hpp is. Dtypes other than f32 and bf16 are converted by separate instructions.

#if defined(HEADROOM_KERNELS_FUSED_ROW_TAPE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADROOM_KERNELS_FUSED_ROW_TAPE_INL
#undef HEADROOM_KERNELS_FUSED_ROW_TAPE_INL
#else
#define HEADROOM_KERNELS_FUSED_ROW_TAPE_INL
#endif

#include <limits>

#include "kernels/core/simd_inl.hpp"
#include "kernels/elementwise/functions_inl.hpp"
#include "kernels/fused/row_loops_inl.hpp"
#include "kernels/fused/row_tape.hpp"
#include "kernels/fused/small_floats_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

// Formulas of elements.

template <Op kOp, Precision kPrecision>
struct FormulaOf {
  static constexpr bool kIsCoarse = kPrecision == Precision::kBf16;
  template <class... V>
  HWY_INLINE Vector operator()(V... x) const {
    return formula<kOp, kPrecision, Functions<kPrecision>>(x...);
  }
};
/// An activation of a sum, or an activation times an operand.
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
struct WeightedSum {
  HWY_INLINE Vector operator()(Vector a, Vector b, Vector weight_a, Vector weight_b) const {
    return hn::MulAdd(a, weight_a, hn::Mul(b, weight_b));
  }
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
struct Difference {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return hn::Sub(a, b); }
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

/// y = f(x...) rounded to kTo. With `kBounded`, f multiplies by the inverse scale of its row, so that results are
/// within the range of kTo, or by 0 if the row becomes 0.
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
        store_bytes<kBounded>(first, second, at(i + 2 * lanes()), at(i + 3 * lanes()), y + i, call.past_cache);
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
template <bool kExists = kHasFloatLoops>
Run conversion_of(DType dtype) {
  if constexpr (kExists) {
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
  return nullptr;
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
template <class T>
Run rotation_to(DType from) {
  if constexpr (kHasLoops<T>) return from == DType::kBF16 ? rotate_rows_of<Bf16, T> : rotate_rows_of<float, T>;
  return nullptr;
}
Run rotation_of(DType from, DType to) {
  return to == DType::kBF16 ? rotation_to<Bf16>(from) : rotation_to<float>(from);
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

/// e^(x - largest) for x <= largest; 0 below -87, or for bf16 -69, so that no multiplication by it is subnormal.
template <Precision kPrecision>
struct ExpBelow {
  HWY_INLINE Vector operator()(Vector x, Vector largest) const {
    const Float d;
    const Vector log2_e = hn::Set(d, 1.44269504F);
    const Vector distance = hn::Sub(x, largest);
    if constexpr (kPrecision == Precision::kBf16) return exp2_or_zero_for_bf16(hn::Mul(distance, log2_e));
    const Exp2<kPrecision> power(distance, log2_e);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    const __mmask16 is_normal = _mm512_cmp_ps_mask(distance.raw, hn::Set(d, -87.0F).raw, _CMP_NLT_UQ);
    return Vector{_mm512_maskz_scalef_ps(is_normal, power.fraction.raw, power.exponent.raw)};
#else
    const Vector y = hn::IfThenZeroElse(hn::Lt(distance, hn::Set(d, -87.0F)), hn::Mul(power.fraction, power.scale));
    return hn::IfThenElse(hn::IsNaN(distance), distance, y);
#endif
  }
};
template <Precision kPrecision>
Run exponential_of(const Call& call, bool is_stored) {
  using F = ExpBelow<kPrecision>;
  if (call.reduced == nullptr) return plain_map_of<F, 2>(call);
  return is_stored ? reduction_of<F, 2, 1, Sum, true>(call) : reduction_of<F, 2, 1, Sum>(call);
}

/// The loop of an activation, `what.op`.
template <template <Op, Precision> class F, int kOperands>
Run activation_run(const TapeInstruction& what, const Call& call) {
  const auto run = [&]<Op kOp>() -> Run {
    if (call.reduced != nullptr) return joint_with<F<kOp, Precision::kBf16>, kOperands, 0, Peak, Mix::kAny>(call);
    if (what.is_coarse) return activation_map_of<F<kOp, Precision::kBf16>, kOperands>(call);
    return activation_map_of<F<kOp, Precision::kF32>, kOperands>(call);
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
    case Op::kQuickGelu:  // the only other op that has a form for bf16
      if (what.is_coarse) return plain_map_of<FormulaOf<Op::kQuickGelu, Precision::kBf16>, 1>(call);
      break;
    default:
      break;
  }
  switch (what.op) {
#define HR_FORM(enumerator, operands) \
  case Op::enumerator:                \
    return plain_map_of<FormulaOf<Op::enumerator, Precision::kF32>, operands>(call);
#define HR_UNARY(enumerator, ...) HR_FORM(enumerator, 1)
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
    case TapeInstruction::Do::kWeightedSum:
      return joint_with<WeightedSum, 4, 2, NoJoin, Mix::kSecond>(call);
    default:
      if (what.op == Op::kAdd) return joint_of<FormulaOf<Op::kAdd, Precision::kF32>, 2, 0, Mix::kAll>(call, what.join);
      if (splats_of(call, 3) == 1)
        return joint_of<FormulaOf<Op::kGateResidual, Precision::kF32>, 3, 1, Mix::kSecond>(call, what.join);
      return joint_of<FormulaOf<Op::kGateResidual, Precision::kF32>, 3, 0, Mix::kFirstTwo>(call, what.join);
  }
}

/// The loop for an instruction and its call parameters.
inline Run run_of(const TapeInstruction& what, const Call& call, bool is_stored) {
  using Do = TapeInstruction::Do;
  HR_TAKE_FLOAT_LOOPS(
      call.dtype == DType::kF32 && (what.also.kind == TapePlace::Kind::kNone || call.also_dtype != DType::kBF16),
      run_of(what, call, is_stored));
  const bool is_activation = what.what == Do::kActivationOfSum ||
                             (what.what == Do::kFormula && what.op != Op::kAdd && what.op != Op::kGateResidual);
  const bool is_joint = what.what == Do::kFormula || what.what == Do::kNormalize || what.what == Do::kSumOfProducts ||
                        what.what == Do::kWeightedSum;
  if (is_joint && !is_activation && (call.reduced != nullptr || what.also.kind != TapePlace::Kind::kNone))
    return joint_run(what, call);
  switch (what.what) {
    case Do::kFormula:
      return formula_run(what, call);
    case Do::kShiftedScale:
      if (splats_of(call, 3) < 2) return plain_map_of<ShiftedScale, 3>(call);
      return map_splats_of<ShiftedScale, 3, 2>(call);
    case Do::kProduct:
      if (splats_of(call, 3) == 0) return plain_map_of<ProductOfThree, 3>(call);
      return map_splats_of<ProductOfThree, 3, 1>(call);
    case Do::kSumOfProducts:
      return plain_map_of<SumOfProducts, 4>(call);
    case Do::kWeightedSum:
      return map_splats_of<WeightedSum, 4, 2>(call);
    case Do::kActivationOfSum:
      return activation_run<ActivationOfSum, 2>(what, call);
    case Do::kGated:
      return activation_run<GatedBy, 2>(what, call);
    case Do::kNormalize:
      if (call.x[3].step != 0 || call.x[4].step != 0) return plain_map_of<Normalized, 5>(call);
      return map_splats_of<Normalized, 5, 2>(call);
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
      if (what.x[0] == what.x[1]) return reduction_of<Same, 1, 0, SumOfSquares>(call);
      return reduction_of<ProductOfTwo, 2, 0, Sum>(call);
    case Do::kSumSquares:
      if (call.x[1].step != 0) return reduction_of<Difference, 2, 0, SumOfSquares>(call);
      return reduction_of<Difference, 2, 1, SumOfSquares>(call);
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
