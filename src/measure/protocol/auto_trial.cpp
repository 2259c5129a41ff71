#include "measure/protocol/auto_trial.hpp"

#include <nlohmann/json.hpp>

#include "base/text/json.hpp"
#include "measure/results/json_members.hpp"

namespace headroom {

nlohmann::json to_json(const AutoTrial& trial) {
  nlohmann::json object = {{"switch", trial.switch_name}, {"kept", trial.kept}, {"why", trial.why}};
  const auto set_if = [&](const char* name, const std::optional<double>& value) {
    if (value) object[name] = *value;
  };
  set_if("without_ms", trial.without_ms);
  set_if("with_ms", trial.with_ms);
  set_if("factor", trial.factor);
  set_if("error", trial.error);
  if (trial.interval) object["interval"] = {{"low", trial.interval->low}, {"high", trial.interval->high}};
  return object;
}

AutoTrial read_auto_trial(const nlohmann::json& object, const std::string& place) {
  check_members(object, {"switch", "kept", "why", "without_ms", "with_ms", "factor", "error", "interval"}, place);
  AutoTrial trial{.switch_name = get_string(object, "switch", place),
                  .without_ms = find_number(object, "without_ms", place),
                  .with_ms = find_number(object, "with_ms", place),
                  .factor = find_number(object, "factor", place),
                  .interval = {},
                  .error = find_number(object, "error", place),
                  .kept = get_bool(object, "kept", place),
                  .why = get_string(object, "why", place)};
  if (object.contains("interval")) {
    const nlohmann::json& interval = get_object(object, "interval", place);
    check_members(interval, {"low", "high"}, place);
    trial.interval = Interval{get_double(interval, "low", place), get_double(interval, "high", place)};
  }
  return trial;
}

}  // namespace headroom
