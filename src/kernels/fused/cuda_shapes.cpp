#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <utility>

#include "base/files/hash.hpp"
#include "base/tensors/divide_up.hpp"
#include "ir/op.hpp"
#include "kernels/fused/cuda_phases.hpp"
#include "kernels/fused/cuda_source.hpp"

// The candidate thread layouts of generated kernels.

namespace headroom::cuda {
namespace {

using Do = RowProgram::Do;

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr int kFlatThreads = 256;
constexpr int kMostPacks = 16;
constexpr int kRegisters = 1 << 16;      // of a multiprocessor
constexpr int kOtherRegisters = 32;      // of a thread, in addition to kept values: addresses and temporaries
constexpr int kSharedBytes = 200 << 10;  // leaves some of the first-level cache for shared operands
constexpr int kLarge = 256, kMany = 32;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The approximate number of registers that a thread's pack occupies between phases.
int registers_of_pack(const BoundProgram& bound, int width) {
  const Phases phases(bound, false);
  int words = 0;
  for (int step = 0; step < static_cast<int>(bound.program.steps.size()); ++step) {
    const RowProgram::Step& what = bound.program.steps[at(step)];
    if (what.what == Do::kLoad && (phases.is_first_read(step) || phases.is_kept(step)))
      words += static_cast<int>(
          divide_up(static_cast<std::int64_t>(size_of(bound.loads[at(what.access)])) * width, std::int64_t{4}));
    else if (phases.is_kept(step))
      words += width;
  }
  return std::max(1, words);
}

/// Whole warps for a row of `packs` packs, of which a thread takes at most `most`; without idle threads if possible.
std::int64_t threads_for(std::int64_t packs, std::int64_t most) {
  for (std::int64_t each = most; each > 0 && 2 * each > most; --each)
    if (packs % (each * kWarp) == 0) return packs / each;
  return kWarp * divide_up(divide_up(packs, most), std::int64_t{kWarp});
}

/// Whether every operand with columns of its own can be read in packs of that many.
bool fits(const BoundProgram& bound, int width) {
  if (bound.walk.columns.extent % width != 0) return false;
  for (std::size_t k = 0; k < bound.walk.columns.strides.size(); ++k) {
    if (bound.walk.columns.strides[k] == 0) continue;
    const int repeats = bound.walk.columns.repeats[k];
    if (width % repeats != 0 && repeats % width != 0) return false;
    const int own = std::max(1, width / repeats);
    for (const RowWalk::Axis& axis : bound.walk.outer)
      if (own > 1 && axis.strides[k] % own != 0) return false;
  }
  return true;
}

/// The smallest and the largest size in bytes of an operand's pack of `width` columns. For the largest, only
/// operands with rows of their own count: shared values are in cache.
std::pair<int, int> pack_bytes(const BoundProgram& bound, int width) {
  const std::size_t loads = bound.program.loads.size();
  std::pair<int, int> bytes = {4 * width, 1};
  for (std::size_t k = 0; k < bound.walk.columns.strides.size(); ++k) {
    if (bound.walk.columns.strides[k] == 0) continue;
    const auto size = static_cast<int>(size_of(k < loads ? bound.loads[k] : bound.results[k - loads]));
    const int own = size * std::max(1, width / bound.walk.columns.repeats[k]);
    bytes.first = std::min(bytes.first, own);
    if (std::ranges::all_of(bound.walk.outer, [&](const RowWalk::Axis& axis) { return axis.strides[k] != 0; }))
      bytes.second = std::max(bytes.second, own);
  }
  return bytes;
}

/// The number of short rows per thread. Several rows keep as many reads in flight as one long row, and load shared
/// values once; 1 if more would leave multiprocessors idle. (Heads of 128 elements, 6 of 24 per thread: a
/// hand-written kernel reached 0.9 of a copy's rate, and 0.76 with one head per thread. H200)
int rows_of_thread(const BoundProgram& bound, const RowShape& shape, int multiprocessors) {
  constexpr int kMostTogether = 6;          // packs of a thread
  constexpr std::int64_t kLeastBlocks = 8;  // of a multiprocessor
  if (shape.threads > kWarp || bound.walk.outer.empty()) return 1;
  const std::int64_t neighbours = bound.walk.outer.back().extent;
  for (int rows = kMostTogether / shape.packs; rows > 1; --rows)
    if (neighbours % rows == 0 && bound.walk.rows() / rows / shape.rows_of_block >= kLeastBlocks * multiprocessors)
      return rows;
  return 1;
}

/// Persistent blocks, for rows of one or two warps that are as long as registers allow: so few of these rows are
/// resident that between the reads of one and the next too little is in flight. Nothing if they do not fit, or if
/// there are too few rows.
std::optional<RowShape> staying_shape(const BoundProgram& bound, RowShape shape, int multiprocessors) {
  constexpr int kMostWarps = 2, kLeastPacks = 4;
  constexpr int kBlocks = 4;                // of a multiprocessor, if registers allow it
  constexpr int kBytesUnderWay = 48 << 10;  // in flight to a multiprocessor: about 4 TB/s over the latency of a read
  constexpr int kMostBytes = 48 << 10;      // of static shared memory
  constexpr int kMostRegisters = 255;       // of a thread
  constexpr std::int64_t kLeastRows = 8;    // of a row's threads
  const std::set<int> fetched = fetched_loads(bound, shape.width);
  if (shape.threads % kWarp != 0 || shape.threads > kMostWarps * kWarp || shape.packs < kLeastPacks || fetched.empty())
    return std::nullopt;
  const Phases phases(bound, false);
  const CommonSteps common = common_steps(bound, phases);
  auto kept = static_cast<int>(common.used.size());
  for (int step = 0; step < static_cast<int>(bound.program.steps.size()); ++step)
    if (phases.is_kept(step) && !fetched.contains(step) && !common.all.contains(step)) ++kept;
  const int threads = shape.threads * shape.rows_of_block;
  const int registers = kept * shape.packs * shape.width + kOtherRegisters;
  shape.blocks = std::min(kBlocks, kRegisters / (registers * threads));
  shape.staying = shape.blocks * multiprocessors;
  const std::int64_t rows = bound.walk.rows(), at_once = std::int64_t{shape.staying} * shape.rows_of_block;
  if (registers > kMostRegisters || shape.blocks < 2 || rows < kLeastRows * at_once) return std::nullopt;
  const int bytes = static_cast<int>(fetched.size()) * shape.packs * threads * 16;
  const int exchanged_bytes = shape.threads > kWarp ? 1 << 10 : 0;  // at most, by the warps of a row
  const int most_ahead = std::min(kMostBytes - exchanged_bytes, kSharedBytes / shape.blocks) / bytes - 1;
  shape.ahead = std::min(most_ahead, divide_up(kBytesUnderWay, shape.blocks * bytes));
  if (shape.ahead < 1) return std::nullopt;
  return shape;
}

std::vector<RowShape> flat_shapes(const BoundProgram& bound, int multiprocessors) {
  constexpr std::int64_t kThreadsOfMultiprocessor = 2048;
  const int width = widest_pack(bound);
  std::vector<RowShape> shapes = {{.width = width, .threads = kFlatThreads, .packs = 1}};
  if (bound.walk.columns.extent / width * bound.walk.rows() >= 2 * kThreadsOfMultiprocessor * multiprocessors)
    shapes.push_back({.width = width, .threads = kFlatThreads, .packs = 2});
  return shapes;
}

/// Hashes a step without its numbers: they do not affect the time.
void add_step(Hasher& hasher, const RowProgram::Step& step) {
  hasher.add(step.what).add(name_of(step.op)).add(step.dtype).add(step.access).add(step.is_wide);
  for (const int arg : step.args) hasher.add(arg);
}

/// Hashes, for each axis, which loads and results have elements of their own, and which neighbours share one. Axes
/// of one element are skipped, and successive axes that are alike in all operands count as one. A batch is thus in
/// the size family of a single image if no operand is batched.
void add_accesses(Hasher& hasher, const RowProgram& program) {
  std::vector<int> before;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(program.space.rank()); ++axis) {
    if (program.space[static_cast<int>(axis)] == 1) continue;
    std::vector<int> sharing;  // by load and result: neighbours that read one element, 0 for all
    for (const RowAccess& load : program.loads)
      sharing.push_back(load.axes[axis] < 0 ? 0 : load.repeats.empty() ? 1 : load.repeats[axis]);
    for (const RowProgram::Result& result : program.results) sharing.push_back(result.axes[axis] < 0 ? 0 : 1);
    const bool is_stretched = std::ranges::any_of(sharing, [](int neighbours) { return neighbours > 1; });
    if (sharing == before && !is_stretched) continue;
    for (const int neighbours : sharing) hasher.add(neighbours);
    before = std::move(sharing);
  }
  for (const RowAccess& load : program.loads) hasher.add(load.index);
}

}  // namespace

