#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/tensors/divide_up.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "measure/probes/floor.hpp"
#include "measure/suites/kernel_suite.hpp"

namespace headroom {
namespace {

// Shapes. Tokens of a small model: 16 of text and 256 of an image, 20 samples in a batch, 3 heads of 64.
constexpr std::int64_t kRows = 20 * 272;
constexpr std::int64_t kBigBytes = MachineRates::kLargestCopy;
constexpr std::int64_t kBigDim = 3072;  // of a 12 B model: 24 heads of 128
constexpr std::int64_t kBigHeads = 24;

/// "none" or the name of an activation.
Epilogue epilogue_of(const std::string& activation) {
  return Epilogue::parse(activation == "none" ? "sum" : activation + "(sum)");
}

class Suite {
 public:
  std::vector<KernelCase> list() {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      matmuls(dtype);
      scaled_matmuls(dtype);
      memory_bound(dtype);
      convolutions(dtype);
    }
    in_fp8();
    attention_of_tokens();
    const std::size_t before = cases_.size();
    attention_in_8_bits();
    attention_over_lengths();
    for (std::size_t i = before; i < cases_.size(); ++i) cases_[i].is_for_gpus = true;
    attention_of_unets();
    const std::int64_t rows = big_rows(DType::kF32);
    add("cast f32 to bf16", Op::kCast, {{DType::kF32, {rows, kBigDim}}}, {{attr::kDType, DType::kBF16}});
    return std::move(cases_);
  }

 private:
  static std::int64_t big_rows(DType dtype) { return kBigBytes / kBigDim / static_cast<std::int64_t>(size_of(dtype)); }

  void add(std::string name, Op op, std::vector<TensorType> inputs, const NamedAttributes& attributes = {},
           std::vector<bool> is_weight = {}) {
    cases_.push_back({std::move(name), infer_spec({.op = op,
                                                   .attributes = Attributes(op, attributes),
                                                   .inputs = std::move(inputs),
                                                   .outputs = {},
                                                   .is_weight = std::move(is_weight)})});
  }
  /// Adds the last case again, as the plain ops that the fused op replaces.
  void add_apart(std::string_view how) {
    const KernelCase& whole = cases_.back();
    cases_.push_back({fmt::format("{}, {}", whole.name, how), whole.spec, OpForm::kApart});
  }

  void linear(DType dtype, std::int64_t rows, std::int64_t k, std::int64_t n, const std::string& activation = "none") {
    const std::string suffix = activation == "none" ? "" : " " + activation;
    add(fmt::format("linear {} {}x{}x{}{}", dtype, rows, k, n, suffix), Op::kLinear,
        {{dtype, {rows, k}}, {dtype, {n, k}}, {dtype, {n}}}, {{attr::kEpilogue, epilogue_of(activation)}},
        {false, true, true});
  }

  void attention(DType dtype, std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_dim) {
    const TensorType operand{dtype, {batch, heads, tokens, head_dim}};
    add(fmt::format("attention {} of {}x{} heads, {} tokens of {}", dtype, batch, heads, tokens, head_dim),
        Op::kAttention, {operand, operand, operand}, {{attr::kScale, 1 / std::sqrt(static_cast<double>(head_dim))}});
    add_apart("standard");
  }

  void matmuls(DType dtype) {
    linear(dtype, kRows, 192, 192);
    linear(dtype, kRows, 192, 576);
    linear(dtype, kRows, 192, 768);
    linear(dtype, kRows, 192, 768, "gelu_tanh");
    add_apart("unfused");
    linear(dtype, kRows, 768, 192);
    linear(dtype, kRows, 960, 192);
    linear(dtype, 1024, 3072, 3072);
    add(fmt::format("matmul {} scores of 20x3 heads, 272 tokens of 64", dtype), Op::kMatmul,
        {{dtype, {20, 3, 272, 64}}, {dtype, {20, 3, 272, 64}}}, {{attr::kTransposeB, true}});
    add(fmt::format("matmul {} context of 20x3 heads, 272 tokens of 64", dtype), Op::kMatmul,
        {{dtype, {20, 3, 272, 272}}, {dtype, {20, 3, 272, 64}}});
    attention(dtype, 20, 3, 272, 64);
    attention(dtype, 1, 2, 1024, 64);
    attention(dtype, 1, 2, 4096, 64);
    attention(dtype, 1, 2, 4096, 128);
  }

  /// Attention of the large model at 4608 tokens, and its merging.
  void attention_of_tokens() {
    const TensorType operand{DType::kBF16, {1, kBigHeads, 4608, 128}};
    add("attention bf16 of 1x24 heads, 4608 tokens of 128", Op::kAttention, {operand, operand, operand},
        {{attr::kScale, 1 / std::sqrt(128.0)}});
    for (const std::int64_t parts : {2, 8})
      add(fmt::format("merge_attention bf16 of {} parts of 24 heads, 4608 tokens of 128", parts), Op::kMergeAttention,
          {{DType::kBF16, {parts, kBigHeads, 4608, 128}}, {DType::kF32, {parts, kBigHeads, 4608}}});
  }

