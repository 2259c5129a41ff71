#include "testing/compare.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "ir/interpreter.hpp"
#include "ir/test_cases/value_range.hpp"
#include "testing/test_tensor.hpp"

namespace headroom {
namespace {

double round_to(double value, DType dtype) {
  std::array<std::byte, 8> bytes{};
  store_from_double(bytes.data(), dtype, value);
  return load_as_double(bytes.data(), dtype);
}

struct Verdict {
  double relative_l2 = 0;
  std::string message;
};

std::string name_element(const TestTensor& out, std::int64_t index) {
  return fmt::format("element {} of {}{}", coordinates_of(out.operand().type.shape, index), out.operand().type.dtype,
                     out.operand().type.shape);
}

/// Integers and booleans must be exact.
Verdict judge_integers(const TestTensor& out, const OracleTensor& reference) {
  for (std::int64_t i = 0; i < out.operand().type.shape.numel(); ++i) {
    const std::int64_t expected = reference.integers[static_cast<std::size_t>(i)];
    if (out.integer(i) != expected)
      return {.relative_l2 = 1,
              .message = fmt::format("{} is {}, expected {}", name_element(out, i), out.integer(i), expected)};
  }
  return {};
}

Verdict judge_reals(const TestTensor& out, const OracleTensor& reference, Tolerance tolerance) {
  const DType dtype = out.operand().type.dtype;
  const auto numel = out.operand().type.shape.numel();
  double error_squares = 0, reference_squares = 0, peak = 0, worst = 0;
  std::int64_t worst_index = 0;
  for (std::int64_t i = 0; i < numel; ++i) {
    const double expected = reference.reals[static_cast<std::size_t>(i)];
    const double got = out.real(i);
    const double rounded = round_to(expected, dtype);  // values beyond the dtype's range become infinite
    if (std::isnan(expected) && std::isnan(got)) continue;
    const bool special = std::isnan(expected) || std::isnan(got) || std::isinf(rounded) || std::isinf(got);
    if (special && got != rounded)
      return {.relative_l2 = INFINITY,
              .message = fmt::format("{} is {}, expected {}", name_element(out, i), got, rounded)};
    if (special) continue;
    if (tolerance.rounds_once) {
      if (got == rounded) continue;
      return {.relative_l2 = INFINITY,
              .message = fmt::format("{} is {}, expected {}, which is {:.9g} rounded once", name_element(out, i), got,
                                     rounded, expected)};
    }
    const double error = std::fabs(got - expected);
    error_squares += error * error;
    reference_squares += expected * expected;
    peak = std::max(peak, std::fabs(expected));
    if (error > worst) {
      worst = error;
      worst_index = i;
    }
  }
  Verdict verdict;
  if (error_squares > 0)
    verdict.relative_l2 = std::sqrt(error_squares / reference_squares);  // infinite where the reference is 0
  const double allowed = tolerance.max_ulps_of_peak * epsilon_of(dtype) * peak + tolerance.absolute;
  const double allowed_l2 =
      tolerance.relative_l2 * std::sqrt(reference_squares) + tolerance.absolute * std::sqrt(static_cast<double>(numel));
  if (!(std::sqrt(error_squares) <= allowed_l2) || !(worst <= allowed)) {
    verdict.message = fmt::format(
        "relative L2 error {:.3g} (allowed {:.3g}); worst is {}: {}, expected {}, off by {:.3g} (allowed {:.3g})",
        verdict.relative_l2, tolerance.relative_l2, name_element(out, worst_index), out.real(worst_index),
        reference.reals[static_cast<std::size_t>(worst_index)], worst, allowed);
  }
  return verdict;
}

/// The stored bits of the elements; one pattern for every NaN.
std::vector<std::uint64_t> bits_of(const TestTensor& tensor) {
  const TensorType& type = tensor.operand().type;
  std::vector<std::uint64_t> bits;
  for (std::int64_t i = 0; i < type.shape.numel(); ++i) {
    if (!is_float(type.dtype))
      bits.push_back(std::bit_cast<std::uint64_t>(tensor.integer(i)));
    else
      bits.push_back(std::isnan(tensor.real(i)) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(tensor.real(i)));
  }
  return bits;
}

Verdict judge(const TestTensor& out, const OracleTensor& reference, Tolerance tolerance) {
  HR_CHECK_EQ(reference.type.shape.to_string(), out.operand().type.shape.to_string());
  return is_float(out.operand().type.dtype) ? judge_reals(out, reference, tolerance) : judge_integers(out, reference);
}

/// One kernel prepared for one spec, with everything it reads.
class Run {
 public:
  Run(Backend& backend, const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target, TestStrides strides,
      const LateWork& late_work)
      : kernel_(kernel), spec_(spec), late_work_(late_work), backend_(backend), stream_(backend.make_stream()) {
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      // Folded weights are always given dense.
      const StrideRule rule =
          spec.has_weight_at(i) ? StrideRule::kDense : kernel.input_strides(spec, static_cast<int>(i));
      inputs_.push_back(place_for_test(spec.inputs[i], rule, strides, i));
    }
    for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
      const StrideRule rule = kernel.output_strides(spec, static_cast<int>(i));
      outputs_.push_back(place_for_test(spec.outputs[i], rule, strides, spec.inputs.size() + i));
    }
    prepared_ = kernel.prepare(spec, inputs_, outputs_, target);
    HR_CHECK(prepared_ != nullptr);
    prepared_->finish();
  }

