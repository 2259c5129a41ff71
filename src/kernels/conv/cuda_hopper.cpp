#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "kernels/conv/hopper.hpp"
#include "kernels/conv/hopper_form.hpp"
#include "kernels/core/cuda/copy_rows.hpp"

namespace headroom::convolutions {
namespace {

constexpr int kSwizzleBytes = 1024;
constexpr int kSharedBytes = 226 * 1024;       // for a block, without its barriers
constexpr int kSharedBytesOfTwo = 112 * 1024;  // for each of two on a multiprocessor
constexpr int kMostSplit = 16;
constexpr int kMostBox = 256;
constexpr std::size_t kMostMeasured = 10;
constexpr std::size_t kMostAsked = 30;  // of which the device is asked how many clusters it runs at once
constexpr double kMostSlower = 1.1;     // than the best guess, of an algorithm that was the fastest at another size
constexpr int kMultiprocessors = 132;   // of an H100 or H200

int as_int(std::int64_t value) { return static_cast<int>(value); }

/// Whether a transposed convolution is four of half the taps along each axis, which are all as large as the image is.
bool is_doubling(const Problem& problem) {
  const Builder::Convolution& how = problem.how;
  for (int axis = 0; axis < 2; ++axis) {
    const auto of_axis = static_cast<std::size_t>(axis);
    const std::int64_t taps = problem.weight[axis + 2], padding = taps / 2 - 1;
    if (how.stride[of_axis] != 2 || how.dilation[of_axis] != 1 || taps % 2 != 0 || how.padding[of_axis] != padding ||
        how.padding[of_axis + 2] != padding || problem.y[axis + 2] != 2 * problem.x[axis + 2])
      return false;
  }
  return true;
}

HopperForm form_of(const Problem& problem) {
  HopperForm form;
  form.phases = problem.is_transposed ? kPhases : 1;
  form.batch = as_int(problem.y[0]), form.outputs = as_int(problem.y[1]);
  form.height = as_int(problem.y[2]) / form.phases, form.width = as_int(problem.y[3]) / form.phases;
  form.taps_y = as_int(problem.weight[2]) / form.phases, form.taps_x = as_int(problem.weight[3]) / form.phases;
  if (problem.is_transposed) {
    for (int phase = 0; phase < kPhases; ++phase) {
      form.top[phase] = (form.taps_y - phase) / 2;
      form.left[phase] = (form.taps_x - phase) / 2;
    }
  } else {
    form.step_y = as_int(problem.how.stride[0]), form.step_x = as_int(problem.how.stride[1]);
    form.top[0] = as_int(problem.how.padding[0]), form.left[0] = as_int(problem.how.padding[1]);
    form.dilation_y = as_int(problem.how.dilation[0]), form.dilation_x = as_int(problem.how.dilation[1]);
  }
  form.activation = problem.activation;
  form.bias_is_f32 = problem.bias == DType::kF32;
  form.has_constant_weight = problem.has_constant_weight;
  form.is_whole = form.step_y == 1 && form.step_x == 1;
  return form;
}

/// How blocks of 8x8 pixels make up a tile: so that there are the fewest tiles, and then the fewest pixels to copy.
HopperForm arrange(const HopperForm& form, int blocks) {
  const auto order = [](const HopperForm& f) { return std::tuple(f.tiles_b * f.tiles_y * f.tiles_x, f.x_bytes); };
  const int log_blocks = std::countr_zero(static_cast<unsigned>(blocks));
  HopperForm best;
  for (int x = 0; x <= log_blocks; ++x)
    for (int y = 0; x + y <= log_blocks; ++y) {
      HopperForm next = form;
      next.log_blocks_b = log_blocks - x - y, next.log_blocks_y = y, next.log_blocks_x = x;
      next.tiles_b = divide_up(form.batch, 1 << next.log_blocks_b);
      next.tiles_y = divide_up(form.height, kSide << y);
      next.tiles_x = divide_up(form.width, kSide << x);
      next.rows = (kSide << y) + (form.is_whole ? (form.taps_y - 1) * form.dilation_y : 0);
      next.pitch = (kSide << x) + (form.is_whole ? (form.taps_x - 1) * form.dilation_x : 0);
      next.x_bytes = next.rows * next.pitch * kRowBytes << next.log_blocks_b;
      next.shortcut_bytes = blocks * kSide * kSide * kRowBytes;
      if (best.tiles_b == 0 || order(next) < order(best)) best = next;
    }
  return best;
}

/// Nothing where the copies are too large, or shared memory does not hold two stages of each operand.
std::optional<HopperForm> form_of(const Problem& problem, const HopperTile& tile) {
  HopperForm form = arrange(form_of(problem), tile.blocks);
  if (std::max(form.rows, form.pitch) > kMostBox || form.taps_x % tile.taps != 0) return std::nullopt;
  if (!form.is_whole && tile.taps > 1) return std::nullopt;
  form.taps_at_once = tile.taps;
  form.units = as_int(divide_up(problem.x[1], kDepth)) * form.taps_y * (form.taps_x / tile.taps);
  form.shortcut_units = as_int(divide_up(problem.shortcut, kDepth));
  form.column_tiles = divide_up(form.outputs, tile.columns);
  form.split = tile.split;
  if (form.split > form.units) return std::nullopt;
  form.x_stage_bytes = round_up(form.x_bytes, kSwizzleBytes);
  const int weight_bytes = tile.taps * tile.columns * kRowBytes;
  const int shared = tile.blocks == 1 ? kSharedBytesOfTwo : kSharedBytes;
  const bool is_long = form.is_whole && form.taps_y * form.taps_x > tile.taps;  // a copy of x is used for several units
  form.x_stages = is_long ? 2 : std::min(kMostStages, shared / (form.x_stage_bytes + weight_bytes));
  const auto left_for_weights = [&](int x_stages) { return (shared - x_stages * form.x_stage_bytes) / weight_bytes; };
  if (is_long && form.shortcut_units > 0 && left_for_weights(3) > 2) form.x_stages = 3;  // of that a copy serves one
  form.weight_stages = std::min(kMostStages, left_for_weights(form.x_stages));
  if (form.x_stages < 2 || form.weight_stages < 2) return std::nullopt;
  const int rows = tile.blocks * kSide * kSide, floats = static_cast<int>(sizeof(float));
  form.share_rows = divide_up(rows, tile.split);
  const int sums_bytes =
      ((rows + (tile.split - 1) * form.share_rows) * (tile.columns + kPadding) + tile.columns) * floats;
  if (sums_bytes > shared) return std::nullopt;
  form.shared_bytes = std::max(sums_bytes, form.x_stages * form.x_stage_bytes + form.weight_stages * weight_bytes);
  return form;
}

/// An estimate of the kernel's time, as measured on an H200 (docs/kernels.md). At best a multiply-add of 64 pixels
/// and 64 channels with each column takes two clocks. Copies arrive at 30 bytes a clock to each multiprocessor,
/// weights at 17 if they come from memory.
double guess_clocks(const HopperTile& tile, const HopperForm& form, int clusters) {
  const int waves = divide_up(form.tiles(), clusters);
  const double blocks_at_once = std::min(form.tiles(), clusters) * form.split;
  const double shared_by = std::max(1.0, blocks_at_once / kMultiprocessors);  // blocks on the same multiprocessor
  const double taps = tile.taps;
  const double x_bytes = form.is_whole ? form.x_bytes * taps / (form.taps_y * form.taps_x) : form.x_bytes;
  const double bytes = x_bytes + taps * tile.columns * kRowBytes;
  const auto unit = [&](double taps_of_it, double bytes_of_it) {
    return std::max({2.0 * tile.blocks * tile.columns * taps_of_it * shared_by, bytes_of_it * shared_by / 30, 600.0});
  };
  const double shortcut = form.shortcut_units * unit(1, form.shortcut_bytes + tile.columns * kRowBytes);
  const double sums = waves * (form.units * unit(taps, bytes) + shortcut) / form.split;
  const double weights = 1.0 * form.phases * form.phases * form.outputs * (form.units * taps + form.shortcut_units) *
                         kRowBytes / (kMultiprocessors * 17.0);
  const double exchange = form.split == 1 ? 0 : 2000 + (form.split - 1) * form.share_rows * tile.columns * 4 / 14.0;
  const double results = waves * tile.blocks * kSide * kSide * tile.columns * (1.0 / form.split + 1) / 16;
  return std::max(sums, weights) + exchange + results;
}

/// From [c, o, kh, kw] to [2, 2, o, kh/2, kw/2, c]. In the phase of a row (2i + phase) the tap t reads row i + t -
/// top, as the transposed convolution's tap padding + phase + 2 (top - t) does. Columns likewise.
Packing phases_of(const Problem& problem, const HopperForm& form) {
  const std::int64_t c = problem.weight[0], o = problem.weight[1], height = problem.weight[2],
                     width = problem.weight[3];
  const auto size = static_cast<std::int64_t>(size_of(problem.dtype));
  const std::int64_t taps = height * width / (kPhases * kPhases);
  const cuda::CopyRows rows =
      cuda::copy_rows(problem.dtype, {o, c}, {height * width, o * height * width}, {taps * c, 1});
  struct Place {
    std::int64_t from, to;  // in elements
  };
  std::vector<Place> places;
  for (int y = 0; y < kPhases; ++y)
    for (int x = 0; x < kPhases; ++x)
      for (int tap_y = 0; tap_y < form.taps_y; ++tap_y)
        for (int tap_x = 0; tap_x < form.taps_x; ++tap_x) {
          const std::int64_t from_y = form.taps_y - 1 + y + 2 * (form.top[y] - tap_y);
          const std::int64_t from_x = form.taps_x - 1 + x + 2 * (form.left[x] - tap_x);
          const std::int64_t tap = tap_y * form.taps_x + tap_x;
          places.push_back({from_y * width + from_x, ((y * kPhases + x) * o * taps + tap) * c});
        }
  return {.layout = "phases, channels last",
          .bytes = static_cast<std::size_t>(problem.weight.numel() * size),
          .pack = [=](void* stream, const void* weight, void* packed) {
            for (const Place& place : places)
              cuda::launch_copy(stream, rows, static_cast<const std::byte*>(weight) + place.from * size,
                                static_cast<std::byte*>(packed) + place.to * size);
          }};
}

/// Calls use(tile, form) for each that a problem can be run with.
template <class Use>
void for_each_tile(const Problem& problem, const Use& use) {
  const auto try_each = [&](int blocks, int columns) {
    for (const int taps : {1, 3})
      for (int split = 1; split <= kMostSplit; ++split) {
        const HopperTile tile{blocks, columns, split, taps};
        if (const std::optional<HopperForm> form = form_of(problem, tile)) use(tile, *form);
      }
  };
#define HR_TILE(blocks, columns) try_each(blocks, columns);
#include "kernels/conv/hopper_tiles.def"
#undef HR_TILE
}

struct Guess {
  HopperTile tile;
  HopperForm form;
  double clocks;
};
/// Guesses for all tiles, the best first, as if a multiprocessor had as many blocks as the kernel is compiled for:
/// without asking the device.
std::vector<Guess> guess_all(const Problem& problem) {
  std::vector<Guess> guesses;
  for_each_tile(problem, [&](const HopperTile& tile, const HopperForm& form) {
    const int blocks = kMultiprocessors * (tile.blocks == 1 ? 2 : 1);
    guesses.push_back({tile, form, guess_clocks(tile, form, blocks / tile.split)});
  });
  std::ranges::stable_sort(guesses, {}, &Guess::clocks);
  return guesses;
}

}  // namespace

std::string name_of(const HopperTile& tile) {
  return fmt::format("{}{} pixels x {} channels, {} at once, split {}", kHopperAlgorithm, tile.blocks * kSide * kSide,
                     tile.columns, tile.taps == 1 ? "a tap" : fmt::format("{} taps", tile.taps), tile.split);
}

Support why_not_hopper(const Problem& problem, const Target& target) {
  if (target.compute_capability != 90) return Rejection{"is for GPUs of compute capability 9.0"};
  if (problem.dtype != DType::kBF16 && problem.dtype != DType::kF16) return Rejection{"takes bf16 or f16"};
  if (problem.layout != Layout::kChannelsLast) return Rejection{"takes channels-last images"};
  if (problem.how.groups != 1) return Rejection{"takes no groups"};
  if (problem.is_transposed && (!is_doubling(problem) || problem.shortcut > 0))
    return Rejection{"takes transposed ones that double an image"};
  if (problem.x[1] % 8 != 0 || problem.y[1] % 8 != 0 || problem.shortcut % 8 != 0)
    return Rejection{"takes channels in packs of 8"};
  if (std::ranges::max(problem.how.stride) > 8) return Rejection{"takes strides up to 8"};
  if (std::ranges::max({problem.x.numel(), problem.y.numel(), shortcut_shape(problem).numel()}) > INT32_MAX)
    return Rejection{"takes images of up to 2^31 elements"};
  return std::nullopt;
}

std::vector<HopperTile> hopper_tiles(const Problem& problem) {
  std::vector<HopperTile> tiles;
  for_each_tile(problem, [&](const HopperTile& tile, const HopperForm& /*form*/) { tiles.push_back(tile); });
  return tiles;
}

Algorithm make_hopper_algorithm(const Problem& problem, const HopperTile& tile) {
  const std::optional<HopperForm> form = form_of(problem, tile);
  HR_CHECK(form.has_value());
  const std::int64_t c = problem.x[1], h = problem.x[2], w = problem.x[3];
  const std::int64_t taps = std::int64_t{form->taps_y} * form->taps_x;
  const std::int64_t rows = std::int64_t{form->outputs} * form->phases * form->phases;
  const cuda::BoxedTensor x{.dtype = problem.dtype,
                            .rank = 4,
                            .extents = {c, w, h, problem.x[0]},
                            .strides = {1, c, w * c, h * w * c},
                            .box = {kDepth, form->pitch, form->rows, 1 << form->log_blocks_b},
                            .steps = {1, form->step_x, form->step_y, 1}};
  const cuda::BoxedTensor weight{.dtype = problem.dtype,
                                 .rank = 3,
                                 .extents = {c, taps, rows},
                                 .strides = {1, c, taps * c},
                                 .box = {kDepth, 1, tile.columns}};
  const std::int64_t d = problem.shortcut, height = problem.y[2], width = problem.y[3];
  const cuda::BoxedTensor shortcut{
      .dtype = problem.dtype,
      .rank = 4,
      .extents = {d, width, height, problem.y[0]},
      .strides = {1, d, width * d, height * width * d},
      .box = {kDepth, kSide << form->log_blocks_x, kSide << form->log_blocks_y, 1 << form->log_blocks_b}};
  const cuda::BoxedTensor shortcut_weight{.dtype = problem.dtype,
                                          .rank = 3,
                                          .extents = {d, 1, form->outputs},
                                          .strides = {1, d, d},
                                          .box = {kDepth, 1, tile.columns}};
  Algorithm algorithm{.name = name_of(tile),
                      .run = [=, form = *form](void* stream, const Operands& operands, void* /*workspace*/) {
                        HopperMaps maps{.x = cuda::make_tensor_map(x, operands.x),
                                        .weight = cuda::make_tensor_map(weight, operands.weight),
                                        .shortcut = {},
                                        .shortcut_weight = {}};
                        if (form.shortcut_units > 0) {
                          maps.shortcut = cuda::make_tensor_map(shortcut, operands.shortcut);
                          maps.shortcut_weight = cuda::make_tensor_map(shortcut_weight, operands.shortcut_weight);
                        }
                        launch_hopper(stream, x.dtype, tile, form, maps, operands.bias, operands.residual, operands.y);
                      }};
  if (problem.is_transposed) algorithm.packing = phases_of(problem, *form);
  return algorithm;
}

std::vector<Algorithm> make_hopper_algorithms(const Problem& problem) {
  std::vector<Guess> guesses = guess_all(problem);
  guesses.resize(std::min(guesses.size(), kMostAsked));
  std::erase_if(guesses, [](Guess& guess) {
    const int clusters = hopper_clusters_at_once(guess.tile, guess.form);
    if (clusters > 0) guess.clocks = guess_clocks(guess.tile, guess.form, clusters);
    return clusters == 0;
  });
  std::ranges::stable_sort(guesses, {}, &Guess::clocks);
  guesses.resize(std::min(guesses.size(), kMostMeasured));
  std::vector<Algorithm> algorithms;
  for (const Guess& guess : guesses) algorithms.push_back(make_hopper_algorithm(problem, guess.tile));
  return algorithms;
}

std::optional<Algorithm> find_good_hopper_algorithm(const Problem& problem, const std::string& name) {
  const std::vector<Guess> guesses = guess_all(problem);
  const auto found = std::ranges::find_if(guesses, [&](const Guess& guess) { return name_of(guess.tile) == name; });
  if (found == guesses.end() || found->clocks > kMostSlower * guesses.front().clocks) return std::nullopt;
  return make_hopper_algorithm(problem, found->tile);
}

std::optional<Algorithm> find_hopper_algorithm(const Problem& problem, const std::string& name) {
  for (const HopperTile& tile : hopper_tiles(problem))
    if (name_of(tile) == name) return make_hopper_algorithm(problem, tile);
  return std::nullopt;
}

}  // namespace headroom::convolutions
