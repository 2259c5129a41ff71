#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// A shared library that is opened by its soname when it is first needed, so that the program starts without it. It
/// stays open.
class OpenedLibrary {
 public:
  /// `user` is what needs it ("a matrix product on a GPU"), `product` what to install ("cuBLAS 13"). Throws Error, with
  /// both, where the loader does not find it.
  OpenedLibrary(std::string_view user, std::string soname, std::string product);

  /// Sets `function` to the one of that name. Throws Error where there is none.
  template <typename Function>
  void resolve(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(address_of(name));  // NOLINT: what dlsym is for
  }

 private:
  [[nodiscard]] void* address_of(const char* name) const;

  std::string soname_, product_;
  void* file_;
};

}  // namespace headroom
