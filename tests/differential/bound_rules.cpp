// How far the results of each plain op may lie from what the oracle computed, given how far its operands may.
//
// One row of a table an op. A rule says how operands' errors come through and what the arithmetic of a kernel adds;
// what storing the result adds is the same for all of them, and stands at the end.

#include "differential/bound_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "differential/bound_parts.hpp"
#include "ir/expand.hpp"

namespace headroom::differential {

double value_at(const OracleTensor& tensor, std::size_t i) {
  return is_float(tensor.type.dtype) ? tensor.reals[i] : static_cast<double>(tensor.integers[i]);
}

static bool is_narrow(DType dtype) { return size_of(dtype) < size_of(DType::kF32); }

double function_unit(const Site& site) {
  const bool suffices = is_narrow(site.within.makes) || is_narrow(site.results[0].type.dtype);
  return suffices && site.covers != Covers::kReals ? 0x1p-12 : 4 * arithmetic_unit(site.covers);
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::max();
    case DType::kF16:
      return 65504;
    case DType::kF8E5M2:
      return 57344;
    default:
      return 0.99 * static_cast<double>(std::numeric_limits<float>::max());
  }
}

namespace {

constexpr double kTf32Unit = 0x1p-10;  // of a product of two operands rounded to 11 bits
// Tensor cores add up products of 8-bit floats in fixed point, with 14 bits from the largest one's first on, and cut off
// the rest: each loses up to this of the largest (DeepSeek-AI, "DeepSeek-V3 technical report", 2024, section 3.5.2).
constexpr double kFloat8Unit = 0x1p-13;
// cuBLASLt says nothing of the tanh in its gelu epilogue, x / 2 * (1 + tanh(u)). Measured, it is good to 5e-6, rounded up
// here (docs/gpu_facts.md): far better than PTX's tanh.approx.f32 (2^-11), and worse than the tanh of CUDA's table of
// functions (2 ulp).
constexpr double kCublasltTanhUnit = 0x1p-17;

Field magnitudes(const OracleTensor& tensor) {
  Field field(static_cast<std::size_t>(tensor.type.shape.numel()));
  for (std::size_t i = 0; i < field.size(); ++i) field[i] = std::fabs(value_at(tensor, i));
  return field;
}

/// Half the distance between 1 and the next number: what storing a result rounds by, relatively, and at least.
struct StorageUnit {
  double relative = 0;
  double least = 0;
};
StorageUnit storage_unit(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {0x1p-24, 0x1p-126};  // results below the normal numbers may be flushed to zero
    case DType::kF16:
      return {0x1p-11, 0x1p-25};
    case DType::kBF16:
      return {0x1p-8, 0x1p-126};
    case DType::kF8E4M3:
      return {0x1p-4, 0x1p-10};
    case DType::kF8E5M2:
      return {0x1p-3, 0x1p-17};
    default:
      return {};
  }
}

/// An error that the range of results caps, unless it comes from an operand that may not be finite.
double capped(double error, double most) { return std::isfinite(error) ? std::min(error, most) : kInfinity; }

double round_to(DType dtype, double value) {
  std::array<std::byte, 8> bytes{};
  store_from_double(bytes.data(), dtype, value);
  return load_as_double(bytes.data(), dtype);
}

/// Whether operand 1 says which rows.
bool reads_rows(Op op) { return op == Op::kRow || op == Op::kGather || op == Op::kScatterAdd; }

/// The op on other numbers than its operands': on bounds, or on magnitudes. Integer operands stay as they are.
Field evaluate(const Site& site, Op op, const Attributes& attributes, std::vector<Field> fields) {
  std::vector<OracleTensor> operands;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const TensorType& type = site.operands[i]->value.type;
    if (i == 1 && reads_rows(site.op))
      operands.push_back(site.operands[i]->value);
    else
      operands.push_back({{DType::kF64, type.shape, type.layout}, std::move(fields[i]), {}});
  }
  return interpret_node(op, attributes, operands)[0].reals;
}

std::vector<Field> operand_errors(const Site& site) {
  std::vector<Field> errors;
  for (const Bounded* operand : site.operands) errors.push_back(operand->error);
  return errors;
}

