#include "use.hpp"

#include <pthread.h>

namespace headroom::python {
namespace {

std::atomic<bool> is_used = false;    // by this process or by the one that it was forked from
std::atomic<bool> is_forked = false;  // since

const int registered = ::pthread_atfork(nullptr, nullptr, [] {
  if (is_used) is_forked = true;
});

}  // namespace

void require_own_process() {
  (void)registered;
  if (is_forked)
    throw Error(
        "headroom was used before this process was forked, and neither its threads nor a GPU survive that: "
        "start processes by the method 'spawn', or fork before the first use",
        Error::Kind::kUsage);
  is_used = true;
}

DeviceUse::Turn::Turn(DeviceUse& use) : use_(use) {
  require_own_process();
  if (use.owner_ == std::this_thread::get_id())
    throw Error("a callback used the device of the call that it was called from: return from it first",
                Error::Kind::kUsage);
  use.turn_.lock();
  use.owner_ = std::this_thread::get_id();
}

DeviceUse::Turn::~Turn() {
  use_.destroy_waiting();
  use_.owner_ = std::thread::id();
  use_.turn_.unlock();
}

void DeviceUse::destroy(std::function<void()> free) {
  if (is_forked) {                                                  // what it would free is the parent's
    static_cast<void>(new std::function<void()>(std::move(free)));  // NOLINT: deliberately leaked
    return;
  }
  {
    const std::scoped_lock lock(waiting_mutex_);
    waiting_.push_back(std::move(free));
  }
  if (owner_ == std::this_thread::get_id() || !turn_.try_lock()) return;  // the thread in turn does it
  destroy_waiting();
  turn_.unlock();
}

void DeviceUse::destroy_waiting() {
  std::vector<std::function<void()>> waiting;
  {
    const std::scoped_lock lock(waiting_mutex_);
    waiting.swap(waiting_);
  }
}

}  // namespace headroom::python
