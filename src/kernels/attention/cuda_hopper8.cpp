// scaled_attention on Hopper: cuda.scaled_attention, in the fastest variant of hopper8.cu, as measured.

#include <fmt/format.h>

#include <numbers>

#include "backends/backend.hpp"
#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "kernels/attention/hopper.hpp"
#include "kernels/attention/hopper8.hpp"
#include "kernels/core/cuda/or_cannot_prepare.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/core/library_kernel.hpp"
#include "tune/fastest_algorithm.hpp"

namespace headroom::attentions {
namespace {

constexpr int kMostWholeTiles = 16;  // of a block, so that a name says a bounded number of things

struct CompiledFor8 {
  int warpgroups, stages, dim;
};
constexpr CompiledFor8 kCompiledFor8[] = {
#define HR_TILE(warpgroups, stages, dim) {warpgroups, stages, dim},
#include "kernels/attention/hopper8_tiles.def"
#undef HR_TILE
};

int to_int(std::int64_t value) { return static_cast<int>(value); }

/// Addresses of the operands and the result.
struct Places8 {
  const void *q, *k, *v;
  const float *q_scales, *k_scales, *v_scales;
  void* out;
};

HopperForm form_of(const ScaledAttentionProblem& problem, const Hopper8Tile& tile) {
  HopperForm form;
  form.heads = to_int(problem.heads), form.sharers = to_int(problem.sharers);
  form.queries = to_int(problem.queries), form.keys = to_int(problem.keys);
  form.dim = form.value_dim = to_int(problem.dim);
  form.diagonal = form.keys - 1;
  form.tiles_of_head = divide_up(form.queries, tile.queries());
  form.all_heads = to_int(problem.batch * problem.heads);
  form.tiles = form.all_heads * form.tiles_of_head;
  form.whole = tile.whole, form.spread = tile.spread;
  form.split = tile.split, form.shares = tile.split > 1 ? 1 : 0;
  if (tile.spread > 0) {
    const int units = (form.tiles - tile.whole * tile.spread) * divide_up(form.keys, kKeysOf8);
    form.units_of_block = units / tile.spread, form.more_units = units % tile.spread;
  }
  form.scale = static_cast<float>(problem.scale * std::numbers::log2e);
  form.out_batch = problem.out.batch, form.out_head = problem.out.head, form.out_token = problem.out.token;
  int stages = 0;
  for (const CompiledFor8& compiled : kCompiledFor8)
    if (compiled.warpgroups == tile.warpgroups && compiled.dim == form.dim) stages = compiled.stages;
  HR_CHECK_LT(0, stages);
  form.shared_bytes = tile.queries() * kRowBytes * (1 + pieces_of(form.dim)) + stages * stage_bytes_of_8(form.dim);
  return form;
}

/// A variant bound to a problem.
struct Algorithm8 {
  std::string name;
  std::size_t workspace_bytes = 0;
  std::function<void(void* stream, const Places8& places, void* workspace)> run;
};

Algorithm8 make_algorithm(const ScaledAttentionProblem& problem, const Hopper8Tile& tile) {
  const HopperForm form = form_of(problem, tile);
  const std::int64_t heads = problem.heads, groups = heads / problem.sharers, batch = problem.batch;
  const cuda::BoxedTensor q =
      boxed(problem.scores, problem.dim, problem.queries, heads, batch, problem.q, tile.queries());
  const cuda::BoxedTensor k = boxed(problem.scores, problem.dim, problem.keys, groups, batch, problem.k, kKeysOf8);
  const cuda::BoxedTensor v =
      boxed(DType::kF8E4M3, round_up(problem.keys, kKeysOf8), problem.dim, groups, batch, problem.v, form.dim);
  const cuda::BoxedTensor out =
      boxed(problem.dtype, problem.dim, problem.queries, heads, batch, problem.out, kGroupRows);
  // Sums of two parts for each block, and a count for each tile that is spread.
  const std::size_t bytes_of_parts = static_cast<std::size_t>(tile.spread) * 2 *
                                     static_cast<std::size_t>(tile.queries() * sums_pitch(form.dim, kPartBytes8)) *
                                     kPartBytes8;
  return {.name = name_of(tile),
          .workspace_bytes = bytes_of_parts + static_cast<std::size_t>(tile.spread) * sizeof(int),
          .run = [=](void* stream, const Places8& places, void* workspace) {
            const HopperMaps maps{.q = cuda::make_tensor_map(q, places.q),
                                  .k = cuda::make_tensor_map(k, places.k),
                                  .v = cuda::make_tensor_map(v, places.v),
                                  .out = cuda::make_tensor_map(out, places.out),
                                  .bias = {}};
            launch_hopper8(stream, problem.scores, problem.dtype, tile, form, maps,
                           {.out = places.out,
                            .parts = workspace,
                            .given = reinterpret_cast<int*>(static_cast<std::byte*>(workspace) + bytes_of_parts)},
                           {.q = places.q_scales,
                            .k = places.k_scales,
                            .v = places.v_scales,
                            .q_batch = problem.q_scales.batch,
                            .q_head = problem.q_scales.head,
                            .k_batch = problem.k_scales.batch,
                            .k_head = problem.k_scales.head,
                            .v_batch = problem.v_scales.batch,
                            .v_head = problem.v_scales.head});
          }};
}

KernelPlan bind(Algorithm8 algorithm) {
  KernelPlan made{
      .launch = {}, .scratch_bytes = algorithm.workspace_bytes, .implementation = std::move(algorithm.name)};
  made.launch = [run = std::move(algorithm.run)](const LaunchArguments& arguments) {
    run(arguments.stream.native_handle(),
        {.q = arguments.input(0),
         .k = arguments.input(2),
         .v = arguments.input(4),
         .q_scales = arguments.input<float>(1),
         .k_scales = arguments.input<float>(3),
         .v_scales = arguments.input<float>(5),
         .out = arguments.output(0)},
        arguments.scratch_memory());
  };
  return made;
}

std::string versions_of_8() { return fmt::format("8-bit attention {}", kHopper8Revision); }

tune::Work work_of(const ScaledAttentionProblem& problem) {
  const std::int64_t groups = problem.heads / problem.sharers;
  const auto bytes_of = [&](const AttentionProblem::Strides& strides, std::int64_t heads, std::int64_t rows,
                            std::int64_t inner, std::size_t size) {
    const std::int64_t last =
        (problem.batch - 1) * strides.batch + (heads - 1) * strides.head + (rows - 1) * strides.token + inner;
    return static_cast<std::size_t>(last) * size;
  };
  const auto text = [](const AttentionProblem::Strides& strides) {
    return fmt::format("{}/{}/{}", strides.batch, strides.head, strides.token);
  };
  const std::string family = fmt::format("scaled_attention {} to {} {}/{} heads of {}", problem.scores, problem.dtype,
                                         problem.heads, groups, problem.dim);
  const std::int64_t padded = round_up(problem.keys, kKeysOf8);
  return {
      .text =
          fmt::format("{}, batch {}, {} queries, {} keys, strides {} {} {} {}", family, problem.batch, problem.queries,
                      problem.keys, text(problem.q), text(problem.k), text(problem.v), text(problem.out)),
      .operands = {{.dtype = problem.scores,
                    .bytes = bytes_of(problem.q, problem.heads, problem.queries, problem.dim, 1)},
                   {.dtype = DType::kF32, .bytes = bytes_of(problem.q_scales, problem.heads, 1, problem.queries, 4)},
                   {.dtype = problem.scores, .bytes = bytes_of(problem.k, groups, problem.keys, problem.dim, 1)},
                   {.dtype = DType::kF32, .bytes = bytes_of(problem.k_scales, groups, 1, problem.keys, 4)},
                   {.dtype = DType::kF8E4M3, .bytes = bytes_of(problem.v, groups, problem.dim, padded, 1)},
                   {.dtype = DType::kF32, .bytes = bytes_of(problem.v_scales, groups, 1, problem.dim, 4)},
                   {.dtype = problem.dtype,
                    .bytes = bytes_of(problem.out, problem.heads, problem.queries, problem.dim, 2),
                    .is_result = true}},
      .size_key = {.family = family, .size = {problem.batch, problem.queries, problem.keys}}};
}

Algorithm8 find_algorithm(const ScaledAttentionProblem& problem, const DeviceTarget& target) {
  constexpr double kLeastPairs = 1e5;  // of queries and keys, for work that is timed
  const auto list = [&] {
    std::vector<Algorithm8> algorithms;
    for (const Hopper8Tile& tile : hopper8_tiles(problem)) algorithms.push_back(make_algorithm(problem, tile));
    return algorithms;
  };
  const auto find = [&](const std::string& name) -> std::optional<Algorithm8> {
    for (const Hopper8Tile& tile : hopper8_tiles(problem))
      if (name_of(tile) == name) return make_algorithm(problem, tile);
    return std::nullopt;
  };
  const auto run = [](const Algorithm8& algorithm, void* stream, std::span<void* const> operands, void* workspace) {
    algorithm.run(stream,
                  {.q = operands[0],
                   .k = operands[2],
                   .v = operands[4],
                   .q_scales = static_cast<const float*>(operands[1]),
                   .k_scales = static_cast<const float*>(operands[3]),
                   .v_scales = static_cast<const float*>(operands[5]),
                   .out = operands[6]},
                  workspace);
  };
  const bool is_timed =
      static_cast<double>(problem.batch * problem.heads * problem.queries) * static_cast<double>(problem.keys) >=
      kLeastPairs;
  return tune::fastest_algorithm<Algorithm8>(*target.backend->context<cuda::TunerOf<versions_of_8>>(), work_of(problem),
                                             is_timed, target.new_work, {.list = list, .find = find, .run = run});
}

KernelPlan plan_fastest8(const KernelBinding& binding) {
  return cuda::or_cannot_prepare([&] {
    return bind(
        find_algorithm(scaled_attention_problem(binding.spec, binding.inputs, binding.outputs), binding.target));
  });
}

/// Integers have the rate of e4m3.
class ScaledAttentionKernel : public LibraryKernel {
 public:
  using LibraryKernel::LibraryKernel;
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kF8E4M3; }
};

}  // namespace

