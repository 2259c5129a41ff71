#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "base/dtype_code.hpp"
#include "base/shape.hpp"
#include "run/compile.hpp"
#include "run/component.hpp"
#include "run/forward_pass.hpp"
#include "run/session.hpp"
#include "run/weight_store.hpp"

#define HEADROOM_INTERNAL
#include "api/headroom.hpp"

/// What stands behind the handles of the interface. Each holds what it was made from.
namespace headroom::v1 {

struct Device::Impl {
  std::unique_ptr<Backend> backend;

  /// The backend, for the calling thread.
  [[nodiscard]] Backend& here() const {
    backend->make_current();
    return *backend;
  }
};

struct Component::Impl {
  Device device;
  headroom::Component network;
  WeightStore weights;
  std::vector<PassInfo> passes;

  Impl(const Device& on, Backend& backend, headroom::Component opened);
};

struct CompiledPass::Impl {
  Component component;
  ForwardPass pass;
  SwitchSet switches;
  Compiled compiled;
  // As the interface tells them.
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  std::vector<std::string> switch_names;
  std::vector<Declined> declined;
  std::vector<Launch> launches;

  Impl(Component of, ForwardPass forward, SwitchSet asked, Compiled made);
};

struct Session::Impl {
  CompiledPass pass;
  headroom::Session session;
  bool has_run = false;

  /// The inner session, for the calling thread.
  [[nodiscard]] headroom::Session& here();
};

[[nodiscard]] constexpr headroom::DType inner(DType dtype) { return static_cast<headroom::DType>(dtype); }
[[nodiscard]] constexpr DType outer(headroom::DType dtype) { return static_cast<DType>(dtype); }
/// Throws Error for more axes than there can be, and for extents below 0.
[[nodiscard]] headroom::Shape inner(const Shape& shape);
[[nodiscard]] Shape outer(const headroom::Shape& shape);

/// Throws the exception that is being handled, an Error from inside as the interface's own.
[[noreturn]] void rethrow_outer();

/// What `body` returns; its Errors become those of the interface.
template <class Body>
auto translated(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    rethrow_outer();
  }
}

}  // namespace headroom::v1