/// Results that are operands, moved.
Errors moved(const Site& site) { return {evaluate(site, site.op, site.attributes, operand_errors(site))}; }

/// Nothing is known of rows whose numbers are not.
Errors gathered(const Site& site) {
  const bool is_known = std::ranges::all_of(site.operands[1]->error, [](double error) { return error == 0; });
  return is_known ? moved(site)
                  : Errors{Field(static_cast<std::size_t>(site.results[0].type.shape.numel()), kInfinity)};
}

Errors padded(const Site& site) {
  return {evaluate(site, site.op, site.attributes.with("value", 0.0), operand_errors(site))};
}

/// The same on every device: constants, and random numbers, whose keys are integers.
Errors exact(const Site& site) { return {Field(static_cast<std::size_t>(site.results[0].type.shape.numel()))}; }

Errors sum(const Site& site) { return {evaluate(site, Op::kAdd, Attributes(Op::kAdd, {}), operand_errors(site))}; }

/// How many products a result adds up.
double terms_of(const Site& site) {
  if (site.op == Op::kMul) return 1;
  const Shape& weight = site.operands[1]->value.type.shape;
  if (site.op == Op::kConv2d) return static_cast<double>(weight.numel() / weight[0]);
  if (site.op == Op::kConvTranspose2d) return static_cast<double>(weight.numel() / weight[1]);  // no more than that
  return static_cast<double>(site.operands[0]->value.type.shape[-1]);
}

bool is_convolution(Op op) { return op == Op::kConv2d || op == Op::kConvTranspose2d; }

/// Half a step of a convolution's sums, and of these with the bias, where a GPU stores them in 16 bits before another
/// kernel adds what follows.
double rounded_on_the_way(const Site& site, std::size_t i) {
  if (site.covers != Covers::kCudaKernels || site.operands.size() < 3 || !is_narrow(site.results[0].type.dtype))
    return 0;
  const Shape& shape = site.results[0].type.shape;  // [b, o, h, w]
  const auto image = static_cast<std::size_t>(shape[2] * shape[3]), channels = static_cast<std::size_t>(shape[1]);
  double sums = site.results[0].reals[i];
  if (site.operands.size() > 3) sums -= site.operands[3]->value.reals[i];
  const double product = sums - site.operands[2]->value.reals[i / image % channels];
  return storage_unit(site.results[0].type.dtype).relative * (std::fabs(product) + std::fabs(sums));
}

/// Half a step of the product alone, where cuBLASLt rounds it to 16 bits before it adds the bias and takes the function:
/// some of its algorithms do (docs/gpu_facts.md).
double rounded_before_bias(const Site& site, std::size_t i) {
  if (is_convolution(site.op)) return rounded_on_the_way(site, i);
  if (!site.within.is_cublaslt || site.operands.size() < 3 || !is_narrow(site.within.makes)) return 0;
  const OracleTensor& bias = site.operands[2]->value;
  const double product = site.results[0].reals[i] - bias.reals[i % bias.reals.size()];
  return storage_unit(site.within.makes).relative * std::fabs(product);
}

/// Linear in every operand, and a sum of products: at most as far off as with everything positive. Products and sums
/// below the normal numbers may be flushed to zero one by one (Intel SDM, VDPBF16PS and TDPBF16PS always do).
Errors multilinear(const Site& site) {
  std::vector<Field> sizes, reaches;
  for (const Bounded* operand : site.operands) {
    sizes.push_back(magnitudes(operand->value));
    reaches.push_back(sizes.back());
    for (std::size_t i = 0; i < reaches.back().size(); ++i) reaches.back()[i] += operand->error[i];
  }
  double unit = (terms_of(site) + 2) * arithmetic_unit(site.covers);
  const double flushed = site.covers == Covers::kReals ? 0 : terms_of(site) * storage_unit(DType::kF32).least;
  const bool may_be_tf32 = site.op == Op::kLinear || site.op == Op::kMatmul || is_convolution(site.op);
  if (may_be_tf32 && site.attributes.get_int("tf32") != 0) unit += kTf32Unit;
  if (site.op == Op::kLinear && site.within.multiplies_f8 && site.covers != Covers::kReals)
    unit += terms_of(site) * kFloat8Unit;
  const Field size = evaluate(site, site.op, site.attributes, sizes);
  Field error = evaluate(site, site.op, site.attributes, reaches);
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double reach = error[i];
    error[i] = std::max(0.0, reach - size[i]) + unit * reach + flushed + rounded_before_bias(site, i);
  }
  return {error};
}