  /// Attention over sequences of many lengths, dense and causal, and T5-XXL's with its bias for each head.
  void attention_over_lengths() {
    struct Length {
      std::int64_t heads, tokens, dim = 128;
      bool causal = false;
    };
    for (const Length& length : {Length{24, 1536},
                                 {24, 4112},
                                 {16, 2048},
                                 {16, 8192},
                                 {16, 32768},
                                 {16, 131072},
                                 {16, 2048, 128, true},
                                 {16, 8192, 128, true},
                                 {16, 32768, 128, true},
                                 {32, 4096, 64},
                                 {16, 16384, 64},
                                 {32, 4096, 64, true},
                                 {16, 16384, 64, true}}) {
      const TensorType operand{DType::kBF16, {1, length.heads, length.tokens, length.dim}};
      add(fmt::format("attention bf16 of 1x{} heads, {} tokens of {}{}", length.heads, length.tokens, length.dim,
                      length.causal ? ", causal" : ""),
          Op::kAttention, {operand, operand, operand},
          {{attr::kScale, 1 / std::sqrt(static_cast<double>(length.dim))}, {attr::kCausal, length.causal}});
    }
    const TensorType t5{DType::kBF16, {1, 64, 512, 64}};
    add("attention bf16 of 1x64 heads, 512 tokens of 64, with a bias", Op::kAttention,
        {t5, t5, t5, {DType::kBF16, {1, 64, 512, 512}}}, {{attr::kScale, 1.0}});
  }

  /// Attention in 8 bits and in bf16, and the kernels that quantize its operands.
  void attention_in_8_bits() {
    struct Size {
      std::int64_t heads, tokens, dim;
    };
    for (const Size& size :
         {Size{kBigHeads, 4608, 128}, {kBigHeads, 1536, 128}, {16, 16384, 128}, {24, 4608, 64}, {16, 16384, 64}}) {
      const auto& [heads, tokens, dim] = size;
      const std::string of = fmt::format("{} heads, {} tokens of {}", heads, tokens, dim);
      const double scale = 1 / std::sqrt(static_cast<double>(dim));
      const TensorType operand{DType::kBF16, {1, heads, tokens, dim}}, scales{DType::kF32, {1, heads, tokens}};
      add("8-bit attention, before: bf16 of " + of, Op::kAttention, {operand, operand, operand},
          {{attr::kScale, scale}});
      for (const DType dtype : {DType::kI8, DType::kF8E4M3}) {
        const TensorType scores{dtype, operand.shape};
        add(fmt::format("8-bit attention, {} of {}", dtype, of), Op::kScaledAttention,
            {scores,
             scales,
             scores,
             scales,
             {DType::kF8E4M3, {1, heads, dim, round_up(tokens, 128)}},
             {DType::kF32, {1, heads, dim}}},
            {{attr::kScale, scale}, {attr::kDType, DType::kBF16}});
      }
      add("8-bit attention, quantize_values of " + of, Op::kQuantizeValues, {operand});
      norm_and_rotation("8-bit attention, before: norm and rotation of q and k of " + of, heads, tokens, dim, false);
      norm_and_rotation("8-bit attention, norm, rotation and quantizer of q and k of " + of, heads, tokens, dim, true);
    }
  }

  /// Queries and keys of a merged linear, as fuse-rows makes one body of them.
  void norm_and_rotation(std::string name, std::int64_t heads, std::int64_t tokens, std::int64_t dim, bool quantizes) {
    Graph body("norm_rope");
    Builder b(body);
    const ValueId cos = body.add_input("cos", {DType::kF32, {tokens, dim / 2}});
    const ValueId sin = body.add_input("sin", {DType::kF32, {tokens, dim / 2}});
    std::vector<TensorType> inputs = {body.type(cos), body.type(sin)};
    for (const std::string_view which : {"q", "k"}) {
      const ValueId x = body.add_input(fmt::format("{}", which), {DType::kBF16, {1, heads, tokens, dim}});
      const ValueId weight = body.add_input(fmt::format("{}_weight", which), {DType::kBF16, {dim}});
      inputs.insert(inputs.end(), {body.type(x), body.type(weight)});
      const ValueId normed = b.rms_norm(b.cast(x, DType::kF32), b.cast(weight, DType::kF32), 1e-6);
      const ValueId rotated = b.rope(normed, cos, sin);
      if (quantizes) {
        const std::vector<ValueId> made = b.emit(Op::kQuantize, {rotated}, {{attr::kDType, DType::kI8}});
        body.add_output(fmt::format("{}_elements", which), made[0]);
        body.add_output(fmt::format("{}_scale", which), made[1]);
      } else {
        body.add_output(fmt::format("{}_made", which), b.cast(rotated, DType::kBF16));
      }
    }
    add(std::move(name), Op::kFused, std::move(inputs), {{attr::kBody, canonical_text(body)}});
  }

