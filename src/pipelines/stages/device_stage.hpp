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
#include "pipelines/offloader.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/session/session.hpp"

namespace headroom {

inline constexpr std::string_view kSetupStage = "setup";
inline constexpr std::string_view kDenoiseStage = "denoise";

/// The time and memory of a pipeline stage.
struct StageRun {
  std::string name;         ///< "denoise"
  double milliseconds = 0;  ///< wall time
  std::size_t bytes = 0;    ///< device memory of its activations and scratch
  std::int64_t texts = 0;   ///< texts that an encoder read, one at a time; cached texts are not counted
};

/// Adds a stage's figures to the existing entry of that stage, or appends them.
void add(std::vector<StageRun>& runs, const StageRun& run);

/// A stage that runs on the device: the compiled graph of one component and its session. Its address must not change.
struct DeviceStage {
  std::string name;
  Compiled compiled;
  std::shared_ptr<Session> session = {};  ///< null until Offloader::load()
  bool is_arena_away = false;             ///< whether the Offloader has unloaded the session
  const DeviceStage* setup = nullptr;     ///< the stage of the program's setup, which is loaded before this one

  /// Loads the stage and submits a run on this input. A read of the session's outputs waits for the run.
  void submit(Offloader& offloader, std::string_view input, const HostTensor& value);
  /// The same with all inputs that `set_inputs` sets.
  void submit(Offloader& offloader, const std::function<void(Session& session)>& set_inputs);
};

/// Compiles the stage in the component's own baseline under the switches. Nothing is loaded yet.
[[nodiscard]] DeviceStage compile_stage(std::string name, const Component& component, Graph graph,
                                        const SwitchSet& switches, const DeviceTarget& target);

}  // namespace headroom
