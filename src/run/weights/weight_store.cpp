#include "run/weights/weight_store.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "plan/weight_key.hpp"
#include "run/component.hpp"
#include "run/weights/folding_line.hpp"

namespace headroom {

namespace {

/// The peak memory while `graph` makes weights of this many bytes: the params plus the operands of the largest node,
/// then these plus the weights. Operands of a concatenation are made at their destination.
std::size_t folding_bytes(const Graph& graph, std::size_t weights, bool is_packed) {
  std::size_t params = 0, largest = 0;
  for (const ValueId param : graph.values_of(ValueKind::kInput)) params += graph.type(param).bytes();
  if (graph.nodes().empty()) return is_packed ? params + weights : weights;  // the param is the weight
  for (const Node& node : graph.nodes()) {
    std::size_t held = 0;
    for (const ValueId result : node.results) held += graph.type(result).bytes();
    for (const ValueId operand : node.inputs)
      if (node.op != Op::kConcat && graph.value(operand).kind == ValueKind::kResult)
        held += graph.type(operand).bytes();
    largest = std::max(largest, held);
  }
  return std::max(params, weights) + largest;
}

bool is_missing(const WeightHandle& known) { return known == nullptr; }
bool is_not_loaded(const WeightHandle& known) { return known == nullptr || !known->is_loaded(); }

}  // namespace

/// The uses whose weight, if it is in the store, satisfies `are_listed`. Results of one node are folded together.
std::vector<WeightStore::Uses> WeightStore::list_uses(const Program& program,
                                                      bool (*are_listed)(const WeightHandle& known)) const {
  const std::vector<int> producers = find_producers(program.graph);
  std::vector<Uses> groups;
  std::map<int, std::size_t> group_of;  // by the node that makes the weight
  for (const WeightUse& use : program.weights) {
    if (!are_listed(find(use))) continue;
    const int producer = producers[index_of(use.value)];
    if (producer >= 0) {
      const auto [group, is_new] = group_of.try_emplace(producer, groups.size());
      if (!is_new) {
        groups[group->second].push_back(&use);
        continue;
      }
    }
    groups.push_back({&use});
  }
  return groups;
}

void WeightStore::load(const Program& program) {
  reload(program);
  stream_->synchronize();
}

/// The host runs ahead of the device: while one weight is folded, the next is being copied.
void WeightStore::reload(const Program& program) {
  for (const WeightUse& use : program.weights) take_up(use);
  fold_missing(program);
  std::vector<WeightHandle> away;
  for (const WeightUse& use : program.weights)
    if (WeightHandle known = weight(use); !known->is_loaded()) away.push_back(std::move(known));
  bring_back(away);
  forget_unused();
  for (const auto& user : users()) {
    if (!user->is_of(program) || user->is_loaded()) continue;
    user->set_loaded(true);
    user->end_change();  // earlier copies may still be in progress, for another program
  }
}

void WeightStore::bring_back(const std::vector<WeightHandle>& away) {
  if (away.empty()) return;
  for (const auto& user : users_of(away)) user->begin_change();
  for (const WeightFolding& folding : foldings_) {
    std::vector<WeightHandle> to_fold;
    for (WeightHandle& made : folding.weights()) {
      if (made->is_loaded() || std::ranges::find(away, made) == away.end()) continue;
      made->reload(*stream_);
      if (!made->is_loaded()) to_fold.push_back(std::move(made));
    }
    if (!to_fold.empty()) folding.fold_again(to_fold, params_, programs_, backend_, stream_, [] {});
  }
  HR_CHECK(std::ranges::none_of(away, is_not_loaded));
}

void WeightStore::unload(const Program& program, std::size_t at_least, const Program* spared) {
  std::set<WeightHandle> kept;
  if (spared != nullptr)
    for (const WeightUse& use : spared->weights) kept.insert(find(use));
  const Users all = users();
  for (const auto& user : all)
    if (user->is_of(program)) user->set_loaded(false);
  std::size_t freed = 0;
  for (const WeightUse& use : program.weights) {
    if (freed >= at_least) return;
    const WeightHandle known = find(use);
    if (known == nullptr || !known->can_unload() || known->bytes() == 0 || kept.contains(known)) continue;
    const auto uses_it = [&](const auto& user) { return user->is_loaded() && user->holds(known); };
    if (std::ranges::any_of(all, uses_it)) continue;
    freed += known->bytes();
    known->unload(backend_, *stream_);
  }
}

LoadNeed WeightStore::need_of(const Program& program) const {
  LoadNeed need;
  const bool has_host_copies = backend_.properties().target.device->has_own_memory;
  std::set<std::string> freed;
  for (const Uses& uses : list_uses(program, is_not_loaded)) {
    const bool is_packed = std::ranges::any_of(uses, [](const WeightUse* use) { return use->packer != nullptr; });
    std::size_t made = 0;
    for (const WeightUse* use : uses) made += backend_.reserved_size(use->bytes);
    const WeightFolding weights(program, uses);
    const std::size_t folding = folding_bytes(weights.graph(params_), made, is_packed);
    for (const auto& [param, type] : weights.params())
      if (params_.is_freed(param) && freed.insert(param).second) need.freed += type.bytes();
    need.peak = std::max(need.peak, need.weights + folding);
    // A weight that is folded again, as on a CPU, has its memory back before that.
    const bool is_folded_again =
        !has_host_copies && std::ranges::any_of(uses, [&](const WeightUse* use) { return find(*use) != nullptr; });
    need.transient = std::max(need.transient, is_folded_again ? folding : folding - std::min(folding, made));
    need.weights += made;
  }
  return need;
}

WeightStore::WeightStore(Backend& backend, std::span<const Component> components) : WeightStore(backend) {
  ParamUpdates updates;
  for (const Component& component : components) {
    add(component.part, component.checkpoint);
    updates.insert(component.updates.begin(), component.updates.end());
  }
  params_.set_updates(std::move(updates));
}

WeightStore& WeightStore::on(Backend& backend) {
  if (&backend == &backend_) return *this;
  std::unique_ptr<WeightStore>& other = others_[&backend];
  if (other == nullptr) {
    other = std::make_unique<WeightStore>(backend);
    other->params_ = params_;
  }
  return *other;
}

template <class Change>
void WeightStore::change_others(const Change& change) {
  for (const auto& [backend, store] : others_) {
    backend->make_current();
    change(*store);
  }
  if (!others_.empty()) backend_.make_current();
}

void WeightStore::keep_only(std::span<const Program* const> programs) {
  std::map<Key, WeightHandle> used;
  for (const Program* program : programs)
    for (const WeightUse& use : program->weights) {
      take_up(use);
      if (auto found = kept_.extract({use.key, use.layout})) used.insert(std::move(found));
    }
  for (const auto& [key, weight] : kept_) dropped_.insert_or_assign(key, weight);
  kept_ = std::move(used);
  forget_unused();
}

/// Removes weights that nothing holds.
void WeightStore::forget_unused() {
  std::erase_if(dropped_, [](const auto& weight) { return weight.second.expired(); });
  std::erase_if(foldings_, [](const WeightFolding& folding) { return !folding.is_needed(); });
  std::erase_if(held_, [](const auto& held) { return held.expired(); });
}

/// Returns a dropped weight to the store, if a session still holds it.
void WeightStore::take_up(const WeightUse& use) {
  const auto found = dropped_.find({use.key, use.layout});
  if (found == dropped_.end()) return;
  if (WeightHandle weight = found->second.lock()) kept_.emplace(found->first, std::move(weight));
  dropped_.erase(found);
}

WeightHandle WeightStore::find(const WeightUse& use) const {
  const Key key{use.key, use.layout};
  if (const auto kept = kept_.find(key); kept != kept_.end()) return kept->second;
  const auto dropped = dropped_.find(key);
  return dropped == dropped_.end() ? nullptr : dropped->second.lock();
}

/// Tells checkpoints which tensors are finished, a few at a time, so that their memory can be freed in between.
void WeightStore::fold_missing(const Program& program) {
  constexpr std::size_t kFinishedBytes = std::size_t{64} << 20;
  const std::vector<Uses> groups = list_uses(program, is_missing);
  std::vector<WeightFolding> foldings;
  std::map<std::string, std::size_t> last_reader;
  for (const Uses& uses : groups) {
    foldings.emplace_back(program, uses);
    for (const auto& [param, type] : foldings.back().params())
      if (params_.is_freed(param)) last_reader.insert_or_assign(param, foldings.size() - 1);
  }
  std::vector<std::string> finished;
  std::size_t bytes = 0;
  const auto finish = [&] {
    if (finished.empty()) return;
    stream_->synchronize();
    for (const std::string& param : finished) params_.finish(param);
    finished.clear();
    bytes = 0;
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const auto& [param, type] : foldings[g].params())
      if (const auto last = last_reader.find(param); last != last_reader.end() && last->second == g)
        finished.push_back(param);
    for (const WeightUse* use : groups[g]) bytes += use->bytes;
    fold(std::move(foldings[g]), groups[g]);
    if (bytes >= kFinishedBytes) finish();
  }
  finish();
}

