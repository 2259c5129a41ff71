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

/// Measurements as they are kept: schema `headroom.result/1`, described for other programs by docs/result.schema.json.
/// What is not known is left out of the JSON; nothing is ever null.
namespace headroom {

inline constexpr std::string_view kResultSchema = "headroom.result/1";

/// A stream is a model that frames go through one after another; its result has latencies and no series.
enum class SubjectKind : std::uint8_t { kModel, kKernel, kStream };
[[nodiscard]] std::string_view name_of(SubjectKind kind);

/// What was measured: the work, without how it was done.
struct Subject {
  SubjectKind kind = SubjectKind::kModel;
  std::string name;                                   ///< "tiny-dit", or a kernel's op
  nlohmann::json request = nlohmann::json::object();  ///< an object: resolution, steps, batch, shapes, dtypes, ...
  std::optional<std::int64_t> parameters = {};        ///< of the model, which follow from its name: no part of the work
  /// Pixels along the side of one of the request's image tokens, in images as they are made: no part of the work either.
  std::optional<std::int64_t> token_pixels = {};
  friend bool operator==(const Subject&, const Subject&) = default;
};

/// Names the work in 16 hexadecimal digits: results compare only where these agree. It is the Hasher's digest of the
/// texts "headroom.work/1", kind, name and the request as JSON on one line with sorted keys, so 8 and 8.0 are different
/// requests. Throws Error where the request holds a NaN or infinity.
[[nodiscard]] std::string work_hash(const Subject& subject);

/// Who ran it: "headroom", or the name of a peer.
struct Source {
  std::string name = "headroom";
  std::string version;
  friend bool operator==(const Source&, const Source&) = default;
};

/// Which GPU something ran on.
struct UsedGpu {
  std::string name;        ///< as the vendor writes it: "NVIDIA H200"
  std::int64_t index = 0;  ///< as CUDA numbers those that the process may use
  std::string uuid;        ///< "GPU-8f3c2a10-..."
  friend bool operator==(const UsedGpu&, const UsedGpu&) = default;
};

struct DeclinedSwitch {
  std::string name;
  std::string reason;
  friend bool operator==(const DeclinedSwitch&, const DeclinedSwitch&) = default;
};

/// Parts of the model that an applied switch left as they are, or what else there is to say of it.
struct KeptNodes {
  std::string switch_name;
  std::string reason;
  /// Paths of the modules, or an op's name for what no module makes; none where it is about the whole.
  std::vector<std::string> nodes;
  friend bool operator==(const KeptNodes&, const KeptNodes&) = default;
};

/// How it was run. Every switch asked for is either applied or declined; what the preset `auto`, if asked for, chose is
/// among those applied.
struct Configuration {
  std::string device;               ///< "cpu", "cuda"
  std::optional<UsedGpu> gpu = {};  ///< where the device is one, and the program tells
  std::vector<std::string> asked;
  std::vector<std::string> applied;
  std::vector<DeclinedSwitch> declined;
  std::vector<KeptNodes> kept = {};
  std::vector<AutoTrial> auto_trials = {};    ///< where `auto` was asked for: what it tried, what it took and why
  std::optional<std::int64_t> threads;        ///< CPU threads that kernels could use
  std::optional<std::string> baseline_dtype;  ///< precision before any switch: "f32"
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// Raw times of one thing, from one or more processes, and their summary over all processes.
struct TrialSeries {
  std::string what;                   ///< "step", "image", "first_run", ...; unique within a result
  std::vector<std::int64_t> process;  ///< for each trial: which process ran it
  std::vector<double> time_ms;        ///< for each trial, in the order they ran
  std::int64_t warmup = 0;            ///< untimed calls before them, the fewest of any process
  bool warmup_stable = true;          ///< in every process
  bool complete = true;               ///< no process ran out of time
  Summary statistics;                 ///< of time_ms
  Conditions conditions = {};         ///< columns beside time_ms, as far as every process has them
  /// For each trial of a ladder's rung: in which round it ran. The baseline's of round r stand before that round and
  /// after the one before. Empty elsewhere.
  std::vector<std::int64_t> round = {};
  friend bool operator==(const TrialSeries&, const TrialSeries&) = default;
};
/// One series from the trials of one process, or of several that each have their own number. Throws Error where there
/// are no trials.
[[nodiscard]] TrialSeries make_series(std::string what, std::span<const Trials> processes);
[[nodiscard]] TrialSeries make_series(std::string what, const Trials& trials);

/// Device memory in bytes; what a source cannot tell is absent.
struct MemoryReport {
  std::optional<std::int64_t> weights_bytes;
  std::optional<std::int64_t> activations_bytes;
  std::optional<std::int64_t> workspace_bytes;
  std::optional<std::int64_t> state_bytes;
  std::optional<std::int64_t> inputs_bytes;
  std::optional<std::int64_t> peak_bytes;           ///< most in use at once, all categories together
  std::optional<std::int64_t> reserved_bytes;       ///< most held at once, in use or not
  std::optional<std::int64_t> resident_peak_bytes;  ///< physical memory of the process on the host
  std::optional<std::int64_t> device_total_bytes;   ///< what the device has
  /// All that a GPU gave up since the program took it, its context not counted: pools, libraries and recordings.
  std::optional<std::int64_t> over_context_bytes = {};
  /// What nobody can have and this program's backend does not hold: other programs' memory, the system's, a GPU's
  /// context and libraries, and on a CPU what the limits of a container withhold.
  std::optional<std::int64_t> untracked_bytes = {};
  friend bool operator==(const MemoryReport&, const MemoryReport&) = default;
};

/// How good the output is. `value` is absent where the metric has none (the PSNR of identical images is infinite);
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
/// The record of psnr_db(): nothing becomes the note "identical".
[[nodiscard]] QualityRecord psnr_record(std::string against, std::optional<double> psnr_db);

struct PlannedRejection {
  std::string kernel;
  std::string reason;
  friend bool operator==(const PlannedRejection&, const PlannedRejection&) = default;
};

/// One node of a plan as it really ran.
struct PlannedNode {
  std::string node;  ///< module path: "blocks.3.attn.to_q"
  std::string op;
  std::string kernel;
  std::string implementation;  ///< as the library reports it
  std::string compute_type;    ///< dtype of the arithmetic
  double cost_bytes = 0;       ///< the least that must move
  double cost_flops = 0;
  std::string cost_unit;   ///< "none", "vector" or "matrix"
  std::int64_t parts = 1;  ///< in which `tile` cuts the batch: launches of which each does one part of the work
  std::vector<PlannedRejection> rejections;
  friend bool operator==(const PlannedNode&, const PlannedNode&) = default;
};

struct PlanRecord {
  std::vector<PlannedNode> nodes;  ///< in schedule order
  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

/// What a floor is the time of: FLOPs at the rate of the machine's fastest product, a copy of the bytes that must move,
/// exponentials at the rate of a CPU, or, in older files, the bare kernel by itself.
inline constexpr std::string_view kFloorOfFlops = "flops", kFloorOfCopy = "copy", kFloorOfExp = "exp",
                                  kFloorOfGemm = "product";

/// The least time in which the machine could do the work, by rates that it was measured at in the same run.
struct FloorRecord {
  double ms = 0;
  std::string of;  ///< kFloorOfFlops, kFloorOfCopy or kFloorOfExp
  friend bool operator==(const FloorRecord&, const FloorRecord&) = default;
};

/// Where the time of a request goes: a column entry for each node of the result's plan, in order.
struct ProfileRecord {
  std::vector<double> time_ms;  ///< median of one launch: on a GPU as it recorded it, on a CPU timed by itself
  /// Alone and hot: the bare kernel of a product, attention or convolution, of anything else its floor.
  /// Empty in older files.
  std::vector<double> alone_ms = {};
  std::vector<double> floor_ms;       ///< the least that the machine could do it in, by rates that it was measured at
  std::vector<std::string> floor_of;  ///< as FloorRecord::of; kFloorOfGemm in older files
  std::vector<std::int64_t> runs;     ///< launches in one request
  std::optional<double> idle_share = {};    ///< of a step that is traced, in which a GPU ran nothing: median over steps
  std::optional<double> busy_ms = {};       ///< of a step that is traced, in which it ran something: median
  std::optional<double> loop_step_ms = {};  ///< a step of the loop as one graph, by the GPU's clock: median
  friend bool operator==(const ProfileRecord&, const ProfileRecord&) = default;
};

/// A stage of a request; its times, of whole generations, are the series of its name. What is not known, or is not of
/// the device, is absent.
struct StageRecord {
  std::string name;                          ///< "tokenize", "text_encoder", "denoise"
  std::optional<std::int64_t> memory_bytes;  ///< of its activations and scratch, as in MemoryReport
  /// That its program reads; of those that stages share, each has them all.
  std::optional<std::int64_t> weights_bytes;
  std::optional<double> floor_ms;  ///< the least in which the machine could do what a generation runs of it
  friend bool operator==(const StageRecord&, const StageRecord&) = default;
};

struct Result {
  std::string id;    ///< unique within the file
  std::string name;  ///< what charts and tables call it: "baseline", "fuse"
  Subject subject;
  Source source;
  Configuration configuration;
  std::vector<TrialSeries> trials;
  std::optional<MemoryReport> memory;
  std::vector<QualityRecord> quality;
  std::vector<std::string> tags;              ///< what a reader must know: "forced" (a step cache on random weights)
  std::optional<std::string> plan;            ///< id in ResultFile::plans
  std::optional<ProfileRecord> profile = {};  ///< of that plan
  std::optional<FloorRecord> floor = {};      ///< of an op measured by itself
  std::vector<StageRecord> stages = {};       ///< of a request, in the order they run; empty in older files
  std::optional<LatencyRecord> latency = {};  ///< of a stream, and of nothing else
  /// Of a ladder's rung: why its times and factors are no facts, or why it has none; absent where they are, as far as
  /// was seen.
  std::optional<std::string> unsettled = {};
  /// Of a step cache: for each denoise step the share of the timed generations in which it was computed.
  std::vector<double> computed_share = {};
  /// Of a ladder's rung all of whose own switches declined: the id of the rung that it is, whose figures it has.
  std::optional<std::string> same_as = {};
  friend bool operator==(const Result&, const Result&) = default;
};
/// The series of that name; throws Error naming the result and the series it has where there is none.
[[nodiscard]] const TrialSeries& series_of(const Result& result, std::string_view what);

/// Tag of a result without trials, because what it asks for needs more memory than there is.
inline constexpr std::string_view kOutOfMemoryTag = "out_of_memory";
[[nodiscard]] bool is_out_of_memory(const Result& result);

struct ResultFile {
  std::string created;  ///< utc_now() at writing
  Machine machine;
  std::map<std::string, PlanRecord> plans;  ///< by id; results share them
  std::vector<Result> results;
  friend bool operator==(const ResultFile&, const ResultFile&) = default;
};

/// Checks `file` and makes its JSON. Throws Error, naming the result, for: two results with one id, a plan that is not
/// there, two series of one name, columns of unequal length, a switch asked for but neither applied nor declined,
/// quality without value and note, a profile
/// that does not fit its plan, a stage without times, latencies of what is no stream, a stream without, or any NaN or infinity.
[[nodiscard]] nlohmann::json to_json(const ResultFile& file);
/// Its inverse, with the same checks. Throws Error also for another schema (naming it), a member that is missing,
/// unknown or of another type, and a work hash that is not that of the subject. `context` names the document; plans that
/// it refers to are read from below `folder`.
[[nodiscard]] ResultFile results_from_json(const nlohmann::json& json, std::string_view context,
                                           const std::filesystem::path& folder = {});

/// Writes `file` to `path` complete or not at all.
void write_results(const std::filesystem::path& path, const ResultFile& file);
/// Of a file of JSON, or of JSON that gzip has packed.
[[nodiscard]] ResultFile read_results(const std::filesystem::path& path);

}  // namespace headroom
