#pragma once

#include "base/error.hpp"

namespace headroom {

/// A device or the host has not as much memory as is needed. Whoever tries several sizes may go on with the next.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace headroom
