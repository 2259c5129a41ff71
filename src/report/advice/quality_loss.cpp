#include "report/advice/quality_loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "base/text/format.hpp"
#include "report/image_size.hpp"

namespace headroom {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string value_in(const QualityMetric& metric, double value) {
  if (metric.scale == LossScale::kFraction) return percent(value);
  return format_significant(value) + (metric.unit.empty() ? "" : fmt::format(" {}", metric.unit));
}

bool has_other_precision(const Measurement& a, const Measurement& b) {
  return a.result->configuration.baseline_dtype != b.result->configuration.baseline_dtype;
}

/// Whether both make the same images. A label gives the requested switches, some of which a machine may have
/// declined.
bool applies_the_same(const Measurement& a, const Measurement& b) {
  return !has_other_precision(a, b) &&
         lossy_switches(a.result->configuration) == lossy_switches(b.result->configuration);
}

/// Whether the scenarios differ only in how many images are made at once.
bool makes_the_same_images(const Scenario& a, const Scenario& b) {
  const auto rest_of = [](const Scenario& s) {
    nlohmann::json rest = s.subject.request;
    for (const char* key : {"images", "batch"}) rest.erase(key);
    return rest;
  };
  return a.subject.kind == b.subject.kind && a.subject.name == b.subject.name && a.hardware == b.hardware &&
         rest_of(a) == rest_of(b);
}

/// Records to compare a measurement with, the best first: those of its file's baseline, of exact switches in its
/// file, then the same of other files, the latest first.
std::vector<QualityRecord> records_of_baseline(const Scenario& scenario, const Measurement& m) {
  std::vector<QualityRecord> records;
  for (const bool same_file : {true, false})
    for (const bool exact : {false, true})
      for (const Measurement* other : scenario.all | std::views::reverse)
        if (!other->is_peer && (other->file == m.file) == same_file && other->is_baseline() != exact &&
            !has_other_precision(*other, m) && lossy_switches(other->result->configuration).empty())
          records.insert(records.end(), other->result->quality.begin(), other->result->quality.end());
  return records;
}

/// Measurements of the same configuration: itself, then the latest of its scenario, then those of other image
/// counts.
std::vector<std::pair<const Scenario*, const Measurement*>> repetitions_of(const Dataset& dataset,
                                                                           const Scenario& scenario,
                                                                           const Measurement& m) {
  std::vector<std::pair<const Scenario*, const Measurement*>> found = {{&scenario, &m}};
  const auto add_of = [&](const Scenario& of) {
    for (const Measurement* other : of.all | std::views::reverse)
      if (other != &m && other->label == m.label && other->is_peer == m.is_peer && applies_the_same(*other, m))
        found.emplace_back(&of, other);
  };
  add_of(scenario);
  for (const Scenario& other : dataset.scenarios())
    if (&other != &scenario && makes_the_same_images(other, scenario)) add_of(other);
  return found;
}

// ---- errors of passes

std::optional<std::string> pass_of(const Subject& subject) {
  if (!subject.request.contains("pass") || !subject.request["pass"].is_string()) return {};
  return subject.request["pass"].get<std::string>();
}

/// Whether `pass` is run by a request of `scenario`, possibly in another batch size.
bool is_pass_of(const Scenario& pass, const Scenario& scenario) {
  const Subject &a = scenario.subject, &b = pass.subject;
  const std::optional<std::string> own = pass_of(a), its = pass_of(b);
  if (!its || a.name != b.name || scenario.hardware != pass.hardware) return false;
  if (own) return makes_the_same_images(pass, scenario);
  if (*its != "forward" || request_number(a, "reference_tokens") != request_number(b, "reference_tokens")) return false;
  if (const auto tokens = image_tokens_of(b))
    return image_tokens_of(a) == tokens && request_number(a, "text_tokens") == request_number(b, "text_tokens");
  return image_size_of(a) && image_size_of(a) == image_size_of(b);
}

/// The error of one of the scenario's passes under m's lossy switches. m's configuration is preferred, then the latest.
std::optional<MeasuredLoss> pass_error_of(const Dataset& dataset, const Scenario& scenario, const Measurement& m) {
  const std::optional<std::string>& dtype = m.result->configuration.baseline_dtype;
  const auto record_of = [&](const Measurement& other) -> const QualityRecord* {
    const std::optional<std::string>& its = other.result->configuration.baseline_dtype;
    if (other.is_peer || (dtype && its && *dtype != *its)) return nullptr;  // PyTorch's files do not name it
    const QualityRecord* const record = find_quality(*other.result, "relative_l2");
    return record != nullptr && record->value ? record : nullptr;
  };
  const std::vector<std::string> lossy = lossy_switches(m.result->configuration);
  std::optional<MeasuredLoss> found;
  bool is_found_same = false;
  for (const Scenario& other : dataset.scenarios()) {
    if (!is_pass_of(other, scenario)) continue;
    for (const Measurement* own : other.all) {
      const QualityRecord* const record = record_of(*own);
      if (record == nullptr || lossy_switches(own->result->configuration) != lossy) continue;
      const bool is_same = own->label == m.label;
      if (is_found_same && !is_same) continue;
      for (const Measurement* base : other.all) {
        const QualityRecord* const reference = base->is_baseline() ? record_of(*base) : nullptr;
        if (reference == nullptr || base->file != own->file || reference->against != record->against) continue;
        found = MeasuredLoss{.metric = find_metric("relative_l2"),
                             .value = *record->value - *reference->value,
                             .interval = {},
                             .own = *record,
                             .baseline = *reference,
                             .is_pass = true};
        is_found_same = is_same;
      }
    }
  }
  return found;
}

/// The error that `auto` measured for its chosen set, which is that of the inexact switch or loop that it added
/// last.
std::optional<MeasuredLoss> error_by_auto(const Measurement& m) {
  for (const AutoTrial& trial : m.result->configuration.auto_trials | std::views::reverse)
    if (trial.kept && trial.error)
      return MeasuredLoss{.metric = find_metric("relative_l2"),
                          .value = *trial.error,
                          .interval = {},
                          .own = {.metric = "relative_l2",
                                  .against = "baseline, as auto chose",
                                  .value = trial.error,
                                  .interval = {},
                                  .note = {}},
                          .baseline = {},
                          .is_pass = true};
  return {};
}

// ---- words

/// The limit value that would still be allowed.
std::string limit_of(const MeasuredLoss& loss, double most) {
  const std::optional<double> value = value_at_loss(loss, most);
  if (!value) return "identical images";
  const bool is_high_good = loss.metric->scale == LossScale::kFraction || loss.metric->scale == LossScale::kDecrease ||
                            loss.metric->scale == LossScale::kPsnr;
  return fmt::format("at {} {}", is_high_good ? "least" : "most", value_in(*loss.metric, *value));
}

std::string basis_of(const MeasuredLoss& loss) {
  if (loss.metric->scale == LossScale::kPsnr && !loss.own.value) return "images identical to the baseline's";
  std::string text = quality_text(loss.own);
  if (loss.is_pass) text += " of a forward pass";
  if (loss.is_pass && loss.baseline)
    text += fmt::format(", {} of the baseline", quality_value(*loss.baseline));
  else if (loss.baseline)
    text += fmt::format(" against {} of the baseline", quality_value(*loss.baseline));
  else if (loss.is_nearness() && loss.metric->scale == LossScale::kPsnr)
    text += " against the baseline";
  if (loss.interval) text += ", " + loss_text(*loss.metric, *loss.interval);
  return text;
}

std::string needed_for(const MeasuredLoss& loss, const Scenario& scenario, double most) {
  const bool is_stream = scenario.subject.kind == SubjectKind::kStream;
  const std::optional<std::int64_t> images = images_to_resolve(loss, most);
  if (images) return fmt::format("judge {}", format_count(*images, is_stream ? "clip" : "image"));
  return is_stream ? "judge more clips" : "judge more images";
}

}  // namespace

