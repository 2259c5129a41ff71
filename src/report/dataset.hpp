#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "measure/results/result.hpp"
#include "report/advice/price.hpp"
#include "report/work.hpp"

/// Results as charts want them: what one unit of work took, and which results are of equal work on equal hardware.
namespace headroom {

/// What one unit of work took. Where a result has the series "step", the unit is an image and its trials are those of
/// the steps: (median prologue + steps * step) / images, as the ladder tells it.
struct Timing {
  std::string unit;  ///< "image", "forward pass", "launch", "frame", or the name of the only series
  std::string series;
  std::vector<double> trials_ms;  ///< of one unit, in the order they ran
  double median_ms = 0;
  std::optional<Interval> interval_ms;  ///< 95%, of the median; absent where the result has none
};
/// Of a stream the unit is a frame, and its trials are their latencies. Nothing where the result has no series.
[[nodiscard]] std::optional<Timing> timing_of(const Result& result);

/// A result with the file it came in.
struct Measurement {
  const ResultFile* file = nullptr;
  const Result* result = nullptr;
  std::string path;
  std::string label;  ///< what was asked for: "baseline", "lossless+fp8" (asked_name()); a peer's begins with its name
  std::optional<Timing> timing;
  bool is_peer = false;
  /// Of the baseline, where the same work was measured from baselines of several.
  std::optional<std::string> precision = {};

  [[nodiscard]] const std::vector<std::string>& switches() const { return result->configuration.asked; }
  [[nodiscard]] bool declined(std::string_view switch_name) const;
  /// revision_of() its result.
  [[nodiscard]] std::string revision() const;
  /// The label, the precision that tells it from others, and what declined: "baseline (f32)", "arena (tile declined)", or "tile (declined)" of a switch alone.
  [[nodiscard]] std::string shown_name() const;
  /// The timing, of a measurement that has one.
  [[nodiscard]] const Timing& time() const {
    HR_CHECK(timing.has_value());
    return *timing;
  }
};

/// What a name of these `switches` needs behind it to say which of them declined in a measurement: " (declined)" of a
/// single one, " (streams, graph declined)", " (3 declined)" of more, or nothing.
[[nodiscard]] std::string declined_mark(const Measurement& measurement, std::span<const std::string> switches);

/// One work on one kind of hardware: only these are ever drawn beside each other.
struct Scenario {
  Subject subject;                          ///< with its token_pixels, wherever they are known from
  std::string work;                         ///< describe_work()
  std::string hardware;                     ///< describe_hardware(), which no other hardware shares
  std::vector<const Measurement*> all;      ///< by time of measurement
  std::vector<const Measurement*> current;  ///< the latest of each configuration, ours before peers', else as measured
  /// Ours of one file, that with a baseline and most beside it, of several that from the faster precision and the latest; then the current ones of peers.
  /// Only these are divided by each other: another run was made at another time, and maybe at another revision.
  std::vector<const Measurement*> run;
};

/// All results of a report. What it gives out lives as long as it does.
class Dataset {
 public:
  /// Reads result files; a folder stands for every *.json below it, by name, of which those that cannot be read as a
  /// result file are left_out(), and so are folders without one beside others. Throws Error where a file that was named
  /// cannot be read, or there is none.
  [[nodiscard]] static Dataset read(
      std::span<const std::filesystem::path> paths,
      const std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>& progress = {});
  /// Takes results that are read already, with the path that each came from.
  explicit Dataset(std::vector<std::pair<std::string, ResultFile>> files);
  Dataset(Dataset&&) = default;

  [[nodiscard]] const std::deque<Measurement>& measurements() const { return measurements_; }
  /// Those with the most configurations first.
  [[nodiscard]] const std::vector<Scenario>& scenarios() const { return scenarios_; }
  [[nodiscard]] const Scenario& scenario_of(const Measurement& measurement) const;
  /// Each scenario of some of them, once.
  [[nodiscard]] std::vector<const Scenario*> scenarios_of(std::span<const Measurement* const> measurements) const;
  [[nodiscard]] const std::deque<std::pair<std::string, ResultFile>>& files() const { return files_; }
  /// What the machine costs that the results are of, where somebody told.
  [[nodiscard]] const std::optional<Price>& price() const { return price_; }
  void set_price(Price price) { price_ = std::move(price); }
  /// Why each file that is left out is: sentences that name it.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

  /// By what factor `other` is faster than `base`, with its 95% interval; nothing where either has no time over zero,
  /// or is not settled. Between rungs of one ladder it is that of their rounds (round_factor()). The interval is absent
  /// where either side has a single trial or was itself measured without one.
  [[nodiscard]] std::optional<Estimate> factor(const Measurement& base, const Measurement& other) const;

 private:
  std::deque<std::pair<std::string, ResultFile>> files_;
  std::deque<Measurement> measurements_;
  std::vector<Scenario> scenarios_;
  std::vector<std::string> left_out_;
  std::optional<Price> price_;
  mutable std::map<std::pair<const Measurement*, const Measurement*>, std::optional<Estimate>> factors_;
};

/// The times of a series as they were measured, those of "frame" being a stream's latencies; null where there are none.
[[nodiscard]] const std::vector<double>* find_times(const Result& result, std::string_view what);

}  // namespace headroom
