#include <array>

#include "passes/pass.hpp"

namespace headroom {

// Each is defined in the file of its name, whose header says what it turns into what; bf16 and fp16 in
// half_precision.cpp, int8 and fp8 in quantize_products.cpp, fuse-quantized-patterns in fuse_patterns.cpp, fuse-conditioning
// in fuse_qkv.cpp.
PassOutcome inline_loops(Graph& graph, const Target& target);
PassOutcome fbcache(Graph& graph, std::string_view argument);
PassOutcome teacache(Graph& graph, std::string_view argument);
PassOutcome meancache(Graph& graph, std::string_view argument);
PassOutcome weights_first(Graph& graph, const Target& target);
PassOutcome dead_rows(Graph& graph, const Target& target);
PassOutcome flash_attention(Graph& graph, const Target& target);
PassOutcome fuse_upsample(Graph& graph, const Target& target);
PassOutcome fuse_activation(Graph& graph, const Target& target);
PassOutcome fuse_qkv(Graph& graph, const Target& target);
PassOutcome fuse_concats(Graph& graph, const Target& target);
PassOutcome fuse_patterns(Graph& graph, const Target& target);
PassOutcome fuse_quantized_patterns(Graph& graph, const Target& target);
PassOutcome fuse_qk_norm_rope(Graph& graph, const Target& target);
PassOutcome fuse_attention_scale(Graph& graph, const Target& target);
PassOutcome fuse_common_subexpressions(Graph& graph, const Target& target);
PassOutcome fuse_conditioning(Graph& graph, const Target& target);
PassOutcome hoist(Graph& graph, const Target& target);
PassOutcome fp16(Graph& graph, const Target& target);
PassOutcome bf16(Graph& graph, const Target& target);
PassOutcome tf32(Graph& graph, const Target& target);
PassOutcome int8(Graph& graph, const Target& target);
PassOutcome fp8(Graph& graph, std::string_view argument);
PassOutcome merge_rows(Graph& graph, const Target& target);
PassOutcome align(Graph& graph, const Target& target);
PassOutcome channels_last(Graph& graph, const Target& target);
PassOutcome simplify_casts(Graph& graph, const Target& target);
PassOutcome dead_code(Graph& graph, const Target& target);
PassOutcome fuse_residual(Graph& graph, const Target& target);
PassOutcome fuse_shortcut(Graph& graph, const Target& target);
PassOutcome fuse_group_norm(Graph& graph, const Target& target);
PassOutcome fuse_rows(Graph& graph, const Target& target);

namespace {

/// A pass that its switch's argument tells what to do.
constexpr Pass told(std::string_view name, PassOutcome (*rewrite)(Graph& graph, std::string_view argument)) {
  return {.name = name, .switch_name = name, .rewrite = nullptr, .rewrite_as = rewrite};
}

constexpr std::array kPipeline = {
    // Before the step caches, which have nothing to reuse in one step and say so, and before all that is kept from seeing two
    // nodes at once by a loop that stands between them.
    Pass{"inline-loops", "", inline_loops},

    // On the model as it is written: what they move into a branch is then rewritten like the rest.
    told("fbcache", fbcache),
    told("teacache", teacache),
    told("meancache", meancache),

    // Before the fusions, which join and scale weights wherever they are needed: a loop then never transforms one.
    Pass{"weights-first", "", weights_first},

    // Before everything that merges what some rows are needed of with what others are.
    Pass{"dead-rows", "", dead_rows},

    // Before the fusions, which need nothing of what it absorbs: the scale becomes an attribute, which costs no more
    // than fuse-attention-scale's detour through the norm's weight, and keeps the weight as it is. Before bf16, so that
    // scores and probabilities are never rounded on their way through memory.
    Pass{"flash-attention", "flash", flash_attention},

    // Before fuse-patterns, which gives a convolution a residual that a transposed one cannot have.
    Pass{"fuse-upsample", "fuse", fuse_upsample},
    // Before what takes in a product, with all that a pattern has put into it.
    Pass{"fuse-patterns", "fuse", fuse_patterns},
    // Before fuse-qkv, which leaves linears with an activation alone: an epilogue saves a pass over the whole result,
    // and merging such a product with its neighbours would put a slice between it and its activation.
    Pass{"fuse-activation", "fuse", fuse_activation},
    Pass{"fuse-qkv", "fuse", fuse_qkv},
    // After that, which makes neighbours of keys and values.
    Pass{"fuse-concats", "fuse", fuse_concats},
    Pass{"fuse-qk-norm-rope", "fuse", fuse_qk_norm_rope},
    // After fuse-qk-norm-rope, whose result it scales through the norm's weight.
    Pass{"fuse-attention-scale", "fuse", fuse_attention_scale},
    // After the other fusions: they ask that what they absorb is used once, which sharing would spoil, and they leave
    // duplicates behind, such as one slice of the rope tables for every attention.
    Pass{"fuse-common-subexpressions", "fuse", fuse_common_subexpressions},
    // After that, which has one value where every block computes its own silu(temb).
    Pass{"fuse-conditioning", "fuse", fuse_conditioning},

    // After fusion, whose patterns it would take apart: the 1 + scale of a modulated norm depends on the step alone,
    // and the norm does not. Before precision, which then decides on what a step really computes, and whose casts and
    // scales need no rules for being lifted.
    Pass{"hoist", "hoist", hoist},

    // After fusion: a fused op keeps its intermediate values in fp32, so nothing inside it is rounded, and patterns
    // need not look through casts. What fp16 has converted is no longer f32, which is all that bf16 looks at.
    Pass{"fp16", "fp16", fp16, Capability::kFp16},
    Pass{"bf16", "bf16", bf16, Capability::kBf16},
    // After those, for the products that they left in f32.
    Pass{"tf32", "tf32", tf32, Capability::kTf32},

    // After bf16, which has then decided what every product reads and writes: int8 and fp8 quantize x as it is stored
    // and make results of the dtype that was chosen for them. Before, a cast would stand between each quantize and its
    // x. No target takes both.
    Pass{"int8", "int8", int8, Capability::kInt8Products},
    Pass{.name = "fp8", .switch_name = "fp8", .rewrite = nullptr, .needs = Capability::kFp8Products, .rewrite_as = fp8},

    // After fp8, whose products have scales that take in a gate.
    Pass{"fuse-quantized-patterns", "fuse", fuse_quantized_patterns},
    // Again, after what has put a gate into scales: they depend on the step alone, as the gate does.
    Pass{"hoist-scales", "hoist", hoist},

    // After precision, which says how many channels fill a vector.
    Pass{"align", "align", align},
    // After precision, whose casts of images it takes in, and after align, without which few channels are slower so.
    Pass{"channels-last", "channels-last", channels_last},

    // Behind those: precision passes put a cast wherever two dtypes meet, and every pass may leave nodes that nothing reads.
    // Casts before dead code, because they leave some too.
    Pass{"simplify-casts", "", simplify_casts},
    // After precision, which decides in which dtype each table is kept: rows of one dtype are joined. Only hoist leaves
    // any.
    Pass{"merge-rows", "", merge_rows},
    Pass{"dead-code", "", dead_code},
    // After precision, whose products in 8 bits have a residual of their own, and layout, which makes views of what it turns.
    Pass{"fuse-residual", "fuse", fuse_residual},
    // After fuse-patterns, which has the one convolution add the other, and after layout, which its kernel needs.
    Pass{"fuse-shortcut", "fuse", fuse_shortcut},
    // After layout, which it needs; before fuse-rows, which would take the sum for an op of its own.
    Pass{"fuse-group-norm", "fuse", fuse_group_norm},
    // After all others: precision has decided what is stored and layout how, no pass needs to look into a body, and what
    // nothing reads is gone.
    Pass{"fuse-rows", "fuse", fuse_rows},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

}  // namespace headroom
