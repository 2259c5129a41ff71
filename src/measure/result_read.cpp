#include <cstddef>

#include "base/error.hpp"
#include "base/json.hpp"
#include "measure/json_members.hpp"
#include "measure/result_json.hpp"

namespace headroom {
namespace {

using nlohmann::json;

Interval read_interval(const json& object, const std::string& place) {
  check_members(object, {"low", "high"}, place);
  return {get_double(object, "low", place), get_double(object, "high", place)};
}

Summary read_statistics(const json& object, const std::string& place) {
  check_members(object,
                {"n", "median_ms", "q1_ms", "q3_ms", "mean_ms", "stddev_ms", "min_ms", "max_ms", "p95_ms", "p99_ms",
                 "ci_low_ms", "ci_high_ms", "outliers_mild", "outliers_severe", "trimmed_mean_ms"},
                place);
  Summary summary{.n = get_int(object, "n", place),
                  .median = get_double(object, "median_ms", place),
                  .q1 = get_double(object, "q1_ms", place),
                  .q3 = get_double(object, "q3_ms", place),
                  .mean = get_double(object, "mean_ms", place),
                  .stddev = find_double(object, "stddev_ms", place),
                  .min = get_double(object, "min_ms", place),
                  .max = get_double(object, "max_ms", place),
                  .p95 = get_double(object, "p95_ms", place),
                  .p99 = get_double(object, "p99_ms", place),
                  .median_interval = {},
                  .outliers_mild = get_int(object, "outliers_mild", place),
                  .outliers_severe = get_int(object, "outliers_severe", place),
                  .trimmed_mean = get_double(object, "trimmed_mean_ms", place)};
  if (object.contains("ci_low_ms") || object.contains("ci_high_ms")) {
    summary.median_interval = Interval{get_double(object, "ci_low_ms", place), get_double(object, "ci_high_ms", place)};
  }
  return summary;
}

Conditions read_conditions(const json& object, const std::string& place) {
  check_members(
      object,
      {"cpu_mhz", "steal_ms", "preemptions", "gpu_clock_mhz", "gpu_memory_clock_mhz", "gpu_power_w", "gpu_throttle"},
      place);
  const auto doubles = [&](const char* name) {
    return object.contains(name) ? get_double_array(object, name, place) : std::vector<double>{};
  };
  const auto integers = [&](const char* name) {
    return object.contains(name) ? get_int_array(object, name, place) : std::vector<std::int64_t>{};
  };
  return {.cpu_mhz = doubles("cpu_mhz"),
          .steal_ms = doubles("steal_ms"),
          .preemptions = integers("preemptions"),
          .gpu_clock_mhz = doubles("gpu_clock_mhz"),
          .gpu_memory_clock_mhz = doubles("gpu_memory_clock_mhz"),
          .gpu_power_w = doubles("gpu_power_w"),
          .gpu_throttle = integers("gpu_throttle")};
}

TrialSeries read_series(const json& object, const std::string& place) {
  check_members(object,
                {"what", "unit", "process", "time", "warmup", "warmup_stable", "complete", "statistics", "conditions"},
                place);
  if (const std::string unit = get_string(object, "unit", place); unit != "ms")
    fail("the unit in {} is '{}', not 'ms'", place, unit);
  return {.what = get_string(object, "what", place),
          .process = get_int_array(object, "process", place),
          .time_ms = get_double_array(object, "time", place),
          .warmup = get_int(object, "warmup", place),
          .warmup_stable = get_bool(object, "warmup_stable", place),
          .complete = get_bool(object, "complete", place),
          .statistics = read_statistics(get_object(object, "statistics", place), "statistics of " + place),
          .conditions = object.contains("conditions")
                            ? read_conditions(get_object(object, "conditions", place), "conditions of " + place)
                            : Conditions{}};
}

Configuration read_configuration(const json& object, const std::string& place) {
  check_members(object, {"device", "asked", "applied", "declined", "kept", "threads", "baseline_dtype"}, place);
  Configuration configuration{.device = get_string(object, "device", place),
                              .asked = get_string_array(object, "asked", place),
                              .applied = get_string_array(object, "applied", place),
                              .declined = {},
                              .kept = {},
                              .threads = find_int(object, "threads", place),
                              .baseline_dtype = find_string(object, "baseline_dtype", place)};
  for (const json& declined : get_array(object, "declined", place)) {
    check_members(declined, {"switch", "reason"}, place);
    configuration.declined.push_back({get_string(declined, "switch", place), get_string(declined, "reason", place)});
  }
  if (!object.contains("kept")) return configuration;
  for (const json& kept : get_array(object, "kept", place)) {
    check_members(kept, {"switch", "reason", "nodes"}, place);
    configuration.kept.push_back(
        {get_string(kept, "switch", place), get_string(kept, "reason", place), get_string_array(kept, "nodes", place)});
  }
  return configuration;
}

MemoryReport read_memory(const json& object, const std::string& place) {
  check_members(
      object,
      {"weights_bytes", "activations_bytes", "workspace_bytes", "state_bytes", "inputs_bytes", "peak_bytes",
       "reserved_bytes", "resident_peak_bytes", "device_total_bytes", "over_context_bytes", "untracked_bytes"},
      place);
  return {.weights_bytes = find_int(object, "weights_bytes", place),
          .activations_bytes = find_int(object, "activations_bytes", place),
          .workspace_bytes = find_int(object, "workspace_bytes", place),
          .state_bytes = find_int(object, "state_bytes", place),
          .inputs_bytes = find_int(object, "inputs_bytes", place),
          .peak_bytes = find_int(object, "peak_bytes", place),
          .reserved_bytes = find_int(object, "reserved_bytes", place),
          .resident_peak_bytes = find_int(object, "resident_peak_bytes", place),
          .device_total_bytes = find_int(object, "device_total_bytes", place),
          .over_context_bytes = find_int(object, "over_context_bytes", place),
          .untracked_bytes = find_int(object, "untracked_bytes", place)};
}

QualityRecord read_quality(const json& object, const std::string& place) {
  check_members(object, {"metric", "against", "value", "interval", "note"}, place);
  QualityRecord quality{.metric = get_string(object, "metric", place),
                        .against = get_string(object, "against", place),
                        .value = find_double(object, "value", place),
                        .interval = {},
                        .note = find_string(object, "note", place)};
  if (object.contains("interval")) quality.interval = read_interval(object["interval"], "interval of " + place);
  return quality;
}

PlannedNode read_node(const json& object, const std::string& place) {
  check_members(object, {"node", "op", "kernel", "implementation", "compute_type", "cost", "parts", "rejections"},
                place);
  const json& cost = get_object(object, "cost", place);
  check_members(cost, {"bytes", "flops", "unit"}, "cost of " + place);
  PlannedNode node{.node = get_string(object, "node", place),
                   .op = get_string(object, "op", place),
                   .kernel = get_string(object, "kernel", place),
                   .implementation = get_string(object, "implementation", place),
                   .compute_type = get_string(object, "compute_type", place),
                   .cost_bytes = get_double(cost, "bytes", place),
                   .cost_flops = get_double(cost, "flops", place),
                   .cost_unit = get_string(cost, "unit", place),
                   .parts = find_int(object, "parts", place).value_or(1),
                   .rejections = {}};
  for (const json& rejection : get_array(object, "rejections", place)) {
    check_members(rejection, {"kernel", "reason"}, place);
    node.rejections.push_back({get_string(rejection, "kernel", place), get_string(rejection, "reason", place)});
  }
  return node;
}

PlanRecord read_plan(const json& object, const std::string& place) {
  check_members(object, {"nodes"}, place);
  PlanRecord plan;
  for (const json& node : get_array(object, "nodes", place)) {
    plan.nodes.push_back(read_node(node, fmt::format("node {} of {}", plan.nodes.size(), place)));
  }
  return plan;
}

Subject read_subject(const json& object, const std::string& place) {
  check_members(object, {"kind", "name", "request", "parameters"}, place);
  Subject subject;
  const std::string kind = get_string(object, "kind", place);
  if (kind != name_of(SubjectKind::kModel) && kind != name_of(SubjectKind::kKernel)) {
    fail("the kind of {} is '{}'; 'model' or 'kernel' was expected", place, kind);
  }
  subject.kind = kind == name_of(SubjectKind::kModel) ? SubjectKind::kModel : SubjectKind::kKernel;
  subject.name = get_string(object, "name", place);
  subject.request = get_object(object, "request", place);
  subject.parameters = find_int(object, "parameters", place);
  return subject;
}

ProfileRecord read_profile(const json& object, const std::string& place) {
  check_members(object, {"time_ms", "floor_ms", "floor_of", "runs", "idle_share"}, place);
  return {.time_ms = get_double_array(object, "time_ms", place),
          .floor_ms = get_double_array(object, "floor_ms", place),
          .floor_of = get_string_array(object, "floor_of", place),
          .runs = get_int_array(object, "runs", place),
          .idle_share = find_double(object, "idle_share", place)};
}

Result read_result(const json& object, const std::string& place) {
  check_members(object,
                {"id", "name", "subject", "work_hash", "source", "configuration", "trials", "memory", "quality", "tags",
                 "plan", "profile"},
                place);
  Result result;
  result.id = get_string(object, "id", place);
  result.name = get_string(object, "name", place);
  result.subject = read_subject(get_object(object, "subject", place), "the subject of " + place);
  const std::string stored_hash = get_string(object, "work_hash", place);
  if (const std::string hash = work_hash(result.subject); stored_hash != hash) {
    fail("the work_hash of {} is '{}', but that of its subject is '{}'", place, stored_hash, hash);
  }
  const json& source = get_object(object, "source", place);
  check_members(source, {"name", "version"}, "the source of " + place);
  result.source = {get_string(source, "name", place), get_string(source, "version", place)};
  result.configuration =
      read_configuration(get_object(object, "configuration", place), "the configuration of " + place);
  for (const json& series : get_array(object, "trials", place)) {
    result.trials.push_back(read_series(series, fmt::format("series {} of {}", result.trials.size(), place)));
  }
  if (object.contains("memory")) result.memory = read_memory(object["memory"], "the memory of " + place);
  for (const json& quality : get_array(object, "quality", place)) {
    result.quality.push_back(read_quality(quality, fmt::format("quality {} of {}", result.quality.size(), place)));
  }
  result.tags = get_string_array(object, "tags", place);
  result.plan = find_string(object, "plan", place);
  if (object.contains("profile"))
    result.profile = read_profile(get_object(object, "profile", place), "the profile of " + place);
  return result;
}

}  // namespace

ResultFile results_from_json(const json& json, std::string_view context) {
  // Before anything else: another version may look different in every other member.
  if (const std::string schema = get_string(json, "schema", context); schema != kResultSchema) {
    fail("{} has schema '{}'; this program reads '{}'", context, schema, kResultSchema);
  }
  check_members(json, {"schema", "created", "machine", "plans", "results"}, context);
  ResultFile file;
  file.created = get_string(json, "created", context);
  file.machine = machine_from_json(get_object(json, "machine", context), fmt::format("the machine of {}", context));
  for (const auto& [id, plan] : get_object(json, "plans", context).items()) {
    file.plans[id] = read_plan(plan, fmt::format("plan '{}' of {}", id, context));
  }
  for (const nlohmann::json& result : get_array(json, "results", context)) {
    file.results.push_back(read_result(result, fmt::format("result {} of {}", file.results.size(), context)));
  }
  try {
    check_results(file);
  } catch (const Error& error) {
    fail("{} is inconsistent: {}", context, error.what());
  }
  return file;
}

}  // namespace headroom