Errors scalar(const Site& site) {
  const double value = site.attributes.get_float("value");
  Field error = site.operands[0]->error;
  for (std::size_t i = 0; i < error.size(); ++i) {
    if (site.op == Op::kMulScalar)
      error[i] *= std::fabs(value);
    else
      error[i] += arithmetic_unit(site.covers) * std::fabs(value);
  }
  return {error};
}

/// Of an activation, none of which is anywhere steeper than this: relu, silu (1.100), gelu (1.129).
Errors activation(const Site& site) {
  Field error = site.operands[0]->error;
  double unit = function_unit(site);
  if (site.op == Op::kGeluTanh && site.within.is_cublaslt) unit += kCublasltTanhUnit / 2;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double x = std::fabs(site.operands[0]->value.reals[i]);
    error[i] = site.op == Op::kRelu ? error[i] : kSteepestUnary * error[i] + unit * x;
  }
  return {error};
}

Errors unary(const Site& site) {
  for (const Op op : {Op::kRelu, Op::kSilu, Op::kGeluTanh, Op::kQuickGelu, Op::kGeluErf})
    if (site.op == op) return activation(site);
  return function_errors(site);
}

/// Whether every number of `from` is one of `to`.
bool holds(DType to, DType from) {
  if (!is_float(to) || !is_float(from)) return false;
  const StorageUnit coarse = storage_unit(to), fine = storage_unit(from);
  return coarse.relative <= fine.relative && coarse.least <= fine.least;  // bf16 and f16 do not hold each other
}

/// Rounding is monotone, so the results of the interval's ends hold all that lies between.
Errors cast(const Site& site) {
  const OracleTensor& x = site.operands[0]->value;
  const DType from = x.type.dtype, to = site.results[0].type.dtype;
  // Where f32 is a real as f64 is, a cast between them may or may not round.
  const bool is_real = site.covers == Covers::kReals && from == DType::kF64 && to == DType::kF32;
  const bool widens = holds(to, from) || is_real;
  Field error = site.operands[0]->error;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double value = value_at(x, i), result = value_at(site.results[0], i), reach = error[i];
    if (site.covers == Covers::kUnrounded) {
      error[i] += std::fabs(result - value) + storage_unit(to).relative * std::fabs(value) + (is_float(to) ? 0 : 0.5);
      if (!is_float(from) && reach == 0) error[i] = 0;
    } else if (to == DType::kBool) {
      error[i] = reach > 0 && std::fabs(value) <= reach ? 1 : 0;
    } else if (widens) {
      error[i] += storage_unit(to).relative * (std::fabs(value) + reach);  // of what the narrower dtype rounds already
    } else if (reach > 0) {
      error[i] = std::max(round_to(to, value + reach) - result, result - round_to(to, value - reach));
    }
  }
  return {error};
}

/// p = exp(x - max) / sum: relatively off by what moves the exponents.
Errors softmax(const Site& site) {
  const Bounded& x = *site.operands[0];
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  const double unit = arithmetic_unit(site.covers);
  Field error(x.error.size());
  for (std::size_t start = 0; start < error.size(); start += width) {
    const auto row = std::span(x.value.reals).subspan(start, width);
    const double peak = *std::ranges::max_element(row);
    const double most = *std::ranges::max_element(std::span(x.error).subspan(start, width));
    for (std::size_t i = start; i < start + width; ++i) {
      const double below = std::min(peak - x.value.reals[i], 100.0);
      const double exponent =
          x.error[i] + most + 2 * function_unit(site) + unit * (8 + 2 * below + static_cast<double>(width));
      const double off = std::isfinite(exponent) ? std::expm1(std::min(exponent, 50.0)) : kInfinity;
      error[i] = capped(site.results[0].reals[i] * off + 0x1p-120, 1.0);
    }
  }
  return {error};
}

