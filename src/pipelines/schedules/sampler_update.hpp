#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "ir/builder.hpp"
#include "ir/graph.hpp"
#include "pipelines/schedules/sampler_tables.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// What a sampler is in a graph. States, f32: `latents`, the sample, and `history_1` to `history_3` where it keeps them.
/// Inputs: for each coefficient that is not always 0 or 1 its numbers by call, `latents_from_output` [calls, 1, 1, ...]
/// f32 and so on; and of a sampler that adds noise `seeds` [images] i64 and `noise_streams` [calls] i64. Noise of an image
/// is a function of its seed and the call alone.
struct SamplerValues {
  std::array<ValueId, LinearForm::kStates> states{kNoValue, kNoValue, kNoValue, kNoValue};
  std::array<std::array<ValueId, LinearForm::kColumns>, LinearForm::kStates> coefficients{};
  ValueId seeds = kNoValue;
  ValueId noise_streams = kNoValue;

  [[nodiscard]] ValueId latents() const { return states[0]; }
};

/// Adds a sampler's states and inputs, for samples of `shape`, [images, ...], which may be that of one of the graph's values.
[[nodiscard]] SamplerValues add_sampler(Graph& graph, const SamplerTables& tables, Shape shape);
/// Gives the states their next values, in the loop whose counter this is: what they are after a call of the denoiser that
/// answered `output`, of the sample's shape in f32. `sample` is what it was asked about, where that is not `latents`.
void build_sampler_update(Builder& b, const SamplerTables& tables, const SamplerValues& values, ValueId output,
                          ValueId counter, ValueId sample = kNoValue);

/// Calls of several samples at once, of which each may be in another one of its sampler's.
struct SamplerCalls {
  /// What of a table by call, [calls, ...], holds for each sample: [samples, ...].
  std::function<ValueId(ValueId table)> of_table;
  ValueId noise = kNoValue;  ///< fresh, of the samples' shape, where the sampler adds some
};
/// The same for these. Returns what the samples are then, which is also the next value of the state.
ValueId build_sampler_update(Builder& builder, const SamplerTables& tables, const SamplerValues& values, ValueId output,
                             const SamplerCalls& calls, ValueId sample);
/// Which random stream of an image's seed the noise of a call is.
[[nodiscard]] std::int64_t noise_stream_of_call(std::int64_t call);

/// Sets those inputs that are the same in every request.
void set_sampler_inputs(Session& session, const SamplerTables& tables);
/// Begins anew: clears what the sampler keeps besides the sample, and sets `seeds`, of each image the one of its noise.
void start_sampler(Session& session, std::span<const std::uint64_t> seeds);

}  // namespace headroom
