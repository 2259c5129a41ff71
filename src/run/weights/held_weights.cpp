#include "run/weights/held_weights.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace headroom {

HeldWeights::HeldWeights(const Program& program, std::vector<WeightHandle> weights, Backend& backend,
                         std::shared_ptr<Stream> changes, std::shared_ptr<const Event> last_use)
    : program_(program),
      weights_(std::move(weights)),
      changes_(std::move(changes)),
      last_use_(std::move(last_use)),
      last_change_(backend.make_event()) {}

HeldWeights::~HeldWeights() {
  try {
    changes_->wait(*last_use_);
  } catch (const Error&) {  // a lost device runs nothing
  }
}

void HeldWeights::wait_for_changes(Stream& stream) {
  if (!is_loaded_) fail("the weights of {} are unloaded: reload them first", program_.graph.name());
  if (std::exchange(is_changed_, false)) stream.wait(*last_change_);
}

bool HeldWeights::holds(const WeightHandle& weight) const {
  return std::ranges::find(weights_, weight) != weights_.end();
}

bool HeldWeights::holds_any_of(const std::vector<WeightHandle>& others) const {
  return std::ranges::any_of(others, [&](const WeightHandle& other) { return holds(other); });
}

void HeldWeights::begin_change() { changes_->wait(*last_use_); }

void HeldWeights::end_change() {
  last_change_->record(*changes_);
  is_changed_ = true;
}

}  // namespace headroom
