#include "measure/gates/compared_quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "measure/quality/quality_loss.hpp"
#include "measure/statistics/distributions.hpp"
#include "measure/statistics/tail.hpp"

namespace headroom {
namespace {

constexpr double kSlack = 1e-9;  // relative to a limit, for the rounding of values exactly at it

/// A quality value prepared for comparison.
struct Measured {
  double value = 0;
  std::optional<Interval> interval;
};

double without_rounding(Quantity quantity, double value) {
  if (quantity == Quantity::kPsnr) return std::min(value, kMostPsnrDb);
  return quantity == Quantity::kError ? std::max(value, kLeastError) : value;
}

Measured measured_of(Quantity quantity, const QualityRecord& record) {
  if (!record.value) return {.value = kMostPsnrDb, .interval = {}};  // the PSNR of identical images
  Measured one{.value = without_rounding(quantity, *record.value), .interval = record.interval};
  if (one.interval)
    one.interval =
        Interval{without_rounding(quantity, one.interval->low), without_rounding(quantity, one.interval->high)};
  return one;
}

/// Distances from the value to the low end and the high end; none without an interval.
std::pair<double, double> reach_of(const Measured& one) {
  if (!one.interval) return {0, 0};
  return {std::max(0.0, one.value - one.interval->low), std::max(0.0, one.interval->high - one.value)};
}

/// The same in logarithms. A low end of zero or below is replaced by a thousandth of the value; smaller ratios mean
/// nothing.
std::pair<double, double> log_reach_of(const Measured& one) {
  if (!one.interval) return {0, 0};
  const double low = std::max(one.interval->low, one.value / 1000);
  return {std::max(0.0, std::log(one.value / low)), std::max(0.0, std::log(one.interval->high / one.value))};
}

double p_of(double change, double reach) {
  if (reach <= 0) return change == 0 ? 1 : 0;
  return two_sided_normal_p(std::abs(change) / reach * normal_quantile(0.975));
}

/// Change, interval and p of two qualities (Zou and Donner, as in unpaired_effect()).
void compare_measured(const Measured& base, const Measured& changed, ComparedQuantity& one) {
  one.base = base.value;
  one.changed = changed.value;
  const bool is_difference = info_of(one.quantity).is_difference;
  if (!is_difference && (base.value <= 0 || changed.value <= 0)) {
    if (base.value == changed.value)
      one.change = 1;
    else
      one.limit = "a value of zero or below has no ratio";
    return;
  }
  one.change = is_difference ? changed.value - base.value : changed.value / base.value;
  if (base.value == changed.value && base.interval == changed.interval) return;
  if (!base.interval && !changed.interval) {
    one.limit = "the files give no interval";
    return;
  }
  if (!base.interval || !changed.interval)
    one.limit = fmt::format("the {} file gives no interval", base.interval ? "new" : "base");
  const auto [base_down, base_up] = is_difference ? reach_of(base) : log_reach_of(base);
  const auto [new_down, new_up] = is_difference ? reach_of(changed) : log_reach_of(changed);
  const double down = std::hypot(new_down, base_up), up = std::hypot(new_up, base_down);
  if (is_difference) {
    one.interval = Interval{*one.change - down, *one.change + up};
    one.p = p_of(*one.change, *one.change > 0 ? down : up);
  } else {
    one.interval = Interval{*one.change * std::exp(-down), *one.change * std::exp(up)};
    one.p = p_of(std::log(*one.change), *one.change > 1 ? down : up);
  }
}

std::optional<std::int64_t> bytes_of(const Result& result, Quantity quantity) {
  if (!result.memory) return std::nullopt;
  return quantity == Quantity::kMemory ? result.memory->peak_bytes : result.memory->weights_bytes;
}

/// A quantity that only one side has; it counts if it was asked for.
void name_missing(ComparedQuantity& one, const Limits& limits) {
  one.counts = limits.is_asked(one.quantity);
  one.limit = one.base      ? "the new file does not have it"
              : one.changed ? "the base file does not have it"
                            : "neither file has it";
}

void add_bytes(Quantity quantity, const Result& base, const Result& changed, const Limits& limits,
               std::vector<ComparedQuantity>& compared) {
  if (limits.is_off(quantity)) return;
  ComparedQuantity one{
      .quantity = quantity, .against = {}, .base = bytes_of(base, quantity), .changed = bytes_of(changed, quantity)};
  const bool base_fits = !is_out_of_memory(base), new_fits = !is_out_of_memory(changed);
  if (quantity == Quantity::kMemory && base_fits != new_fits) {
    one.judged = base_fits ? Judged{Verdict::kRegressed, "the new build needs more memory than the device has"}
                           : Judged{Verdict::kImproved, "the base needs more memory than the device has"};
  } else if (one.base && one.changed && *one.base > 0) {
    one.change = *one.changed / *one.base;
  } else {
    if (!one.base && !one.changed && !limits.is_asked(quantity)) return;
    if (one.is_equal())
      one.change = 1;  // both have none
    else if (one.base && one.changed)
      one.limit = "the base has none of it";
    else
      name_missing(one, limits);
  }
  compared.push_back(std::move(one));
}

const QualityRecord* find_record(const Result& result, const QualityRecord& wanted) {
  const auto found = std::ranges::find_if(result.quality, [&](const QualityRecord& record) {
    return record.metric == wanted.metric && record.against == wanted.against;
  });
  return found == result.quality.end() ? nullptr : &*found;
}

bool is_comparable(const QualityRecord& record) { return record.value || record.metric == "psnr_db"; }

void add_quality(const QualityRecord* base, const QualityRecord* changed, const Limits& limits,
                 std::vector<ComparedQuantity>& compared) {
  const QualityRecord& either = base != nullptr ? *base : *changed;
  const Quantity quantity = find_metric_quantity(either.metric)->quantity;
  if (limits.is_off(quantity)) return;
  ComparedQuantity one{.quantity = quantity, .against = either.against, .base = {}, .changed = {}};
  const bool has_base = base != nullptr && is_comparable(*base),
             has_new = changed != nullptr && is_comparable(*changed);
  if (has_base && has_new) {
    compare_measured(measured_of(quantity, *base), measured_of(quantity, *changed), one);
  } else {
    if (has_base) one.base = measured_of(quantity, *base).value;
    if (has_new) one.changed = measured_of(quantity, *changed).value;
    name_missing(one, limits);
  }
  compared.push_back(std::move(one));
}

void note_unknown(const std::string& metric, std::vector<std::string>& notes) {
  // A difference from another configuration of the same file is skipped, because the value itself is compared.
  if (std::ranges::find(quality_metrics(), metric, &QualityMetric::difference) != quality_metrics().end()) return;
  std::string note = fmt::format("the quality {} is not judged: no limit is known for it", metric);
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
}

/// The size of the deterioration in words: "20.0% more", "1.00 dB less".
std::string change_in_words(const ComparedQuantity& one, double change) {
  if (!info_of(one.quantity).is_difference)
    return fmt::format("{:.1f}% {}", 100 * std::abs(change - 1), change >= 1 ? "more" : "less");
  const char* direction = change >= 0 ? "more" : "less";
  if (one.quantity == Quantity::kPsnr) return fmt::format("{:.2f} dB {}", std::abs(change), direction);
  return fmt::format("{:.1f} points {}", 100 * std::abs(change), direction);
}

/// The change on a scale where higher is worse and 0 is equal, and the limits of a regression and an improvement.
struct Worsening {
  double value = 0, least = 0, most = 0;  ///< the change and the ends of its interval
  double regression = 0, improvement = 0;
};

Worsening worsening_of(const ComparedQuantity& one, double limit) {
  const Interval interval = one.interval.value_or(Interval{*one.change, *one.change});
  if (info_of(one.quantity).is_difference)
    return {.value = -*one.change,
            .least = -interval.high,
            .most = -interval.low,
            .regression = limit,
            .improvement = limit};
  return {.value = *one.change - 1,
          .least = interval.low - 1,
          .most = interval.high - 1,
          .regression = limit,
          .improvement = limit / (1 + limit)};
}

}  // namespace

std::string words_of(const ComparedQuantity& one) {
  const std::string_view words = info_of(one.quantity).words;
  return one.against.empty() ? std::string(words) : fmt::format("{} ({})", words, one.against);
}

std::string change_text(const ComparedQuantity& one) {
  if (!one.change) return "-";
  if (!info_of(one.quantity).is_difference) return fmt::format("{:.3f}", *one.change);
  return one.quantity == Quantity::kPsnr ? fmt::format("{:+.2f} dB", *one.change)
                                         : fmt::format("{:+.1f} points", 100 * *one.change);
}

std::string interval_text(const ComparedQuantity& one) {
  if (!one.interval) return "-";
  const auto& [low, high] = *one.interval;
  if (!info_of(one.quantity).is_difference) return fmt::format("[{:.3f}, {:.3f}]", low, high);
  return one.quantity == Quantity::kPsnr ? fmt::format("[{:+.2f}, {:+.2f}] dB", low, high)
                                         : fmt::format("[{:+.1f}, {:+.1f}] points", 100 * low, 100 * high);
}

std::vector<ComparedQuantity> compare_quantities(const Result& base, const Result& changed, const Limits& limits,
                                                 std::vector<std::string>& notes) {
  std::vector<ComparedQuantity> compared;
  for (const Quantity quantity : {Quantity::kMemory, Quantity::kSize})
    add_bytes(quantity, base, changed, limits, compared);
  for (const QualityRecord& record : base.quality) {
    if (find_metric_quantity(record.metric) == nullptr)
      note_unknown(record.metric, notes);
    else
      add_quality(&record, find_record(changed, record), limits, compared);
  }
  for (const QualityRecord& record : changed.quality)
    if (find_metric_quantity(record.metric) != nullptr && find_record(base, record) == nullptr)
      add_quality(nullptr, &record, limits, compared);
  for (const QuantityInfo& info : all_quantities())
    if (!info.metric.empty() && limits.is_asked(info.quantity) &&
        std::ranges::find(compared, info.quantity, &ComparedQuantity::quantity) == compared.end()) {
      ComparedQuantity& one = compared.emplace_back();
      one.quantity = info.quantity;
      name_missing(one, limits);
    }
  return compared;
}

ComparedQuantity compare_p99(const ProcessTrials& base, const ProcessTrials& changed, const Effect& of_median,
                             const Limits& limits) {
  ComparedQuantity one{.quantity = Quantity::kP99, .against = {}, .base = p99_of(base), .changed = p99_of(changed)};
  one.effect = p99_effect(base, changed, of_median);
  one.change = one.effect->ratio;
  one.interval = one.effect->interval;
  if (one.interval) one.p = one.effect->p;
  one.counts = limits.is_asked(Quantity::kP99);
  return one;
}

Judged judge_quantity(const ComparedQuantity& one, const Limits& limits, double alpha) {
  const double limit = limits.of(one.quantity);
  if (one.effect) return judge_effect(*one.effect, one.p.value_or(1), {.threshold = limit, .alpha = alpha});
  if (!one.change) return one.judged.why.empty() ? Judged{Verdict::kInconclusive, one.limit} : one.judged;
  const Worsening worse = worsening_of(one, limit);
  const bool is_evidence = !one.p || *one.p < alpha;
  const std::string found = change_in_words(one, *one.change);
  const std::string exact = one.limit.empty() ? "" : fmt::format("; {}", one.limit);
  const std::string allowed = format_limit(one.quantity, limit);
  if (one.is_equal()) return {Verdict::kOk, "equal"};
  if (worse.least > 0 && is_evidence && worse.value >= worse.regression * (1 - kSlack))
    return {Verdict::kRegressed, fmt::format("{}, the limit is {}{}", found, allowed, exact)};
  if (worse.most < 0 && is_evidence && worse.value <= -worse.improvement * (1 - kSlack))
    return {Verdict::kImproved, found + exact};
  if (worse.most < worse.regression) return {Verdict::kOk, fmt::format("{}, within {}{}", found, allowed, exact)};
  const double worst = info_of(one.quantity).is_difference ? one.interval->low : one.interval->high;
  return {Verdict::kInconclusive,
          fmt::format("{}, but {} is possible; the limit is {}{}", found, change_in_words(one, worst), allowed, exact)};
}

bool is_settled(const ComparedQuantity& one, const Limits& limits, double alpha) {
  if (!one.effect || !one.counts) return true;
  return is_settled(*one.effect, one.judged, {.threshold = limits.of(one.quantity), .alpha = alpha});
}

}  // namespace headroom
