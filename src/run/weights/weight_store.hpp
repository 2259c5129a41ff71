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

/// What loading a program's weights adds to what a store holds, in bytes.
struct LoadNeed {
  std::size_t weights = 0;  ///< kept
  /// The most at once on the way, within one weight: what a weight is folded from is there for a moment beside those
  /// loaded before.
  std::size_t peak = 0;
  /// What folding one of them takes beside it, at most. Whatever the order, no more is needed at once than `weights` and
  /// this.
  std::size_t beside = 0;
};

/// Folded weights on a device, outliving every program. A weight is an expression over params of checkpoints (a cast, a
/// concatenation, ...) in the form a kernel asked for; programs of any shape and batch share it by its key. What one
/// node makes (a quantized weight and its scales) is folded together, all else by itself, streamed from the mapped
/// checkpoint or drawn on the device: peak memory is the folded weights plus the largest one. Addresses never move, but
/// the memory behind them may go and come back (unload). Sessions hold what they use: a weight that the store drops stays until the last of them ends, and until then is
/// taken up again where another program needs it. The store and the sessions that hold its weights are used by one
/// thread at a time.
class WeightStore {
 public:
  /// The backend must outlive the store, and so must checkpoints.
  explicit WeightStore(Backend& backend)
      : backend_(backend), stream_(backend.make_stream()), uploads_(backend.make_stream()) {}
  /// With a checkpoint that has no name.
  WeightStore(Backend& backend, const Checkpoint& checkpoint) : WeightStore(backend) { add("", checkpoint); }
  /// With those of components, each called what its part is, and with the components' updates.
  WeightStore(Backend& backend, std::span<const Component> components);

  /// From now on params called "<name>:<tensor>" are the tensors of that checkpoint. Throws Error where the name is
  /// taken.
  void add(std::string name, const Checkpoint& checkpoint) { params_.add(std::move(name), checkpoint); }

  /// reload(), and waits.
  void load(const Program& program);

  /// Gives back the device memory of the program's weights that no session uses whose program is loaded, when all is
  /// done that was submitted before; the host does not wait. Addresses, sessions and recordings stay; until the program
  /// is reloaded, its sessions throw Error where they are run. Weights smaller than what memory is reserved in (2 MiB)
  /// stay, and so do all on a device that cannot take memory from its addresses. With `at_least`, no more leaves than it
  /// takes to free so many bytes; what `spared` uses stays, where one is given. Where the device has memory of its own,
  /// folded weights are kept in page-locked host memory from then on. Throws Error where the host has none left.
  void unload(const Program& program, std::size_t at_least = SIZE_MAX, const Program* spared = nullptr);
  /// Brings back the weights of `program` that were unloaded, and folds those that were never here. Its sessions' next
  /// runs come after that on the device, and the host does not wait: what the device does meanwhile goes on. Weights
  /// come from the host's copies, unless there are none (on a CPU) or a param has changed: then they are folded again.
  /// Throws Error naming a param that its checkpoint lacks or holds otherwise, and OutOfMemory: what is there then
  /// stays, and it can be tried again.
  void reload(const Program& program);

  /// What load() would need.
  [[nodiscard]] LoadNeed need_of(const Program& program) const;

  /// Drops every weight that none of the programs uses: what no session uses is freed at once.
  void keep_only(std::span<const Program* const> programs);
  void keep_only(const Program& program) {
    const Program* const one = &program;
    keep_only({&one, 1});
  }

  /// Makes the param `value`. Weights made of it are folded again where they are, so that programs, sessions and
  /// recordings stay as they are: runs submitted before this read the old ones, and those after it the new, whatever
  /// streams they are on, and the host waits for none of it. While one is folded its params are there beside it, as in
  /// load(). Throws Error naming a param that there is not, or that has another dtype or shape.
  void change_param(const std::string& param, HostTensor value);
  /// Makes the param again what its checkpoint says.
  void restore_param(const std::string& param);

  /// Makes all params what they are beside these updates, and folds again what is made of those whose updates are not the
  /// same as before, as change_param() does; those without an update are then, to the bit, what they were. Params of many
  /// weights stream to the device while others are folded. `make_room` is told how much device memory that takes
  /// besides, before any is, and may unload. Returns the params that are not what they were, in order. Throws Error
  /// naming a param that there is not, or that an update does not fit: then nothing is changed. Where memory runs out on
  /// the way, sessions that hold what is not folded are unloaded; reload() folds it.
  std::vector<std::string> update_params(ParamUpdates updates, const std::function<void(std::size_t)>& make_room = {});

  /// Loads a program's weights for a session, which records `last_use` again at the end of each run.
  [[nodiscard]] std::shared_ptr<HeldWeights> hold(const Program& program, std::shared_ptr<const Event> last_use);
  /// A loaded weight, to be held while it is used.
  [[nodiscard]] WeightHandle weight(const WeightUse& use) const;
  /// Bytes on the device of the weights that the store holds, and how many weights those are, unloaded ones among them.
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return kept_.size(); }
  [[nodiscard]] const Backend& backend() const noexcept { return backend_; }

 private:
  using Key = std::pair<std::string, std::string>;
  using Uses = std::vector<const WeightUse*>;
  using Users = std::vector<std::shared_ptr<HeldWeights>>;
  [[nodiscard]] std::vector<Uses> list_uses(const Program& program,
                                            bool (*are_listed)(const WeightHandle& known)) const;
  void fold(const Program& program, const Uses& uses);
  void fold_again(std::span<const std::string> params, const std::function<void(std::size_t)>& make_room = {});
  struct FoldingGroup;
  [[nodiscard]] std::vector<FoldingGroup> foldings_of(std::span<const std::string> params);
  static void leave_out_unloaded(std::vector<FoldingGroup>& groups);
  void bring_back(const std::vector<WeightHandle>& away);
  [[nodiscard]] Users users() const;
  [[nodiscard]] Users users_of(const std::vector<WeightHandle>& weights) const;
  void take_up(const WeightUse& use);
  /// Null where it is not here.
  [[nodiscard]] WeightHandle find(const WeightUse& use) const;
  void forget_unused();

  Backend& backend_;
  std::shared_ptr<Stream> stream_;   // that weights are folded on
  std::unique_ptr<Stream> uploads_;  // of params of many weights
  ParamValues params_;
  FoldingPrograms programs_;
  std::vector<WeightFolding> foldings_;  // of weights that depend on params
  std::vector<std::weak_ptr<HeldWeights>> held_;
  std::map<Key, WeightHandle> kept_;
  std::map<Key, std::weak_ptr<FoldedWeight>> dropped_;  // that a session may still hold
};

}  // namespace headroom
