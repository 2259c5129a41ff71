#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/switches.hpp"
#include "base/target.hpp"
#include "doctor/machine_facts.hpp"
#include "measure/probes/known_cards.hpp"
#include "measure/probes/profile.hpp"
#include "measure/probes/switch_predictions.hpp"
#include "measure/tables/printout.hpp"
#include "passes/pass.hpp"
#include "run/compile.hpp"

/// What the checks of a model look at: its plan, and where the time of a step goes.
namespace headroom::doctor {

/// Kinds of work, as users think of them.
enum class WorkKind : std::uint8_t { kMatmul, kConvolution, kAttention, kOther };
/// "matmul", "convolution", "attention", "other"
[[nodiscard]] std::string_view name_of(WorkKind kind);

/// The launches of one kind that one kernel computes and stores in the same dtypes.
struct WorkFacts {
  WorkKind kind = WorkKind::kOther;
  std::string kernel, implementation;
  std::string computes;  ///< dtype of the arithmetic: "bf16"
  std::string stores;    ///< dtype of the results
  std::int64_t launches = 0;
  double flops = 0;                                ///< of one launch each
  std::optional<double> time_ms, floor_ms;         ///< of one run, all launches together
  std::map<std::string, std::string> passed_over;  ///< kernel to the reason why it was rejected, of contractions
};

/// A part of a step's time, by what bounds it.
struct StepPart {
  std::string_view bound;  ///< "products", "attention", "bytes", "launches" or "host"
  double time_ms = 0;
  double floor_ms = 0;
};

struct ModelFacts {
  std::string switches;         ///< as asked
  std::vector<WorkFacts> work;  ///< contractions first
  int attention_in_tiles = 0;   ///< layers whose scores exist only tile by tile
  std::vector<std::string>
      attention_in_memory;  ///< modules whose scores are written and read: softmax over [b, h, s, t]
  bool asked_for_flash = false;
  std::string why_not_flash;       ///< as the pass declined; empty if it was not asked for or did something
  std::vector<Declined> declined;  ///< of the switches that the user named
  bool has_bf16_units = false;
  bool computes_tf32 = false;        ///< the target can
  bool has_launches = false;         ///< work is submitted, and a launch takes microseconds
  bool records = false;              ///< `graph` applied
  std::string step_name = "step";    ///< "step" or "pass"
  std::optional<double> step_ms;     ///< whole, uninstrumented
  std::optional<double> idle_share;  ///< of a GPU in a traced step
  std::vector<std::string> disturbances;
  std::vector<StepPart> parts;                ///< of a profiled step, all of it
  std::vector<SwitchPrediction> predictions;  ///< of a profiled step
  std::vector<CardPrediction> cards;
};

/// The plan. `is_named`: whether the user named a switch itself, rather than a preset with it; declines of others do
/// not matter.
[[nodiscard]] ModelFacts look_at_plan(const Compiled& compiled, const SwitchSet& asked,
                                      const std::function<bool(std::string_view)>& is_named, const Target& target);
/// Adds the times of a profile of the same program.
void add_times(ModelFacts& facts, const Profile& profile, const Program& program);

/// Adds what ran in what, what bounds it, and what switches and other cards are predicted to give.
void describe_work(const ModelFacts& facts, Printout& printout);

}  // namespace headroom::doctor