/// Scales are off by what the peak is, elements by that and by a step where their reach crosses a boundary.
Errors quantize(const Site& site) {
  const Bounded& x = *site.operands[0];
  const DType dtype = site.results[0].type.dtype;
  const double largest = dtype == DType::kI8 ? 127 : 448;
  const auto width = static_cast<std::size_t>(x.value.type.shape[-1]);
  Errors errors = {Field(x.error.size()), Field(x.error.size() / width)};
  for (std::size_t row = 0; row < errors[1].size(); ++row) {
    double peak = 0, reach = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      peak = std::max(peak, std::fabs(x.value.reals[i]));
      reach = std::max(reach, x.error[i]);
    }
    const bool is_clear = reach == 0 || (peak > 2 * reach && peak > 0x1p-90 && std::isfinite(peak));
    const double scale = site.results[1].reals[row];
    double& scale_error = errors[1][row];
    if (!is_clear)
      scale_error = kInfinity;
    else if (site.covers == Covers::kReals && reach > 0)
      scale_error = std::max(round_to(DType::kF32, (peak + reach) / largest) - scale,
                             scale - round_to(DType::kF32, (peak - reach) / largest));
    else if (peak > 0)
      scale_error = reach / largest + kSingleUnit * scale;
    const double relative = is_clear && peak > 0 ? reach / (peak - reach) : 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double scaled = peak > 0x1p-100 ? x.value.reals[i] * largest / peak : x.value.reals[i];
      const double q = value_at(site.results[0], i);
      double off = (x.error[i] * largest / std::max(peak, 0x1p-100) + std::fabs(scaled) * relative) * (1 + relative);
      if (site.covers != Covers::kReals) off += 4 * kSingleUnit * std::fabs(scaled);
      if (!is_clear)
        errors[0][i] = std::isfinite(reach) ? 2 * largest : kInfinity;
      else if (site.covers == Covers::kUnrounded)
        errors[0][i] = off + std::fabs(q - scaled) + (dtype == DType::kI8 ? 0.5 : 0x1p-4 * std::fabs(scaled) + 0x1p-10);
      else if (off > 0)
        errors[0][i] = std::max(round_to(dtype, scaled + off) - q, q - round_to(dtype, scaled - off));
      errors[0][i] = std::max(0.0, errors[0][i]);
    }
  }
  return errors;
}

/// cos and sin of angles that are off by `error` of what they are proportional to.
void angle_errors(const Site& site, double angle, double error, double& of_cos, double& of_sin) {
  const double off = capped(error + arithmetic_unit(site.covers) * (2 + 2 * std::fabs(angle)), 2.0);
  of_cos = of_sin = off;
}

Errors rope_table(const Site& site) {
  const Bounded& ids = *site.operands[0];
  const std::vector<std::int64_t>& axes = site.attributes.get_ints("axes");
  const double theta = site.attributes.get_float("theta");
  Errors errors = {Field(site.results[0].reals.size()), Field(site.results[0].reals.size())};
  std::size_t column = 0;
  for (std::size_t source = 0; source < ids.error.size(); ++source) {
    const std::int64_t extent = axes[source % axes.size()];
    for (std::int64_t i = 0; i < extent / 2; ++i, ++column) {
      const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(extent));
      angle_errors(site, value_at(ids.value, source) * frequency, ids.error[source] * frequency, errors[0][column],
                   errors[1][column]);
    }
  }
  return errors;
}

Errors timestep_embedding(const Site& site) {
  const Bounded& t = *site.operands[0];
  const double scale = site.attributes.get_float("scale"), period = site.attributes.get_float("max_period");
  const auto half = static_cast<std::size_t>(site.attributes.get_int("dim") / 2);
  Field error(2 * half * t.error.size());
  for (std::size_t b = 0; b < t.error.size(); ++b)
    for (std::size_t i = 0; i < half; ++i) {
      const double frequency = std::fabs(scale) * std::pow(period, -static_cast<double>(i) / static_cast<double>(half));
      angle_errors(site, value_at(t.value, b) * frequency, t.error[b] * frequency, error[b * 2 * half + i],
                   error[b * 2 * half + half + i]);
    }
  return {error};
}

