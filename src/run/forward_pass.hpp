#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "run/component.hpp"
#include "run/fit.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// One forward pass of a network, to be compiled under any switches, run and timed. What it is made of must outlive it.
struct ForwardPass {
  const Component* component = nullptr;
  nlohmann::json request;  ///< what tells it from other passes of the model, as results state it
  RequestSize size;        ///< its images are the samples of the pass
  std::function<Graph(const RequestSize& size)> build;
  /// Fills the inputs with random data from a fixed seed. Never zeros: they run faster than real data.
  std::function<void(Session& session)> set_inputs;
  /// It has a loop, and switches of streams, of its own, which `build` has applied.
  bool is_stream_frame = false;
  std::vector<std::string> fresh_inputs = {};  ///< CompileOptions::fresh_inputs
  bool overflows_f16 = false;                  ///< it makes numbers that f16 has not: `fp16` is not for it
};

/// Inputs are uniform in the range that their class states, or else normal.
[[nodiscard]] ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass,
                                            const PassSize& size);
/// Over tensors of these shapes, which `set_inputs` sets.
[[nodiscard]] ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass, InputShapes given,
                                            std::function<void(Session& session)> set_inputs);

/// Fills the inputs of a session of the component's as the first of these does.
void set_random_inputs(const Component& component, Session& session);

[[nodiscard]] Compiled compile(const ForwardPass& pass, const SwitchSet& switches, const Target& target);
/// require_fit() of what compile() made of it.
void require_fit(const Compiled& compiled, const ForwardPass& pass, const SwitchSet& switches,
                 const WeightStore& weights, const Backend& backend);

}  // namespace headroom
