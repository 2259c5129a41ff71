#pragma once

#include "base/error.hpp"

namespace headroom {

/// The device or the host has too little memory. A caller that tries several sizes may continue with the next.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace headroom
