#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "ir/verify.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

#ifdef HEADROOM_VERIFY_PASSES
constexpr bool kAlwaysVerify = true;
#else
constexpr bool kAlwaysVerify = false;
#endif

void check_names(std::span<const std::string> disabled) {
  std::vector<std::string_view> known;
  known.reserve(pipeline().size());
  for (const Pass& pass : pipeline()) known.push_back(pass.name);
  for (const std::string& name : disabled) {
    if (std::ranges::find(known, name) != known.end()) continue;
    fail_usage("cannot disable the pass '{}': there are {}", name, fmt::join(known, ", "));
  }
}

void verify_after(std::string_view place, const Graph& graph) {
  try {
    verify(graph);
  } catch (const std::logic_error& error) {
    throw std::logic_error(fmt::format("{}: {}", place, error.what()));
  }
}

PassRecord run_pass(const Pass& pass, Graph& graph, const Target& target, std::string_view argument,
                    bool assume_capable) {
  const auto start = std::chrono::steady_clock::now();
  PassOutcome outcome = pass.run(graph, target, argument, assume_capable);
  const double elapsed_ms = milliseconds_since(start);
  return PassRecord{.name = pass.name,
                    .switch_name = pass.switch_name,
                    .rewrites = outcome.rewrites,
                    .milliseconds = elapsed_ms,
                    .declined = std::move(outcome.declined),
                    .notes = std::move(outcome.notes)};
}

/// The reason why the passes of a requested switch did nothing; empty if one of them did something.
std::optional<std::string> why_declined(std::string_view switch_name, std::span<const PassRecord> records) {
  bool ran = false;
  std::optional<std::string> reason;
  for (const PassRecord& record : records) {
    if (record.switch_name != switch_name) continue;
    if (record.rewrites > 0) return std::nullopt;
    ran = true;
    if (!reason) reason = record.declined;
  }
  if (reason) return reason;
  return ran ? "no pattern it rewrites occurs in this graph" : "all of its passes are disabled";
}

}  // namespace

void note(std::vector<PassNote>& notes, std::string_view reason, const Node& node, NoteKind kind) {
  auto found = std::ranges::find(notes, reason, &PassNote::reason);
  if (found == notes.end()) found = notes.insert(found, {.reason = std::string(reason), .nodes = {}, .kind = kind});
  const std::string_view name = node.path.empty() ? name_of(node.op) : std::string_view(node.path);
  if (std::ranges::find(found->nodes, name) == found->nodes.end()) found->nodes.emplace_back(name);
}

PassOutcome outcome_of(int rewrites, std::string reason) {
  return {.rewrites = rewrites, .declined = rewrites > 0 ? std::nullopt : std::optional(std::move(reason))};
}

PassOutcome Pass::run(Graph& graph, const Target& target, std::string_view argument, bool assume_capable) const {
  std::string obstacle = needs && !assume_capable ? obstacle_to(*needs, target) : std::string();
  if (!obstacle.empty()) return outcome_of(0, std::move(obstacle));
  return rewrite_as != nullptr ? rewrite_as(graph, target, argument) : rewrite(graph, target);
}

OptimizeReport optimize(Graph& graph, const SwitchSet& switches, const Target& target, const OptimizeOptions& options) {
  check_names(options.disabled);
  const bool verifying = options.verify || kAlwaysVerify;
  if (verifying) verify_after("before the first pass", graph);

  OptimizeReport report;
  for (const Pass& pass : pipeline()) {
    const bool wanted = pass.switch_name.empty() || switches.has(pass.switch_name);
    if (!wanted || std::ranges::find(options.disabled, pass.name) != options.disabled.end()) continue;
    report.passes.push_back(
        run_pass(pass, graph, target, switches.argument(pass.switch_name).value_or(""), options.assume_capable));
    if (verifying) verify_after(fmt::format("after the pass {}", pass.name), graph);
  }

  for (const SwitchInfo& info : all_switches()) {
    const bool has_passes = std::ranges::find(pipeline(), info.name, &Pass::switch_name) != pipeline().end();
    if (!has_passes || !switches.has(info.name)) continue;
    if (std::optional<std::string> reason = why_declined(info.name, report.passes))
      report.declined.push_back({std::string(info.name), std::move(*reason)});
  }
  return report;
}

}  // namespace headroom
