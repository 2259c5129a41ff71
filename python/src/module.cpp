#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "measure.hpp"
#include "networks.hpp"
#include "pictures.hpp"
#include "tensor.hpp"

/// The Python module, on the public header of the library.
namespace headroom::python {
namespace {

nb::handle error_type(const char* name) {
  // The types live as long as the interpreter.
  return nb::object(nb::module_::import_("headroom._errors").attr(name)).release();
}

void translate_errors() {
  struct Types {
    nb::handle error = error_type("Error"), usage = error_type("UsageError"), memory = error_type("OutOfMemory"),
               internal = error_type("InternalError");
  };
  static const Types types;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* payload) {
        const auto& known = *static_cast<const Types*>(payload);
        try {
          std::rethrow_exception(thrown);
        } catch (const OutOfMemory& error) {
          PyErr_SetString(known.memory.ptr(), error.what());
        } catch (const Error& error) {
          PyErr_SetString((error.kind() == Error::Kind::kUsage ? known.usage : known.error).ptr(), error.what());
        } catch (const std::logic_error& error) {
          PyErr_SetString(known.internal.ptr(), error.what());
        }
      },
      const_cast<Types*>(&types));
}

}  // namespace
}  // namespace headroom::python

NB_MODULE(_headroom, module) {
  using namespace headroom::python;
  module.doc() = "Headroom's library: networks compiled under named optimizations.";
  translate_errors();
  module.def(
      "version", [] { return std::string(headroom::version()); }, "The version of the library.");
  bind_tensor(module);
  bind_networks(module);
  bind_pictures(module);
  bind_measure(module);
}
