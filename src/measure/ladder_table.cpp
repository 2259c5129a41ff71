#include <algorithm>
#include <string>

#include "measure/ladder.hpp"
#include "measure/table.hpp"

namespace headroom {
namespace {

const QualityRecord* find_quality(const Rung& rung, std::string_view metric) {
  const auto found = std::ranges::find(rung.result.quality, metric, &QualityRecord::metric);
  return found == rung.result.quality.end() ? nullptr : &*found;
}

std::string quality_cell(const Rung& rung, std::string_view metric, auto format) {
  const QualityRecord* record = find_quality(rung, metric);
  if (record == nullptr) return "-";
  return record->value ? format(*record->value) : record->note.value_or("-");
}

/// The rung that a cumulative rung adds to: the cumulative one before it, or the first switch alone.
const Rung& before(const Ladder& ladder, std::size_t i) {
  return ladder.rungs[i].cumulative && !ladder.rungs[i - 1].cumulative ? ladder.rungs[1]
         : ladder.rungs[i].cumulative                                  ? ladder.rungs[i - 1]
                                                                       : ladder.rungs[0];
}

}  // namespace

std::string to_table(const Ladder& ladder) {
  const bool judged = find_quality(ladder.rungs.front(), "accuracy") != nullptr;
  Table table;
  table.add_column("rung", Align::kLeft);
  for (const char* header : {"a step", "95% interval", "an image", "95% interval", "on the rung before", "on baseline",
                             "peak memory", "PSNR"})
    table.add_column(header);
  if (judged) {
    table.add_column("accuracy");
    table.add_column("Frechet");
  }
  const Rung& baseline = ladder.rungs.front();
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    if (i == 1 || (rung.cumulative && !ladder.rungs[i - 1].cumulative)) table.add_rule();
    const Summary& step = rung.result.trials[0].statistics;
    std::vector<std::string> cells = {
        rung.name,
        format_ms(step.median),
        step.median_interval ? format_interval_ms(*step.median_interval) : "-",
        format_ms(rung.image_ms),
        rung.image_interval_ms ? format_interval_ms(*rung.image_interval_ms) : "-",
        i == 0 ? "-" : format_factor(before(ladder, i).image_ms / rung.image_ms),
        i == 0 ? "-" : format_factor(baseline.image_ms / rung.image_ms),
        format_bytes(static_cast<std::uint64_t>(rung.result.memory->peak_bytes.value_or(0))),
        quality_cell(rung, "psnr_db", [](double db) { return fmt::format("{:.1f} dB", db); })};
    if (judged) {
      cells.push_back(quality_cell(rung, "accuracy", [](double value) { return fmt::format("{:.1f}%", 100 * value); }));
      cells.push_back(quality_cell(rung, "frechet_distance", [](double value) { return format_significant(value); }));
    }
    table.add_row(std::move(cells));
  }
  std::string text = table.render();
  if (ladder.rungs.size() > 2)
    text += fmt::format("\nsynergy: all together {}, product of each alone {}\n", format_factor(ladder.combined),
                        format_factor(ladder.product_of_singles));
  return text;
}

}  // namespace headroom
