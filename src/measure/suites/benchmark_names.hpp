#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// The display name of a result: its configuration by asked_name(). A kernel, a result of another program, and one
/// without switches has its own name.
[[nodiscard]] std::string shown_name(const Machine& machine, const Result& result);

/// Display names of benchmarks, with the name of the model and of a peer. If several works share a name, such as the
/// cells of a sweep, the differing members of the requests are appended.
class BenchmarkNames {
 public:
  void add(const ResultFile& file);
  /// "tiny-dit lossless", or "tiny-dit lossless (images 4, steps 28)". The result must have been added, in a file of
  /// this machine.
  [[nodiscard]] std::string of(const Machine& machine, const Result& result) const;

 private:
  std::map<std::string, std::map<std::string, nlohmann::json>> requests_;  // by name and work_hash()
};

}  // namespace headroom