  /// Attention layers of U-Nets, with heads of 64 except Stable Diffusion 1.5's: self-attention of pixels,
  /// cross-attention with 77 text tokens, and with the 32 rows of LiveStreamUNet's memory.
  void attention_of_unets() {
    struct Layer {
      std::string_view network;
      std::int64_t batch, heads, queries, keys, dim = 64;
    };
    constexpr std::int64_t kText = 77, kMemory = 32;
    for (const Layer& layer : {Layer{"SD-Turbo", 1, 5, 4096, 4096},
                               {"SD-Turbo", 1, 10, 1024, 1024},
                               {"SD-Turbo", 1, 20, 256, 256},
                               {"SD-Turbo", 1, 20, 64, 64},
                               {"SD-Turbo", 1, 5, 4096, kText},
                               {"SD-Turbo", 1, 10, 1024, kText},
                               {"SD-Turbo", 1, 20, 256, kText},
                               {"SD 1.5", 2, 8, 4096, 4096, 40},
                               {"SDXL", 2, 10, 4096, 4096},
                               {"SDXL", 2, 20, 1024, 1024},
                               {"SDXL", 2, 10, 4096, kText},
                               {"SDXL", 2, 20, 1024, kText},
                               {"LiveStreamUNet", 1, 12, 256, 256 + kMemory},
                               {"LiveStreamUNet", 1, 40, 64, 64 + kMemory},
                               {"pixel U-Net", 1, 6, 1024, 1024},
                               {"pixel U-Net", 1, 18, 256, 256},
                               {"pixel U-Net", 1, 24, 64, 64}}) {
      const TensorType keys{DType::kF16, {layer.batch, layer.heads, layer.keys, layer.dim}};
      add(fmt::format("attention f16 of {}x{} heads, {} and {} tokens of {}, {}", layer.batch, layer.heads,
                      layer.queries, layer.keys, layer.dim, layer.network),
          Op::kAttention, {{DType::kF16, {layer.batch, layer.heads, layer.queries, layer.dim}}, keys, keys},
          {{attr::kScale, 1 / std::sqrt(static_cast<double>(layer.dim))}});
    }
  }

  /// Convolutions of an autoencoder's decoder at a quarter of its area, and of the tiny autoencoder at 512x512, in
  /// the form that `channels-last` and `fuse` give them.
  void convolutions(DType dtype) {
    const auto image = [&](std::int64_t channels, std::int64_t side) {
      return TensorType{dtype, {1, channels, side, side}, Layout::kChannelsLast};
    };
    const std::vector<std::int64_t> all_around{1, 1, 1, 1}, twice{2, 2};
    for (const auto& [from, to, side] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{512, 512, 64},
                                         {256, 256, 256},
                                         {256, 128, 512},
                                         {128, 128, 512},
                                         {128, 3, 512},
                                         {64, 64, 64},
                                         {64, 64, 128},
                                         {64, 64, 256},
                                         {64, 64, 512},
                                         {3, 64, 512},
                                         {64, 3, 512}})
      add(fmt::format("conv2d {} 3x3 {} to {} channels, {}x{}", dtype, from, to, side, side), Op::kConv2d,
          {image(from, side), {dtype, {to, from, 3, 3}}, {dtype, {to}}}, {{attr::kPadding, all_around}},
          {false, true, true});
    add(fmt::format("conv2d {} 1x1 256 to 128 channels, 512x512", dtype), Op::kConv2d,
        {image(256, 512), {dtype, {128, 256, 1, 1}}, {dtype, {128}}}, {}, {false, true, true});
    for (const std::int64_t channels : {256, 64})
      add(fmt::format("conv_transpose2d {} 4x4 {} to {} channels, 256x256", dtype, channels, channels),
          Op::kConvTranspose2d, {image(channels, 256), {dtype, {channels, channels, 4, 4}}, {dtype, {channels}}},
          {{attr::kStride, twice}, {attr::kPadding, all_around}}, {false, true, true});
    add(fmt::format("group_norm {} with silu, 128 channels, 512x512", dtype), Op::kGroupNorm,
        {image(128, 512), {dtype, {128}}, {dtype, {128}}},
        {{attr::kGroups, 32}, {attr::kEps, 1e-6}, {attr::kEpilogue, Epilogue(Activation::kSilu)}}, {false, true, true});
  }

