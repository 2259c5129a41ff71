#pragma once

#include <string>
#include <string_view>

namespace headroom {

/// A shared library that is opened by its soname at first use, so that the program starts without it. It is never
/// closed.
class OpenedLibrary {
 public:
  /// `user` is the function that needs it ("a matmul on a GPU"), `product` the package to install ("cuBLAS
  /// 13"). Throws Error with both if the loader does not find it.
  OpenedLibrary(std::string_view user, std::string soname, std::string product);

  /// Sets `function` to the symbol of that name. Throws Error if there is none.
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
