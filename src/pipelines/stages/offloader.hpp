#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

struct DeviceStage;

/// Lets the stages of a pipeline take turns in a device's memory where that is too small for all: before one runs, what
/// it lacks comes back, and for that as much of the others leaves as it takes, of those first that ran last. What there
/// is room for stays, and what is expected next comes back while another runs. Addresses, sessions and recordings stay.
class Offloader {
 public:
  /// `limit` is how much of the backend's memory may be used, in bytes; 0 is all that the device has. Both others must
  /// outlive it.
  Offloader(Backend& backend, WeightStore& weights, std::size_t limit);

  /// Takes memory for a stage that has none yet, and loads its weights. Throws OutOfMemory.
  void load(DeviceStage& stage);
  /// Before a stage runs.
  void begin(DeviceStage& stage);
  /// Which stage runs after the one that begins next; null for none.
  void expect(DeviceStage* next) noexcept { expected_ = next; }
  /// A stage that ends.
  void forget(const DeviceStage& stage) noexcept;
  /// Of what `owner` keeps beside the stages: `drop` gives back what can be had again, and is called before a stage has
  /// to leave.
  void add_spare(const void* owner, std::function<void()> drop) { spares_.insert_or_assign(owner, std::move(drop)); }
  void remove_spare(const void* owner) noexcept { spares_.erase(owner); }
  /// Before something takes so many bytes for a moment, and no stage runs: what takes its turn in memory leaves, as far as
  /// that is needed.
  void make_room(std::size_t bytes) {
    if (free_bytes() < bytes) make_room(bytes, nullptr);
  }
  /// Before something beside the stages takes so many bytes for good.
  void make_room_for(std::size_t bytes);

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  /// What can leave of the arenas that are there.
  [[nodiscard]] std::size_t arena_bytes() const;

 private:
  void bring(DeviceStage& stage);
  void make_room(std::size_t bytes, const DeviceStage* keep);
  [[nodiscard]] std::size_t free_bytes() const;
  [[nodiscard]] std::size_t missing_bytes(const DeviceStage& stage) const;

  Backend& backend_;
  WeightStore& weights_;
  std::size_t limit_;
  std::vector<DeviceStage*> ran_;  // those with a session, the one that began last behind
  DeviceStage* expected_ = nullptr;
  std::map<const void*, std::function<void()>> spares_;
};

/// What of a program's memory never leaves: inputs, states, and weights smaller than what memory is reserved in.
[[nodiscard]] std::size_t lasting_bytes(const Program& program, const WeightStore& weights);

}  // namespace headroom
