#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/probes/machine.hpp"
#include "measure/protocol/auto_trial.hpp"
#include "measure/statistics/latency.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/statistics/trials.hpp"

/// Measurements as they are stored: schema `headroom.result/1`, described for other programs by
/// docs/result.schema.json. Unknown values are left out of the JSON; nothing is ever null.
namespace headroom {

inline constexpr std::string_view kResultSchema = "headroom.result/1";

/// A stream is a model that processes frames one after another; its result has latencies and no series.
enum class SubjectKind : std::uint8_t { kModel, kKernel, kStream };
[[nodiscard]] std::string_view name_of(SubjectKind kind);

/// The measured work, independent of how it was run.
struct Subject {
  SubjectKind kind = SubjectKind::kModel;
  std::string name;                                   ///< "tiny-dit", or a kernel's op
  nlohmann::json request = nlohmann::json::object();  ///< an object: resolution, steps, batch, shapes, dtypes, ...
  std::optional<std::int64_t> parameters = {};        ///< of the model; follows from its name, so not part of the work
  /// Pixels along the side of one image token, in output pixels; not part of the work either.
  std::optional<std::int64_t> token_pixels = {};
  friend bool operator==(const Subject&, const Subject&) = default;
};

/// The id of the work, 16 hexadecimal digits; results compare only if these agree. It is the Hasher's digest of the
/// texts "headroom.work/1", kind, name, and the request as JSON on one line with sorted keys. So 8 and 8.0 are
/// different requests. Throws Error if the request holds a NaN or infinity.
[[nodiscard]] std::string work_hash(const Subject& subject);

/// The program that ran it: "headroom", or the name of a peer.
struct Source {
  std::string name = "headroom";
  std::string version;
  friend bool operator==(const Source&, const Source&) = default;
};

/// The GPU that was used.
struct UsedGpu {
  std::string name;        ///< as the vendor writes it: "NVIDIA H200"
  std::int64_t index = 0;  ///< CUDA's index among the GPUs that the process may use
  std::string uuid;        ///< "GPU-8f3c2a10-..."
  friend bool operator==(const UsedGpu&, const UsedGpu&) = default;
};

struct DeclinedSwitch {
  std::string name;
  std::string reason;
  friend bool operator==(const DeclinedSwitch&, const DeclinedSwitch&) = default;
};

/// Parts of the model that an applied switch left unchanged, or another remark on the switch.
struct KeptNodes {
  std::string switch_name;
  std::string reason;
  /// Module paths, or op names for nodes that no module makes; empty if the remark is about the whole model.
  std::vector<std::string> nodes;
  friend bool operator==(const KeptNodes&, const KeptNodes&) = default;
};

/// How the work was run. Every switch asked for is either applied or declined; the choices of the preset `auto`, if
/// asked for, are among those applied.
struct Configuration {
  std::string device;               ///< "cpu", "cuda"
  std::optional<UsedGpu> gpu = {};  ///< if the device is a GPU and the program reports it
  std::vector<std::string> asked;
  std::vector<std::string> applied;
  std::vector<DeclinedSwitch> declined;
  std::vector<KeptNodes> kept = {};
  std::vector<AutoTrial> auto_trials = {};    ///< if `auto` was asked for: what it tried, what it chose and why
  std::optional<std::int64_t> threads;        ///< CPU threads available to kernels
  std::optional<std::string> baseline_dtype;  ///< precision before any switch: "f32"
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// Raw times of one quantity, from one or more processes, and their summary over all processes.
struct TrialSeries {
  std::string what;                   ///< "step", "image", "first_run", ...; unique within a result
  std::vector<std::int64_t> process;  ///< for each trial: the process that ran it
  std::vector<double> time_ms;        ///< for each trial, in the order they ran
  std::int64_t warmup = 0;            ///< untimed calls before the trials, the fewest of any process
  bool warmup_stable = true;          ///< in every process
  bool complete = true;               ///< no process ran out of time
  Summary statistics;                 ///< of time_ms
  Conditions conditions = {};         ///< columns parallel to time_ms, as far as every process has them
  /// For each trial of a ladder's rung: the round it ran in. The baseline's trials of round r ran before that round
  /// and after the previous one. Empty for other results.
  std::vector<std::int64_t> round = {};
  friend bool operator==(const TrialSeries&, const TrialSeries&) = default;
};
/// One series from the trials of one process, or of several processes with distinct numbers. Throws Error if there
/// are no trials.
[[nodiscard]] TrialSeries make_series(std::string what, std::span<const Trials> processes);
[[nodiscard]] TrialSeries make_series(std::string what, const Trials& trials);

/// Device memory in bytes; values that a source does not report are absent.
struct MemoryReport {
  std::optional<std::int64_t> weights_bytes;
  std::optional<std::int64_t> activations_bytes;
  std::optional<std::int64_t> workspace_bytes;
  std::optional<std::int64_t> state_bytes;
  std::optional<std::int64_t> inputs_bytes;
  std::optional<std::int64_t> peak_bytes;           ///< most in use at once, all categories together
  std::optional<std::int64_t> reserved_bytes;       ///< most reserved at once, in use or not
  std::optional<std::int64_t> resident_peak_bytes;  ///< physical memory of the process on the host
  std::optional<std::int64_t> device_total_bytes;   ///< total memory of the device
  /// All device memory that the program has taken, not counting its context: pools, libraries and CUDA graphs.
  std::optional<std::int64_t> over_context_bytes = {};
  /// Memory that is neither available nor held by this program's backend: memory of other programs and of the system,
  /// a GPU's context and libraries, and on a CPU what the limits of a container withhold.
  std::optional<std::int64_t> untracked_bytes = {};
  friend bool operator==(const MemoryReport&, const MemoryReport&) = default;
};

/// The quality of the output. `value` is absent where the metric has none (the PSNR of identical images is infinite);
/// `note` then says why.
struct QualityRecord {
  std::string metric;   ///< with its unit: "psnr_db", "relative_l2", "accuracy", "frechet_distance",
                        ///< "frechet_difference"; of streams "flicker"
  std::string against;  ///< the reference: "baseline f32, same seeds", "test set"
  std::optional<double> value;
  std::optional<Interval> interval;  ///< 95%
  std::optional<std::string> note;
  friend bool operator==(const QualityRecord&, const QualityRecord&) = default;
};
/// The record of psnr_db(): an absent value becomes the note "identical".
[[nodiscard]] QualityRecord psnr_record(std::string against, std::optional<double> psnr_db);

struct PlannedRejection {
  std::string kernel;
  std::string reason;
  friend bool operator==(const PlannedRejection&, const PlannedRejection&) = default;
};

/// One node of a plan as it was executed.
struct PlannedNode {
  std::string node;  ///< module path: "blocks.3.attn.to_q"
  std::string op;
  std::string kernel;
  std::string implementation;  ///< as the library reports it
  std::string compute_type;    ///< dtype of the arithmetic
  double cost_bytes = 0;       ///< least bytes to move
  double cost_flops = 0;
  std::string cost_unit;   ///< "none", "vector" or "matrix"
  std::int64_t parts = 1;  ///< launches into which `tile` splits the batch, each for one part of the work
  std::vector<PlannedRejection> rejections;
  friend bool operator==(const PlannedNode&, const PlannedNode&) = default;
};

struct PlanRecord {
  std::vector<PlannedNode> nodes;  ///< in schedule order
  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

/// The component that bounds a floor: FLOPs at the rate of the machine's fastest GEMM, a copy of the bytes that must
/// move, exponentials at a CPU's rate, or, in older files, the bare kernel by itself.
inline constexpr std::string_view kFloorOfFlops = "flops", kFloorOfCopy = "copy", kFloorOfExp = "exp",
                                  kFloorOfGemm = "product";

/// The least time in which the machine could do the work, at rates measured in the same run.
struct FloorRecord {
  double ms = 0;
  std::string of;  ///< kFloorOfFlops, kFloorOfCopy or kFloorOfExp
  friend bool operator==(const FloorRecord&, const FloorRecord&) = default;
};

/// The time of a request by launch: each column has an entry for each node of the result's plan, in order.
struct ProfileRecord {
  std::vector<double> time_ms;  ///< median of one launch: on a GPU as the device recorded it, on a CPU timed by itself
  /// Time alone with warm caches: for a GEMM, attention or convolution the bare kernel, for other nodes the floor.
  /// Empty in older files.
  std::vector<double> alone_ms = {};
  std::vector<double> floor_ms;             ///< the least time in which the machine could do it, at measured rates
  std::vector<std::string> floor_of;        ///< as FloorRecord::of; kFloorOfGemm in older files
  std::vector<std::int64_t> runs;           ///< launches in one request
  std::optional<double> idle_share = {};    ///< of a traced step, the share in which the GPU was idle: median
  std::optional<double> busy_ms = {};       ///< of a traced step, the time in which the GPU was busy: median
  std::optional<double> loop_step_ms = {};  ///< a step of the loop as one graph, by the GPU's clock: median
  friend bool operator==(const ProfileRecord&, const ProfileRecord&) = default;
};

/// One stage of a request. Its times, over whole generations, are the series of its name. Values that are unknown, or
/// do not apply to the device, are absent.
struct StageRecord {
  std::string name;                          ///< "tokenize", "text_encoder", "denoise"
  std::optional<std::int64_t> memory_bytes;  ///< of its activations and scratch, as in MemoryReport
  /// Weights that its program reads; weights shared by stages count in each of them.
  std::optional<std::int64_t> weights_bytes;
  std::optional<double> floor_ms;  ///< least time for what one generation runs of this stage
  friend bool operator==(const StageRecord&, const StageRecord&) = default;
};

struct Result {
  std::string id;    ///< unique within the file
  std::string name;  ///< the name in charts and tables: "baseline", "fuse"
  Subject subject;
  Source source;
  Configuration configuration;
  std::vector<TrialSeries> trials;
  std::optional<MemoryReport> memory;
  std::vector<QualityRecord> quality;
  std::vector<std::string> tags;              ///< remarks for the reader: "forced" (a step cache on random weights)
  std::optional<std::string> plan;            ///< id in ResultFile::plans
  std::optional<ProfileRecord> profile = {};  ///< of that plan
  std::optional<FloorRecord> floor = {};      ///< for an op measured by itself
  std::vector<StageRecord> stages = {};       ///< for a request, in execution order; empty in older files
  std::optional<LatencyRecord> latency = {};  ///< for a stream only
  /// For a ladder's rung: why its times and factors are not reliable, or why it has none; absent if no problem was
  /// detected.
  std::optional<std::string> unsettled = {};
  /// For a step cache: for each denoise step, the share of the timed generations in which it was computed.
  std::vector<double> computed_share = {};
  /// For a ladder's rung all of whose own switches declined: the id of the equal rung, whose figures it has.
  std::optional<std::string> same_as = {};
  friend bool operator==(const Result&, const Result&) = default;
};
/// The series of that name; null if there is none.
[[nodiscard]] const TrialSeries* find_series(const Result& result, std::string_view what);
/// The same; if there is none, throws Error naming the result and its series.
[[nodiscard]] const TrialSeries& series_of(const Result& result, std::string_view what);

/// Tag of a result without trials, because the request needs more memory than there is.
inline constexpr std::string_view kOutOfMemoryTag = "out_of_memory";
[[nodiscard]] bool is_out_of_memory(const Result& result);

struct ResultFile {
  std::string created;  ///< utc_now() at writing
  Machine machine;
  std::map<std::string, PlanRecord> plans;  ///< by id; results share them
  std::vector<Result> results;
  friend bool operator==(const ResultFile&, const ResultFile&) = default;
};

/// Checks `file` and returns its JSON. Throws Error, naming the result, for:
/// - two results with one id, a plan that is missing, two series of one name, or columns of unequal length;
/// - a switch that was asked for but neither applied nor declined, or quality without value and note;
/// - a profile that does not fit its plan, a stage without times, latencies on a result that is not a stream, or a
///   stream without them;
/// - any NaN or infinity.
[[nodiscard]] nlohmann::json to_json(const ResultFile& file);
/// The inverse, with the same checks. Throws Error also for another schema (naming it), a member that is missing,
/// unknown or of another type, and a work hash that is not the subject's. `context` names the document; plans that it
/// refers to are read from below `folder`.
[[nodiscard]] ResultFile results_from_json(const nlohmann::json& json, std::string_view context,
                                           const std::filesystem::path& folder = {});

/// The JSON Schema (draft 2020-12) of result files: docs/result.schema.json.
[[nodiscard]] nlohmann::ordered_json result_schema();

/// Writes `file` to `path` atomically.
void write_results(const std::filesystem::path& path, const ResultFile& file);
/// Reads a JSON file, or a gzip-compressed JSON file.
[[nodiscard]] ResultFile read_results(const std::filesystem::path& path);

}  // namespace headroom
