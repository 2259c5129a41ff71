// Reads lines of JSON from stdin, each a sampler and its levels, and answers each with the sampler's tables in a line:
//
//   {"config": {...}, "steps": 20, "sampler": "unipc", "tokens": 256, "evenly": false, "eta": 0.3}
//   {"timesteps": [...], "levels": [...], "noise_scale": 1, "next": [[[...], ...], ...]} or {"error": "..."}
//
// `config` is a scheduler_config.json; all but it and `steps` may be left out. `levels` are alpha and sigma where each step begins and
// where the last one ends. bench/peers/samplers_diffusers.py compares them with diffusers' own schedulers.

#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/json.hpp"
#include "pipelines/schedules/scheduler.hpp"

namespace headroom {
namespace {

using nlohmann::json;

json pair_of(const NoiseLevel& level) { return json::array({level.alpha, level.sigma}); }

json tables_of(const json& asked) {
  const std::string sampler = asked.value("sampler", "");
  const FlowSpacing spacing = asked.value("evenly", false) ? FlowSpacing::kEven : FlowSpacing::kOwn;
  Scheduler scheduler =
      parse_scheduler(asked.at("config"), sampler.empty() ? std::nullopt : find_sampler(sampler), spacing);
  if (asked.contains("eta")) scheduler.set_eta(asked.at("eta").get<double>());
  const NoiseSchedule schedule = scheduler.schedule(asked.at("steps"), asked.value("tokens", std::int64_t{256}));
  const SamplerTables tables = make_sampler_tables(scheduler.sampler, schedule, scheduler.options);
  json levels = json::array(), next = json::array();
  for (const NoiseStep& step : schedule.steps) levels.push_back(pair_of(step.from));
  levels.push_back(pair_of(schedule.steps.back().to));
  for (const auto& forms : tables.next) {
    json call = json::array();
    for (const LinearForm& form : forms) call.push_back(form.of);
    next.push_back(std::move(call));
  }
  return {{"timesteps", tables.timesteps}, {"levels", levels}, {"noise_scale", tables.noise_scale}, {"next", next}};
}

}  // namespace
}  // namespace headroom

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    try {
      answer = headroom::tables_of(headroom::parse_scheduler_config(line, "stdin"));
      std::cout << headroom::dump_json(answer) << std::endl;
    } catch (const std::exception& error) {
      std::cout << headroom::dump_json({{"error", error.what()}}) << std::endl;
    }
  }
}
