#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "run/compile.hpp"
#include "run/weight_store.hpp"

/// Whether a request fits in a device's memory, told before anything is loaded, and what would.
namespace headroom {

/// How much is asked for at once.
struct RequestSize {
  std::int64_t images = 1;
  std::int64_t token_rows = 0;  ///< 0, like the columns, where the size of an image is fixed
  std::int64_t token_columns = 0;
};

/// A request as it may be asked for in other ways.
struct FittedRequest {
  std::string model;
  SwitchSet switches;
  RequestSize size;
  std::function<Compiled(const SwitchSet& switches, const RequestSize& size)> compile;
  /// Programs of other stages that are not loaded yet and will be in memory beside it.
  std::vector<const Program*> beside = {};
  bool suggests = true;  ///< the error tells what would fit, which takes as long as planning it
};

/// Throws OutOfMemory where a session of `program`, which is the request compiled, and of those beside it need more than
/// the device has: with the need by category and, each planned, requests that fit: more switches, fewer images, smaller
/// ones.
void require_fit(const Program& program, const FittedRequest& request, const WeightStore& weights,
                 const Backend& backend);

}  // namespace headroom
