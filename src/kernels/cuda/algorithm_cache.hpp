#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace headroom::cuda {

/// Algorithms of a library that were found fastest before, in one JSON file (schema `headroom.algorithms/1`) for each GPU,
/// driver and version of the library. It only saves time: where the file cannot be read, is not what it should be or
/// cannot be written, it is as if there were none.
class AlgorithmCache {
 public:
  /// All that a choice depends on beside the work.
  struct Machine {
    std::string device;   ///< "NVIDIA H200"
    std::string driver;   ///< "580.159.03"
    std::string library;  ///< "cuBLASLt 130100"
  };
  AlgorithmCache(const std::filesystem::path& folder, Machine machine);
  /// In ${XDG_CACHE_HOME:-~/.cache}/headroom/algorithms. Nothing where neither variable names a place.
  [[nodiscard]] static std::optional<AlgorithmCache> of_user(Machine machine);

  /// What is kept for a piece of work, by its text.
  [[nodiscard]] std::optional<std::string> find(const std::string& work) const;
  /// Keeps a choice beside those that are there; the file appears whole or stays as it was.
  void store(const std::string& work, const std::string& algorithm, double microseconds) const;

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

 private:
  Machine machine_;
  std::filesystem::path file_;
};

}  // namespace headroom::cuda