  /// Compares on given operands: out of place, and over each input that the kernel may overwrite.
  Verdict compare(std::vector<OracleTensor> operands, Tolerance tolerance);

  /// The algorithm of the library that runs, as the kernel names it.
  [[nodiscard]] const std::string& implementation() const { return prepared_->implementation(); }

 private:
  /// An output that is written over an input.
  struct InPlace {
    std::size_t input = 0, output = 0;
  };
  /// Launches once and compares, with these outputs over their inputs.
  Verdict launch(Tolerance tolerance, const std::vector<InPlace>& in_place);
  static bool overwrites(const std::vector<InPlace>& in_place, std::size_t input) {
    return std::ranges::count(in_place, input, &InPlace::input) > 0;
  }

  /// Whether the kernel allows an output over an input, and their types match.
  [[nodiscard]] bool can_overwrite(const InPlace& place) const {
    const Operand &input = inputs_[place.input], &output = outputs_[place.output];
    return kernel_.may_overwrite(spec_, static_cast<int>(place.input), static_cast<int>(place.output)) &&
           input.type == output.type && input.strides == output.strides;
  }

  [[nodiscard]] std::string pack_weights(std::vector<DevicePointer>& places);
  void submit_late_work(TestTensor& scratch);
  [[nodiscard]] std::string check_all(const std::vector<InPlace>& in_place, TestTensor& scratch);
  [[nodiscard]] std::string check_same_bits(bool is_apart);

  const Kernel& kernel_;
  const OpSpec& spec_;
  const LateWork& late_work_;
  bool has_launched_ = false;
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<OracleTensor> values_, references_;
  std::vector<Operand> inputs_, outputs_;
  std::unique_ptr<PreparedKernel> prepared_;
  std::vector<std::unique_ptr<TestTensor>> input_tensors_, output_tensors_, packed_tensors_;
  std::vector<std::vector<std::uint64_t>> apart_;  ///< the outputs, computed out of place
};

std::string Run::pack_weights(std::vector<DevicePointer>& places) {
  packed_tensors_.clear();
  const std::span<const PackedWeight> packed = prepared_->packed_weights();
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const auto input = static_cast<std::size_t>(packed[i].input);
    HR_CHECK(packed[i].input >= 0 && input < spec_.inputs.size());
    if (!spec_.has_weight_at(input)) return fmt::format("input {} is packed but is no weight", input);
    if (packed[i].layout.empty()) return fmt::format("the packed form of input {} has no layout name", input);
    auto& tensor = packed_tensors_.emplace_back(std::make_unique<TestTensor>(backend_, packed[i].bytes));
    tensor->upload(*stream_);
    prepared_->pack(*stream_, i, input_tensors_[input]->device(), tensor->device());
    if (const std::string overrun = tensor->download_and_check(*stream_, true); !overrun.empty())
      return fmt::format("the packed form of input {} {}", input, overrun);
    tensor->upload(*stream_);  // from here on it must not change
    places[input] = tensor->device();
  }
  return {};
}

void Run::submit_late_work(TestTensor& scratch) {
  std::vector<LateCopy> copies{scratch.hold_back(*stream_)};
  for (std::size_t i = 0; i < input_tensors_.size(); ++i)
    if (!spec_.has_weight_at(i)) copies.push_back(input_tensors_[i]->hold_back(*stream_));
  for (const auto& tensor : output_tensors_) copies.push_back(tensor->hold_back(*stream_));
  late_work_(*stream_, copies);
}

