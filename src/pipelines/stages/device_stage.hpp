#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/switches.hpp"
#include "base/tensors/host_tensor.hpp"
#include "pipelines/stages/offloader.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"

namespace headroom {

/// What a stage of a pipeline took.
struct StageRun {
  std::string name;         ///< "denoise"
  double milliseconds = 0;  ///< wall time
  std::size_t bytes = 0;    ///< device memory of its activations and scratch
  std::int64_t texts = 0;   ///< that an encoder read, each by itself; those it had kept are not among them
};

/// Adds what a stage took to what it took before, where it is there already.
void add(std::vector<StageRun>& runs, const StageRun& run);

/// A stage that runs on the device: a graph of one component, compiled, and its session. It stays where it is.
struct DeviceStage {
  std::string name;
  Compiled compiled;
  std::unique_ptr<Session> session = {};  ///< null until Offloader::load()
  bool is_arena_away = false;             ///< Offloader has unloaded the session

  /// Submits a run on that input, when it is its turn; what reads an output of the session waits for it.
  void submit(Offloader& offloader, std::string_view input, const HostTensor& value);
  /// The same on all inputs that `set_inputs` sets.
  void submit(Offloader& offloader, const std::function<void(Session& session)>& set_inputs);
};

/// The stage, in the component's own baseline under the switches, not loaded yet.
[[nodiscard]] DeviceStage compile_stage(std::string name, const Component& component, Graph graph,
                                        const SwitchSet& switches, const Target& target);

}  // namespace headroom
