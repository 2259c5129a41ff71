#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

struct DeviceStage;

/// Offloads the stages of a pipeline if the device's memory is too small for all of them. Before a stage runs, its
/// missing weights and arena are loaded. Other stages are unloaded only as far as necessary, the most recently run
/// stage first. The rest stays loaded, and the expected next stage is prefetched while another runs. Addresses,
/// sessions and recordings stay valid.
class Offloader {
 public:
  /// `limit` is the memory of the backend that may be used, in bytes; 0 for all of the device's. Backend and store
  /// must outlive it.
  Offloader(Backend& backend, WeightStore& weights, std::size_t limit);

  /// Takes memory for a new stage and loads its weights. Throws OutOfMemory.
  void load(DeviceStage& stage);
  /// Called before a stage runs.
  void begin(DeviceStage& stage);
  /// The same for stages that run at the same time, as the loops of ranks, whose weights are the same.
  void begin(std::span<DeviceStage* const> together);
  /// Sets the stage that runs after the next one to begin; null for none.
  void expect(DeviceStage* next) noexcept { expected_ = next; }
  /// Called when a stage is destroyed.
  void forget(const DeviceStage& stage) noexcept;
  /// Registers memory that `owner` keeps in addition to the stages. `drop` frees the part that can be recomputed; it
  /// is called before a stage must be unloaded.
  void add_spare(const void* owner, std::function<void()> drop) { spares_.insert_or_assign(owner, std::move(drop)); }
  void remove_spare(const void* owner) noexcept { spares_.erase(owner); }
  /// Called before a temporary allocation of this many bytes while no stage runs. Unloads stages as far as needed.
  void make_room(std::size_t bytes) {
    if (free_bytes() < bytes) make_room(bytes, {});
  }
  /// Called before a permanent allocation of this many bytes outside the stages.
  void make_room_for(std::size_t bytes);

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  /// Bytes of the loaded arenas that can be unloaded.
  [[nodiscard]] std::size_t arena_bytes() const;

 private:
  void bring(DeviceStage& stage, std::span<DeviceStage* const> keep);
  void make_room(std::size_t bytes, std::span<DeviceStage* const> keep);
  [[nodiscard]] std::size_t free_bytes() const;
  [[nodiscard]] std::size_t missing_bytes(const DeviceStage& stage) const;

  Backend& backend_;
  WeightStore& weights_;
  std::size_t limit_;
  std::vector<DeviceStage*> ran_;  // stages with a session, the most recently begun one last
  DeviceStage* expected_ = nullptr;
  std::map<const void*, std::function<void()>> spares_;
};

/// Memory of a program, without its setup, that is never unloaded: inputs, states, and weights smaller than the
/// granularity of reservations.
[[nodiscard]] std::size_t lasting_bytes(const Program& program, const WeightStore& weights);

}  // namespace headroom