std::string Run::check_all(const std::vector<InPlace>& in_place, TestTensor& scratch) {
  for (std::size_t i = 0; i < output_tensors_.size(); ++i)
    if (const std::string wrong = output_tensors_[i]->download_and_check(*stream_, true); !wrong.empty())
      return fmt::format("output {} {}", i, wrong);
  for (std::size_t i = 0; i < input_tensors_.size(); ++i) {
    if (overwrites(in_place, i)) continue;
    if (const std::string wrong = input_tensors_[i]->download_and_check(*stream_, false); !wrong.empty())
      return fmt::format("input {} {}", i, wrong);
  }
  for (const auto& packed : packed_tensors_)
    if (const std::string wrong = packed->download_and_check(*stream_, false); !wrong.empty())
      return fmt::format("a packed weight {}", wrong);
  if (const std::string wrong = scratch.download_and_check(*stream_, true); !wrong.empty())
    return fmt::format("scratch {}", wrong);
  return {};
}

std::string Run::check_same_bits(bool is_apart) {
  std::vector<std::vector<std::uint64_t>> bits;
  for (const auto& tensor : output_tensors_) bits.push_back(bits_of(*tensor));
  if (is_apart) {
    apart_ = std::move(bits);
    return {};
  }
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto differs = std::ranges::mismatch(apart_[i], bits[i]);
    if (differs.in1 == apart_[i].end()) continue;
    const std::int64_t index = differs.in1 - apart_[i].begin();
    const bool is_real = is_float(output_tensors_[i]->operand().type.dtype);
    const auto number = [&](std::uint64_t stored) {
      return is_real ? fmt::format("{}", std::bit_cast<double>(stored))
                     : fmt::format("{}", std::bit_cast<std::int64_t>(stored));
    };
    return fmt::format("output {}: {} is {}, and {} where the output lies apart", i,
                       name_element(*output_tensors_[i], index), number(*differs.in2), number(*differs.in1));
  }
  return {};
}

Verdict Run::launch(Tolerance tolerance, const std::vector<InPlace>& in_place) {
  input_tensors_.clear();
  output_tensors_.clear();
  std::vector<DevicePointer> input_places, output_places;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    auto& tensor =
        input_tensors_.emplace_back(std::make_unique<TestTensor>(backend_, inputs_[i], TestTensor::Role::kInput));
    tensor->store(values_[i]);
    tensor->upload(*stream_);
    input_places.push_back(tensor->device());
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    auto& tensor =
        output_tensors_.emplace_back(std::make_unique<TestTensor>(backend_, outputs_[i], TestTensor::Role::kOutput));
    for (const InPlace& place : in_place)
      if (place.output == i) tensor->store(values_[place.input]);
    tensor->upload(*stream_);
    output_places.push_back(tensor->device());
  }
  if (std::string wrong = pack_weights(input_places); !wrong.empty()) return {.message = std::move(wrong)};
  for (const InPlace& place : in_place) input_places[place.input] = output_places[place.output];
  TestTensor scratch(backend_, prepared_->scratch_bytes());
  scratch.upload(*stream_);

  const LaunchArguments arguments{
      .stream = *stream_, .inputs = input_places, .outputs = output_places, .scratch = scratch.device()};
  if (late_work_) {
    if (!std::exchange(has_launched_,
                       true)) {  // the first launch may load code, and would run after the late work
      prepared_->launch(arguments);
      for (const auto& tensor : input_tensors_) tensor->upload(*stream_);
      for (const auto& tensor : output_tensors_) tensor->upload(*stream_);
      scratch.upload(*stream_);
    }
    submit_late_work(scratch);
  }
  prepared_->launch(arguments);

  if (std::string wrong = check_all(in_place, scratch); !wrong.empty()) return {.message = std::move(wrong)};
  Verdict worst;
  for (std::size_t i = 0; i < output_tensors_.size(); ++i) {
    Verdict verdict = judge(*output_tensors_[i], references_[i], tolerance);
    if (!verdict.message.empty()) return {verdict.relative_l2, fmt::format("output {}: {}", i, verdict.message)};
    worst.relative_l2 = std::max(worst.relative_l2, verdict.relative_l2);
  }
  worst.message = check_same_bits(in_place.empty());
  return worst;
}

