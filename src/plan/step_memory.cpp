#include "plan/step_memory.hpp"

#include <set>

namespace headroom {

std::vector<StepMemory> memory_by_step(const Program& program) {
  std::vector<StepMemory> memory(program.steps.size());
  for (const Storage& storage : program.storages) {
    if (storage.kind != StorageKind::kArena) continue;
    for (int step = storage.first; step <= storage.last; ++step)
      memory[static_cast<std::size_t>(step)].activations += storage.bytes;
    memory[static_cast<std::size_t>(storage.first)].made += storage.bytes;
  }
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (step.scratch >= 0) {
      const Storage& scratch = program.storages[static_cast<std::size_t>(step.scratch)];
      memory[i].scratch = scratch.bytes;
      if (scratch.kind == StorageKind::kPart) {  // each thread has its own, in what counts as an activation
        memory[i].scratch *= static_cast<std::size_t>(program.target.threads);
        memory[i].activations -= memory[i].scratch;
      }
    }
    std::set<int> read;  // several inputs may lie in one weight
    for (const Place& place : step.input_places) {
      if (place.storage < 0 || !read.insert(place.storage).second) continue;
      const Storage& storage = program.storages[static_cast<std::size_t>(place.storage)];
      if (storage.kind == StorageKind::kWeight) memory[i].weights += storage.bytes;
    }
  }
  return memory;
}

}  // namespace headroom
