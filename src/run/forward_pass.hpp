#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/component.hpp"
#include "run/fit.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// One forward pass of a network that can be compiled under any switches, run and timed. The objects that it was made
/// from must outlive it.
struct ForwardPass {
  const Component* component = nullptr;
  nlohmann::json request;  ///< distinguishes it from other passes of the model, as written to results
  RequestSize size;        ///< its `images` is the batch of the pass
  std::function<Graph(const RequestSize& size)> build;
  /// Fills the inputs with random data from a fixed seed. Never zeros: they run faster than real data.
  std::function<void(Session& session)> set_inputs;
  /// The pass has its own loop and switches of streams, which `build` has applied.
  bool is_stream_frame = false;
  /// CompileOptions::fresh_inputs
  std::optional<std::vector<std::string>> fresh_inputs = std::nullopt;
  /// Intermediate values exceed the range of f16, so that `fp16` does not apply.
  bool overflows_f16 = false;
};

/// Inputs are uniform in the range that their class defines, or otherwise normal.
[[nodiscard]] ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass,
                                            const PassSize& size);
/// The same for inputs of these shapes, which `set_inputs` sets.
[[nodiscard]] ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass, InputShapes given,
                                            std::function<void(Session& session)> set_inputs);

/// Fills the inputs of a session of the component as the first overload does.
void set_random_inputs(const Component& component, Session& session);

[[nodiscard]] Compiled compile(const ForwardPass& pass, const SwitchSet& switches, const DeviceTarget& target);
/// Calls require_fit() for the result of compile().
void require_fit(const Compiled& compiled, const ForwardPass& pass, const SwitchSet& switches,
                 const WeightStore& weights, const Backend& backend);

}  // namespace headroom