Verdict Run::compare(std::vector<OracleTensor> operands, Tolerance tolerance) {
  HR_CHECK_EQ(operands.size(), spec_.inputs.size());
  values_ = std::move(operands);
  references_ = interpret_node(spec_.op, spec_.attributes, values_);
  HR_CHECK_EQ(references_.size(), spec_.outputs.size());
  Verdict verdict = launch(tolerance, {});
  const auto launch_over = [&](const std::vector<InPlace>& in_place) {
    const Verdict over = launch(tolerance, in_place);
    verdict.relative_l2 = std::max(verdict.relative_l2, over.relative_l2);
    if (over.message.empty()) return;
    const InPlace& first = in_place.front();
    verdict.message = in_place.size() > 1
                          ? fmt::format("with {} outputs in place: {}", in_place.size(), over.message)
                          : fmt::format("output {} over input {}: {}", first.output, first.input, over.message);
  };
  std::vector<InPlace> together;  // an input for each output that may have one, not the same twice
  for (std::size_t output = 0; output < spec_.outputs.size(); ++output)
    for (std::size_t input = 0; input < spec_.inputs.size() && verdict.message.empty(); ++input) {
      const InPlace place{input, output};
      if (!can_overwrite(place)) continue;
      launch_over({place});
      const bool has_one = !together.empty() && together.back().output == output;
      if (!has_one && !overwrites(together, input)) together.push_back(place);
    }
  if (together.size() > 1 && verdict.message.empty()) launch_over(together);
  return verdict;
}

void plant(Special special, OracleTensor& operand, std::uint64_t seed) {
  std::vector<float> draws(2);
  fill_uniform(draws, seed, static_cast<std::uint64_t>(special));
  const auto count = operand.reals.size();
  const auto place = [&](std::size_t draw, std::size_t of) {
    return std::min(of - 1, static_cast<std::size_t>(draws[draw] * static_cast<float>(of)));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (special == Special::kZeros) {
    const Shape& shape = operand.type.shape;
    const std::size_t width = shape.rank() == 0 ? 1 : static_cast<std::size_t>(shape[-1]);
    std::fill_n(operand.reals.begin() + static_cast<std::ptrdiff_t>(place(0, count / width) * width), width, 0.0);
  } else if (special == Special::kNaN) {
    operand.reals[place(0, count)] = std::numeric_limits<double>::quiet_NaN();
  } else {
    operand.reals[place(0, count)] = kInfinity;
    operand.reals[place(1, count)] = -kInfinity;
  }
}

/// Whether the dtype has infinities: E4M3 has only a NaN.
bool has_infinities(DType dtype) { return dtype != DType::kF8E4M3; }

}  // namespace

Comparison compare_on(Backend& backend, const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target,
                      std::vector<OracleTensor> operands, Tolerance tolerance, TestStrides strides,
                      const LateWork& late_work) {
  if (const Support rejection = kernel.supports(spec, target)) return {.message = "rejected: " + rejection->reason};
  Run run(backend, kernel, spec, target, strides, late_work);
  Verdict verdict = run.compare(std::move(operands), tolerance);
  if (!verdict.message.empty()) verdict.message += ", by " + run.implementation();
  return {.passed = verdict.message.empty(), .relative_l2 = verdict.relative_l2, .message = std::move(verdict.message)};
}

Comparison compare_on(const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target,
                      std::vector<OracleTensor> operands, Tolerance tolerance, TestStrides strides,
                      const LateWork& late_work) {
  const std::unique_ptr<Backend> backend = make_backend(target.device, target.threads);
  return compare_on(*backend, kernel, spec, target, std::move(operands), tolerance, strides, late_work);
}

Comparison compare_with_oracle(const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target, std::uint64_t seed,
                               Tolerance tolerance, TestStrides strides, const LateWork& late_work) {
  return compare_on(kernel, spec, target, random_operands(spec, seed), tolerance, strides, late_work);
}

Comparison compare_special_values(const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target,
                                  std::uint64_t seed, Tolerance tolerance,
                                  const std::function<bool(std::size_t input, Special)>& skips,
                                  const LateWork& late_work) {
  if (const Support rejection = kernel.supports(spec, target)) return {.message = "rejected: " + rejection->reason};
  const std::unique_ptr<Backend> backend = make_backend(target.device, target.threads);
  Run run(*backend, kernel, spec, target, TestStrides::kDense, late_work);
  double worst = 0;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const TensorType& type = spec.inputs[i];
    if (!is_float(type.dtype) || type.shape.numel() == 0) continue;
    for (const Special special : kSpecials) {
      if ((special == Special::kInfinities && !has_infinities(type.dtype)) || (skips && skips(i, special))) continue;
      std::vector<OracleTensor> operands = random_operands(spec, seed);
      plant(special, operands[i], seed + i);
      const Verdict verdict = run.compare(std::move(operands), tolerance);
      worst = std::max(worst, verdict.relative_l2);
      if (!verdict.message.empty())
        return {.relative_l2 = worst,
                .message = fmt::format("with {} in input {}: {}, by {}", name_of(special), i, verdict.message,
                                       run.implementation())};
    }
  }
  return {.passed = true, .relative_l2 = worst, .message = {}};
}

}  // namespace headroom