void WeightStore::fold(WeightFolding folding, const Uses& uses) {
  std::vector<WeightHandle> weights = folding.fold(params_, programs_, backend_, stream_);
  for (std::size_t i = 0; i < uses.size(); ++i)
    kept_.emplace(Key{uses[i]->key, uses[i]->layout}, std::move(weights[i]));
  if (folding.is_needed()) foldings_.push_back(std::move(folding));
}

void WeightStore::change_param(const std::string& param, HostTensor value) {
  change_others([&](WeightStore& other) { other.change_param(param, value); });
  params_.change(param, std::move(value));
  fold_again({&param, 1});
}

void WeightStore::restore_param(const std::string& param) {
  change_others([&](WeightStore& other) { other.restore_param(param); });
  params_.restore(param);
  fold_again({&param, 1});
}

std::vector<std::string> WeightStore::update_params(ParamUpdates updates,
                                                    const std::function<void(std::size_t)>& make_room) {
  std::vector<std::string> changed = differing_params(params_.updates(), updates);
  if (changed.empty()) return changed;
  change_others([&](WeightStore& other) { static_cast<void>(other.update_params(updates)); });
  params_.set_updates(std::move(updates));
  fold_again(changed, make_room);
  return changed;
}

/// Foldings that share one program; the program is null if the weights are unchanged params.
struct WeightStore::FoldingGroup {
  std::shared_ptr<const Program> program;
  std::vector<FoldingJob> jobs;
};

