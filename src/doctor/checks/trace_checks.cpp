#include <fmt/format.h>

#include <algorithm>

#include "base/text/format.hpp"
#include "doctor/checks/families.hpp"
#include "measure/probes/known_cards.hpp"
#include "measure/tables/table.hpp"

namespace headroom::doctor {
namespace {

constexpr double kLeastShare = 0.02;  // less is not worth a sentence
/// Fused kernels reach 35% (FlashAttention-2 on an H200) to 68% (cuDNN) of a card's bf16 peak.
constexpr double kFusedAttentionOfPeak = 0.5;

std::string count_and_time(const CountAndTime& one) {
  return fmt::format("{} in {}", one.count, format_ms(one.us / 1000));
}

/// ", 12 a step" of a count over all traced steps that is the same in each; else nothing.
std::string in_each_step(const TraceFacts& facts, std::int64_t count) {
  if (facts.steps < 2 || count % facts.steps != 0) return {};
  return fmt::format(", {} a step", count / facts.steps);
}

/// How many times as long a time takes as without a part of it; 1 where there is no time.
double factor_without(double whole_us, double part_us) {
  return whole_us > 0 ? whole_us / std::max(0.01 * whole_us, whole_us - part_us) : 1;
}

/// The part of a time that is lost, and what it makes of the whole.
std::string lost_of(double whole_us, double factor) {
  return fmt::format("up to {} of {}: the traced work takes up to {} times as long",
                     format_ms((whole_us - whole_us / factor) / 1000), format_ms(whole_us / 1000),
                     format_significant(factor));
}

/// A finding about a part of a time that would not be there.
Finding finding_of_part(std::string_view id, std::string sentence, std::vector<Evidence> evidence, std::string mend,
                        double whole_us, double part_us) {
  const double factor = factor_without(whole_us, part_us);
  return {.id = std::string(id),
          .severity = severity_of(factor),
          .sentence = std::move(sentence),
          .evidence = std::move(evidence),
          .mend = std::move(mend),
          .cost = {.words = lost_of(whole_us, factor), .factor = factor}};
}

}  // namespace

void find_missing_evidence(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const auto add = [&](std::string sentence, Evidence evidence, std::string mend, std::string words) {
    findings.push_back({.id = std::string(id),
                        .severity = Severity::kUnknown,
                        .sentence = std::move(sentence),
                        .evidence = {std::move(evidence)},
                        .mend = std::move(mend),
                        .cost = {.words = std::move(words), .factor = {}}});
  };
  if (facts.gpu_us() <= 0)
    add("The trace has no work of a GPU.", {"kernels and copies", "0", "those of a step"},
        "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), and the model on the GPU",
        "what kernels, copies and gaps would show is unknown");
  if (facts.ops > 0 && facts.ops_with_types == 0)
    add("The trace does not have the dtypes of operands.",
        {"aten::* with \"Input type\"", fmt::format("0 of {}", facts.ops), "all"}, "profile(record_shapes=True)",
        "casts, and what matmuls and attention read, are unknown");
}

void find_math_attention(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const std::int64_t math = facts.math_attention.count, all = math + facts.fast_attention.count;
  if (math == 0) return;
  const CountAndTime &softmax = facts.of(KernelClass::kSoftmax), &work = facts.math_attention_work;
  const KnownCard* card = card_of(facts.device);
  const bool is_predicted = work.count > 0 && card != nullptr && card->bf16 > 0 && facts.math_attention_flops > 0;
  const double fused_us = is_predicted ? 1e6 * facts.math_attention_flops / (kFusedAttentionOfPeak * card->bf16) : 0;
  const double saved_us = is_predicted ? std::max(0.0, work.us - fused_us) : softmax.us;
  const double factor = factor_without(facts.gpu_us(), saved_us);
  std::vector<Evidence> evidence = {{"aten::_scaled_dot_product_attention_math",
                                     fmt::format("{} of {} calls of attention{}", math, all, in_each_step(facts, math)),
                                     "0"}};
  if (softmax.count > 0)
    evidence.push_back({"kernels of softmax, which a fused kernel has none of", count_and_time(softmax), "0"});
  if (is_predicted)
    evidence.push_back({"all kernels of these calls", count_and_time(work),
                        fmt::format("{} at {:.0f}% of the {}'s bf16 peak", format_ms(fused_us / 1000),
                                    100 * kFusedAttentionOfPeak, card->name)});
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(factor),
       .sentence = fmt::format("{} of {} calls of attention write their scores to memory.", math, all),
       .evidence = std::move(evidence),
       .mend =
           "give F.scaled_dot_product_attention operands in bf16 or f16 with head sizes up to 256, a mask of their "
           "dtype or none, and no sdpa_kernel(SDPBackend.MATH); with sdpa_kernel(SDPBackend.FLASH_ATTENTION) PyTorch "
           "says what is against it",
       .cost = {.words = is_predicted        ? lost_of(facts.gpu_us(), factor)
                         : softmax.count > 0 ? "its softmax and masks alone, " + lost_of(facts.gpu_us(), factor)
                                             : "memory and time that grow with the square of the tokens",
                .factor = saved_us > 0 ? std::optional(factor) : std::nullopt}});
}

