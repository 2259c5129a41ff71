#include "measure/quality/quality_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/switches.hpp"
#include "base/text/format.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

constexpr QualityMetric kMetrics[] = {
    {"accuracy", "accuracy", "", LossScale::kFraction, "accuracy_difference", "axis_percent",
     "How often a classifier sees what was asked for; whiskers are its 95% score interval. Higher is better."},
    {"frechet_distance", "Fréchet distance", "", LossScale::kGrowth, "frechet_difference", "axis_plain",
     "Lower is better. Biased upwards for few images: compare only values of equally many."},
    {"perceptual", "perceptual distance", "", LossScale::kError, "", "axis_plain",
     "How different images look from those of the same seeds: lower is nearer."},
    {"flip", "FLIP", "", LossScale::kError, "", "axis_plain",
     "How different images look from those of the same seeds: lower is nearer."},
    {"lpips", "LPIPS", "", LossScale::kError, "", "axis_plain",
     "How different images look from those of the same seeds: lower is nearer."},
    {"dists", "DISTS", "", LossScale::kError, "", "axis_plain",
     "How different images look from those of the same seeds: lower is nearer."},
    {"clip_score", "CLIP score", "", LossScale::kDecrease, "", "axis_plain",
     "How well images fit their prompts: higher is better."},
    {"psnr_db", "PSNR", "dB", LossScale::kPsnr, "", "axis_plain",
     "How far images moved from those of the same seeds, in dB: higher is nearer. Identical images have none."},
    {"relative_l2", "relative L2 error", "", LossScale::kError, "", "axis_plain", "Lower is better."},
    {"flicker", "flicker", "", LossScale::kRatio, "", "axis_plain",
     "How much of a video's change is not steady, relative to the camera's: lower is calmer."},
};

constexpr double kNoticeable = 0.1;  // share of the allowed loss: a smaller difference does not make one of two better

/// Whether the baseline's own output is the reference, so that no record of the baseline is needed.
bool is_against_baseline(const QualityRecord& record) { return record.against.starts_with("baseline"); }

/// An estimate, converted for the difference.
Estimate mapped(const QualityRecord& record, LossScale scale) {
  const auto map = [&](double value) { return scale == LossScale::kPsnr ? std::pow(10, -value / 20) : value; };
  Estimate estimate{map(*record.value), {}};
  if (record.interval) {
    const double a = map(record.interval->low), b = map(record.interval->high);
    estimate.interval = Interval{std::min(a, b), std::max(a, b)};
  }
  return estimate;
}

/// a - b of independent estimates: the distances to the ends of their intervals add in quadrature.
Estimate independent_difference(const Estimate& a, const Estimate& b) {
  Estimate difference{a.value - b.value, {}};
  const auto reach = [](const Estimate& e, bool up) {
    return !e.interval ? 0.0 : up ? e.interval->high - e.value : e.value - e.interval->low;
  };
  if (a.interval || b.interval)
    difference.interval = Interval{difference.value - std::hypot(reach(a, false), reach(b, true)),
                                   difference.value + std::hypot(reach(a, true), reach(b, false))};
  return difference;
}

Estimate scaled(const Estimate& estimate, double by) {
  Estimate result{estimate.value * by, {}};
  if (estimate.interval) {
    const double a = estimate.interval->low * by, b = estimate.interval->high * by;
    result.interval = Interval{std::min(a, b), std::max(a, b)};
  }
  return result;
}

bool is_relative(LossScale scale) { return scale == LossScale::kGrowth || scale == LossScale::kDecrease; }
bool is_more_better(LossScale scale) { return scale == LossScale::kFraction || scale == LossScale::kDecrease; }
bool is_distance_from_reference(LossScale scale) { return scale == LossScale::kPsnr || scale == LossScale::kError; }

