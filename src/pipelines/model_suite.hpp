#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// One benchmark of the suite `models`.
struct ModelCase {
  std::string model;
  std::string request;                 ///< "batch 20"
  std::vector<std::string> arguments;  ///< options of `bench`, as --name=value
  [[nodiscard]] std::string name() const { return model + " " + request; }
};

/// The model that ships with the project, and FLUX-shaped models of growing size with random weights, which show how
/// time grows with the size. The large ones take hours on a CPU.
[[nodiscard]] std::vector<ModelCase> list_model_cases(bool with_large);

/// The cases whose name contains a match of the regular expression (POSIX, extended); empty takes all. Throws a usage
/// Error for an invalid expression and for one that matches nothing.
[[nodiscard]] std::vector<ModelCase> filter_model_cases(std::vector<ModelCase> cases, const std::string& pattern);

}  // namespace headroom
