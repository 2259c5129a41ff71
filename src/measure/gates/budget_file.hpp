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

/// Budget files: rows that select results, and what these must keep to. Schema `headroom.budget/1`, described for other
/// programs by docs/budget.schema.json.
namespace headroom {

inline constexpr std::string_view kBudgetSchema = "headroom.budget/1";

/// A regular expression (POSIX, extended) that a whole text must match, as it was written.
struct BudgetPattern {
  std::string text;
  std::shared_ptr<const NameFilter> filter;
};

/// Which results a row is for: those that all that is given fits.
struct BudgetSelector {
  std::optional<BudgetPattern> model;                 ///< the subject's name
  std::optional<BudgetPattern> opt;                   ///< the result's name, or its switches and presets
  std::optional<BudgetPattern> device;                ///< "cpu", "cuda"
  std::optional<BudgetPattern> gpu;                   ///< the GPU's name
  std::optional<BudgetPattern> source;                ///< the program; headroom unless given
  std::optional<std::int64_t> width, height;          ///< pixels
  std::optional<std::int64_t> batch;                  ///< images at once
  nlohmann::json request = nlohmann::json::object();  ///< members that the request has, with these values
  [[nodiscard]] bool matches(const Result& result) const;
};

/// What a quantity must keep to, in its unit: ms, bytes, dB, a share, a plain number, or of a throughput images (or
/// frames, or launches) a second. Accuracy, PSNR and throughput are at least that, all else at most.
struct BudgetLimits {
  std::map<Quantity, double> of = {};
  std::optional<double> throughput = {};
};

struct BudgetRow {
  std::string name;  ///< of the row, or what it selects
  BudgetSelector selector;
  BudgetLimits limits;
  std::string series;    ///< of the times; empty: `image` where there is one, else the first
  bool required = true;  ///< nothing measured is a failure
};

/// Throws Error, naming `context` and the place, for another schema, a member that is missing, unknown or of another
/// type, a limit without its unit, and a pattern that is no regular expression.
[[nodiscard]] std::vector<BudgetRow> budget_from_json(const nlohmann::json& json, std::string_view context);
[[nodiscard]] std::vector<BudgetRow> read_budget_file(const std::filesystem::path& path);

/// A line for each limit of each row and each result that it selects: PASS, MISSED, INCONCLUSIVE where the 95% interval
/// holds the limit, where a p99 has too few trials or a ladder's rung is unsettled, and NOT MEASURED where no result
/// has it, which is a failure unless the row is not `required`. What has no interval is held against the limit as it
/// is.
[[nodiscard]] GateReport check_budget(std::span<const BudgetRow> rows, std::span<const NamedResults> files);

}  // namespace headroom