Errors rope(const Site& site) {
  const Bounded& x = *site.operands[0];
  const Bounded& cos = *site.operands[1];
  const Bounded& sin = *site.operands[2];
  const double unit = 4 * arithmetic_unit(site.covers);
  Field error(x.error.size());
  for (std::size_t pair = 0; pair < error.size() / 2; ++pair) {
    const std::size_t even = 2 * pair, odd = even + 1, angle = pair % cos.error.size();
    const auto product = [&](std::size_t i, const Bounded& table) {
      const double size = std::fabs(x.value.reals[i]), factor = std::fabs(table.value.reals[angle]);
      const double reach = (size + x.error[i]) * (factor + table.error[angle]);
      return std::max(0.0, reach - size * factor) + unit * reach;
    };
    error[even] = product(even, cos) + product(odd, sin);
    error[odd] = product(odd, cos) + product(even, sin);
  }
  return {error};
}

/// Sums of elements, or their mean: of a row, or of what disappears.
Errors sums(const Site& site) {
  const std::size_t elements = site.operands[0]->error.size(), results = site.results[0].reals.size();
  const std::size_t count =
      site.op == Op::kCumsum ? static_cast<std::size_t>(site.operands[0]->value.type.shape[-1]) : elements / results;
  const Field sizes = evaluate(site, site.op, site.attributes, {magnitudes(site.operands[0]->value)});
  Field error = moved(site)[0];
  for (std::size_t i = 0; i < error.size(); ++i)
    error[i] += static_cast<double>(count + 2) * arithmetic_unit(site.covers) * sizes[i];
  return {error};
}

/// Of what is already `errors`, and of so many roundings of results of the op on magnitudes.
Errors with_roundings(const Site& site, double roundings, Errors errors) {
  std::vector<Field> sizes;
  for (const Bounded* operand : site.operands) sizes.push_back(magnitudes(operand->value));
  const Field size = evaluate(site, site.op, site.attributes, sizes);
  for (std::size_t i = 0; i < size.size(); ++i) errors[0][i] += roundings * arithmetic_unit(site.covers) * size[i];
  return errors;
}

Errors scattered(const Site& site) {
  return with_roundings(site, static_cast<double>(site.operands[1]->error.size() + 2), gathered(site));
}

/// Three interpolations of three operations each, with weights that are rounded themselves.
Errors resized(const Site& site) {
  return with_roundings(site, site.attributes.get_text("mode") == "bilinear" ? 12 : 0, moved(site));
}

/// Whether the results are rounded when they are stored: moved elements are what they were, and casts and quantizers
/// have rounded already.
enum class Stored : std::uint8_t { kAsIs, kRounded };

struct Rule {
  Op op;
  Errors (*errors)(const Site& site);
  Stored stored = Stored::kRounded;
};