void find_fp8_storage(const TraceFacts& facts, std::string_view id, Findings& findings) {
  if (facts.fp8_casts.count == 0 || facts.scaled_matmuls.count >= facts.fp8_casts.count) return;
  const CountAndTime& work = facts.fp8_cast_work;
  const double factor = factor_without(facts.gpu_us(), work.us);
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = "Weights are stored in FP8, and matmuls compute in a wider dtype: each call casts them first.",
       .evidence = {{"aten::copy_ from Float8",
                     count_and_time(facts.fp8_casts) + in_each_step(facts, facts.fp8_casts.count), "0"},
                    {"aten::_scaled_mm", std::to_string(facts.scaled_matmuls.count), "one for each of these matmuls"}},
       .mend = "compute in FP8 (torchao Float8DynamicActivationFloat8WeightConfig, torch._scaled_mm), or keep the "
               "weights in bf16 if they fit",
       .cost = {.words = work.count > 0 ? "against weights in bf16, " + lost_of(facts.gpu_us(), factor)
                                        : "FP8 gains no time over bf16 here, and each cast moves the weights once more",
                .factor = work.count > 0 ? std::optional(factor) : std::nullopt}});
}

void find_casts(const TraceFacts& facts, std::string_view id, Findings& findings) {
  if (facts.matmuls.count == 0 || facts.casts.count < facts.matmuls.count) return;
  const CountAndTime& work = facts.cast_work;
  const double factor = factor_without(facts.gpu_us(), work.us);
  findings.push_back(
      {.id = std::string(id),
       .severity = work.count > 0 ? severity_of(factor) : Severity::kCould,
       .sentence = fmt::format("There are {} casts between float dtypes, and {} matmuls.", facts.casts.count,
                               facts.matmuls.count),
       .evidence = {{"aten::copy_ between float dtypes", count_and_time(facts.casts) + " of the host",
                     "fewer than matmuls"}},
       .mend = "load the model in the dtype that computes, model.to(torch.bfloat16), and leave out torch.autocast",
       .cost = {.words = work.count > 0 ? lost_of(facts.gpu_us(), factor)
                                        : "a kernel and a launch for each, and weights that are read in f32",
                .factor = work.count > 0 ? std::optional(factor) : std::nullopt}});
}

void find_late_launches(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const double idle = facts.late_us, span = facts.span_us();
  if (span <= 0 || idle <= kLeastShare * span) return;
  const auto share = [&](double us) { return fmt::format("{} of {}", format_ms(us / 1000), format_ms(span / 1000)); };
  findings.push_back(finding_of_part(
      id,
      fmt::format("Launches come too late: the GPU would be idle for {:.0f}% of the time by them, even if the host "
                  "never waited.",
                  100 * idle / span),
      {{"gaps before kernels whose launch began when the GPU had no work", share(facts.idle_of(IdleCause::kLaunch)),
        "below 2%"},
       {"the launches replayed without waits and compilation, beyond the gaps of a CUDA graph", share(idle),
        "below 2%"},
       {"launches of the host", count_and_time(facts.launches), "fewer"},
       {"cudaGraphLaunch", std::to_string(facts.graph_launches),
        facts.graph_launches == 0 ? "one for each step" : "more"}},
      "torch.compile(model, mode=\"reduce-overhead\"), which records CUDA graphs; or a larger batch", span, idle));
}

