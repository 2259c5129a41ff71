#include "measure/results/result_records.hpp"

#include <array>
#include <cstdint>

#include "base/text/printable.hpp"
#include "measure/results/stored_plan.hpp"

namespace headroom::records {
namespace {

constexpr const char* kWorkHash =
    "Results compare only if these agree. Four texts are hashed: \"headroom.work/1\", kind, name and the request as "
    "JSON "
    "on one line with sorted keys. Each enters 64-bit FNV-1a as its length in 8 bytes, lowest first, and its UTF-8 "
    "bytes; "
    "MurmurHash3's 64-bit finalizer follows.";

Field<double> time_ms() { return number(kNotNegative); }
Field<std::vector<double>> times_ms() { return list(time_ms()); }
Field<std::vector<std::string>> texts() { return list(text()); }

const Record<GpuInfo>& gpu_record() {
  static const Record<GpuInfo> record =
      Record<GpuInfo>("gpu").member("name", &GpuInfo::name, text()).member("driver", &GpuInfo::driver, text());
  return record;
}

const Record<BuildInfo>& build_record() {
  static const Record<BuildInfo> record =
      Record<BuildInfo>("build", "How headroom was built; absent in files of other programs.")
          .member("version", &BuildInfo::version, text())
          .member("git_revision", &BuildInfo::git_revision, text())
          .member("type", &BuildInfo::type, text(), "CMake's build type.")
          .member("compiler", &BuildInfo::compiler, text())
          .member("optimized", &BuildInfo::optimized, flag())
          .member("sanitized", &BuildInfo::sanitized, flag(), "Built with a sanitizer: times are meaningless.");
  return record;
}

const Record<Interval>& interval_record() {
  static const Record<Interval> record = Record<Interval>("interval", "A 95% interval.")
                                             .member("low", &Interval::low, number())
                                             .member("high", &Interval::high, number());
  return record;
}

const Record<PlannedRejection>& rejection_record() {
  static const Record<PlannedRejection> record = Record<PlannedRejection>("rejection")
                                                     .member("kernel", &PlannedRejection::kernel, text())
                                                     .member("reason", &PlannedRejection::reason, text());
  return record;
}

const Record<PlannedNode>& node_record() {
  static const Record<PlannedNode> cost =
      Record<PlannedNode>("cost",
                          "The least work of the node. With the machine's rates it gives the floor of its time.")
          .member("bytes", &PlannedNode::cost_bytes, number(kNotNegative))
          .member("flops", &PlannedNode::cost_flops, number(kNotNegative))
          .member("unit", &PlannedNode::cost_unit, one_of({"none", "vector", "matrix"}),
                  "The unit that does the arithmetic.");
  static const Record<PlannedNode> record =
      Record<PlannedNode>("node", "One node of a plan as it ran.")
          .member("node", &PlannedNode::node, any_text(), "Path of the module that it comes from.")
          .member("op", &PlannedNode::op, text())
          .member("kernel", &PlannedNode::kernel, text())
          .member("implementation", &PlannedNode::implementation, any_text(), "As the library reports it.")
          .member("compute_type", &PlannedNode::compute_type, text(), "Dtype of the arithmetic.")
          .group(cost)
          .member_unless_default("parts", &PlannedNode::parts, whole(2),
                                 "Parts of the batch, one launch for each; absent for a single launch.")
          .member("rejections", &PlannedNode::rejections, list(object(rejection_record())),
                  "Kernels that were preferred, and why they did not run.");
  return record;
}

/// The request of a subject: any object, whose divisors and factors of times are positive.
Field<nlohmann::json> request() {
  static constexpr std::array kPositive = {"images",       "batch", "steps",  "token_rows", "token_columns",
                                           "image_tokens", "width", "height", "bytes"};
  return {.read =
              [](const nlohmann::json& value, const JsonMember& member, const std::string& place) {
                check_object(value, member, place);
                for (const char* key : kPositive) (void)find_whole(value, key, place_of(member, "", place), 1);
                return value;
              },
          .write = [](const nlohmann::json& value) { return value; },
          .schema =
              [](Schema& definitions) {
                Schema schema = {{"type", "object"}};
                for (const char* key : kPositive) schema["properties"][key] = whole(1).schema(definitions);
                return schema;
              }};
}

const Record<Subject>& subject_record() {
  std::vector<std::pair<std::string, SubjectKind>> kinds;
  for (const SubjectKind kind : {SubjectKind::kModel, SubjectKind::kKernel, SubjectKind::kStream})
    kinds.emplace_back(name_of(kind), kind);
  static const Record<Subject> record =
      Record<Subject>("subject", "The work, independent of how it was run.")
          .member("kind", &Subject::kind, choice(kinds), "A stream is a model that processes frames one after another.")
          .member("name", &Subject::name, text())
          .member("request", &Subject::request, request(),
                  "Resolution, steps and batch of a model; shapes and dtypes of a kernel.")
          .member("parameters", &Subject::parameters, whole(),
                  "Parameters of the model; not part of the work hash, because they follow from the name.")
          .member("token_pixels", &Subject::token_pixels, whole(1),
                  "Pixels along the side of one image token, in output pixels; not part of the work hash.");
  return record;
}

const Record<Source>& source_record() {
  static const Record<Source> record = Record<Source>("source", "The program that ran it: headroom, or a peer.")
                                           .member("name", &Source::name, text())
                                           .member("version", &Source::version, text());
  return record;
}

const Record<UsedGpu>& used_gpu_record() {
  static const Record<UsedGpu> record =
      Record<UsedGpu>("used_gpu", "The GPU that was used.")
          .member("name", &UsedGpu::name, text())
          .member("index", &UsedGpu::index, whole(), "CUDA's index among the GPUs that the process may use.")
          .member("uuid", &UsedGpu::uuid, text());
  return record;
}

const Record<DeclinedSwitch>& declined_record() {
  static const Record<DeclinedSwitch> record = Record<DeclinedSwitch>("declined")
                                                   .member("switch", &DeclinedSwitch::name, text())
                                                   .member("reason", &DeclinedSwitch::reason, text());
  return record;
}

const Record<KeptNodes>& kept_record() {
  static const Record<KeptNodes> record =
      Record<KeptNodes>(
          "kept", "Parts of the model that an applied switch left unchanged; without nodes, a remark on the switch.")
          .member("switch", &KeptNodes::switch_name, text())
          .member("reason", &KeptNodes::reason, text())
          .member("nodes", &KeptNodes::nodes, texts());
  return record;
}

const Record<Configuration>& configuration_record() {
  static const Record<Configuration> record =
      Record<Configuration>("configuration",
                            "How the work was run. Every switch that was asked for is either applied or declined; the "
                            "choices of the preset auto are among those applied.")
          .member("device", &Configuration::device, text())
          .member("gpu", &Configuration::gpu, object(used_gpu_record()))
          .member("asked", &Configuration::asked, texts())
          .member("applied", &Configuration::applied, texts())
          .member("declined", &Configuration::declined, list(object(declined_record())))
          .member_unless_default("kept", &Configuration::kept, list(object(kept_record())))
          .member_unless_default("auto", &Configuration::auto_trials, list(object(auto_trial_record())),
                                 "If auto was asked for: what it tried, what it chose and why.")
          .member("threads", &Configuration::threads, whole(1), "CPU threads available to kernels.")
          .member("baseline_dtype", &Configuration::baseline_dtype, text(), "Precision before any switch.");
  return record;
}

const Record<Summary>& statistics_record() {
  static const Record<Interval> interval =
      Record<Interval>("interval_ms")
          .member(
              "ci_low_ms", &Interval::low, time_ms(),
              "95% interval of the median, by interpolated order statistics (older files: by bootstrap); absent for "
              "fewer than 6 trials.")
          .member("ci_high_ms", &Interval::high, time_ms());
  static const Record<Summary> record =
      Record<Summary>("statistics",
                      "Statistics of all trials of the series. They are recomputed when the file is read, and a figure "
                      "that differs is refused. Quantiles are of type 7 (Hyndman and Fan, 1996).")
          .member("n", &Summary::n, whole(1))
          .member("median_ms", &Summary::median, time_ms())
          .member("q1_ms", &Summary::q1, time_ms())
          .member("q3_ms", &Summary::q3, time_ms())
          .member("mean_ms", &Summary::mean, time_ms())
          .member("stddev_ms", &Summary::stddev, time_ms(), "Sample standard deviation; absent for a single trial.")
          .member("min_ms", &Summary::min, time_ms())
          .member("max_ms", &Summary::max, time_ms())
          .member("p95_ms", &Summary::p95, time_ms())
          .member("p99_ms", &Summary::p99, time_ms())
          .part(&Summary::median_interval, interval)
          .member("outliers_mild", &Summary::outliers_mild, whole(),
                  "Trials beyond 1.5 but within 3 interquartile ranges of the quartiles.")
          .member("outliers_severe", &Summary::outliers_severe, whole(), "Trials beyond 3 interquartile ranges.")
          .member("trimmed_mean_ms", &Summary::trimmed_mean, time_ms(),
                  "Mean of the n - outliers_mild - outliers_severe other trials.");
  return record;
}

const Record<Conditions>& conditions_record() {
  const auto numbers = list(number(kNotNegative));
  const auto counts = list(whole());
  static const Record<Conditions> record =
      Record<Conditions>("conditions",
                         "The machine's state during each trial: columns parallel to the times, absent if the system "
                         "does not report them.")
          .member_unless_default("cpu_mhz", &Conditions::cpu_mhz, numbers,
                                 "Mean over the CPUs of the process, at the end of the trial.")
          .member_unless_default(
              "steal_ms", &Conditions::steal_ms, numbers,
              "Time taken by a hypervisor: mean over the CPUs that the process may use (older files: "
              "sum over all CPUs), in steps of 10 ms.")
          .member_unless_default("preemptions", &Conditions::preemptions, counts,
                                 "Involuntary context switches of the process.")
          .member_unless_default("waited_ms", &Conditions::waited_ms, numbers,
                                 "Time in which threads of the process were ready to run and had no CPU, summed over "
                                 "threads.")
          .member_unless_default("gpu_clock_mhz", &Conditions::gpu_clock_mhz, numbers,
                                 "Clock of the multiprocessors at the end of the trial.")
          .member_unless_default("gpu_memory_clock_mhz", &Conditions::gpu_memory_clock_mhz, numbers)
          .member_unless_default("gpu_power_w", &Conditions::gpu_power_w, numbers, "As the driver averages it.")
          .member_unless_default("gpu_throttle", &Conditions::gpu_throttle, counts,
                                 "NVML's bits of clock throttle reasons, without idleness; 0 for none.");
  return record;
}

const Record<TrialSeries>& series_record() {
  static const Record<TrialSeries> record =
      Record<TrialSeries>("series", "Raw trials in columns, in the order they ran, and their statistics.")
          .member("what", &TrialSeries::what, text(),
                  "The quantity of one trial: step, image, first_run; unique within the result.")
          .constant("unit", "ms")
          .member("process", &TrialSeries::process, list(whole()), "For each trial: the process that ran it.")
          .member_unless_default(
              "round", &TrialSeries::round, list(whole()),
              "For each trial of a ladder: the round that it ran in. The baseline's trials of round r "
              "ran before that round and after the previous one. A rung's trials are compared with "
              "those of the same process around its round.")
          .member("time", &TrialSeries::time_ms, list(number(kTimeMs), 1), "Wall time of each trial.")
          .member("warmup", &TrialSeries::warmup, whole(),
                  "Untimed calls before the trials, the fewest of any process.")
          .member("warmup_stable", &TrialSeries::warmup_stable, flag(),
                  "Times had settled before the trials, in every process.")
          .member("complete", &TrialSeries::complete, flag(), "False if a time limit left fewer trials than asked for.")
          .member("statistics", &TrialSeries::statistics, object(statistics_record()))
          .member_unless_default("conditions", &TrialSeries::conditions, object(conditions_record()));
  return record;
}

const Record<MemoryReport>& memory_record() {
  using M = MemoryReport;
  static const Record<M> record =
      Record<M>("memory", "Device memory by category.")
          .member("weights_bytes", &M::weights_bytes, whole())
          .member("activations_bytes", &M::activations_bytes, whole())
          .member("workspace_bytes", &M::workspace_bytes, whole())
          .member("state_bytes", &M::state_bytes, whole())
          .member("inputs_bytes", &M::inputs_bytes, whole())
          .member("peak_bytes", &M::peak_bytes, whole(), "Most in use at once, all categories together.")
          .member("reserved_bytes", &M::reserved_bytes, whole(), "Most reserved at once, in use or not.")
          .member("resident_peak_bytes", &M::resident_peak_bytes, whole(),
                  "Physical memory of the process on the host.")
          .member("device_total_bytes", &M::device_total_bytes, whole(), "Total memory of the device.")
          .member("over_context_bytes", &M::over_context_bytes, whole(),
                  "All memory of a GPU that the program has taken, without its context.")
          .member("untracked_bytes", &M::untracked_bytes, whole(),
                  "Memory of the device that is neither available nor held by the program's backend.");
  return record;
}

const Record<QualityRecord>& quality_record() {
  static const Record<QualityRecord> record =
      Record<QualityRecord>("quality", "Quality of the output, against a named reference.")
          .keyword("anyOf", Schema::parse(R"([{"required": ["value"]}, {"required": ["note"]}])"))
          .member("metric", &QualityRecord::metric, text(),
                  "With its unit: psnr_db, relative_l2, accuracy, frechet_distance; for pairs of images "
                  "accuracy_difference, frechet_difference, flip; for streams flicker, a ratio.")
          .member("against", &QualityRecord::against, text())
          .member("value", &QualityRecord::value, number())
          .member("interval", &QualityRecord::interval, object(interval_record()))
          .member("note", &QualityRecord::note, text(),
                  "Why there is no value: \"identical\" if the PSNR is infinite.");
  return record;
}

const Record<ProfileRecord>& profile_record() {
  using P = ProfileRecord;
  static const Record<P> record =
      Record<P>("profile", "The time of a request by launch: columns with an entry for each node of the result's plan.")
          .member("time_ms", &P::time_ms, times_ms(),
                  "Median of one launch: on a GPU as the device recorded it, on a CPU timed by itself.")
          .member_unless_default(
              "alone_ms", &P::alone_ms, times_ms(),
              "Time alone with warm caches: for a GEMM, attention or convolution the bare kernel, for "
              "other nodes the floor. Absent in older files.")
          .member("floor_ms", &P::floor_ms, times_ms(), "The least time that the machine needs, at measured rates.")
          .member(
              "floor_of", &P::floor_of, list(one_of({kFloorOfFlops, kFloorOfCopy, kFloorOfExp, kFloorOfGemm})),
              "What bounds the floor: FLOPs at the rate of the machine's fastest GEMM, a copy of the bytes that must "
              "move, a CPU's exponentials, or, in older files, the bare GEMM or attention (product).")
          .member("runs", &P::runs, list(whole(1)), "Launches in one request.")
          .member("idle_share", &P::idle_share, number(kShare),
                  "Share of a traced step in which the GPU was idle: median over steps.")
          .member("busy_ms", &P::busy_ms, time_ms(),
                  "Time of a traced step in which the GPU was busy: median over steps.")
          .member("loop_step_ms", &P::loop_step_ms, time_ms(),
                  "A step of the loop as one graph, by the GPU's clock: median over steps.");
  return record;
}

const Record<FloorRecord>& floor_record() {
  static const Record<FloorRecord> record =
      Record<FloorRecord>(
          "floor",
          "For a kernel measured by itself: the least time that the machine needs, at rates measured in "
          "the same run.")
          .member("ms", &FloorRecord::ms, time_ms())
          .member(
              "of", &FloorRecord::of, one_of({kFloorOfFlops, kFloorOfCopy, kFloorOfExp}),
              "What bounds it: FLOPs at the rate of the machine's fastest GEMM, a copy of the bytes that must move, "
              "or a CPU's exponentials.");
  return record;
}

const Record<StageRecord>& stage_record() {
  static const Record<StageRecord> record =
      Record<StageRecord>("stage",
                          "A stage of a request, such as a text encoder or the denoise loop. Its times, in ms of whole "
                          "generations, are the series of its name.")
          .member("name", &StageRecord::name, text())
          .member("memory_bytes", &StageRecord::memory_bytes, whole(), "Activations and scratch memory.")
          .member("weights_bytes", &StageRecord::weights_bytes, whole(), "Weights that its program reads.")
          .member("floor_ms", &StageRecord::floor_ms, time_ms(),
                  "The least time that the machine needs for what one generation runs of the stage: the sum over its "
                  "launches, at rates measured in the same run.");
  return record;
}

const Record<LatencySummary>& latency_statistics_record() {
  using L = LatencySummary;
  static const Record<L> record =
      Record<L>("latency_statistics",
                "Statistics of latency_ms. They are recomputed when the file is read, and a figure that differs is "
                "refused. Quantiles are of type 7.")
          .member("mean_ms", &L::mean_ms, time_ms())
          .member("p50_ms", &L::p50_ms, time_ms())
          .member("p90_ms", &L::p90_ms, time_ms())
          .member("p99_ms", &L::p99_ms, time_ms())
          .member("p99_9_ms", &L::p99_9_ms, time_ms())
          .member("max_ms", &L::max_ms, time_ms())
          .member("jitter_ms", &L::jitter_ms, time_ms(),
                  "Mean absolute difference between the latencies of consecutive frames.")
          .member(
              "drift", &L::drift, number(),
              "Relative increase of the median from the first fifth of the frames to the last; absent for fewer than "
              "50 frames.");
  return record;
}

const Record<LatencyRecord>& latency_record() {
  using L = LatencyRecord;
  static const Record<L> record =
      Record<L>(
          "latency",
          "The measurement of a live stream: each frame from input to output. Columns have an entry for each frame "
          "that was shown, in the order of output; for very long streams only the last frames. A frame's decode, "
          "queue, device and encode times add up to its latency.")
          .member("input_fps", &L::input_fps, number({1e-3, 1e6, "a rate from 0.001 to 1e6"}),
                  "Rate at which the input was paced, as by a camera; absent if frames were taken as fast as possible.")
          .member("late", &L::drops, choice<bool>({{"wait", false}, {"drop", true}}),
                  "Whether late frames were waited for or dropped.")
          .member("came", &L::came, whole(1), "Input frames: those shown and those dropped.")
          .member("shown", &L::shown, whole(1), "Output frames, repeated ones included.")
          .member("dropped", &L::dropped, whole())
          .member("repeated", &L::repeated, whole(),
                  "Output frames for which the similarity filter repeated the last output.")
          .member("seconds", &L::seconds, number(kNotNegative), "From the first input frame to the last output.")
          .member("frame", &L::frame, list(whole(), 1), "Number of the input frame, from 0.")
          .member("arrived_ms", &L::arrived_ms, times_ms(),
                  "Time of its arrival since the stream began; for a paced input when it was due.")
          .member("latency_ms", &L::latency_ms, times_ms(), "Time from its arrival to the output.")
          .member("decode_ms", &L::decode_ms, times_ms(), "Reading and decoding.")
          .member("queue_ms", &L::queue_ms, times_ms(),
                  "Waiting, before and after the device; with stream-batch also for later frames.")
          .member("device_ms", &L::device_ms, times_ms(), "Upload, the frame's graph and download.")
          .member("encode_ms", &L::encode_ms, times_ms(), "Encoding and writing.")
          .member("repeated_frames", &L::repeated_frames, list(whole()), "Numbers of the repeated frames.")
          .member("statistics", &L::statistics, object(latency_statistics_record()));
  return record;
}

/// A plan in the file, or the path of a file that several result files share.
Field<std::map<std::string, PlanRecord>> plans(const std::filesystem::path& folder) {
  Field<std::map<std::string, PlanRecord>> field = by_name(object(plan_record()));
  field.read = [folder](const nlohmann::json& value, const JsonMember& member, const std::string& place) {
    check_object(value, member, place);
    std::map<std::string, PlanRecord> plans;
    for (const auto& [id, plan] : value.items()) {
      const std::string inside = fmt::format("plan '{}' of {}", shortened(id, 200), place);
      plans[id] = plan_record().read(
          plan.is_string() ? read_stored_plan(folder, plan.get<std::string>(), inside) : plan, inside);
    }
    return plans;
  };
  field.schema = [whole = field.schema](Schema& definitions) {
    Schema schema = whole(definitions);
    Schema& plan = schema["additionalProperties"];
    const Schema path = {{"type", "string"}, {"pattern", "^plans/[0-9a-f]+\\.json\\.gz$"}};
    plan = {{"anyOf", Schema::array({plan, path})}};
    return schema;
  };
  return field;
}

/// The time at which a file was written; check_created() checks it.
Field<std::string> moment() {
  Field<std::string> field = text();
  field.schema = [](Schema&) {
    return Schema{{"type", "string"}, {"pattern", "^2[01][0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}};
  };
  return field;
}

}  // namespace

const Record<Machine>& machine_record() {
  static const Record<Machine> record =
      Record<Machine>(
          "machine",
          "The environment of a measurement: hardware, system, build and libraries. It names no user and no "
          "host.")
          .member("cpu", &Machine::cpu, text(), "Model name.")
          .member("cpu_isa", &Machine::cpu_isa, text(), "Widest vector units in use.")
          .member("logical_cores", &Machine::logical_cores, whole(1), "Online.")
          .member("allowed_cores", &Machine::allowed_cores, whole(1), "CPUs in the affinity mask of the process.")
          .member("cpu_max_mhz", &Machine::cpu_max_mhz, number(kNotNegative))
          .member("cpu_governor", &Machine::cpu_governor, text(), "Frequency policy.")
          .member("memory_bytes", &Machine::memory_bytes, whole(), "Installed.")
          .member("gpus", &Machine::gpus, list(object(gpu_record())), "GPUs installed, whether used or not.")
          .member("os", &Machine::os, text())
          .member("kernel", &Machine::kernel, text())
          .member("build", &Machine::build, object(build_record()))
          .member("libraries", &Machine::libraries, by_name(text()),
                  "Name to version, of libraries that do the arithmetic.");
  return record;
}

const Record<AutoTrial>& auto_trial_record() {
  static const Record<AutoTrial> record =
      Record<AutoTrial>("auto_trial", "One trial of auto: does this switch pay, given the others that were on?")
          .member("switch", &AutoTrial::switch_name, text(), "A switch, or several of a cheaper loop.")
          .member("kept", &AutoTrial::kept, flag())
          .member("why", &AutoTrial::why, text())
          .member("without_ms", &AutoTrial::without_ms, number(), "Median.")
          .member("with_ms", &AutoTrial::with_ms, number())
          .member("factor", &AutoTrial::factor, number(), "without_ms / with_ms: over 1 if the switch is faster.")
          .member("error", &AutoTrial::error, number())
          .member("interval", &AutoTrial::interval, object(interval_record()), "Of the factor.");
  return record;
}

const Record<PlanRecord>& plan_record() {
  static const Record<PlanRecord> record =
      Record<PlanRecord>("plan").member("nodes", &PlanRecord::nodes, list(object(node_record())), "In schedule order.");
  return record;
}

const Record<Result>& result_record() {
  static const Record<Result> record =
      Record<Result>("result")
          .keyword("if", Schema::parse(R"({"properties": {"subject": {"properties": {"kind": {"const": "stream"}}}}})"))
          .keyword("then", Schema::parse(R"({"required": ["latency"]})"))
          .keyword("else", Schema::parse(R"({"properties": {"latency": false}})"))
          .member("id", &Result::id, text(), "Unique within the file.")
          .member("name", &Result::name, text(), "Name in charts and tables.")
          .member("subject", &Result::subject, object(subject_record()))
          .derived(
              "work_hash", [](const Result& result) { return work_hash(result.subject); },
              {{"type", "string"}, {"pattern", "^[0-9a-f]{16}$"}}, kWorkHash)
          .member("source", &Result::source, object(source_record()))
          .member("configuration", &Result::configuration, object(configuration_record()))
          .member("trials", &Result::trials, list(object(series_record())), "One series for each quantity.")
          .member("memory", &Result::memory, object(memory_record()))
          .member("quality", &Result::quality, list(object(quality_record())))
          .member("tags", &Result::tags, texts(),
                  "Remarks for the reader: \"forced\" for a step cache on random weights.")
          .member("plan", &Result::plan, text(), "Id of a plan of this file.")
          .member("profile", &Result::profile, object(profile_record()))
          .member("floor", &Result::floor, object(floor_record()))
          .member("latency", &Result::latency, object(latency_record()))
          .member_unless_default(
              "stages", &Result::stages, list(object(stage_record())),
              "For a request, in the order they run; absent in older files, and if no whole requests "
              "were made.")
          .member("unsettled", &Result::unsettled, text(),
                  "For a ladder's rung: why its times and factors are not reliable; absent if no problem was detected.")
          .member_unless_default("computed_share", &Result::computed_share, list(number(kShare)),
                                 "For a step cache: for each denoise step, the share of the timed generations in which "
                                 "it was computed.")
          .member(
              "same_as", &Result::same_as, text(),
              "For a ladder's rung all of whose own switches declined: the id of the equal result, whose figures it "
              "has.");
  return record;
}

Record<ResultFile> result_file_record(const std::filesystem::path& folder) {
  return Record<ResultFile>(
             "file",
             "Measurements of models and kernels. Unknown values are left out; nothing is null. Times are "
             "in milliseconds, sizes in bytes.")
      .constant("schema", std::string(kResultSchema))
      .member("created", &ResultFile::created, moment(), "The time of writing, in UTC.")
      .member("machine", &ResultFile::machine, object(machine_record()))
      .member("plans", &ResultFile::plans, plans(folder),
              "Plans by id; results refer to them, so that a plan of several results is stored once. A plan of several "
              "files is a file of its own, gzip-compressed JSON, named by its path from the folder of this file.")
      .member("results", &ResultFile::results, list(object(result_record())));
}

}  // namespace headroom::records
