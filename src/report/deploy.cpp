#include "report/deploy.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>

namespace headroom {
namespace {

/// Scenarios of one model, request and machine that differ in the batch size, if in anything.
std::vector<std::vector<LadderView>> group_by_batch(const Dataset& dataset) {
  std::map<std::string, std::size_t> place;
  std::vector<std::vector<LadderView>> groups;
  for (LadderView& ladder : ladders_of(dataset)) {
    nlohmann::json rest = ladder.scenario->subject.request;
    rest.erase("images");
    rest.erase("batch");
    const std::string key = ladder.scenario->subject.name + "|" + rest.dump() + "|" + ladder.scenario->hardware;
    const auto [found, is_new] = place.try_emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(std::move(ladder));
  }
  return groups;
}

Candidate make_candidate(const Measurement& m, const Scenario& scenario, QualityLoss loss) {
  const double batch = batch_of(scenario.subject).value_or(1);
  const bool is_per_image = m.time().unit == "image";
  Candidate candidate{.measurement = &m,
                      .request_ms = is_per_image ? m.time().median_ms * batch : m.time().median_ms,
                      .images_per_second = 0,
                      .loss = std::move(loss)};
  if (candidate.request_ms > 0) candidate.images_per_second = batch / candidate.request_ms * 1e3;
  return candidate;
}

}  // namespace

std::vector<Recommendation> recommend(const Dataset& dataset, double max_quality_loss) {
  std::vector<Recommendation> all;
  for (const std::vector<LadderView>& ladders : group_by_batch(dataset)) {
    const Scenario& first = *ladders.front().scenario;
    Recommendation made;
    made.work = first.work;
    made.hardware = first.hardware;
    if (ladders.size() > 1) made.work += " (and other batch sizes)";
    std::vector<Candidate> candidates;
    for (const LadderView& ladder : ladders)
      for (const RungView* rung : ladder.all()) {
        const Measurement& m = *rung->measurement;
        if (m.is_peer || m.result->same_as) continue;
        if (rung->is_unsettled()) {
          made.unsettled.push_back(m.label);
          continue;
        }
        const std::optional<QualityLoss> loss = quality_loss(m, *ladder.baseline.measurement);
        if (!loss)
          made.unknown.push_back(m.label);
        else if (loss->value > max_quality_loss)
          made.beyond_limit.push_back(m.label);
        else
          candidates.push_back(make_candidate(m, *ladder.scenario, *loss));
      }
    for (std::vector<std::string>* list : {&made.unknown, &made.beyond_limit, &made.unsettled}) {
      std::ranges::sort(*list);
      list->erase(std::ranges::unique(*list).begin(), list->end());
    }
    if (!candidates.empty()) {
      made.lowest_latency = *std::ranges::min_element(candidates, {}, &Candidate::request_ms);
      made.highest_throughput = *std::ranges::max_element(candidates, {}, &Candidate::images_per_second);
    }
    const auto peak = [](const Candidate& c) { return *c.measurement->result->memory->peak_bytes; };
    auto with_memory = candidates | std::views::filter([](const Candidate& c) {
                         return c.measurement->result->memory && c.measurement->result->memory->peak_bytes;
                       });
    if (!with_memory.empty()) made.least_memory = *std::ranges::min_element(with_memory, {}, peak);
    all.push_back(std::move(made));
  }
  return all;
}

AdoptionVerdict verdict_of(const std::optional<Estimate>& factor) {
  if (!factor || !factor->interval) return AdoptionVerdict::kUnknown;
  if (factor->interval->low > 1) return AdoptionVerdict::kFaster;
  if (factor->interval->high < 1) return AdoptionVerdict::kSlower;
  return AdoptionVerdict::kNoDifference;
}

}  // namespace headroom
