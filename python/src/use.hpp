#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headroom.hpp"

namespace headroom::python {

namespace nb = nanobind;

/// The turns of threads at one device. The library lets one thread at a time use a device and all that was made from
/// it; here the others wait, without Python's global lock.
class DeviceUse {
 public:
  /// One thread's turn. Throws Error within a callback of a call on the same device, and in a process that was forked
  /// after the library was used.
  class Turn {
   public:
    explicit Turn(DeviceUse& use);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    DeviceUse& use_;
  };

  /// Destroys an object of the device, now or in the turn of another thread that has the device.
  void destroy(std::function<void()> free);

 private:
  void destroy_waiting();

  std::mutex turn_;
  std::atomic<std::thread::id> owner_{};
  std::mutex waiting_mutex_;
  std::vector<std::function<void()>> waiting_;
};

/// Throws Error in a forked process: neither threads of kernels nor a GPU's context survive a fork.
void require_own_process();

struct PyDevice {
  Device device;
  std::shared_ptr<DeviceUse> use;
};

/// An object of the library with its device. A call of it holds both for one thread, and releases Python's global lock.
template <class T>
class Owned {
 public:
  /// `make` is called in a turn of the device.
  template <class Make>
  Owned(const char* what, PyDevice device, const Make& make) : what_(what), device_(std::move(device)) {
    const nb::gil_scoped_release without_lock;
    const DeviceUse::Turn turn(*device_.use);
    object_ = std::make_unique<T>(make());
  }
  ~Owned() {
    if (object_) device_.use->destroy([object = std::shared_ptr<T>(std::move(object_))]() mutable { object.reset(); });
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  /// Calls `body` with the object. Throws Error if another thread, or a call further up, is using the same object.
  template <class Body>
  auto call(const Body& body) {
    if (in_use_.exchange(true))
      throw Error(std::string("the ") + what_ + " is in use by another call: give each thread one of its own",
                  Error::Kind::kUsage);
    const Unused unused{in_use_};
    const nb::gil_scoped_release without_lock;
    const DeviceUse::Turn turn(*device_.use);
    return body(*object_);
  }
  /// For what never changes.
  [[nodiscard]] const T& peek() const { return *object_; }
  [[nodiscard]] const PyDevice& device() const { return device_; }

 private:
  struct Unused {
    std::atomic<bool>& in_use;
    ~Unused() { in_use = false; }
  };

  const char* what_;
  PyDevice device_;
  std::unique_ptr<T> object_;
  std::atomic<bool> in_use_ = false;
};

}  // namespace headroom::python