  /// int8 GEMMs with results in `dtype`.
  void scaled_matmuls(DType dtype) {
    for (const auto& [k, n, activation] : {std::tuple<std::int64_t, std::int64_t, std::string>{192, 192, "none"},
                                           {192, 576, "none"},
                                           {192, 768, "none"},
                                           {192, 768, "gelu_tanh"},
                                           {768, 192, "none"},
                                           {960, 192, "none"}})
      add(fmt::format("scaled_linear i8 to {} {}x{}x{}{}", dtype, kRows, k, n,
                      activation == "none" ? "" : " gelu_tanh"),
          Op::kScaledLinear,
          {{DType::kI8, {kRows, k}},
           {DType::kF32, {kRows}},
           {DType::kI8, {n, k}},
           {DType::kF32, {n}},
           {DType::kF32, {n}}},
          {{attr::kEpilogue, epilogue_of(activation)}, {attr::kDType, dtype}}, {false, false, true, true, true});
  }

  /// GEMMs of the large model at 4608 tokens, and the ops that produce their operands.
  void in_fp8() {
    const NamedAttribute dtype{attr::kDType, DType::kF8E4M3};
    for (const auto& [k, n, activation] : {std::tuple<std::int64_t, std::int64_t, std::string>{3072, 3072, "none"},
                                           {3072, 9216, "none"},
                                           {3072, 12288, "gelu_tanh"},
                                           {12288, 3072, "none"},
                                           {15360, 3072, "none"}}) {
      constexpr std::int64_t kTokens = 4608;
      add(fmt::format("scaled_linear f8e4m3 to bf16 {}x{}x{}{}", kTokens, k, n,
                      activation == "none" ? "" : " gelu_tanh"),
          Op::kScaledLinear,
          {{DType::kF8E4M3, {kTokens, k}},
           {DType::kF32, {kTokens}},
           {DType::kF8E4M3, {n, k}},
           {DType::kF32, {n}},
           {DType::kBF16, {n}}},
          {{attr::kEpilogue, epilogue_of(activation)}, {attr::kDType, DType::kBF16}}, {false, false, true, true, true});
    }
    const std::int64_t elements = big_rows(DType::kBF16) * kBigDim;
    for (const std::int64_t width : {kBigDim, 4 * kBigDim, 5 * kBigDim})
      add(fmt::format("quantize bf16 to f8e4m3, rows of {}", width), Op::kQuantize,
          {{DType::kBF16, {1, elements / width, width}}}, {dtype});
  }

  /// Memory-bound ops; inputs and outputs of each together are at least two big tensors.
  void memory_bound(DType dtype) {
    const std::int64_t rows = big_rows(dtype);
    const std::int64_t head_dim = kBigDim / kBigHeads;
    const TensorType tokens{dtype, {1, rows, kBigDim}};
    const TensorType vector{dtype, {1, 1, kBigDim}};
    const TensorType table{DType::kF32, {rows, head_dim / 2}};
    const auto name = [&](std::string_view what) { return fmt::format("{} {}", what, dtype); };
    add(name("add"), Op::kAdd, {tokens, tokens});
    add(name("gelu"), Op::kGeluTanh, {tokens});
    add(name("silu"), Op::kSilu, {tokens});
    add(name("quantize"), Op::kQuantize, {tokens});
    add(name("softmax"), Op::kSoftmax, {tokens});
    add(name("layer_norm"), Op::kLayerNorm, {tokens}, {{attr::kEps, 1e-6}});
    add(name("rms_norm"), Op::kRmsNorm, {tokens, {dtype, {kBigDim}}}, {{attr::kEps, 1e-6}}, {false, true});
    add(name("norm_modulate"), Op::kNormModulate, {tokens, vector, vector}, {{attr::kEps, 1e-6}});
    add_apart("unfused");
    add(name("gate_residual"), Op::kGateResidual, {tokens, vector, tokens});
    add_apart("unfused");
    add(name("qk_norm_rope"), Op::kQkNormRope, {tokens, {dtype, {head_dim}}, table, table},
        {{attr::kHeads, kBigHeads}, {attr::kEps, 1e-6}}, {false, true});
    add_apart("unfused");
    add(name("rope"), Op::kRope, {{dtype, {1, kBigHeads, rows, head_dim}}, table, table});
    add(name("transpose heads"), Op::kTranspose, {{dtype, {1, rows, kBigHeads, head_dim}}},
        {{attr::kPerm, std::vector<std::int64_t>{0, 2, 1, 3}}});
    add(name("concat"), Op::kConcat, {tokens, {dtype, {1, rows / 4, kBigDim}}}, {{attr::kAxis, 1}});
  }

  std::vector<KernelCase> cases_;
};

}  // namespace

std::vector<KernelCase> list_kernel_cases() { return Suite().list(); }

}  // namespace headroom
