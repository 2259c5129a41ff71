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

/// The origin of a storage's bytes.
enum class StorageKind : std::uint8_t {
  kInput,    ///< filled by the caller before a run
  kWeight,   ///< in the weight store, by key
  kState,    ///< outlives the run
  kOutput,   ///< one output, outside the arena; outlives the run
  kCounter,  ///< a loop's iteration number, written by the executor
  kArena,    ///< an activation
  kScratch,  ///< scratch of one step
  kPart,     ///< activations or scratch for one part of a tiled run, in the memory of the thread that runs it
};

/// A contiguous range of memory that holds values. Positions count steps: a storage is live from the launch of step
/// `first` until step `last` has run, with loops taken into account.
struct Storage {
  StorageKind kind = StorageKind::kArena;
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
  /// For kArena and kScratch, if the program has an arena; for kPart, in the thread's memory.
  std::size_t arena_offset = 0;
};

/// The place of a value in a storage. Several values may share a storage (views, in-place results, parts of a
/// concatenation).
struct Place {
  int storage = -1;
  std::size_t offset_bytes = 0;
  Shape strides = {};  ///< in elements
  /// For an operand in a tiled run: the distance from the elements of one part to those of the next. 0 if all parts
  /// share them, or if each part has them in its own memory.
  std::size_t bytes_between_parts = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

/// A kernel that was considered before the chosen one, and the reason why it was rejected.
struct RejectedKernel {
  std::string_view kernel;
  std::string reason;
};

/// One kernel launch.
struct Step {
  int node = -1;      ///< index in graph.nodes(); -1 for a copy of a next value, of a region's result or of an output
  std::string label;  ///< module path of the node; for a copy, the name of its target
  Op op = Op::kAdd;
  const Kernel* kernel = nullptr;  ///< null for a copy
  /// shared by steps of equal shapes; in a tiled run, prepared for one part
  std::shared_ptr<const PreparedKernel> prepared = {};
  OpSpec spec = {};
  Cost cost;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<Place> input_places = {};
  std::vector<Place> output_places = {};
  int scratch = -1;             ///< storage, or -1
  int lane = 0;                 ///< the stream that it runs on, below Program::lanes
  std::vector<int> waits = {};  ///< steps of other lanes that must have completed before
  std::vector<RejectedKernel> rejections = {};
};

enum class SegmentKind : std::uint8_t { kStraight, kLoop, kIf };

/// Steps [first, last) in order: straight-line code, a loop around them, or the branches of an `if`. Straight-line
/// code may be empty only as a branch.
struct Segment {
  SegmentKind kind = SegmentKind::kStraight;
  std::int64_t trip_count = 1;
  int first = 0;
  int last = 0;
  Place counter = {};    ///< for a loop: an i32, written before each iteration; storage -1 if nothing reads it
  Place predicate = {};  ///< for an `if`: a bool, read before any of its steps
  /// In order, covering [first, last) without gaps; empty if there is no nested segment. For an `if`: the segment
  /// that runs if the predicate is true, then the one that runs if it is false.
  std::vector<Segment> children = {};
};

/// Steps [first, last) that one thread runs for one part of the samples, while other threads run them for other
/// parts: see tiling.hpp.
struct TiledRun {
  int first = 0;
  int last = 0;
  std::int64_t parts = 1;
  int memory = -1;  ///< the storage for per-part memory, divided among the threads
  std::size_t thread_bytes = 0;
  /// Indexed by step from the first, then by thread: threads that share a prepared kernel may wait for each other.
  std::vector<std::vector<std::shared_ptr<const PreparedKernel>>> prepared = {};
};

/// A weight that the program reads: a value that depends only on params and constants, in the form that a kernel
/// asked for.
struct WeightUse {
  ValueId value = kNoValue;
  std::string key;          ///< names the expression over params; equal keys mean equal values
  std::string layout = {};  ///< packed form; empty for dense row-major
  std::size_t bytes = 0;
  int storage = -1;
  std::shared_ptr<const PreparedKernel> packer = {};  ///< packs the dense value if layout is not empty
  std::size_t packed_index = 0;
};

/// An executable plan: kernels chosen, every value placed, one arena for all segments. It owns no memory and no
/// weights, so any number of sessions may share it.
struct Program {
  Graph graph;
  DeviceTarget target;
  /// addresses fixed in one arena; otherwise buffers are allocated and freed by liveness (eager)
  bool has_arena = false;
  int lanes = 1;           ///< streams that steps are spread over; all join before and after each straight run of steps
  bool has_graph = false;  ///< captured on the device, as a whole or in straight runs of steps, and replayed
  std::vector<Step> steps;
  std::vector<TiledRun> tiled;  ///< in order, each within one straight run of steps
  Segment root;
  std::vector<Storage> storages;
  std::vector<Place> places;   ///< by ValueId; storage -1 for values that no step touches
  std::vector<Place> outputs;  ///< by index in graph.outputs(), dense
  std::vector<WeightUse> weights;
  std::size_t arena_bytes = 0;
  std::size_t arena_lower_bound_bytes = 0;  ///< the most bytes live at one step: a lower bound for the arena
  int elided = 0;                           ///< reshape, transpose, slice and concat nodes that became views
  /// The program to run first if anything that it reads has changed; its outputs are inputs of this program, by name.
  /// Null if there is none.
  std::shared_ptr<const Program> setup = {};
  /// For a setup: its outputs have no memory of their own, but that of the inputs that read them.
  bool outputs_elsewhere = false;
};

/// The tiled run that contains a step, or null.
[[nodiscard]] const TiledRun* tiled_run_at(const Program& program, int step);

/// The maximum number of predicates that the host reads in one run of the segment.
[[nodiscard]] std::int64_t most_host_reads(const Segment& segment);

/// The program as readable text: segments, steps with kernel, implementation, compute type and memory, and the
/// reasons for rejected kernels.
[[nodiscard]] std::string to_text(const Program& program, bool with_rejections);

}  // namespace headroom
