#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "base/tensors/host_tensor.hpp"
#include "io/checkpoint.hpp"
#include "plan/program.hpp"
#include "run/weights/held_weights.hpp"
#include "run/weights/param_values.hpp"
#include "run/weights/weight_folding.hpp"

namespace headroom {

struct Component;

/// The memory that loading a program's weights adds to a store, in bytes.
struct LoadNeed {
  std::size_t weights = 0;  ///< kept
  /// The highest temporary need within one weight: the source of a folding exists for a moment next to the weights
  /// loaded before.
  std::size_t peak = 0;
  /// The maximum that folding one weight takes in addition. In any order, no more than `weights` plus this is needed
  /// at once.
  std::size_t transient = 0;
  std::size_t freed = 0;  ///< of the checkpoints' own memory on the device, meanwhile
};

/// Folded weights on a device, which outlive programs. A weight is an expression over params of checkpoints (a cast,
/// a concatenation, ...) in the format that a kernel reads. Programs of any shape and batch share it by its key. The
/// results of one node (a quantized weight and its scales) are folded together; all others are folded one by one.
/// Params are streamed from the mapped checkpoint or drawn on the device, so peak memory is the folded weights plus
/// the largest one. Addresses never change, but their memory can be unloaded and reloaded. Sessions hold the weights
/// that they use. A weight that the store drops lives until the last such session ends, and is reused if another
/// program needs it before. Only one thread at a time may use the store and the sessions that hold its weights.
class WeightStore {
 public:
  /// Backend and checkpoints must outlive the store.
  explicit WeightStore(Backend& backend)
      : backend_(backend), stream_(backend.make_stream()), uploads_(backend.make_stream()) {}
  /// With one checkpoint without a name.
  WeightStore(Backend& backend, const Checkpoint& checkpoint) : WeightStore(backend) { add("", checkpoint); }
  /// With the checkpoints of components, each under the name of its part, and with the components' updates.
  WeightStore(Backend& backend, std::span<const Component> components);

  /// Adds a checkpoint: params called "<name>:<tensor>" are its tensors. Throws Error if the name is already used.
  void add(std::string name, const Checkpoint& checkpoint) { params_.add(std::move(name), checkpoint); }

  /// The store of the same checkpoints on another backend, made at the first call, when that backend's device must be
  /// current; this one for its own backend. It follows the changes and updates of params here, and lives as long as
  /// this one; so must the backend.
  [[nodiscard]] WeightStore& on(Backend& backend);

  /// Calls reload() and waits.
  void load(const Program& program);

  /// Frees the device memory of the program's weights, except those used by sessions whose program is loaded. The
  /// memory is freed after all previously submitted work; the host does not wait. Addresses, sessions and recordings
  /// stay valid. Until the program is reloaded, running its sessions throws Error. Weights smaller than the
  /// granularity of reservations (2 MiB) stay, and so do all weights on a device that cannot unmap memory from its
  /// addresses. With `at_least`, only enough weights to free that many bytes are unloaded. Weights that the program
  /// `spared` uses stay. If the device has separate memory, folded weights are kept in page-locked host memory from
  /// then on. Throws Error if the host has none left.
  void unload(const Program& program, std::size_t at_least = SIZE_MAX, const Program* spared = nullptr);
  /// Reloads the unloaded weights of `program`, and folds those that were never loaded. On the device, the next runs
  /// of its sessions come after that; the host does not wait, and other device work goes on. Weights are copied from
  /// the host. If there is no host copy (on a CPU), or a param has changed, they are folded again. Throws Error for a
  /// param that its checkpoint lacks or holds with another type, and OutOfMemory. Weights loaded so far then stay,
  /// and the call can be repeated.
  void reload(const Program& program);

  /// The memory that load() would need.
  [[nodiscard]] LoadNeed need_of(const Program& program) const;

  /// Drops all weights that none of the programs uses; those that no session uses are freed at once.
  void keep_only(std::span<const Program* const> programs);
  void keep_only(const Program& program) {
    const Program* const one = &program;
    keep_only({&one, 1});
  }

  /// Changes the param to `value`. Weights that depend on it are folded again in place, so that programs, sessions
  /// and recordings stay valid. Runs submitted before this call read the old weights and later runs the new ones, on
  /// any stream; the host does not wait. During a folding its params take additional memory, as in load(). Throws
  /// Error for an unknown param, and for another dtype or shape.
  void change_param(const std::string& param, HostTensor value);
  /// Restores the checkpoint's value of the param.
  void restore_param(const std::string& param);

  /// Replaces the updates of all params, and folds again the weights of those whose updates changed, as
  /// change_param() does. Params without an update return bit by bit to their earlier values. Params of many weights
  /// are streamed to the device while others are folded. `make_room` is called first with the additional device
  /// memory that this takes, and may unload. Returns the params that changed, in order. Throws Error for an unknown
  /// param, or one that an update does not fit; nothing is changed then. If memory runs out midway, sessions that
  /// hold weights that are not folded are unloaded; reload() folds these.
  std::vector<std::string> update_params(ParamUpdates updates, const std::function<void(std::size_t)>& make_room = {});

  /// Loads a program's weights for a session, which records `last_use` again at the end of each run.
  [[nodiscard]] std::shared_ptr<HeldWeights> hold(const Program& program, std::shared_ptr<const Event> last_use);
  /// A loaded weight; hold the handle while using it.
  [[nodiscard]] WeightHandle weight(const WeightUse& use) const;
  /// Bytes on the device of the weights that the store holds; and their number, including unloaded ones.
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return kept_.size(); }
  [[nodiscard]] const Backend& backend() const noexcept { return backend_; }

 private:
  using Key = std::pair<std::string, std::string>;
  using Uses = std::vector<const WeightUse*>;
  using Users = std::vector<std::shared_ptr<HeldWeights>>;
  [[nodiscard]] std::vector<Uses> list_uses(const Program& program,
                                            bool (*are_listed)(const WeightHandle& known)) const;
  void fold_missing(const Program& program);
  void fold(WeightFolding folding, const Uses& uses);
  void fold_again(std::span<const std::string> params, const std::function<void(std::size_t)>& make_room = {});
  struct FoldingGroup;
  [[nodiscard]] std::vector<FoldingGroup> foldings_of(std::span<const std::string> params);
  static void leave_out_unloaded(std::vector<FoldingGroup>& groups);
  void bring_back(const std::vector<WeightHandle>& away);
  [[nodiscard]] Users users() const;
  [[nodiscard]] Users users_of(const std::vector<WeightHandle>& weights) const;
  void take_up(const WeightUse& use);
  /// Null if it is not in the store.
  [[nodiscard]] WeightHandle find(const WeightUse& use) const;
  void forget_unused();
  /// Calls change(store) for the stores of other backends, whose devices are current meanwhile.
  template <class Change>
  void change_others(const Change& change);

  Backend& backend_;
  std::shared_ptr<Stream> stream_;   // on which weights are folded
  std::unique_ptr<Stream> uploads_;  // for params of many weights
  ParamValues params_;
  FoldingPrograms programs_;
  std::vector<WeightFolding> foldings_;  // of weights that depend on params
  std::vector<std::weak_ptr<HeldWeights>> held_;
  std::map<Key, WeightHandle> kept_;
  std::map<Key, std::weak_ptr<FoldedWeight>> dropped_;  // which a session may still hold
  std::map<Backend*, std::unique_ptr<WeightStore>> others_;
};

}  // namespace headroom