std::optional<MeasuredLoss> loss_by(const QualityMetric& metric, std::span<const QualityRecord> own,
                                    std::span<const QualityRecord> baseline) {
  const QualityRecord* const record = find_quality(own, metric.name);
  if (record == nullptr) return {};
  MeasuredLoss loss{.metric = &metric, .value = 0, .interval = {}, .own = *record, .baseline = {}};
  if (!record->value) {
    if (metric.scale == LossScale::kPsnr && record->note == "identical") return loss;
    return {};
  }
  const auto take = [&](const Estimate& estimate) {
    loss.value = estimate.value;
    loss.interval = estimate.interval;
    return loss;
  };
  if (is_distance_from_reference(metric.scale) && is_against_baseline(*record))
    return take(mapped(*record, metric.scale));
  const auto found = std::ranges::find_if(baseline, [&](const QualityRecord& other) {
    return other.metric == metric.name && other.against == record->against && other.value;
  });
  const QualityRecord* const reference = found == baseline.end() ? nullptr : &*found;
  if (reference == nullptr) {
    if (metric.scale == LossScale::kError) return take(mapped(*record, metric.scale));  // the whole error is loss
    return {};
  }
  loss.baseline = *reference;
  if (is_relative(metric.scale) && *reference->value <= 0) return {};
  const QualityRecord* const paired = metric.difference.empty() ? nullptr : find_quality(own, metric.difference);
  const Estimate grown = paired != nullptr && paired->value
                             ? Estimate{*paired->value, paired->interval}
                             : independent_difference(mapped(*record, metric.scale), mapped(*reference, metric.scale));
  const double sign = is_more_better(metric.scale) ? -1 : 1;
  return take(scaled(grown, is_relative(metric.scale) ? sign / *reference->value : sign));
}

LossVerdict verdict_of(const MeasuredLoss& loss, double most) {
  if (loss.at_worst() <= most)
    return too_few_images(loss.own).empty() ? LossVerdict::kWithin : LossVerdict::kUnresolved;
  return loss.at_best() > most || !std::isfinite(loss.value) ? LossVerdict::kBeyond : LossVerdict::kUnresolved;
}

/// A number of percent with at most three digits.
std::string in_percent(double share) { return format_brief(100 * share); }

/// A loss of this amount: "0.5 to 1 percentage points", "at most 1%".
std::string loss_of_amount(const QualityMetric& metric, const std::string& amount) {
  switch (metric.scale) {
    case LossScale::kFraction:
      return fmt::format("{} of {} lost", amount, metric.title);
    case LossScale::kDecrease:
      return fmt::format("{} of the baseline's {} lost", amount, metric.title);
    case LossScale::kGrowth:
      return fmt::format("{} grown by {} of the baseline's", metric.title, amount);
    case LossScale::kPsnr:
      return fmt::format("RMS error grown by {} of the range of values", amount);
    case LossScale::kRatio:
    case LossScale::kError:
      break;
  }
  return fmt::format("{} grown by {}", metric.title, amount);
}

/// Whether a loss is a share of something, rather than a difference of shares, which is in percentage points.
bool is_in_percent(LossScale scale) { return is_relative(scale) || scale == LossScale::kPsnr; }

}  // namespace

std::string too_few_images(const QualityRecord& record) {
  const QualityMetric* const metric = find_metric(record.metric);
  const bool is_of_set = metric != nullptr && (is_relative(metric->scale) || metric->scale == LossScale::kFraction);
  const std::optional<std::int64_t> images = is_of_set ? images_of(record) : std::nullopt;
  if (!images || *images >= kFewestImages) return {};
  return fmt::format("{} {} little of the {}, judge at least {}", format_count(*images, "image"),
                     *images == 1 ? "says" : "say", metric->title, kFewestImages);
}

std::string loss_text(const QualityMetric& metric, const Interval& loss) {
  const std::string low = in_percent(loss.low), high = in_percent(loss.high);
  return loss_of_amount(metric, is_in_percent(metric.scale) ? fmt::format("{}% to {}%", low, high)
                                                            : fmt::format("{} to {} percentage points", low, high));
}

std::string loss_limit_text(const QualityMetric& metric, double most) {
  const std::string amount = in_percent(most);
  return loss_of_amount(metric, is_in_percent(metric.scale)
                                    ? fmt::format("at most {}%", amount)
                                    : fmt::format("at most {} percentage point{}", amount, amount == "1" ? "" : "s"));
}

std::span<const QualityMetric> quality_metrics() { return kMetrics; }

