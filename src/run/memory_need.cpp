#include "run/memory_need.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backends/caching_allocator.hpp"
#include "plan/arena.hpp"
#include "run/session/buffer_schedule.hpp"

namespace headroom {
namespace {

/// Returns addresses without memory, so that an allocator reports what it would hold.
class AddressesOnly final : public Backend {
 public:
  [[nodiscard]] DeviceProperties properties() const override { refuse(); }
  void copy_from_host(Stream&, DevicePointer, const void*, std::size_t) override { refuse(); }
  void copy_to_host(Stream&, void*, DevicePointer, std::size_t) override { refuse(); }
  void copy_on_device(Stream&, DevicePointer, DevicePointer, std::size_t) override { refuse(); }
  void fill_normal(Stream&, DevicePointer, DType, std::uint64_t, const NormalStream&) override { refuse(); }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { refuse(); }
  [[nodiscard]] std::unique_ptr<Stream> adopt_stream(void*) override { refuse(); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { refuse(); }

 protected:
  [[nodiscard]] void* allocate_bytes(std::size_t bytes) override {
    constexpr std::uintptr_t kGap = 4096;
    next_ += kGap;
    return reinterpret_cast<void*>(std::exchange(next_, next_ + bytes));
  }
  void free_bytes(void*, std::size_t) noexcept override {}

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("there is no device behind these addresses"); }
  std::uintptr_t next_ = 0;
};

/// Simulates one run of a program without an arena: buffers are allocated and freed as in a session, and nothing else
/// happens.
class EagerRehearsal {
 public:
  explicit EagerRehearsal(const Program& program)
      : program_(program), schedule_(schedule_buffers(program)), blocks_(program.storages.size()) {
    if (program.has_graph) allocator_.keep_segments();
    run(program.root);
  }

  [[nodiscard]] std::size_t reserved_bytes() const { return allocator_.reserved_bytes(); }

 private:
  /// Visits every branch of an `if`, because each may run; loops reach a steady state in their second iteration.
  void run(const Segment& segment) {
    constexpr std::int64_t kSettled = 2;
    const std::int64_t times = segment.kind == SegmentKind::kLoop ? std::min(segment.trip_count, kSettled) : 1;
    for (std::int64_t time = 0; time < times; ++time) {
      if (segment.children.empty()) run_steps(segment.first, segment.last);
      for (const Segment& child : segment.children) run(child);
    }
    const auto after = schedule_.give_after_segment.find(&segment);
    if (after != schedule_.give_after_segment.end()) give(after->second);
  }

  void run_steps(int first, int last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      for (const int storage : schedule_.take_before[i]) {
        CachingAllocator::Block& block = blocks_[static_cast<std::size_t>(storage)];
        if (!block.at) block = allocator_.allocate(program_.storages[static_cast<std::size_t>(storage)].bytes);
      }
      give(schedule_.give_after[i]);
    }
  }

  void give(const std::vector<int>& storages) {
    for (const int storage : storages) {
      CachingAllocator::Block& block = blocks_[static_cast<std::size_t>(storage)];
      if (block.at) allocator_.free(block);
      block = {};
    }
  }

  const Program& program_;
  BufferSchedule schedule_;
  AddressesOnly addresses_;
  CachingAllocator allocator_{addresses_, MemoryCategory::kActivations};
  std::vector<CachingAllocator::Block> blocks_;
};

}  // namespace

MemoryNeed memory_need_alone(const Program& program, const WeightStore& weights) {
  MemoryNeed need;
  const Backend& backend = weights.backend();
  need.activations =
      program.has_arena ? backend.reserved_size(program.arena_bytes) : EagerRehearsal(program).reserved_bytes();
  for (const StepMemory& memory : memory_by_step(program)) need.workspace = std::max(need.workspace, memory.scratch);
  for (const Storage& storage : program.storages) {
    if (storage.kind == StorageKind::kOutput && !program.outputs_elsewhere) need.activations += storage.bytes;
    if (storage.kind == StorageKind::kState) need.state += storage.bytes;
    if (storage.kind == StorageKind::kInput || storage.kind == StorageKind::kCounter) need.inputs += storage.bytes;
  }
  for (const WeightUse& use : program.weights) need.weights += backend.reserved_size(use.bytes);
  const LoadNeed load = weights.need_of(program);
  need.held = need.weights - load.weights;
  need.freed = load.freed;
  // The arena exists while weights are loaded; buffers allocated during a run do not.
  const std::size_t then = program.has_arena ? load.weights : load.weights + need.activations;
  need.loading = load.peak - std::min(load.peak, then);
  return need;
}

MemoryNeed memory_need(const Program& program, const WeightStore& weights) {
  MemoryNeed need = memory_need_alone(program, weights);
  if (program.setup == nullptr) return need;
  const MemoryNeed setup = memory_need_alone(*program.setup, weights);
  need.weights += setup.weights;
  need.activations += setup.activations;
  need.workspace = std::max(need.workspace, setup.workspace);
  need.inputs += setup.inputs;
  need.loading = std::max(need.loading, setup.loading);
  need.held += setup.held;
  return need;
}

std::size_t memory_for(const Backend& backend, const WeightStore& weights) {
  const std::size_t pooled = backend.reserved_bytes() - std::min(backend.reserved_bytes(), backend.memory_use().total);
  return backend.properties().available_bytes + pooled + weights.bytes();
}

}  // namespace headroom