std::optional<double> value_at_loss(const MeasuredLoss& loss, double most) {
  const double base = loss.baseline && loss.baseline->value ? *loss.baseline->value : 0;
  switch (loss.metric->scale) {
    case LossScale::kFraction:
      return base - most;
    case LossScale::kDecrease:
      return base * (1 - most);
    case LossScale::kRatio:
    case LossScale::kError:
      return base + most;
    case LossScale::kGrowth:
      return base * (1 + most);
    case LossScale::kPsnr:
      break;
  }
  const double error = (loss.baseline ? std::pow(10, -base / 20) : 0) + most;
  return error > 0 ? std::optional(-20 * std::log10(error)) : std::nullopt;
}

std::vector<std::string> lossy_switches(const Configuration& configuration) {
  std::vector<std::string> names;
  for (const std::string& applied : configuration.applied)
    if (!is_exact_switch(applied)) names.push_back(applied);
  std::ranges::sort(names);
  return names;
}

std::string quality_value(const QualityRecord& record) {
  if (!record.value) return record.note.value_or("");
  const QualityMetric* metric = find_metric(record.metric);
  return metric == nullptr ? format_significant(*record.value) : value_in(*metric, *record.value);
}

std::string quality_text(const QualityRecord& record) {
  const QualityMetric* metric = find_metric(record.metric);
  const std::string text =
      fmt::format("{} {}", metric == nullptr ? record.metric : metric->title, quality_value(record));
  const std::string few = too_few_images(record);
  return few.empty() ? text : fmt::format("{} ({})", text, few);
}