const QualityMetric* find_metric(std::string_view name) {
  const auto* const found = std::ranges::find(kMetrics, name, &QualityMetric::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

const QualityRecord* find_quality(std::span<const QualityRecord> records, std::string_view metric) {
  const auto found = std::ranges::find(records, metric, &QualityRecord::metric);
  return found == records.end() ? nullptr : &*found;
}

bool MeasuredLoss::is_nearness() const {
  return is_pass || (is_distance_from_reference(metric->scale) && is_against_baseline(own));
}

std::vector<MeasuredLoss> measured_losses(std::span<const QualityRecord> own, std::span<const QualityRecord> baseline) {
  std::vector<MeasuredLoss> losses;
  for (const QualityMetric& metric : kMetrics)
    if (std::optional<MeasuredLoss> loss = loss_by(metric, own, baseline)) losses.push_back(std::move(*loss));
  return losses;
}

OutputKind output_kind_of(const Configuration& configuration) {
  constexpr std::string_view kOfLoops[] = {"sampler",    "steps",   "stream-batch", "rcfg",
                                           "similarity", "fbcache", "teacache",     "meancache"};
  OutputKind kind = OutputKind::kSame;
  for (const std::string& applied : configuration.applied) {
    const std::string_view name = std::string_view(applied).substr(0, applied.find('='));
    if (std::ranges::find(kOfLoops, name) != std::end(kOfLoops)) return OutputKind::kOtherLoop;
    if (!is_exact_switch(applied)) kind = OutputKind::kRounded;
  }
  return kind;
}

bool is_exact_switch(const std::string& applied) {
  const std::string_view name = std::string_view(applied).substr(0, applied.find('='));
  const auto known = all_switches();
  const auto found = std::ranges::find(known, name, &SwitchInfo::name);
  if (found != known.end()) return found->exact;
  const auto presets = all_presets();
  const auto preset = std::ranges::find(presets, name, &Preset::name);
  return preset != presets.end() && name != "auto" &&
         std::ranges::all_of(SwitchSet::parse(preset->switches).names(), is_exact_switch);
}

std::optional<QualityLoss> assess_quality(std::span<const MeasuredLoss> measures, OutputKind kind, double most) {
  const bool is_judged = std::ranges::any_of(measures, [](const MeasuredLoss& m) { return !m.is_nearness(); });
  std::optional<QualityLoss> found;
  for (const MeasuredLoss& measure : measures) {
    if (kind == OutputKind::kOtherLoop && is_judged && measure.is_nearness()) continue;
    const LossVerdict verdict = verdict_of(measure, most);
    if (kind == OutputKind::kSame && verdict != LossVerdict::kBeyond) continue;
    if (!found || verdict > found->verdict || (verdict == found->verdict && !(measure.at_worst() <= found->at_worst)))
      found = QualityLoss{.verdict = verdict, .at_worst = measure.at_worst(), .worst = measure};
  }
  if (!found && kind == OutputKind::kSame) return QualityLoss{};
  return found;
}

std::optional<std::int64_t> images_of(const QualityRecord& record) {
  constexpr std::string_view kUnit = " images";
  const std::string_view text = record.against;
  for (std::size_t unit = text.find(kUnit); unit != std::string_view::npos; unit = text.find(kUnit, unit + 1)) {
    std::size_t first = unit;
    while (first > 0 && text[first - 1] >= '0' && text[first - 1] <= '9') --first;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + first, text.data() + unit, number);
    if (error == std::errc{} && first < unit && number > 0) return number;
  }
  return {};
}

std::optional<std::int64_t> images_to_resolve(const MeasuredLoss& loss, double most) {
  const std::optional<std::int64_t> images = images_of(loss.own);
  const bool is_too_few = !too_few_images(loss.own).empty();
  if (!images || !(loss.value < most)) return {};
  if (!loss.interval) return is_too_few ? std::optional(kFewestImages) : std::nullopt;
  const double extrapolated =
      static_cast<double>(*images) * std::pow((loss.at_worst() - loss.value) / (most - loss.value), 2);
  const double needed = is_too_few ? std::max(extrapolated, static_cast<double>(kFewestImages)) : extrapolated;
  if (!(needed < 1e9)) return {};
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(needed)) - 1));  // two significant digits
  return static_cast<std::int64_t>(std::ceil(needed / step) * step);
}

bool are_equal_in_time(const std::optional<Estimate>& factor) {
  return factor && factor->interval && finding_of(factor->interval, 1) == Finding::kInconclusive;
}

bool is_better_in_quality(double loss, double than, double most) { return loss < than - kNoticeable * most; }

}  // namespace headroom
