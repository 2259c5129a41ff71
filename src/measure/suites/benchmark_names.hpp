#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "measure/results/result.hpp"

namespace headroom {

/// The name of a result for people, in which switches are joined by "+" as in the rungs of a ladder: "arena+fuse".
[[nodiscard]] std::string shown_name(const Result& result);

/// Names of benchmarks for people: of a model with its name, of a peer with the peer's. Where several works have one
/// name, as the cells of a sweep, also what of its request tells each from the others.
class BenchmarkNames {
 public:
  void add(const Result& result);
  void add(const ResultFile& file);
  /// "tiny-dit lossless", or "tiny-dit lossless (images 4, steps 28)"; of a result that was added.
  [[nodiscard]] std::string of(const Result& result) const;

 private:
  std::map<std::string, std::map<std::string, nlohmann::json>> requests_;  // by name and work_hash()
};

}  // namespace headroom
