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
#include "measure/results/timing.hpp"
#include "report/advice/price.hpp"
#include "report/work.hpp"

/// Results as charts need them: the time of one unit of work, and groups of equal work on equal hardware.
namespace headroom {

/// A result with the file it came from.
struct Measurement {
  const ResultFile* file = nullptr;
  const Result* result = nullptr;
  std::string path;
  /// what was requested: "baseline", "lossless+fp8" (asked_name()); begins with the peer's name for peers
  std::string label;
  std::optional<Timing> timing;
  std::optional<std::string> unsettled = {};  ///< why_unsettled()
  bool is_peer = false;
  /// Precision of the baseline, if the same work was measured from baselines of several precisions.
  std::optional<std::string> precision = {};

  [[nodiscard]] const std::vector<std::string>& switches() const { return result->configuration.asked; }
  /// Headroom's, without any switch. Files of other scripts ask for "baseline".
  [[nodiscard]] bool is_baseline() const {
    return !is_peer && result->subject.kind != SubjectKind::kKernel && (switches().empty() || label == "baseline");
  }
  [[nodiscard]] bool declined(std::string_view switch_name) const;
  /// revision_of() of the result.
  [[nodiscard]] std::string revision() const;
  /// The label, the precision if needed to distinguish it, and the declined switches: "baseline (f32)", "arena
  /// (tile declined)", or "tile (declined)" for a single switch.
  [[nodiscard]] std::string shown_name() const;
  /// The timing. Requires that the measurement has one.
  [[nodiscard]] const Timing& time() const {
    HR_CHECK(timing.has_value());
    return *timing;
  }
};

/// The suffix that a name of these `switches` needs to show which of them declined in a measurement: " (declined)"
/// for a single switch, " (streams, graph declined)" for two, " (3 declined)" for more, or nothing.
[[nodiscard]] std::string declined_mark(const Measurement& measurement, std::span<const std::string> switches);

/// One work on one kind of hardware. Only measurements of one scenario are drawn next to each other.
struct Scenario {
  Subject subject;                      ///< with its token_pixels, if known from any result
  std::string work;                     ///< describe_work()
  std::string hardware;                 ///< describe_hardware(), unique to this hardware
  std::string model = {};               ///< "80560 parameters" if there is another model of its name; else empty
  std::vector<const Measurement*> all;  ///< by time of measurement
  /// the latest of each configuration: ours before peers', each in order of measurement
  std::vector<const Measurement*> current;
  /// the latest of each configuration that has a profile and a plan, in the same order
  std::vector<const Measurement*> profiled;
  /// Our measurements of one file, then the current ones of peers. The file is the one with a baseline and the most
  /// configurations. Ties go to the faster precision, then to the latest. Factors are formed only within this run,
  /// because other runs were made at other times and maybe at other revisions.
  std::vector<const Measurement*> run;
};

/// All results of a report. References that it returns are valid as long as it lives.
class Dataset {
 public:
  /// Reads result files. A folder means every *.json below it, by name. Files of a folder that cannot be read as
  /// results are left_out(), and so are folders without results if other results were found. Throws Error if a
  /// named file cannot be read, or if there is none.
  [[nodiscard]] static Dataset read(
      std::span<const std::filesystem::path> paths,
      const std::function<void(std::string_view phase, std::int64_t done, std::int64_t total)>& progress = {});
  /// Takes results that were already read, each with its path.
  explicit Dataset(std::vector<std::pair<std::string, ResultFile>> files);
  Dataset(Dataset&&) = default;

  [[nodiscard]] const std::deque<Measurement>& measurements() const { return measurements_; }
  /// Scenarios with the most configurations first.
  [[nodiscard]] const std::vector<Scenario>& scenarios() const { return scenarios_; }
  [[nodiscard]] const Scenario& scenario_of(const Measurement& measurement) const;
  /// The scenarios of these measurements, each once.
  [[nodiscard]] std::vector<const Scenario*> scenarios_of(std::span<const Measurement* const> measurements) const;
  [[nodiscard]] const std::deque<std::pair<std::string, ResultFile>>& files() const { return files_; }
  /// The price of the machine that the results are from, if it was given.
  [[nodiscard]] const std::optional<Price>& price() const { return price_; }
  void set_price(Price price) { price_ = std::move(price); }
  /// For each file that is left out, a sentence with its name and the reason.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

  /// speedup() of `other` over `base`; nothing if either is unsettled. Exactly 1 of
  /// a measurement over itself.
  [[nodiscard]] std::optional<Estimate> factor(const Measurement& base, const Measurement& other) const;

 private:
  std::deque<std::pair<std::string, ResultFile>> files_;
  std::deque<Measurement> measurements_;
  std::vector<Scenario> scenarios_;
  std::vector<std::string> left_out_;
  std::optional<Price> price_;
  mutable std::map<std::pair<const Measurement*, const Measurement*>, std::optional<Estimate>> factors_;
};

/// The times of a series as measured; for "frame" the latencies of a stream. Null if there are none.
[[nodiscard]] const std::vector<double>* find_times(const Result& result, std::string_view what);

}  // namespace headroom