tune::SizeKey size_key_of(const BoundProgram& bound) {
  const RowProgram& program = bound.program;
  const std::int64_t columns = bound.walk.columns.extent, rows = bound.walk.rows();
  Hasher hasher;
  hasher.add(program.needs_rows ? columns : 0);
  for (const RowProgram::Step& step : program.steps) add_step(hasher, step);
  for (const RowProgram::Result& result : program.results) hasher.add(result.step);
  for (const std::vector<DType>& dtypes : {bound.loads, bound.results}) {
    hasher.add(dtypes.size());
    for (const DType dtype : dtypes) hasher.add(dtype);
  }
  add_accesses(hasher, program);
  return {.family = "fused " + hasher.hex(), .size = {program.needs_rows ? rows : rows * columns}};
}

int widest_pack(const BoundProgram& bound) {
  int width = pack_bytes(bound, 1).first == 4 ? 4 : 8;
  while (width > 1 && (!fits(bound, width) || (width > 4 && pack_bytes(bound, width).second > 16))) width /= 2;
  return width;
}

std::vector<RowShape> row_shapes(const BoundProgram& bound, int multiprocessors) {
  if (!bound.program.needs_rows) return flat_shapes(bound, multiprocessors);
  const int width = widest_pack(bound);
  const std::int64_t packs = bound.walk.columns.extent / width;
  constexpr int kBudget = 96;
  const int registers = registers_of_pack(bound, width);
  const auto most = static_cast<std::int64_t>(std::clamp(kBudget / registers, 1, kMostPacks));
  std::vector<RowShape> shapes;
  const auto add = [&](std::int64_t threads) {
    if (threads > kMostThreads || divide_up(packs, threads) > 2 * most) return;
    RowShape shape{
        .width = width, .threads = static_cast<int>(threads), .packs = static_cast<int>(divide_up(packs, threads))};
    shape.rows_of_block = threads > kWarp ? 1 : static_cast<int>(128 / threads);
    shapes.push_back(shape);
    if (const int rows = rows_of_thread(bound, shape, multiprocessors); rows > 1) {
      shapes.push_back(shape);
      shapes.back().rows_of_thread = rows;
    }
    if (const std::optional<RowShape> staying = staying_shape(bound, shape, multiprocessors))
      shapes.push_back(*staying);
    // For large blocks with many kept values, the compiler uses too many registers for two blocks, which would
    // overlap.
    const int kept = registers * shape.packs;
    if (threads < kLarge || kept < kMany || 2 * threads * (kept + kOtherRegisters) > kRegisters) return;
    shape.blocks = 2;
    shapes.push_back(shape);
  };
  if (packs <= kWarp) {
    add(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packs))));
    return shapes;
  }
  const std::int64_t wanted = threads_for(packs, most);
  if (wanted > kMostThreads) {
    shapes.push_back({.width = width, .threads = kMostThreads, .packs = 1, .rows_of_block = 1, .is_reread = true});
    return shapes;
  }
  add(wanted);
  for (const std::int64_t threads : {2 * wanted, wanted / 2})
    if (threads >= kWarp && threads % kWarp == 0) add(threads);
  return shapes;
}

}  // namespace headroom::cuda