constexpr std::array kRules = {
    Rule{Op::kAdd, sum},
    Rule{Op::kSub, sum},
    Rule{Op::kMul, multilinear},
    Rule{Op::kAddScalar, scalar},
    Rule{Op::kMulScalar, scalar},
#define HR_UNARY(enumerator, ...) Rule{Op::enumerator, unary},
#define HR_ANY(...)
#include "ir/elementwise.def"
    Rule{Op::kClamp, clamp_errors},
    Rule{Op::kDiv, div_errors},
    Rule{Op::kPow, pow_errors},
    Rule{Op::kMod, mod_errors},
    Rule{Op::kMin, extreme_errors, Stored::kAsIs},
    Rule{Op::kMax, extreme_errors, Stored::kAsIs},
    Rule{Op::kLess, comparison_errors, Stored::kAsIs},
    Rule{Op::kLessEqual, comparison_errors, Stored::kAsIs},
    Rule{Op::kEqual, comparison_errors, Stored::kAsIs},
    Rule{Op::kSelect, select_errors, Stored::kAsIs},
    Rule{Op::kCast, cast, Stored::kAsIs},
    Rule{Op::kLinear, multilinear},
    Rule{Op::kMatmul, multilinear},
    Rule{Op::kQuantize, quantize, Stored::kAsIs},
    Rule{Op::kSoftmax, softmax},
    Rule{Op::kLayerNorm, layer_norm_errors},
    Rule{Op::kRmsNorm, rms_norm_errors},
    Rule{Op::kGroupNorm, group_norm_errors},
    Rule{Op::kRopeTable, rope_table},
    Rule{Op::kRope, rope},
    Rule{Op::kTimestepEmbedding, timestep_embedding},
    Rule{Op::kReshape, moved, Stored::kAsIs},
    Rule{Op::kTranspose, moved, Stored::kAsIs},
    Rule{Op::kConcat, moved, Stored::kAsIs},
    Rule{Op::kSlice, moved, Stored::kAsIs},
    Rule{Op::kRow, moved, Stored::kAsIs},
    Rule{Op::kConv2d, multilinear},
    Rule{Op::kConvTranspose2d, multilinear},
    Rule{Op::kConstant, exact, Stored::kAsIs},
    Rule{Op::kRandom, exact, Stored::kAsIs},
    Rule{Op::kGather, gathered, Stored::kAsIs},
    Rule{Op::kScatterAdd, scattered},
    Rule{Op::kPad, padded, Stored::kAsIs},
    Rule{Op::kBroadcast, moved, Stored::kAsIs},
    Rule{Op::kResize2d, resized},
    Rule{Op::kMaxPool2d, moved},
    Rule{Op::kAvgPool2d, sums},
    Rule{Op::kMean, sums},
    Rule{Op::kSum, sums},
    Rule{Op::kAmax, reduced_extreme_errors, Stored::kAsIs},
    Rule{Op::kAmin, reduced_extreme_errors, Stored::kAsIs},
    Rule{Op::kArgmax, argmax_errors, Stored::kAsIs},
    Rule{Op::kTopk, topk_errors, Stored::kAsIs},
    Rule{Op::kCumsum, sums},
};

void add_rounding(const Site& site, const OracleTensor& result, Field& error) {
  const DType dtype = result.type.dtype;
  if (!is_float(dtype)) return;
  const bool is_real = site.covers == Covers::kReals && size_of(dtype) >= size_of(DType::kF32);
  const StorageUnit unit = is_real ? StorageUnit{kDoubleUnit, 0} : storage_unit(dtype);
  const double arithmetic = 2 * arithmetic_unit(site.covers);
  for (std::size_t i = 0; i < error.size(); ++i)
    if (std::isfinite(result.reals[i]))
      error[i] += (unit.relative + arithmetic) * (std::fabs(result.reals[i]) + error[i]) + unit.least;
}

}  // namespace

std::vector<std::vector<double>> bound_errors(const Site& site) {
  const auto* rule = std::ranges::find(kRules, site.op, &Rule::op);
  if (rule == kRules.end()) fail("{} has no row in tests/differential/bound_rules.cpp", name_of(site.op));
  Errors errors = rule->errors(site);
  HR_CHECK_EQ(errors.size(), site.results.size());
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (rule->stored == Stored::kRounded) add_rounding(site, site.results[r], errors[r]);
    const double largest = largest_of(site.results[r].type.dtype);
    const bool keeps_infinities = rule->stored == Stored::kAsIs || site.op == Op::kAdd;  // a mask's, which are exact
    for (std::size_t i = 0; i < errors[r].size(); ++i) {
      const double value = value_at(site.results[r], i);
      if (keeps_infinities && std::isinf(value) && std::isfinite(errors[r][i])) continue;
      if (!(std::fabs(value) + errors[r][i] <= largest)) errors[r][i] = kInfinity;
    }
  }
  return errors;
}

bool has_bound(Op op) { return schema_of(op).fused || std::ranges::find(kRules, op, &Rule::op) != kRules.end(); }

}  // namespace headroom::differential
