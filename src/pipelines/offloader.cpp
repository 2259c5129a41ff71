#include "pipelines/offloader.hpp"

#include <algorithm>

#include "pipelines/stages/device_stage.hpp"
#include "run/memory_need.hpp"

namespace headroom {

namespace {

/// The device's pool always has room for so little. A query of the free memory takes longer than encoding a text of
/// that size.
constexpr std::size_t kAlwaysFits = std::size_t{64} << 10;

bool is_here(const DeviceStage& stage) { return stage.session->is_loaded(); }

bool has_arena_here(const DeviceStage& stage) { return stage.compiled.program->has_arena && !stage.is_arena_away; }

}  // namespace

Offloader::Offloader(Backend& backend, WeightStore& weights, std::size_t limit)
    : backend_(backend), weights_(weights), limit_(limit) {
  if (limit_ == 0) limit_ = backend.memory_use().total - weights.bytes() + memory_for(backend, weights);
}

void Offloader::load(DeviceStage& stage) {
  const std::shared_ptr<const Program>& program = stage.compiled.program;
  const MemoryNeed need = memory_need_alone(*program, weights_);
  DeviceStage* const kept = &stage;
  make_room(need.total() - need.held, std::span(&kept, 1));
  stage.session = stage.setup == nullptr ? std::make_shared<Session>(program, weights_, backend_)
                                         : std::make_shared<Session>(program, weights_, backend_, stage.setup->session);
  backend_.release_unused();  // memory in which weights were folded
  ran_.push_back(&stage);
}

void Offloader::begin(DeviceStage& stage) {
  DeviceStage* const alone = &stage;
  begin(std::span(&alone, 1));
}

void Offloader::begin(std::span<DeviceStage* const> together) {
  for (DeviceStage* const stage : together) {
    bring(*stage, together);
    ran_.erase(std::ranges::find(ran_, stage));
    ran_.push_back(stage);
  }
  const bool is_among = std::ranges::find(together, expected_) != together.end();
  if (expected_ == nullptr || is_among || is_here(*expected_)) return;  // avoids a query to the device
  if (missing_bytes(*expected_) <= free_bytes()) bring(*expected_, together);
}

void Offloader::forget(const DeviceStage& stage) noexcept {
  std::erase(ran_, &stage);
  if (expected_ == &stage) expected_ = nullptr;
}

void Offloader::bring(DeviceStage& stage, std::span<DeviceStage* const> keep) {
  if (is_here(stage)) return;
  if (const std::size_t missing = missing_bytes(stage); missing > 0) make_room(missing, keep);
  weights_.reload(*stage.compiled.program);
  if (stage.is_arena_away) stage.session->reload();
  stage.is_arena_away = false;
}

std::size_t Offloader::free_bytes() const { return limit_ - std::min(limit_, backend_.memory_use().total); }

std::size_t Offloader::arena_bytes() const {
  const std::size_t granularity = backend_.reserve_granularity();
  std::size_t bytes = 0;
  for (const DeviceStage* stage : ran_)
    if (const std::size_t arena = stage->compiled.program->arena_bytes;
        has_arena_here(*stage) && granularity != 0 && arena >= granularity)
      bytes += backend_.reserved_size(arena);
  return bytes;
}

std::size_t Offloader::missing_bytes(const DeviceStage& stage) const {
  if (is_here(stage)) return 0;
  const Program& program = *stage.compiled.program;
  const LoadNeed need = weights_.need_of(program);
  return need.weights + need.transient + (stage.is_arena_away ? backend_.reserved_size(program.arena_bytes) : 0);
}

void Offloader::make_room_for(std::size_t bytes) {
  if (bytes <= kAlwaysFits) return;
  for (const auto& [owner, drop] : spares_)
    if (free_bytes() < bytes) drop();
}

void Offloader::make_room(std::size_t bytes, std::span<DeviceStage* const> keep) {
  make_room_for(bytes);
  for (auto other = ran_.rbegin(); other != ran_.rend() && free_bytes() < bytes; ++other) {
    DeviceStage& stage = **other;
    if (std::ranges::find(keep, &stage) != keep.end()) continue;
    const Program& program = *stage.compiled.program;
    if (has_arena_here(stage)) {
      stage.session->unload();
      stage.is_arena_away = true;
    }
    if (const std::size_t free = free_bytes(); free < bytes)
      weights_.unload(program, bytes - free, keep.empty() ? nullptr : keep.front()->compiled.program.get());
  }
  backend_.release_unused();  // a limit counts memory until the device has released it
}

std::size_t lasting_bytes(const Program& program, const WeightStore& weights) {
  const std::size_t granularity = weights.backend().reserve_granularity();
  const MemoryNeed need = memory_need_alone(program, weights);
  std::size_t bytes = need.inputs + need.state;
  for (const WeightUse& use : program.weights)
    if (granularity == 0 || use.bytes < granularity) bytes += use.bytes;
  if (granularity == 0 || !program.has_arena || program.arena_bytes < granularity) bytes += need.activations;
  return bytes;
}

}  // namespace headroom