void find_layout_changes(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const CountAndTime& layout = facts.of(KernelClass::kLayout);
  const double gpu = facts.gpu_us();
  if (gpu <= 0 || layout.us <= kLeastShare * gpu) return;
  findings.push_back(finding_of_part(
      id, fmt::format("{:.0f}% of the GPU's work changes layouts for convolutions.", 100 * layout.us / gpu),
      {{"kernels nchwToNhwc and nhwcToNchw", count_and_time(layout), "0"},
       {"kernels of convolutions", count_and_time(facts.of(KernelClass::kConvolution)), "without them"}},
      "model.to(memory_format=torch.channels_last), and the same for its input", gpu, layout.us));
}

void find_syncs(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const double idle = facts.idle_of(IdleCause::kSync), span = facts.span_us();
  const bool is_idle = span > 0 && span - facts.without_syncs_us > kLeastShare * span;
  if (!is_idle && facts.items.count <= facts.steps) return;  // one result a step is what is asked for
  const double factor = factor_without(span, span - facts.without_syncs_us);
  std::vector<Evidence> evidence = {
      {"aten::_local_scalar_dense (.item(), bool(), float())", count_and_time(facts.items), "0 in the loop"}};
  if (facts.syncs.count > 0)
    evidence.push_back({"cudaStreamSynchronize and the like", count_and_time(facts.syncs), "one at the end"});
  if (is_idle)
    evidence.push_back({"gaps of the GPU after a synchronization",
                        fmt::format("{} of {}", format_ms(idle / 1000), format_ms(span / 1000)), "below 2%"});
  findings.push_back({.id = std::string(id),
                      .severity = severity_of(factor),
                      .sentence = "The host waits for results in the loop, so it cannot launch ahead.",
                      .evidence = std::move(evidence),
                      .mend = "take .item(), .cpu(), print and comparisons of tensors out of the loop; with_stack=True "
                              "shows where they are",
                      .cost = {.words = is_idle ? lost_of(span, factor) : "a wait of the host each time",
                               .factor = is_idle ? std::optional(factor) : std::nullopt}});
}

void find_weight_copies(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const double gpu = facts.gpu_us();
  if (gpu <= 0 || facts.weight_copies.us <= kLeastShare * gpu) return;
  findings.push_back(finding_of_part(id,
                                     fmt::format("{} are copied from the host while the model runs.",
                                                 format_bytes(static_cast<std::uint64_t>(facts.weight_copy_bytes))),
                                     {{"Memcpy HtoD of 1 MiB or more", count_and_time(facts.weight_copies), "0"}},
                                     "leave out enable_model_cpu_offload and device_map if the model fits; else a "
                                     "smaller dtype, or copies from pinned memory on a stream of their own",
                                     gpu, facts.weight_copies.us));
}

void find_f32_matmuls(const TraceFacts& facts, std::string_view id, Findings& findings) {
  const CountAndTime& found = facts.f32_matmuls;
  const double gpu = facts.gpu_us();
  if (found.us <= kLeastShare * gpu) return;
  const KnownCard* card = card_of(facts.device);
  const bool is_predicted = card != nullptr && card->tf32 > card->f32;
  const double factor = is_predicted ? factor_without(gpu, found.us * (1 - card->f32 / card->tf32)) : 1;
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kCould,  // another precision is the user's choice
                      .sentence = fmt::format("{:.0f}% of the GPU's work are matmuls in f32 without tensor cores.",
                                              100 * found.us / gpu),
                      .evidence = {{"kernels of matmuls whose names say f32", count_and_time(found), "tf32 or bf16"}},
                      .mend = "torch.set_float32_matmul_precision(\"high\"), or model.to(torch.bfloat16)",
                      .cost = {.words = is_predicted ? "against TF32, " + lost_of(gpu, factor)
                                                     : "these matmuls take several times as long as in TF32",
                               .factor = is_predicted ? std::optional(factor) : std::nullopt}});
}

void find_compilations(const TraceFacts& facts, std::string_view id, Findings& findings) {
  if (facts.compilations.count == 0) return;
  const double factor = factor_without(facts.whole_us(), facts.compilations.us);
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(factor),
       .sentence = "torch.compile compiled while the trace ran.",
       .evidence = {{"calls of compile_inner", count_and_time(facts.compilations), "0 after the warm-up"}},
       .mend =
           "keep shapes and flags the same, or torch.compile(dynamic=True); TORCH_LOGS=recompiles says what changed",
       .cost = {.words = lost_of(facts.whole_us(), factor), .factor = factor}});
}

}  // namespace headroom::doctor
