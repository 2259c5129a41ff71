#include "report/quality_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/format.hpp"
#include "base/switches.hpp"

namespace headroom {
namespace {

constexpr QualityMetric kMetrics[] = {
    {"accuracy", "accuracy", "", "axis_percent",
     "How often a classifier sees what was asked for; whiskers are its 95% score interval. Higher is better."},
    {"frechet_distance", "Fréchet distance", "", "axis_plain",
     "Lower is better. Biased upwards for few images: compare only values of equally many."},
    {"lpips", "LPIPS", "", "axis_plain", "How different images look from those of the same seeds: lower is nearer."},
    {"psnr_db", "PSNR", "dB", "axis_plain",
     "How far images moved from those of the same seeds, in dB: higher is nearer. Identical images have none."},
    {"relative_l2", "relative L2 error", "", "axis_plain", "Lower is better."},
};

const QualityMetric* metric_of(std::string_view name) {
  const auto found = std::ranges::find(kMetrics, name, &QualityMetric::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

}  // namespace

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

std::vector<std::string> lossy_switches(const Configuration& configuration) {
  std::vector<std::string> names;
  for (const std::string& applied : configuration.applied)
    if (!is_exact_switch(applied)) names.push_back(applied);
  std::ranges::sort(names);
  return names;
}

std::string PassError::text() const {
  return fmt::format("{} of a forward pass, {} of the baseline", quality_text(*own), quality_value(*baseline));
}

std::optional<PassError> find_pass_error(const Dataset& dataset, const Scenario& scenario, const Measurement& m) {
  const auto is_of_same_network = [&](const Scenario& other) {
    const Subject &a = scenario.subject, &b = other.subject;
    const std::optional<double> tokens = image_tokens_of(a);
    return tokens && b.request.contains("pass") && b.request["pass"] == "forward" && a.name == b.name &&
           scenario.hardware == other.hardware && tokens == image_tokens_of(b) &&
           request_number(a, "text_tokens") == request_number(b, "text_tokens") &&
           request_number(a, "reference_tokens") == request_number(b, "reference_tokens");
  };
  const std::optional<std::string>& dtype = m.result->configuration.baseline_dtype;
  const auto record_of = [&](const Measurement& other) -> const QualityRecord* {
    const std::optional<std::string>& its = other.result->configuration.baseline_dtype;
    if (other.is_peer || (dtype && its && *dtype != *its)) return nullptr;  // PyTorch's files do not name it
    const QualityRecord* const record = find_quality(*other.result, "relative_l2");
    return record != nullptr && record->value ? record : nullptr;
  };
  const std::vector<std::string> lossy = lossy_switches(m.result->configuration);
  std::optional<PassError> found;
  for (const Scenario& other : dataset.scenarios()) {
    if (!is_of_same_network(other)) continue;
    for (const Measurement* base : other.all) {
      const bool is_baseline = base->label == "baseline";
      const QualityRecord* const reference = is_baseline ? record_of(*base) : nullptr;
      if (reference == nullptr) continue;
      for (const Measurement* own : other.all)
        if (const QualityRecord* const record = record_of(*own); record != nullptr && own->file == base->file &&
                                                                 record->against == reference->against &&
                                                                 lossy_switches(own->result->configuration) == lossy)
          found = PassError{.own = record, .baseline = reference};  // the latest and most optimized
    }
  }
  return found;
}

std::span<const QualityMetric> quality_metrics() { return kMetrics; }

std::string quality_value(const QualityRecord& record) {
  if (!record.value) return record.note.value_or("");
  if (record.metric == "accuracy") return percent(*record.value);
  const QualityMetric* metric = metric_of(record.metric);
  const std::string_view unit = metric == nullptr ? "" : metric->unit;
  return fmt::format("{}{}{}", format_significant(*record.value), unit.empty() ? "" : " ", unit);
}

std::string quality_text(const QualityRecord& record) {
  const QualityMetric* metric = metric_of(record.metric);
  return fmt::format("{} {}", metric == nullptr ? record.metric : metric->title, quality_value(record));
}

const QualityRecord* find_quality(const Result& result, std::string_view metric) {
  const auto found = std::ranges::find(result.quality, metric, &QualityRecord::metric);
  return found == result.quality.end() ? nullptr : &*found;
}

const QualityRecord* find_quality(const Scenario& scenario, const Measurement& m, std::string_view metric) {
  if (const QualityRecord* own = find_quality(*m.result, metric)) return own;
  for (const Measurement* other : scenario.all | std::views::reverse)
    if (other->label == m.label && other->is_peer == m.is_peer &&
        lossy_switches(other->result->configuration) == lossy_switches(m.result->configuration) &&
        other->result->configuration.baseline_dtype == m.result->configuration.baseline_dtype)
      if (const QualityRecord* record = find_quality(*other->result, metric)) return record;
  return nullptr;
}

std::optional<QualityLoss> quality_loss(const Dataset& dataset, const Scenario& scenario, const Measurement& m,
                                        const Measurement* baseline, double most) {
  if (&m == baseline) return QualityLoss{.value = 0, .basis = "the baseline itself", .limit = {}};
  const QualityRecord* own = find_quality(scenario, m, "accuracy");
  const QualityRecord* reference = baseline == nullptr ? nullptr : find_quality(scenario, *baseline, "accuracy");
  if (own != nullptr && reference != nullptr && own->value && reference->value && own->against == reference->against)
    return QualityLoss{.value = *reference->value - *own->value,
                       .basis = fmt::format("accuracy {} against {} of the baseline", percent(*own->value),
                                            percent(*reference->value)),
                       .limit = fmt::format("at least {}", percent(*reference->value - most))};
  if (const QualityRecord* l2 = find_quality(*m.result, "relative_l2"); l2 != nullptr && l2->value)
    return QualityLoss{
        .value = *l2->value, .basis = quality_text(*l2), .limit = fmt::format("at most {}", format_significant(most))};
  if (const QualityRecord* psnr = find_quality(*m.result, "psnr_db"); psnr != nullptr) {
    if (psnr->value)
      return QualityLoss{.value = std::pow(10, -*psnr->value / 20),
                         .basis = fmt::format("{} against the baseline", quality_text(*psnr)),
                         .limit = fmt::format("at least {} dB", format_significant(-20 * std::log10(most)))};
    if (psnr->note == "identical")
      return QualityLoss{.value = 0, .basis = "images identical to the baseline's", .limit = {}};
  }
  if (m.is_peer) return {};
  if (lossy_switches(m.result->configuration).empty())
    return QualityLoss{.value = 0, .basis = "only exact switches", .limit = {}};
  if (const std::optional<PassError> error = find_pass_error(dataset, scenario, m))
    return QualityLoss{.value = *error->own->value - *error->baseline->value,
                       .basis = error->text(),
                       .limit = fmt::format("at most {}", format_significant(*error->baseline->value + most))};
  return {};
}

}  // namespace headroom
