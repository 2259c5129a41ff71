#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// Where a storage's bytes come from.
enum class StorageKind : std::uint8_t {
  kInput,    ///< filled by the caller before a run
  kWeight,   ///< in the weight store, by key
  kState,    ///< outlives the run
  kOutput,   ///< an output's alone, outside the arena; outlives the run
  kCounter,  ///< a loop's iteration number, written by the executor
  kArena,    ///< an activation
  kScratch,  ///< of one step
  kPart,     ///< an activation or scratch of one part of a tiled run, in the memory of the thread that runs it
};

/// One stretch of memory that values live in. Positions count steps: a storage is needed from the launch of step
/// `first` until step `last` has run, loops taken into account.
struct Storage {
  StorageKind kind = StorageKind::kArena;
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
  /// Of kArena and kScratch where the program has an arena; of kPart in the thread's memory.
  std::size_t arena_offset = 0;
};

/// Where a value lies in a storage: several values may share one (views, in-place results, parts of a concatenation).
struct Place {
  int storage = -1;
  std::size_t offset_bytes = 0;
  Shape strides = {};  ///< in elements
  /// Of an operand in a tiled run: from the elements of a part to those of the next; 0 where all parts share them, or
  /// each has them in its own memory.
  std::size_t bytes_between_parts = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// A kernel that was tried before the chosen one, and why it did not run.
struct RejectedKernel {
  std::string_view kernel;
  std::string reason;
};

/// One kernel launch.
struct Step {
  int node = -1;  ///< index in graph.nodes(); -1 for a copy: of a next value, of what a region returns, of an output
  std::string label;  ///< module path of the node; of a copy, what it writes
  Op op = Op::kAdd;
  const Kernel* kernel = nullptr;                       ///< null for a copy
  std::shared_ptr<const PreparedKernel> prepared = {};  ///< shared by steps of equal shapes; in a tiled run, for a part
  OpSpec spec = {};
  Cost cost;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Place> input_places = {};
  std::vector<Place> output_places = {};
  int scratch = -1;             ///< storage, or -1
  int lane = 0;                 ///< the stream it runs on, of Program::lanes
  std::vector<int> waits = {};  ///< steps of other lanes that must have run before
  std::vector<RejectedKernel> rejections = {};
};

enum class SegmentKind : std::uint8_t { kStraight, kLoop, kIf };

/// Steps [first, last) in order: a straight line, a loop around them, or the branches of an `if`. A straight line may
/// have no steps where it is a branch, and nowhere else.
struct Segment {
  SegmentKind kind = SegmentKind::kStraight;
  std::int64_t trip_count = 1;
  int first = 0;
  int last = 0;
  Place counter = {};    ///< of a loop: an i32, written before each iteration; storage -1 where nothing reads it
  Place predicate = {};  ///< of an `if`: a bool, read before any of its steps
  /// In order, covering [first, last) without gaps; empty where there is nothing nested. Of an `if` what runs where the
  /// predicate is true, and what runs where it is false.
  std::vector<Segment> children = {};
};

/// Steps [first, last) that one thread runs for one part of the samples, while others run them for other parts: see
/// tiling.hpp.
struct TiledRun {
  int first = 0;
  int last = 0;
  std::int64_t parts = 1;
  int memory = -1;  ///< the storage of what is of a part, thread by thread
  std::size_t thread_bytes = 0;
  /// By step from the first, then by thread: threads that share a prepared kernel may wait for each other.
  std::vector<std::vector<std::shared_ptr<const PreparedKernel>>> prepared = {};
};

/// A weight the program reads: a value that depends on params and constants alone, in the form a kernel asked for.
struct WeightUse {
  ValueId value = kNoValue;
  std::string key;          ///< names the expression over params; equal keys mean equal values
  std::string layout = {};  ///< packed form; empty for dense row-major
  std::size_t bytes = 0;
  int storage = -1;
  std::shared_ptr<const PreparedKernel> packer = {};  ///< packs the dense value where layout is not empty
  std::size_t packed_index = 0;
};

/// An executable plan: kernels chosen, every value placed, one arena over all segments. It holds no memory and no
/// weights, so any number of sessions may share it.
struct Program {
  Graph graph;
  Target target;
  bool has_arena = false;  ///< addresses fixed in one arena; otherwise buffers come and go by liveness (eager)
  int lanes = 1;  ///< streams that steps are spread over; they meet before and after each straight run of steps
  bool has_graph = false;  ///< it is recorded on the device, as a whole or in straight runs of steps, and replayed
  std::vector<Step> steps;
  std::vector<TiledRun> tiled;  ///< in order, each within one straight run of steps
  Segment root;
  std::vector<Storage> storages;
  std::vector<Place> places;   ///< by ValueId; storage -1 for values that no step touches
  std::vector<Place> outputs;  ///< by index in graph.outputs(), dense
  std::vector<WeightUse> weights;
  std::size_t arena_bytes = 0;
  std::size_t arena_lower_bound_bytes = 0;  ///< the most bytes live at one step: no arena can be smaller
  int elided = 0;                           ///< reshape, transpose, slice and concat nodes that became views
  /// What runs before this where something has changed that it reads: its outputs are inputs of this one, by name. Null where there is
  /// none.
  std::shared_ptr<const Program> setup = {};
};

/// The tiled run that a step is in, or null.
[[nodiscard]] const TiledRun* tiled_run_at(const Program& program, int step);

/// How often at most the host reads a predicate in one run of the segment.
[[nodiscard]] std::int64_t most_host_reads(const Segment& segment);

/// The program as a person reads it: segments, steps with kernel, implementation, compute type, memory, and why others
/// were rejected.
[[nodiscard]] std::string to_text(const Program& program, bool with_rejections);

}  // namespace headroom
