#include <array>

#include "passes/pass.hpp"

namespace headroom {

// Each pass is defined in the file of its name, whose header describes the rewrite. Exceptions: bf16 and fp16 are in
// half_precision.cpp, int8 and fp8 in quantize_matmuls.cpp, attn8 in quantize_attention.cpp, fuse-conditioning in
// fuse_qkv.cpp, fuse-token-epilogue in fuse_epilogue.cpp.
PassOutcome write_out(Graph& graph, const Target& target);
PassOutcome inline_loops(Graph& graph, const Target& target);
PassOutcome fbcache(Graph& graph, const Target& target, std::string_view argument);
PassOutcome teacache(Graph& graph, const Target& target, std::string_view argument);
PassOutcome meancache(Graph& graph, const Target& target, std::string_view argument);
PassOutcome weights_first(Graph& graph, const Target& target);
PassOutcome dead_rows(Graph& graph, const Target& target);
PassOutcome flash_attention(Graph& graph, const Target& target);
PassOutcome context_parallel(Graph& graph, const Target& target, std::string_view argument);
PassOutcome fuse_upsample(Graph& graph, const Target& target);
PassOutcome fuse_qkv(Graph& graph, const Target& target);
PassOutcome fuse_concats(Graph& graph, const Target& target);
PassOutcome fuse_patterns(Graph& graph, const Target& target);
PassOutcome fuse_qk_norm_rope(Graph& graph, const Target& target);
PassOutcome fuse_attention_scale(Graph& graph, const Target& target);
PassOutcome fuse_common_subexpressions(Graph& graph, const Target& target);
PassOutcome fuse_conditioning(Graph& graph, const Target& target);
PassOutcome hoist(Graph& graph, const Target& target);
PassOutcome fp16(Graph& graph, const Target& target);
PassOutcome bf16(Graph& graph, const Target& target);
PassOutcome tf32(Graph& graph, const Target& target);
PassOutcome int8(Graph& graph, const Target& target);
PassOutcome fp8(Graph& graph, const Target& target, std::string_view argument);
PassOutcome attn8(Graph& graph, const Target& target, std::string_view argument);
PassOutcome merge_rows(Graph& graph, const Target& target);
PassOutcome align(Graph& graph, const Target& target);
PassOutcome channels_last(Graph& graph, const Target& target);
PassOutcome simplify_casts(Graph& graph, const Target& target);
PassOutcome dead_code(Graph& graph, const Target& target);
PassOutcome fuse_epilogue(Graph& graph, const Target& target);
PassOutcome fuse_token_epilogue(Graph& graph, const Target& target);
PassOutcome fuse_shortcut(Graph& graph, const Target& target);
PassOutcome fuse_group_norm(Graph& graph, const Target& target);
PassOutcome repeat_choices(Graph& graph, const Target& target);
PassOutcome fuse_rows(Graph& graph, const Target& target);
PassOutcome packed(Graph& graph, const Target& target);

namespace {

/// A pass that depends on its switch's argument.
constexpr Pass with_argument(std::string_view name,
                             PassOutcome (*rewrite)(Graph& graph, const Target& target, std::string_view argument)) {
  return {.name = name, .switch_name = name, .rewrite = nullptr, .rewrite_as = rewrite};
}

constexpr std::array kPipeline = {
    // Before all others, which then work on the plain ops.
    Pass{"write-out", "", write_out},

    // Before the step caches, which have nothing to reuse in one step and report that, and before all passes that
    // cannot match two nodes across the boundary of a loop.
    Pass{"inline-loops", "", inline_loops},

    // On the model as written: nodes that they move into a branch are then rewritten like the rest.
    with_argument("fbcache", fbcache),
    with_argument("teacache", teacache),
    with_argument("meancache", meancache),

    // Before the fusions, which join and scale weights at their place of use: a loop then never transforms one.
    Pass{"weights-first", "", weights_first},

    // Before the passes that merge values of which different rows are needed.
    Pass{"dead-rows", "", dead_rows},

    // Before the fusions, which do not need the ops that it absorbs. The scale becomes an attribute; this costs no
    // more than fuse-attention-scale's scaling of the norm's weight, and leaves the weight unchanged. Before bf16, so
    // that scores and probabilities are never rounded to be stored in memory.
    Pass{"flash-attention", "flash", flash_attention},

    // After dead-rows, which drops tokens that ranks need not share, and flash-attention, which it runs itself if that
    // is off. Before the fusions, because it knows plain ops.
    Pass{.name = "context-parallel",
         .switch_name = "cp",
         .rewrite = nullptr,
         .needs = Capability::kRanks,
         .rewrite_as = context_parallel},

    // Before fuse-epilogue, which gives a convolution a residual; a transposed convolution cannot have one.
    Pass{"fuse-upsample", "fuse", fuse_upsample},
    Pass{"fuse-patterns", "fuse", fuse_patterns},
    // After fuse-patterns, whose gates and shifts are sums too. Before fuse-qkv, which ignores linears with an
    // epilogue: an epilogue saves a pass over the whole result, and merging such a matmul with its neighbours would put
    // a slice between it and its activation.
    Pass{"fuse-epilogue", "fuse", fuse_epilogue},
    Pass{"fuse-qkv", "fuse", fuse_qkv},
    // After fuse-qkv, which makes keys and values adjacent.
    Pass{"fuse-concats", "fuse", fuse_concats},
    Pass{"fuse-qk-norm-rope", "fuse", fuse_qk_norm_rope},
    // After fuse-qk-norm-rope, whose result it scales through the norm's weight.
    Pass{"fuse-attention-scale", "fuse", fuse_attention_scale},
    // After the other fusions. They require that the ops they absorb have one reader, which sharing would break, and
    // they leave duplicates, such as one slice of the rope tables for every attention.
    Pass{"fuse-common-subexpressions", "fuse", fuse_common_subexpressions},
    // After that pass, which leaves one silu(temb) instead of one per block.
    Pass{"fuse-conditioning", "fuse", fuse_conditioning},

    // After fusion, whose patterns it would break: the 1 + scale of a modulated norm depends on the step alone, and
    // the norm does not. Before precision, which then decides on the ops that remain in a step, and whose casts and
    // scales need no rules for lifting.
    Pass{"hoist", "hoist", hoist},

    // After fusion: a fused op keeps its intermediate values in fp32, so nothing inside it is rounded, and patterns
    // need not look through casts. Values converted by fp16 are no longer f32, and bf16 converts only f32.
    Pass{"fp16", "fp16", fp16, Capability::kFp16},
    Pass{"bf16", "bf16", bf16, Capability::kBf16},
    // After those, for the matmuls and convolutions that they left in f32.
    Pass{"tf32", "tf32", tf32, Capability::kTf32},

    // After bf16, which has then decided the dtypes of every matmul's operands and result: int8 and fp8 quantize x as
    // it is stored and keep the chosen result dtype. Before bf16, a cast would separate each quantize from its x. No
    // target supports both.
    Pass{"int8", "int8", int8, Capability::kInt8Matmuls},
    Pass{.name = "fp8", .switch_name = "fp8", .rewrite = nullptr, .needs = Capability::kFp8Matmuls, .rewrite_as = fp8},
    // After bf16 and fp16: it takes attention of 16 bits. Before fuse-rows, which makes the quantizers part of the
    // kernels that norm and rotate queries and keys.
    Pass{.name = "attn8",
         .switch_name = "attn8",
         .rewrite = nullptr,
         .needs = Capability::kQuantizedAttention,
         .rewrite_as = attn8},

    // After precision, which determines how many channels fill a vector.
    Pass{"align", "align", align},
    // After precision, whose casts of images it absorbs, and after align, because small numbers of channels are
    // slower in this layout without padding.
    Pass{"channels-last", "channels-last", channels_last},

    // After those: precision passes insert a cast wherever two dtypes meet, and every pass may leave nodes that
    // nothing reads. Casts before dead code, because their removal leaves some too.
    Pass{"simplify-casts", "", simplify_casts},
    Pass{"dead-code", "", dead_code},
    // After precision, whose 8-bit matmuls add residuals that others leave to norms, and have scales that can absorb a
    // gate; and after layout, which turns transposes into views.
    Pass{"fuse-token-epilogue", "fuse", fuse_token_epilogue},
    // Again, after the pass that multiplies a gate into scales: they depend on the step alone, as the gate does.
    Pass{"hoist-scales", "hoist", hoist},
    // After precision, which decides the dtype of each table: rows of one dtype are joined. Only hoist creates such
    // rows.
    Pass{"merge-rows", "", merge_rows},
    // After fuse-epilogue, which makes one convolution the residual of the other, and after layout, which its kernel
    // needs.
    Pass{"fuse-shortcut", "fuse", fuse_shortcut},
    // After layout, which it needs; before fuse-rows, which would make the sum a separate op.
    Pass{"fuse-group-norm", "fuse", fuse_group_norm},
    // Before fuse-rows alone, and after the pass that shares equal nodes.
    Pass{"repeat-choices", "fuse", repeat_choices},
    // After all others: precision and layout are decided, no pass needs to look into a body, and dead nodes are gone.
    Pass{"fuse-rows", "fuse", fuse_rows},
    // After all that transform weights: to them, packed weights are weights like others.
    Pass{"packed", "packed", packed},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

}  // namespace headroom