/// The foldings of weights that depend on these params, which are in order.
std::vector<WeightStore::FoldingGroup> WeightStore::foldings_of(std::span<const std::string> params) {
  std::vector<FoldingGroup> groups;
  for (const WeightFolding& folding : foldings_) {
    if (!folding.depends_on(params)) continue;
    std::vector<WeightHandle> weights = folding.weights();
    if (weights.empty()) continue;
    std::shared_ptr<const Program> program = folding.program(params_, programs_);
    auto group = std::ranges::find(groups, program, &FoldingGroup::program);
    if (group == groups.end()) group = groups.insert(groups.end(), {.program = std::move(program), .jobs = {}});
    group->jobs.push_back({.folding = &folding, .wanted = std::move(weights)});
  }
  return groups;
}

/// Leaves out unloaded weights, and marks them to be folded when they are reloaded.
void WeightStore::leave_out_unloaded(std::vector<FoldingGroup>& groups) {
  for (FoldingGroup& group : groups) {
    for (FoldingJob& job : group.jobs) {
      for (const WeightHandle& weight : job.wanted) weight->forget_host_copy();
      std::erase_if(job.wanted, [](const WeightHandle& weight) { return !weight->is_loaded(); });
    }
    std::erase_if(group.jobs, [](const FoldingJob& job) { return job.wanted.empty(); });
  }
  std::erase_if(groups, [](const FoldingGroup& group) { return group.jobs.empty(); });
}

void WeightStore::fold_again(std::span<const std::string> params, const std::function<void(std::size_t)>& make_room) {
  forget_unused();
  std::vector<FoldingGroup> groups = foldings_of(params);
  leave_out_unloaded(groups);
  if (make_room) {
    std::size_t most = 0;
    for (const FoldingGroup& group : groups)
      if (group.program != nullptr)
        most = std::max(most, FoldingLine(group.program, group.jobs, params_, backend_).bytes());
    make_room(most);
    leave_out_unloaded(groups);
  }

  std::vector<WeightHandle> all;
  for (const FoldingGroup& group : groups)
    for (const FoldingJob& job : group.jobs) all.insert(all.end(), job.wanted.begin(), job.wanted.end());
  if (all.empty()) return;
  for (const WeightHandle& weight : all) weight->set_stale();
  const Users changed = users_of(all);
  bool has_begun = false;
  const auto begin = [&] {
    if (std::exchange(has_begun, true)) return;
    for (const auto& user : changed) user->begin_change();
  };
  try {
    for (const FoldingGroup& group : groups) {
      if (group.program != nullptr && group.jobs.size() > 1) {
        FoldingLine(group.program, group.jobs, params_, backend_).run(stream_, *uploads_, begin);
        continue;
      }
      for (const FoldingJob& job : group.jobs)
        job.folding->fold_again(job.wanted, params_, programs_, backend_, stream_, begin);
    }
  } catch (...) {
    std::erase_if(all, [](const WeightHandle& weight) { return weight->is_loaded(); });
    for (const auto& user : users_of(all)) user->set_loaded(false);
    for (const auto& user : changed) user->end_change();
    throw;
  }
  for (const auto& user : changed) user->end_change();
}

WeightStore::Users WeightStore::users() const {
  Users users;
  for (const std::weak_ptr<HeldWeights>& held : held_)
    if (std::shared_ptr<HeldWeights> user = held.lock()) users.push_back(std::move(user));
  return users;
}

WeightStore::Users WeightStore::users_of(const std::vector<WeightHandle>& weights) const {
  Users users = this->users();
  std::erase_if(users, [&](const auto& user) { return !user->holds_any_of(weights); });
  return users;
}

std::shared_ptr<HeldWeights> WeightStore::hold(const Program& program, std::shared_ptr<const Event> last_use) {
  load(program);
  std::vector<WeightHandle> weights;
  for (const WeightUse& use : program.weights) weights.push_back(weight(use));
  auto held = std::make_shared<HeldWeights>(program, std::move(weights), backend_, stream_, std::move(last_use));
  held_.push_back(held);
  return held;
}

WeightHandle WeightStore::weight(const WeightUse& use) const {
  const auto found = kept_.find({use.key, use.layout});
  HR_CHECK(found != kept_.end());
  return found->second;
}

std::size_t WeightStore::bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& [key, weight] : kept_) bytes += weight->bytes();
  return bytes;
}

}  // namespace headroom
