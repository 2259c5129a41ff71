#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "ir/builder.hpp"
#include "ir/graph.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// The values of a sampler in a graph. States, f32: `latents`, the sample, and `history_1` to `history_3` if the
/// sampler uses them. Inputs: the values by call of each coefficient that is not always 0 or 1, such as
/// `latents_from_output` [calls, 1, 1, ...] f32. A sampler that adds noise also has `seeds` [images] i64 and
/// `noise_streams` [calls] i64. The noise of an image is a function of its seed and the call only.
struct SamplerValues {
  std::array<ValueId, LinearForm::kStates> states{kNoValue, kNoValue, kNoValue, kNoValue};
  std::array<std::array<ValueId, LinearForm::kColumns>, LinearForm::kStates> coefficients{};
  ValueId seeds = kNoValue;
  ValueId noise_streams = kNoValue;

  [[nodiscard]] ValueId latents() const { return states[0]; }
};

/// Adds a sampler's states and inputs for samples of `shape`, [images, ...]. `shape` may belong to a value of the
/// graph.
[[nodiscard]] SamplerValues add_sampler(Graph& graph, const SamplerTables& tables, Shape shape);
/// Updates the states in the loop with this counter, after a call of the denoiser that predicted `output`, f32 of the
/// sample's shape. `sample` is the denoiser's input, if that is not `latents`.
void build_sampler_update(Builder& b, const SamplerTables& tables, const SamplerValues& values, ValueId output,
                          ValueId counter, ValueId sample = kNoValue);

/// Calls for several samples at once, each of which may be at a different call of its sampler.
struct SamplerCalls {
  /// Gathers a table by call, [calls, ...], for each sample: [samples, ...].
  std::function<ValueId(ValueId table)> of_table;
  ValueId noise = kNoValue;  ///< fresh noise of the samples' shape, if the sampler adds some
};
/// The same for such calls. Returns the new samples, which are also the next value of the state.
ValueId build_sampler_update(Builder& builder, const SamplerTables& tables, const SamplerValues& values, ValueId output,
                             const SamplerCalls& calls, ValueId sample);
/// The random stream, of an image's seed, that gives the noise of a call.
[[nodiscard]] std::int64_t noise_stream_of_call(std::int64_t call);

/// Sets the inputs that are the same in every request.
void set_sampler_inputs(Session& session, const SamplerTables& tables);
/// Starts again: clears the sampler's states other than the sample, and sets `seeds`, the noise seed of each image.
void start_sampler(Session& session, std::span<const std::uint64_t> seeds);

}  // namespace headroom
