#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/progress.hpp"

namespace headroom {

/// Progress bars of consecutive phases.
class PhaseProgress {
 public:
  explicit PhaseProgress(bool quiet) : quiet_(quiet) {}
  void show(std::string_view phase, std::int64_t done, std::int64_t total) {
    if (!shown_)
      shown_.emplace(std::string(phase), total, quiet_);
    else if (phase != phase_)
      shown_->begin(std::string(phase), total);
    phase_ = phase;
    shown_->set(done);
  }

 private:
  bool quiet_;
  std::string phase_;
  std::optional<Progress> shown_;
};

}  // namespace headroom