ScaledAttentionProblem scaled_attention_problem(const OpSpec& spec, std::span<const Operand> inputs,
                                                std::span<const Operand> outputs) {
  const auto at = [&](Role role) -> const Operand& { return inputs[position_of(Op::kScaledAttention, role)]; };
  const auto strides_of = [](const Operand& operand) {
    const Shape& strides = operand.strides;
    HR_CHECK(operand.type.shape[-1] == 1 || strides[-1] == 1);
    return AttentionProblem::Strides{strides[0], strides[1], strides[2]};
  };
  const Shape &q = at(Role::kQ).type.shape, &k = at(Role::kK).type.shape;
  return {.batch = q[0],
          .heads = q[1],
          .sharers = q[1] / k[1],
          .queries = q[2],
          .keys = k[2],
          .dim = q[3],
          .q = strides_of(at(Role::kQ)),
          .k = strides_of(at(Role::kK)),
          .v = strides_of(at(Role::kV)),
          .out = strides_of(outputs[0]),
          .q_scales = strides_of(at(Role::kQScale)),
          .k_scales = strides_of(at(Role::kKScale)),
          .v_scales = strides_of(at(Role::kVScale)),
          .scale = spec.attributes[attr::kScale],
          .scores = at(Role::kQ).type.dtype,
          .dtype = outputs[0].type.dtype};
}

