#include <cstddef>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "measure/results/json_members.hpp"
#include "measure/results/result_json.hpp"
#include "measure/results/stored_plan.hpp"

namespace headroom {
namespace {

using nlohmann::json;

Interval read_interval(const json& object, const std::string& place) {
  check_members(object, {"low", "high"}, place);
  return {get_number(object, "low", place), get_number(object, "high", place)};
}

Summary read_statistics(const json& object, const std::string& place) {
  check_members(object,
                {"n", "median_ms", "q1_ms", "q3_ms", "mean_ms", "stddev_ms", "min_ms", "max_ms", "p95_ms", "p99_ms",
                 "ci_low_ms", "ci_high_ms", "outliers_mild", "outliers_severe", "trimmed_mean_ms"},
                place);
  Summary summary{.n = get_whole(object, "n", place, 1),
                  .median = get_number(object, "median_ms", place, kNotNegative),
                  .q1 = get_number(object, "q1_ms", place, kNotNegative),
                  .q3 = get_number(object, "q3_ms", place, kNotNegative),
                  .mean = get_number(object, "mean_ms", place, kNotNegative),
                  .stddev = find_number(object, "stddev_ms", place, kNotNegative),
                  .min = get_number(object, "min_ms", place, kNotNegative),
                  .max = get_number(object, "max_ms", place, kNotNegative),
                  .p95 = get_number(object, "p95_ms", place, kNotNegative),
                  .p99 = get_number(object, "p99_ms", place, kNotNegative),
                  .median_interval = {},
                  .outliers_mild = get_whole(object, "outliers_mild", place),
                  .outliers_severe = get_whole(object, "outliers_severe", place),
                  .trimmed_mean = get_number(object, "trimmed_mean_ms", place, kNotNegative)};
  if (object.contains("ci_low_ms") || object.contains("ci_high_ms")) {
    summary.median_interval = Interval{get_number(object, "ci_low_ms", place, kNotNegative),
                                       get_number(object, "ci_high_ms", place, kNotNegative)};
  }
  return summary;
}

Conditions read_conditions(const json& object, const std::string& place) {
  check_members(object,
                {"cpu_mhz", "steal_ms", "preemptions", "waited_ms", "gpu_clock_mhz", "gpu_memory_clock_mhz",
                 "gpu_power_w", "gpu_throttle"},
                place);
  const auto doubles = [&](const char* name) {
    return object.contains(name) ? get_numbers(object, name, place, kNotNegative) : std::vector<double>{};
  };
  const auto integers = [&](const char* name) {
    return object.contains(name) ? get_wholes(object, name, place) : std::vector<std::int64_t>{};
  };
  return {.cpu_mhz = doubles("cpu_mhz"),
          .steal_ms = doubles("steal_ms"),
          .preemptions = integers("preemptions"),
          .waited_ms = doubles("waited_ms"),
          .gpu_clock_mhz = doubles("gpu_clock_mhz"),
          .gpu_memory_clock_mhz = doubles("gpu_memory_clock_mhz"),
          .gpu_power_w = doubles("gpu_power_w"),
          .gpu_throttle = integers("gpu_throttle")};
}

TrialSeries read_series(const json& object, const std::string& place) {
  check_members(
      object,
      {"what", "unit", "process", "round", "time", "warmup", "warmup_stable", "complete", "statistics", "conditions"},
      place);
  (void)get_one_of(object, "unit", place, {"ms"});
  return {.what = get_text(object, "what", place),
          .process = get_wholes(object, "process", place),
          .time_ms = get_numbers(object, "time", place, kTimeMs),
          .warmup = get_whole(object, "warmup", place),
          .warmup_stable = get_bool(object, "warmup_stable", place),
          .complete = get_bool(object, "complete", place),
          .statistics = read_statistics(get_object(object, "statistics", place), "statistics of " + place),
          .conditions = object.contains("conditions")
                            ? read_conditions(get_object(object, "conditions", place), "conditions of " + place)
                            : Conditions{},
          .round = object.contains("round") ? get_wholes(object, "round", place) : std::vector<std::int64_t>{}};
}

Configuration read_configuration(const json& object, const std::string& place) {
  check_members(object, {"device", "gpu", "asked", "applied", "declined", "kept", "auto", "threads", "baseline_dtype"},
                place);
  Configuration configuration{.device = get_text(object, "device", place),
                              .asked = get_texts(object, "asked", place),
                              .applied = get_texts(object, "applied", place),
                              .declined = {},
                              .kept = {},
                              .auto_trials = {},
                              .threads = find_whole(object, "threads", place, 1),
                              .baseline_dtype = find_text(object, "baseline_dtype", place)};
  if (object.contains("gpu")) {
    const json& gpu = get_object(object, "gpu", place);
    const std::string context = "gpu of " + place;
    check_members(gpu, {"name", "index", "uuid"}, context);
    configuration.gpu = {.name = get_text(gpu, "name", context),
                         .index = get_whole(gpu, "index", context),
                         .uuid = get_text(gpu, "uuid", context)};
  }
  for (const json& declined : get_array(object, "declined", place)) {
    check_members(declined, {"switch", "reason"}, place);
    configuration.declined.push_back({get_text(declined, "switch", place), get_text(declined, "reason", place)});
  }
  if (object.contains("auto"))
    for (const json& trial : get_array(object, "auto", place))
      configuration.auto_trials.push_back(read_auto_trial(trial, "auto of " + place));
  if (!object.contains("kept")) return configuration;
  for (const json& kept : get_array(object, "kept", place)) {
    check_members(kept, {"switch", "reason", "nodes"}, place);
    configuration.kept.push_back(
        {get_text(kept, "switch", place), get_text(kept, "reason", place), get_texts(kept, "nodes", place)});
  }
  return configuration;
}

MemoryReport read_memory(const json& object, const std::string& place) {
  check_members(
      object,
      {"weights_bytes", "activations_bytes", "workspace_bytes", "state_bytes", "inputs_bytes", "peak_bytes",
       "reserved_bytes", "resident_peak_bytes", "device_total_bytes", "over_context_bytes", "untracked_bytes"},
      place);
  return {.weights_bytes = find_whole(object, "weights_bytes", place),
          .activations_bytes = find_whole(object, "activations_bytes", place),
          .workspace_bytes = find_whole(object, "workspace_bytes", place),
          .state_bytes = find_whole(object, "state_bytes", place),
          .inputs_bytes = find_whole(object, "inputs_bytes", place),
          .peak_bytes = find_whole(object, "peak_bytes", place),
          .reserved_bytes = find_whole(object, "reserved_bytes", place),
          .resident_peak_bytes = find_whole(object, "resident_peak_bytes", place),
          .device_total_bytes = find_whole(object, "device_total_bytes", place),
          .over_context_bytes = find_whole(object, "over_context_bytes", place),
          .untracked_bytes = find_whole(object, "untracked_bytes", place)};
}

NumberRange range_of_metric(std::string_view metric) {
  return metric == "accuracy" ? kShare : metric == "relative_l2" ? kNotNegative : kAnyNumber;
}

QualityRecord read_quality(const json& object, const std::string& place) {
  check_members(object, {"metric", "against", "value", "interval", "note"}, place);
  const std::string metric = get_text(object, "metric", place);
  QualityRecord quality{.metric = metric,
                        .against = get_text(object, "against", place),
                        .value = find_number(object, "value", place, range_of_metric(metric)),
                        .interval = {},
                        .note = find_text(object, "note", place)};
  if (object.contains("interval")) quality.interval = read_interval(object["interval"], "interval of " + place);
  return quality;
}

PlannedNode read_node(const json& object, const std::string& place) {
  check_members(object, {"node", "op", "kernel", "implementation", "compute_type", "cost", "parts", "rejections"},
                place);
  const json& cost = get_object(object, "cost", place);
  check_members(cost, {"bytes", "flops", "unit"}, "cost of " + place);
  PlannedNode node{.node = get_string(object, "node", place),
                   .op = get_text(object, "op", place),
                   .kernel = get_text(object, "kernel", place),
                   .implementation = get_string(object, "implementation", place),
                   .compute_type = get_text(object, "compute_type", place),
                   .cost_bytes = get_number(cost, "bytes", place, kNotNegative),
                   .cost_flops = get_number(cost, "flops", place, kNotNegative),
                   .cost_unit = get_one_of(cost, "unit", place, {"none", "vector", "matrix"}),
                   .parts = find_whole(object, "parts", place, 2).value_or(1),
                   .rejections = {}};
  for (const json& rejection : get_array(object, "rejections", place)) {
    check_members(rejection, {"kernel", "reason"}, place);
    node.rejections.push_back({get_text(rejection, "kernel", place), get_text(rejection, "reason", place)});
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

/// Ranges of numbers used as divisors or factors of times.
void check_request(const json& request, const std::string& place) {
  for (const char* count :
       {"images", "batch", "steps", "token_rows", "token_columns", "image_tokens", "width", "height", "bytes"})
    (void)find_whole(request, count, place, 1);
}

Subject read_subject(const json& object, const std::string& place) {
  check_members(object, {"kind", "name", "request", "parameters", "token_pixels"}, place);
  Subject subject;
  const std::string kind = get_one_of(object, "kind", place, {"model", "kernel", "stream"});
  for (const SubjectKind known : {SubjectKind::kModel, SubjectKind::kKernel, SubjectKind::kStream})
    if (kind == name_of(known)) subject.kind = known;
  subject.name = get_text(object, "name", place);
  subject.request = get_object(object, "request", place);
  check_request(subject.request, "the request of " + place);
  subject.parameters = find_whole(object, "parameters", place);
  subject.token_pixels = find_whole(object, "token_pixels", place, 1);
  return subject;
}

ProfileRecord read_profile(const json& object, const std::string& place) {
  check_members(
      object, {"time_ms", "alone_ms", "floor_ms", "floor_of", "runs", "idle_share", "busy_ms", "loop_step_ms"}, place);
  std::vector<double> alone_ms;
  if (object.contains("alone_ms")) alone_ms = get_numbers(object, "alone_ms", place, kNotNegative);
  return {.time_ms = get_numbers(object, "time_ms", place, kNotNegative),
          .alone_ms = std::move(alone_ms),
          .floor_ms = get_numbers(object, "floor_ms", place, kNotNegative),
          .floor_of = get_texts(object, "floor_of", place),
          .runs = get_wholes(object, "runs", place, 1),
          .idle_share = find_number(object, "idle_share", place, kShare),
          .busy_ms = find_number(object, "busy_ms", place, kNotNegative),
          .loop_step_ms = find_number(object, "loop_step_ms", place, kNotNegative)};
}

FloorRecord read_floor(const json& object, const std::string& place) {
  check_members(object, {"ms", "of"}, place);
  return {.ms = get_number(object, "ms", place, kNotNegative), .of = get_text(object, "of", place)};
}

StageRecord read_stage(const json& object, const std::string& place) {
  check_members(object, {"name", "memory_bytes", "weights_bytes", "floor_ms"}, place);
  return {.name = get_text(object, "name", place),
          .memory_bytes = find_whole(object, "memory_bytes", place),
          .weights_bytes = find_whole(object, "weights_bytes", place),
          .floor_ms = find_number(object, "floor_ms", place, kNotNegative)};
}

LatencySummary read_latency_statistics(const json& object, const std::string& place) {
  check_members(object, {"mean_ms", "p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms", "jitter_ms", "drift"}, place);
  return {.mean_ms = get_number(object, "mean_ms", place, kNotNegative),
          .p50_ms = get_number(object, "p50_ms", place, kNotNegative),
          .p90_ms = get_number(object, "p90_ms", place, kNotNegative),
          .p99_ms = get_number(object, "p99_ms", place, kNotNegative),
          .p99_9_ms = get_number(object, "p99_9_ms", place, kNotNegative),
          .max_ms = get_number(object, "max_ms", place, kNotNegative),
          .jitter_ms = get_number(object, "jitter_ms", place, kNotNegative),
          .drift = find_number(object, "drift", place)};
}

LatencyRecord read_latency(const json& object, const std::string& place) {
  check_members(object,
                {"input_fps", "late", "came", "shown", "dropped", "repeated", "seconds", "frame", "arrived_ms",
                 "latency_ms", "decode_ms", "queue_ms", "device_ms", "encode_ms", "repeated_frames", "statistics"},
                place);
  const auto column = [&](const char* name) { return get_numbers(object, name, place, kNotNegative); };
  return {.input_fps = find_number(object, "input_fps", place, {1e-3, 1e6, "a rate from 0.001 to 1e6"}),
          .drops = get_one_of(object, "late", place, {"wait", "drop"}) == "drop",
          .came = get_whole(object, "came", place, 1),
          .shown = get_whole(object, "shown", place, 1),
          .dropped = get_whole(object, "dropped", place),
          .repeated = get_whole(object, "repeated", place),
          .seconds = get_number(object, "seconds", place, kNotNegative),
          .frame = get_wholes(object, "frame", place),
          .arrived_ms = column("arrived_ms"),
          .latency_ms = column("latency_ms"),
          .decode_ms = column("decode_ms"),
          .queue_ms = column("queue_ms"),
          .device_ms = column("device_ms"),
          .encode_ms = column("encode_ms"),
          .repeated_frames = get_wholes(object, "repeated_frames", place),
          .statistics = read_latency_statistics(get_object(object, "statistics", place), "statistics of " + place)};
}

Result read_result(const json& object, const std::string& place) {
  check_members(object,
                {"id", "name", "subject", "work_hash", "source", "configuration", "trials", "memory", "quality", "tags",
                 "plan", "profile", "floor", "stages", "unsettled", "same_as", "computed_share", "latency"},
                place);
  Result result;
  result.id = get_text(object, "id", place);
  result.name = get_text(object, "name", place);
  result.subject = read_subject(get_object(object, "subject", place), "the subject of " + place);
  const std::string stored_hash = get_text(object, "work_hash", place);
  if (const std::string hash = work_hash(result.subject); stored_hash != hash) {
    fail("the work_hash of {} is '{}', but that of its subject is '{}'", place, stored_hash, hash);
  }
  const json& source = get_object(object, "source", place);
  check_members(source, {"name", "version"}, "the source of " + place);
  result.source = {get_text(source, "name", place), get_text(source, "version", place)};
  result.configuration =
      read_configuration(get_object(object, "configuration", place), "the configuration of " + place);
  for (const json& series : get_array(object, "trials", place)) {
    result.trials.push_back(read_series(series, fmt::format("series {} of {}", result.trials.size(), place)));
  }
  if (object.contains("memory")) result.memory = read_memory(object["memory"], "the memory of " + place);
  for (const json& quality : get_array(object, "quality", place)) {
    result.quality.push_back(read_quality(quality, fmt::format("quality {} of {}", result.quality.size(), place)));
  }
  result.tags = get_texts(object, "tags", place);
  result.plan = find_text(object, "plan", place);
  result.unsettled = find_text(object, "unsettled", place);
  result.same_as = find_text(object, "same_as", place);
  if (object.contains("computed_share"))
    result.computed_share = get_numbers(object, "computed_share", place, kNotNegative);
  if (object.contains("profile"))
    result.profile = read_profile(get_object(object, "profile", place), "the profile of " + place);
  if (object.contains("stages"))
    for (const json& stage : get_array(object, "stages", place))
      result.stages.push_back(read_stage(stage, fmt::format("stage {} of {}", result.stages.size(), place)));
  if (object.contains("latency"))
    result.latency = read_latency(get_object(object, "latency", place), "the latency of " + place);
  if (object.contains("floor")) result.floor = read_floor(get_object(object, "floor", place), "the floor of " + place);
  return result;
}

}  // namespace

ResultFile results_from_json(const json& json, std::string_view context, const std::filesystem::path& folder) {
  check_printable(json, context);
  // Checked first: another version may differ in every other member.
  if (const std::string schema = get_text(json, "schema", context); schema != kResultSchema) {
    fail("{} has schema '{}'; this program reads '{}'", context, schema, kResultSchema);
  }
  check_members(json, {"schema", "created", "machine", "plans", "results"}, context);
  ResultFile file;
  file.created = get_text(json, "created", context);
  file.machine = machine_from_json(get_object(json, "machine", context), fmt::format("the machine of {}", context));
  for (const auto& [id, plan] : get_object(json, "plans", context).items()) {
    const std::string place = fmt::format("plan '{}' of {}", shortened(id, 200), context);
    file.plans[id] =
        read_plan(plan.is_string() ? read_stored_plan(folder, plan.get<std::string>(), place) : plan, place);
  }
  for (const nlohmann::json& result : get_array(json, "results", context)) {
    file.results.push_back(read_result(result, fmt::format("result {} of {}", file.results.size(), context)));
  }
  try {
    check_results(file);
    check_created(file.created);
    for (Result& result : file.results) recompute_statistics(result);
  } catch (const Error& error) {
    fail("{} is inconsistent: {}", context, error.what());
  }
  return file;
}

}  // namespace headroom
