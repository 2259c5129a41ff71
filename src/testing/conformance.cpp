#include "testing/conformance.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "ir/test_cases/value_range.hpp"
#include "testing/compare.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kSeed = 1;

void add_reason(std::string& reasons, std::string_view kernel, std::string_view reason) {
  if (!reasons.empty()) reasons += "; ";
  reasons += fmt::format("{}: {}", kernel, reason);
}

/// Completes the outcome of its case.
void run_case(Backend& backend, const DeviceTarget& target, CaseOutcome& outcome) {
  const OpSpec& spec = outcome.one.spec;
  std::string lacks, differs;
  for (const Kernel* kernel : kernels_of(target.device)) {
    if (kernel->op() != spec.op) continue;
    if (const Support rejection = kernel->supports(spec, target)) {
      add_reason(lacks, kernel->name(), rejection->reason);
      continue;
    }
    try {
      const Comparison result =
          compare_on(backend, *kernel, spec, target, random_operands(spec, kSeed), outcome.one.tolerance);
      outcome.kernels.push_back(kernel->name());
      outcome.relative_l2 = std::max(outcome.relative_l2, result.relative_l2);
      if (!result.passed) add_reason(differs, kernel->name(), result.message);
    } catch (const CannotPrepare& unprepared) {
      add_reason(lacks, kernel->name(), unprepared.what());
    } catch (const Error& error) {
      add_reason(differs, kernel->name(), error.what());
    }
  }
  if (!differs.empty()) {
    outcome.is = Conformity::kDiffers;
    outcome.reason = std::move(differs);
  } else if (!outcome.kernels.empty()) {
    outcome.is = Conformity::kRuns;
  } else {
    outcome.is = Conformity::kLacks;
    outcome.reason = lacks.empty() ? "no kernel is of this op" : std::move(lacks);
  }
}

}  // namespace

std::string_view name_of(Conformity conformity) {
  if (conformity == Conformity::kRuns) return "runs";
  return conformity == Conformity::kDiffers ? "differs" : "lacks";
}

std::vector<CaseOutcome> conformance_cases(std::optional<Op> op) {
  std::vector<CaseOutcome> cases;
  for (const OpSchema& schema : all_ops()) {
    if (op && schema.op != *op) continue;
    const std::size_t first = cases.size();
    for (const CaseTypes types : kCaseTypes)
      for (OpCase& one : small_cases(schema.op, types)) {
        const auto is_same = [&](const CaseOutcome& known) { return known.one.spec == one.spec; };
        if (std::any_of(cases.begin() + static_cast<std::ptrdiff_t>(first), cases.end(), is_same)) continue;
        cases.push_back({.one = std::move(one), .types = types});
      }
  }
  return cases;
}

std::vector<CaseOutcome> check_conformance(Backend& backend, const DeviceTarget& target, std::vector<CaseOutcome> cases,
                                           const std::function<void(ConformanceProgress)>& on_progress) {
  DeviceTarget untimed = target;
  untimed.new_work = NewWork::kTakeOver;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (on_progress) on_progress({cases[i].one.spec.op, i, cases.size()});
    run_case(backend, untimed, cases[i]);
  }
  return cases;
}

}  // namespace headroom