const QualityRecord* find_quality(const Result& result, std::string_view metric) {
  return find_quality(std::span(result.quality), metric);
}

const QualityRecord* find_quality(const Scenario& scenario, const Measurement& m, std::string_view metric) {
  if (const QualityRecord* own = find_quality(*m.result, metric)) return own;
  for (const Measurement* other : scenario.all | std::views::reverse)
    if (other->label == m.label && other->is_peer == m.is_peer && applies_the_same(*other, m))
      if (const QualityRecord* record = find_quality(*other->result, metric)) return record;
  return nullptr;
}

void note_few_images(std::vector<std::string>& notes, std::span<const Measurement* const> shown,
                     std::string_view metric) {
  for (const Measurement* m : shown) {
    const QualityRecord* const record = find_quality(*m->result, metric);
    const std::string few = record == nullptr ? "" : too_few_images(*record);
    if (few.empty()) continue;
    notes.push_back(few + ".");
    return;
  }
}

std::vector<MeasuredLoss> measures_of(const Dataset& dataset, const Scenario& scenario, const Measurement& m) {
  std::vector<MeasuredLoss> measures;
  const auto add = [&](MeasuredLoss loss) {
    const auto is_known = [&](const MeasuredLoss& other) { return other.metric == loss.metric; };
    if (std::ranges::none_of(measures, is_known)) measures.push_back(std::move(loss));
  };
  for (const auto& [of, repetition] : repetitions_of(dataset, scenario, m))
    if (!repetition->result->quality.empty())
      for (MeasuredLoss& loss : measured_losses(repetition->result->quality, records_of_baseline(*of, *repetition)))
        add(std::move(loss));
  if (m.is_peer) return measures;
  if (std::optional<MeasuredLoss> error = pass_error_of(dataset, scenario, m)) add(std::move(*error));
  if (std::optional<MeasuredLoss> error = error_by_auto(m)) add(std::move(*error));
  return measures;
}

std::optional<KnownLoss> quality_loss(const Dataset& dataset, const Scenario& scenario, const Measurement& m,
                                      double most) {
  if (m.is_baseline()) return KnownLoss{{}, "the baseline itself", {}, {}};
  const OutputKind kind = m.is_peer ? OutputKind::kRounded : output_kind_of(m.result->configuration);
  const std::optional<QualityLoss> loss = assess_quality(measures_of(dataset, scenario, m), kind, most);
  if (!loss) return {};
  if (!loss->worst) return KnownLoss{*loss, "only exact switches", {}, {}};
  KnownLoss known{*loss, basis_of(*loss->worst), {}, {}};
  if (loss->worst->own.value) known.limit = limit_of(*loss->worst, most);
  if (loss->verdict == LossVerdict::kUnresolved) known.needed = needed_for(*loss->worst, scenario, most);
  return known;
}

}  // namespace headroom
