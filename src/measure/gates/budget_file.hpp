#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/name_filter.hpp"
#include "measure/gates/gate_report.hpp"
#include "measure/gates/quantities.hpp"
#include "measure/results/result_folder.hpp"
#include "measure/suites/token_sizes.hpp"

/// Budget files: rows that select results, and their limits. Schema `headroom.budget/1`, described for other programs
/// by docs/budget.schema.json.
namespace headroom {

inline constexpr std::string_view kBudgetSchema = "headroom.budget/1";

/// A regular expression (POSIX, extended) that must match the whole text, with its source text.
struct BudgetPattern {
  std::string text;
  std::shared_ptr<const NameFilter> filter;
};

/// Selects the results of a row: those that match all given fields.
struct BudgetSelector {
  std::optional<BudgetPattern> model;                 ///< the subject's name
  std::optional<BudgetPattern> opt;                   ///< the result's name, or its switches and presets
  std::optional<BudgetPattern> device;                ///< "cpu", "cuda"
  std::optional<BudgetPattern> gpu;                   ///< the GPU's name
  std::optional<BudgetPattern> source;                ///< the program; headroom by default
  std::optional<std::int64_t> width, height;          ///< pixels
  std::optional<std::int64_t> batch;                  ///< images at once
  nlohmann::json request = nlohmann::json::object();  ///< members of the request, with these values
  /// `token_sizes` must know the result's file.
  [[nodiscard]] bool matches(const Result& result, TokenSizes& token_sizes) const;
};

/// Limits of the quantities, in their units: ms, bytes, dB, a share or a plain number. For a throughput the unit is
/// images, frames or launches per second. Accuracy, PSNR and throughput have lower limits, all others upper limits.
struct BudgetLimits {
  std::map<Quantity, double> of = {};
  std::optional<double> throughput = {};
};

struct BudgetRow {
  std::string name;  ///< of the row, or a description of its selector
  BudgetSelector selector;
  BudgetLimits limits;
  std::string series;    ///< of the times; empty selects `image` if there is one, otherwise the first
  bool required = true;  ///< whether it is a failure if nothing was measured
};

/// Throws Error, naming `context` and the place, for another schema, a missing or unknown member, a member of another
/// type, a limit without its unit, or an invalid regular expression.
[[nodiscard]] std::vector<BudgetRow> budget_from_json(const nlohmann::json& json, std::string_view context);
[[nodiscard]] std::vector<BudgetRow> read_budget_file(const std::filesystem::path& path);

/// One line for each limit of each row and each selected result. The verdicts:
/// - PASS or MISSED; a value without an interval is compared directly with the limit;
/// - INCONCLUSIVE if the 95% interval contains the limit, a p99 has too few trials, or why_unsettled() finds a
///   reason;
/// - NOT MEASURED if no result has the quantity, which is a failure unless the row is not `required`.
[[nodiscard]] GateReport check_budget(std::span<const BudgetRow> rows, std::span<const NamedResults> files);

}  // namespace headroom
