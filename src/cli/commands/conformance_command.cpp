#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "measure/tables/table.hpp"
#include "testing/conformance.hpp"

namespace headroom {
namespace {

struct ConformanceArguments {
  ModelArguments device;
  std::string op;  // empty: all of them
  bool as_json = false;
};

/// Throws a usage Error for a name that is none of an op.
std::optional<Op> asked_op(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (const std::optional<Op> op = parse_op(name)) return op;
  std::vector<std::string> names;
  for (const OpSchema& schema : all_ops()) names.emplace_back(schema.name);
  fail_usage("--op {}: no op is called that{}", name, did_you_mean(name, names));
}

bool is_channels_last(const CaseOutcome& outcome) {
  return std::ranges::any_of(outcome.one.spec.inputs,
                             [](const TensorType& type) { return type.layout == Layout::kChannelsLast; });
}
std::string_view layout_of(const CaseOutcome& outcome) {
  return is_channels_last(outcome) ? "channels_last" : "row_major";
}

/// "bf16", or "bf16, f32 vectors"
std::string dtypes_of(CaseTypes types) {
  return types.data == types.vector ? std::string(name_of(types.data))
                                    : fmt::format("{}, {} vectors", types.data, types.vector);
}

std::array<std::size_t, 3> count_by_conformity(const std::vector<CaseOutcome>& outcomes) {
  std::array<std::size_t, 3> counts{};
  for (const CaseOutcome& outcome : outcomes) ++counts[static_cast<std::size_t>(outcome.is)];
  return counts;
}

/// One row of the table: cases of an op that are alike in dtypes, layout, outcome and reason.
struct Group {
  const CaseOutcome* first = nullptr;
  std::size_t cases = 0;
  double relative_l2 = 0, bound = 0;
  std::vector<std::string_view> kernels = {};
};

void add_to(Group& group, const CaseOutcome& outcome) {
  if (group.first == nullptr) group.first = &outcome;
  ++group.cases;
  group.relative_l2 = std::max(group.relative_l2, outcome.relative_l2);
  group.bound = std::max(group.bound, outcome.one.tolerance.relative_l2);
  for (const std::string_view kernel : outcome.kernels)
    if (std::ranges::find(group.kernels, kernel) == group.kernels.end()) group.kernels.push_back(kernel);
}

/// Every case by itself (`is_of_one_op`), or cases of one outcome together; differences are always apart.
std::vector<Group> groups_of(const std::vector<CaseOutcome>& outcomes, bool is_of_one_op) {
  std::vector<Group> groups;
  std::map<std::tuple<Op, std::string, bool, Conformity, std::string>, std::size_t> known;
  for (const CaseOutcome& outcome : outcomes) {
    const std::tuple key(outcome.one.spec.op, dtypes_of(outcome.types), is_channels_last(outcome), outcome.is,
                         outcome.reason);
    const auto [found, is_new] = known.try_emplace(key, groups.size());
    if (is_new || is_of_one_op || outcome.is == Conformity::kDiffers) {
      found->second = groups.size();
      groups.emplace_back();
    }
    add_to(groups[found->second], outcome);
  }
  return groups;
}

Printout to_table(const std::vector<CaseOutcome>& outcomes, bool is_of_one_op) {
  Table table;
  for (const char* header : {"op", "dtype", "layout", "outcome"}) table.add_column(header, Align::kLeft);
  if (is_of_one_op)
    table.add_column(Column{.header = "case", .align = Align::kLeft});
  else
    table.add_column("cases");
  table.add_column(Column{.header = "error", .priority = 2});
  table.add_column(Column{.header = "bound", .priority = 3});
  table.add_column(Column{.header = "kernels, or why not", .align = Align::kLeft, .priority = 1});
  for (const Group& group : groups_of(outcomes, is_of_one_op)) {
    const CaseOutcome& first = *group.first;
    const bool ran = !group.kernels.empty();
    std::string last = first.is == Conformity::kRuns ? fmt::format("{}", fmt::join(group.kernels, ", ")) : first.reason;
    if (first.is == Conformity::kDiffers && !is_of_one_op) last = fmt::format("{}: {}", first.one.name, last);
    table.add_row({std::string(name_of(first.one.spec.op)), dtypes_of(first.types), std::string(layout_of(first)),
                   std::string(name_of(first.is)), is_of_one_op ? first.one.name : std::to_string(group.cases),
                   ran ? format_significant(group.relative_l2) : "", ran ? format_significant(group.bound) : "", last});
  }
  Printout printout(std::move(table));
  const auto [runs, differs, lacks] = count_by_conformity(outcomes);
  printout.add(fmt::format("\n{}: {} run, {} differ, {} lack a kernel\n", format_count(std::ssize(outcomes), "case"),
                           runs, differs, lacks));
  return printout;
}

nlohmann::json to_json(const CaseOutcome& outcome) {
  const OpSpec& spec = outcome.one.spec;
  nlohmann::json inputs = nlohmann::json::array();
  for (const TensorType& type : spec.inputs) inputs.push_back(fmt::format("{}", type));
  nlohmann::json json = {{"op", name_of(spec.op)},
                         {"case", outcome.one.name},
                         {"dtype", name_of(outcome.types.data)},
                         {"vector_dtype", name_of(outcome.types.vector)},
                         {"layout", layout_of(outcome)},
                         {"inputs", std::move(inputs)},
                         {"outcome", name_of(outcome.is)},
                         {"kernels", outcome.kernels},
                         {"bound", outcome.one.tolerance.relative_l2}};
  json["error"] = outcome.kernels.empty() ? nlohmann::json() : nlohmann::json(outcome.relative_l2);
  if (!outcome.reason.empty()) json["reason"] = outcome.reason;
  return json;
}

void print_json(const Backend& backend, const std::vector<CaseOutcome>& outcomes) {
  const auto [runs, differs, lacks] = count_by_conformity(outcomes);
  nlohmann::json cases = nlohmann::json::array();
  for (const CaseOutcome& outcome : outcomes) cases.push_back(to_json(outcome));
  print_out("{}\n", dump_json({{"device", name_of(backend.properties().target.device)},
                               {"runs", runs},
                               {"differs", differs},
                               {"lacks", lacks},
                               {"cases", std::move(cases)}},
                              2));
}

std::vector<CaseOutcome> run_cases(Backend& backend, std::optional<Op> op, bool quiet) {
  PhaseProgress progress(quiet);
  return check_conformance(
      backend, backend.properties().target, conformance_cases(op), [&](const ConformanceProgress& at) {
        progress.show("comparing", static_cast<std::int64_t>(at.done), static_cast<std::int64_t>(at.total));
      });
}

ExitCode conformance(const ConformanceArguments& arguments) {
  const std::optional<Op> op = asked_op(arguments.op);
  const std::unique_ptr<Backend> backend = open_backend(arguments.device);
  tell_device(Log(arguments.device.quiet), *backend);
  const std::vector<CaseOutcome> outcomes = run_cases(*backend, op, arguments.device.quiet);
  if (arguments.as_json)
    print_json(*backend, outcomes);
  else
    print_tables(to_table(outcomes, op.has_value()));
  const auto is_different = [](const CaseOutcome& outcome) { return outcome.is == Conformity::kDiffers; };
  return std::ranges::any_of(outcomes, is_different) ? ExitCode::kError : ExitCode::kOk;
}

}  // namespace

void add_conformance_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand(
      "conformance", "list which ops, dtypes and layouts a device runs as the interpreter does, and which it lacks");
  const auto arguments = std::make_shared<ConformanceArguments>();
  add_device_arguments(*command, arguments->device);
  command->add_option("--op", arguments->op, "only the cases of this op, one by one; default: all ops")
      ->type_name("NAME");
  command->add_flag("--json", arguments->as_json, "print JSON instead of the table: every case");
  command->footer(
      "Example: headroom conformance --device cuda\n"
      "         headroom conformance --device cpu --op conv2d --json\n"
      "Exit codes: 0 no kernel differs from the interpreter, 1 one does.");
  command->callback([arguments, &exit_code] { exit_code = conformance(*arguments); });
}

}  // namespace headroom
