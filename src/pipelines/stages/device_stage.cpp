#include "pipelines/stages/device_stage.hpp"

#include <algorithm>
#include <utility>

namespace headroom {

void add(std::vector<StageRun>& runs, const StageRun& run) {
  const auto found = std::ranges::find(runs, run.name, &StageRun::name);
  if (found == runs.end()) {
    runs.push_back(run);
    return;
  }
  found->milliseconds += run.milliseconds;
  found->bytes = std::max(found->bytes, run.bytes);
  found->texts += run.texts;
}

void DeviceStage::submit(Offloader& offloader, std::string_view input, const HostTensor& value) {
  submit(offloader, [&](Session& given) { given.set_input(input, value); });
}

void DeviceStage::submit(Offloader& offloader, const std::function<void(Session& session)>& set_inputs) {
  offloader.begin(*this);
  set_inputs(*session);
  session->submit();
}

DeviceStage compile_stage(std::string name, const Component& component, Graph graph, const SwitchSet& switches,
                          const DeviceTarget& target) {
  // `steps` applies to the loop, whose builder used it; it is not reported for other stages.
  return {
      .name = std::move(name),
      .compiled = compile(std::move(graph), switches, target, {.steps_applied = true, .baseline = component.baseline})};
}

}  // namespace headroom