std::string name_of(const Hopper8Tile& tile) {
  const std::string tiles = fmt::format("{} tile{} a block", tile.whole, tile.whole == 1 ? "" : "s");
  const std::string shared = fmt::format("1 shared by {}", tile.split);
  const std::string blocks = tile.spread > 0
                                 ? fmt::format("{} a block and the rest spread over {}", tile.whole, tile.spread)
                             : tile.split == 1 ? tiles
                             : tile.whole == 0 ? shared
                                               : tiles + " and " + shared;
  return fmt::format("hopper 8 bits, {} queries, {}", tile.queries(), blocks);
}

Support why_not_hopper8(const OpSpec& spec, const Target& target) {
  if (target.compute_capability != 90) return Rejection{"is for GPUs of compute capability 9.0"};
  const DType made = spec.outputs[0].dtype;
  if (made != DType::kBF16 && made != DType::kF16) return Rejection{fmt::format("makes bf16 or f16, not {}", made)};
  const std::int64_t dim = spec.input(Role::kQ).shape[3], value_dim = spec.input(Role::kV).shape[2];
  if ((dim != 64 && dim != 128) || value_dim != dim)
    return Rejection{fmt::format("takes heads of 64 or 128, not {} and {}", dim, value_dim)};
  if (!(spec.attributes[attr::kScale] > 0)) return Rejection{"takes scales above 0"};
  for (const TensorType& input : spec.inputs) {
    if (input.shape.numel() == 0) return Rejection{"an operand has no elements"};
    if (input.shape.numel() > INT32_MAX) return Rejection{"takes operands of up to 2^31 elements"};
  }
  if (spec.outputs[0].shape.numel() == 0) return Rejection{"the result has no elements"};
  return std::nullopt;
}

