#include "report/view.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "measure/results/import.hpp"
#include "report/ladder_view.hpp"

namespace headroom {
namespace {

/// The program whose benchmark a work is, if its results were imported; else empty.
std::string importing_program(const Scenario& scenario) {
  const Result& result = *scenario.all.front()->result;
  return is_imported(result) ? result.source.name : "";
}

/// Equal for scenarios of one view.
std::string key_of(const Scenario& scenario) {
  if (const std::string program = importing_program(scenario); !program.empty())
    return fmt::format("benchmarks|{}|{}", program, scenario.hardware);
  if (scenario.subject.kind == SubjectKind::kKernel) return "kernels|" + scenario.hardware;
  nlohmann::json rest = scenario.subject.request;
  rest.erase("images");
  rest.erase("batch");
  return fmt::format("{}|{}|{}", scenario.subject.name, rest.dump(), scenario.hardware);
}

/// Merges views that have only profiles into a view of the same work that has more.
void fold_profiles(std::vector<View>& views) {
  const auto is_profile = [](const Measurement* m) { return m->result->profile.has_value(); };
  const auto has_only_profiles = [&](const View& view) {
    return std::ranges::all_of(view.scenarios,
                               [&](const Scenario* s) { return std::ranges::all_of(s->all, is_profile); });
  };
  std::vector<View> folded;
  for (const View& view : views)
    if (!has_only_profiles(view)) folded.push_back(view);
  for (const View& view : views) {
    if (!has_only_profiles(view)) continue;
    const auto akin = std::ranges::find_if(
        folded, [&](const View& other) { return !other.is_of_kernels && is_akin(*view.scenarios.front(), other); });
    if (akin == folded.end())
      folded.push_back(view);
    else
      akin->profiled.insert(akin->profiled.end(), view.scenarios.begin(), view.scenarios.end());
  }
  views = std::move(folded);
}

/// Distinguishes views of one name and machine by adding the rest of the request.
void tell_apart(std::vector<View>& views) {
  std::map<std::string, int> count;
  for (const View& view : views) ++count[view.hardware + view.title];
  for (View& view : views) {
    const std::string details = describe_details(view.scenarios.front()->subject);
    if (count[view.hardware + view.title] > 1 && !details.empty()) view.title += "; " + details;
  }
}

}  // namespace

std::vector<const Scenario*> View::all() const {
  std::vector<const Scenario*> both = scenarios;
  both.insert(both.end(), profiled.begin(), profiled.end());
  return both;
}

bool is_akin(const Scenario& scenario, const View& view) {
  const auto rest_of = [](const Scenario& s) {
    nlohmann::json rest = s.subject.request;
    for (const char* key : {"images", "batch", "steps"}) rest.erase(key);
    return fmt::format("{}|{}|{}", s.subject.name, rest.dump(), s.hardware);
  };
  return rest_of(scenario) == rest_of(*view.scenarios.front());
}

std::vector<View> views_of(const Dataset& dataset) {
  std::vector<View> views;
  std::map<std::string, std::size_t> places;
  for (const Scenario& scenario : dataset.scenarios()) {
    const auto [place, is_new] = places.try_emplace(key_of(scenario), views.size());
    const bool is_kernel = scenario.subject.kind == SubjectKind::kKernel;
    const std::string program = importing_program(scenario);
    if (is_new)
      views.push_back({.title = !program.empty() ? fmt::format("benchmarks of {}", program)
                                : is_kernel      ? "kernels by themselves"
                                                 : scenario.work,
                       .hardware = scenario.hardware,
                       .scenarios = {},
                       .profiled = {},
                       .is_of_kernels = is_kernel,
                       .program = program});
    views[place->second].scenarios.push_back(&scenario);
  }
  fold_profiles(views);
  for (View& view : views) {
    if (view.scenarios.size() < 2 || view.is_of_kernels) continue;
    Subject rest = view.scenarios.front()->subject;
    rest.request.erase("images");
    rest.request.erase("batch");
    std::set<double> sizes;
    for (const Scenario* scenario : view.scenarios) sizes.insert(batch_of(scenario->subject).value_or(1));
    const double largest = *sizes.rbegin();
    sizes.erase(largest);
    view.title = sizes.empty()
                     ? fmt::format("{}, batches of {}", describe_work(rest), largest)
                     : fmt::format("{}, batches of {} and {}", describe_work(rest), fmt::join(sizes, ", "), largest);
  }
  tell_apart(views);
  const auto rank = [&](const View& view) {
    const auto has_ladder = [&](const Scenario* scenario) { return ladder_of(dataset, *scenario).has_value(); };
    return view.is_of_kernels ? 2 : std::ranges::any_of(view.scenarios, has_ladder) ? 0 : 1;
  };
  std::ranges::stable_sort(views, {}, rank);
  std::map<std::string, std::size_t> machines;  // in the order of their first occurrence
  for (const View& view : views) machines.try_emplace(view.hardware, machines.size());
  std::ranges::stable_sort(views, {}, [&](const View& view) { return machines.at(view.hardware); });
  return views;
}

}  // namespace headroom
