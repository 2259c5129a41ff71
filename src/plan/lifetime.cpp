#include "plan/lifetime.hpp"

#include <cstddef>
#include <utility>

namespace headroom {

Loops::Loops(int moments, std::vector<Lifetime> loops)
    : loops_(std::move(loops)), innermost_(static_cast<std::size_t>(moments), -1) {
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    outer_.push_back(innermost_[static_cast<std::size_t>(loops_[l].first)]);
    for (int moment = loops_[l].first; moment <= loops_[l].last; ++moment)
      innermost_[static_cast<std::size_t>(moment)] = static_cast<int>(l);
  }
}

int Loops::needed_until(int first, int read) const {
  int until = read;
  for (int l = innermost_[static_cast<std::size_t>(read)]; l >= 0; l = outer_[static_cast<std::size_t>(l)]) {
    if (loops_[static_cast<std::size_t>(l)].first <= first) break;
    until = loops_[static_cast<std::size_t>(l)].last;
  }
  return until;
}

}  // namespace headroom