std::vector<Hopper8Tile> hopper8_tiles(const ScaledAttentionProblem& problem) {
  std::vector<Hopper8Tile> tiles;
  for (const CompiledFor8& compiled : kCompiledFor8) {
    if (compiled.dim != problem.dim) continue;
    Hopper8Tile tile{.warpgroups = compiled.warpgroups};
    if (problem.queries <= tile.queries() - kGroupRows && compiled.warpgroups > 2) continue;
    const std::int64_t all = problem.batch * problem.heads * divide_up<std::int64_t>(problem.queries, tile.queries());
    const std::int64_t units = divide_up<std::int64_t>(problem.keys, kKeysOf8);
    const std::int64_t whole = all / kMultiprocessors, rest = all % kMultiprocessors;
    if (rest > 0 && rest * units >= kMultiprocessors && whole <= kMostWholeTiles) {
      Hopper8Tile spread = tile;
      spread.whole = to_int(whole), spread.spread = kMultiprocessors;
      tiles.push_back(spread);
    }
    constexpr int kSplit = 2, kPairs = kMultiprocessors / kSplit;
    const std::int64_t of_pair = divide_up<std::int64_t>(all, kPairs);  // tiles, an odd number where one is shared
    if (of_pair % kSplit == 1 && units >= kSplit && of_pair / kSplit <= kMostWholeTiles) {
      Hopper8Tile shared = tile;
      shared.whole = to_int(of_pair / kSplit), shared.split = kSplit;
      tiles.push_back(shared);
    }
    tile.whole = to_int(divide_up<std::int64_t>(all, kMultiprocessors));
    tiles.push_back(tile);
    if (tile.whole > 1) {
      tile.whole = 1;
      tiles.push_back(tile);
    }
  }
  return tiles;
}

KernelPlan plan_hopper8(const ScaledAttentionProblem& problem, const Hopper8Tile& tile) {
  return bind(make_algorithm(problem, tile));
}

}  // namespace headroom::attentions

namespace headroom {

const Kernel& cuda_scaled_attention() {
  static const attentions::ScaledAttentionKernel kernel({.name = "cuda.scaled_attention",
                                                         .op = Op::kScaledAttention,
                                                         .device = DeviceKind::kCuda,
                                                         .supports = attentions::why_not_hopper8,
                                                         .strided = kAllStrided,
                                                         .plan = attentions::plan_fastest8});
  return kernel;
}

}  // namespace headroom
