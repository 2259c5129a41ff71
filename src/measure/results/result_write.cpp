#include <cstddef>
#include <iterator>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/results/result_json.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// Adds a member if the value is present.
template <typename T>
void set_if(json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

json interval_json(const Interval& interval) { return {{"low", interval.low}, {"high", interval.high}}; }

json statistics_json(const Summary& summary) {
  json object = {{"n", summary.n},
                 {"median_ms", summary.median},
                 {"q1_ms", summary.q1},
                 {"q3_ms", summary.q3},
                 {"mean_ms", summary.mean},
                 {"min_ms", summary.min},
                 {"max_ms", summary.max},
                 {"p95_ms", summary.p95},
                 {"p99_ms", summary.p99},
                 {"outliers_mild", summary.outliers_mild},
                 {"outliers_severe", summary.outliers_severe},
                 {"trimmed_mean_ms", summary.trimmed_mean}};
  set_if(object, "stddev_ms", summary.stddev);
  if (summary.median_interval) {
    object["ci_low_ms"] = summary.median_interval->low;
    object["ci_high_ms"] = summary.median_interval->high;
  }
  return object;
}

json conditions_json(const Conditions& conditions) {
  json object = json::object();
  const auto set_column = [&](const char* name, const auto& column) {
    if (!column.empty()) object[name] = column;
  };
  set_column("cpu_mhz", conditions.cpu_mhz);
  set_column("steal_ms", conditions.steal_ms);
  set_column("preemptions", conditions.preemptions);
  set_column("waited_ms", conditions.waited_ms);
  set_column("gpu_clock_mhz", conditions.gpu_clock_mhz);
  set_column("gpu_memory_clock_mhz", conditions.gpu_memory_clock_mhz);
  set_column("gpu_power_w", conditions.gpu_power_w);
  set_column("gpu_throttle", conditions.gpu_throttle);
  return object;
}

json series_json(const TrialSeries& series) {
  json object = {{"what", series.what},         {"unit", "ms"},
                 {"process", series.process},   {"time", series.time_ms},
                 {"warmup", series.warmup},     {"warmup_stable", series.warmup_stable},
                 {"complete", series.complete}, {"statistics", statistics_json(series.statistics)}};
  if (!series.round.empty()) object["round"] = series.round;
  if (!series.conditions.empty()) object["conditions"] = conditions_json(series.conditions);
  return object;
}

json configuration_json(const Configuration& configuration) {
  json object = {{"device", configuration.device},
                 {"asked", configuration.asked},
                 {"applied", configuration.applied},
                 {"declined", json::array()}};
  for (const DeclinedSwitch& declined : configuration.declined) {
    object["declined"].push_back({{"switch", declined.name}, {"reason", declined.reason}});
  }
  for (const KeptNodes& kept : configuration.kept) {
    object["kept"].push_back({{"switch", kept.switch_name}, {"reason", kept.reason}, {"nodes", kept.nodes}});
  }
  for (const AutoTrial& trial : configuration.auto_trials) object["auto"].push_back(to_json(trial));
  if (const std::optional<UsedGpu>& gpu = configuration.gpu)
    object["gpu"] = {{"name", gpu->name}, {"index", gpu->index}, {"uuid", gpu->uuid}};
  set_if(object, "threads", configuration.threads);
  set_if(object, "baseline_dtype", configuration.baseline_dtype);
  return object;
}

json subject_json(const Subject& subject) {
  json object = {{"kind", name_of(subject.kind)}, {"name", subject.name}, {"request", subject.request}};
  set_if(object, "parameters", subject.parameters);
  set_if(object, "token_pixels", subject.token_pixels);
  return object;
}

json memory_json(const MemoryReport& memory) {
  json object = json::object();
  set_if(object, "weights_bytes", memory.weights_bytes);
  set_if(object, "activations_bytes", memory.activations_bytes);
  set_if(object, "workspace_bytes", memory.workspace_bytes);
  set_if(object, "state_bytes", memory.state_bytes);
  set_if(object, "inputs_bytes", memory.inputs_bytes);
  set_if(object, "peak_bytes", memory.peak_bytes);
  set_if(object, "reserved_bytes", memory.reserved_bytes);
  set_if(object, "resident_peak_bytes", memory.resident_peak_bytes);
  set_if(object, "device_total_bytes", memory.device_total_bytes);
  set_if(object, "over_context_bytes", memory.over_context_bytes);
  set_if(object, "untracked_bytes", memory.untracked_bytes);
  return object;
}

json quality_json(const QualityRecord& quality) {
  json object = {{"metric", quality.metric}, {"against", quality.against}};
  set_if(object, "value", quality.value);
  if (quality.interval) object["interval"] = interval_json(*quality.interval);
  set_if(object, "note", quality.note);
  return object;
}

json node_json(const PlannedNode& node) {
  json object = {{"node", node.node},
                 {"op", node.op},
                 {"kernel", node.kernel},
                 {"implementation", node.implementation},
                 {"compute_type", node.compute_type},
                 {"cost", {{"bytes", node.cost_bytes}, {"flops", node.cost_flops}, {"unit", node.cost_unit}}},
                 {"rejections", json::array()}};
  if (node.parts > 1) object["parts"] = node.parts;
  for (const PlannedRejection& rejection : node.rejections) {
    object["rejections"].push_back({{"kernel", rejection.kernel}, {"reason", rejection.reason}});
  }
  return object;
}

json plan_json(const PlanRecord& plan) {
  json nodes = json::array();
  for (const PlannedNode& node : plan.nodes) nodes.push_back(node_json(node));
  return {{"nodes", std::move(nodes)}};
}

json profile_json(const ProfileRecord& profile) {
  json object = {{"time_ms", profile.time_ms},
                 {"floor_ms", profile.floor_ms},
                 {"floor_of", profile.floor_of},
                 {"runs", profile.runs}};
  if (!profile.alone_ms.empty()) object["alone_ms"] = profile.alone_ms;
  set_if(object, "idle_share", profile.idle_share);
  set_if(object, "busy_ms", profile.busy_ms);
  set_if(object, "loop_step_ms", profile.loop_step_ms);
  return object;
}

json stage_json(const StageRecord& stage) {
  json object = {{"name", stage.name}};
  set_if(object, "memory_bytes", stage.memory_bytes);
  set_if(object, "weights_bytes", stage.weights_bytes);
  set_if(object, "floor_ms", stage.floor_ms);
  return object;
}

json latency_json(const LatencyRecord& latency) {
  const LatencySummary& summary = latency.statistics;
  json statistics = {{"mean_ms", summary.mean_ms},    {"p50_ms", summary.p50_ms},     {"p90_ms", summary.p90_ms},
                     {"p99_ms", summary.p99_ms},      {"p99_9_ms", summary.p99_9_ms}, {"max_ms", summary.max_ms},
                     {"jitter_ms", summary.jitter_ms}};
  set_if(statistics, "drift", summary.drift);
  json object = {{"late", latency.drops ? "drop" : "wait"},
                 {"came", latency.came},
                 {"shown", latency.shown},
                 {"dropped", latency.dropped},
                 {"repeated", latency.repeated},
                 {"seconds", latency.seconds},
                 {"frame", latency.frame},
                 {"arrived_ms", latency.arrived_ms},
                 {"latency_ms", latency.latency_ms},
                 {"decode_ms", latency.decode_ms},
                 {"queue_ms", latency.queue_ms},
                 {"device_ms", latency.device_ms},
                 {"encode_ms", latency.encode_ms},
                 {"repeated_frames", latency.repeated_frames},
                 {"statistics", std::move(statistics)}};
  set_if(object, "input_fps", latency.input_fps);
  return object;
}

json result_json(const Result& result) {
  json object = {{"id", result.id},
                 {"name", result.name},
                 {"subject", subject_json(result.subject)},
                 {"work_hash", work_hash(result.subject)},
                 {"source", {{"name", result.source.name}, {"version", result.source.version}}},
                 {"configuration", configuration_json(result.configuration)},
                 {"trials", json::array()},
                 {"quality", json::array()},
                 {"tags", result.tags}};
  for (const TrialSeries& series : result.trials) object["trials"].push_back(series_json(series));
  if (result.memory) object["memory"] = memory_json(*result.memory);
  for (const QualityRecord& quality : result.quality) object["quality"].push_back(quality_json(quality));
  set_if(object, "plan", result.plan);
  set_if(object, "unsettled", result.unsettled);
  set_if(object, "same_as", result.same_as);
  if (!result.computed_share.empty()) object["computed_share"] = result.computed_share;
  if (result.profile) object["profile"] = profile_json(*result.profile);
  for (const StageRecord& stage : result.stages) object["stages"].push_back(stage_json(stage));
  if (result.latency) object["latency"] = latency_json(*result.latency);
  if (result.floor) object["floor"] = {{"ms", result.floor->ms}, {"of", result.floor->of}};
  return object;
}

}  // namespace

json to_json(const ResultFile& file) {
  check_results(file);
  json document = {{"schema", kResultSchema},
                   {"created", file.created},
                   {"machine", to_json(file.machine)},
                   {"plans", json::object()},
                   {"results", json::array()}};
  for (const auto& [id, plan] : file.plans) document["plans"][id] = plan_json(plan);
  for (const Result& result : file.results) document["results"].push_back(result_json(result));
  (void)dump_json(document);  // rejects NaN, infinity and broken UTF-8, naming the place
  return document;
}

}  // namespace headroom
