#include "report/view.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/ladder_view.hpp"

namespace headroom {
namespace {

/// Equal where scenarios are of one view.
std::string key_of(const Scenario& scenario) {
  if (scenario.subject.kind == SubjectKind::kKernel) return "kernels|" + scenario.hardware;
  nlohmann::json rest = scenario.subject.request;
  rest.erase("images");
  rest.erase("batch");
  return fmt::format("{}|{}|{}", scenario.subject.name, rest.dump(), scenario.hardware);
}

}  // namespace

std::vector<View> views_of(const Dataset& dataset) {
  std::vector<View> views;
  std::map<std::string, std::size_t> places;
  for (const Scenario& scenario : dataset.scenarios()) {
    const auto [place, is_new] = places.try_emplace(key_of(scenario), views.size());
    const bool is_kernel = scenario.subject.kind == SubjectKind::kKernel;
    if (is_new)
      views.push_back({.title = is_kernel ? "kernels by themselves" : scenario.work,
                       .hardware = scenario.hardware,
                       .scenarios = {},
                       .is_of_kernels = is_kernel});
    views[place->second].scenarios.push_back(&scenario);
  }
  for (View& view : views) {
    if (view.scenarios.size() < 2 || view.is_of_kernels) continue;
    Subject rest = view.scenarios.front()->subject;
    rest.request.erase("images");
    rest.request.erase("batch");
    std::set<double> sizes;
    for (const Scenario* scenario : view.scenarios) sizes.insert(batch_of(scenario->subject).value_or(1));
    view.title = fmt::format("{}, {} at once", describe_work(rest), fmt::join(sizes, ", "));
  }
  const auto rank = [&](const View& view) {
    const auto has_ladder = [&](const Scenario* scenario) { return ladder_of(dataset, *scenario).has_value(); };
    return view.is_of_kernels ? 2 : std::ranges::any_of(view.scenarios, has_ladder) ? 0 : 1;
  };
  std::ranges::stable_sort(views, {}, rank);
  std::map<std::string, std::size_t> machines;  // in the order in which they come
  for (const View& view : views) machines.try_emplace(view.hardware, machines.size());
  std::ranges::stable_sort(views, {}, [&](const View& view) { return machines.at(view.hardware); });
  return views;
}

}  // namespace headroom
