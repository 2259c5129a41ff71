#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tune/nearest_size.hpp"

namespace headroom::tune {

/// The fastest algorithms of a library found so far, in one JSON file (schema `headroom.algorithms/1`) per GPU,
/// driver and library version. The file only saves time: one that is unreadable, malformed or not writable is
/// ignored. Not thread-safe; processes may share a file, which is read again when it has changed.
class TuningCache {
 public:
  /// All that a choice depends on in addition to the work.
  struct Machine {
    std::string device;   ///< "NVIDIA H200"
    std::string driver;   ///< "580.159.03"
    std::string library;  ///< "cuBLASLt 130100"
  };
  TuningCache(const std::filesystem::path& folder, Machine machine);
  /// The cache in ${XDG_CACHE_HOME:-~/.cache}/headroom/algorithms. Nothing if neither variable is set.
  [[nodiscard]] static std::optional<TuningCache> of_user(Machine machine);

  /// The stored algorithm for the work with this text.
  [[nodiscard]] std::optional<std::string> find(const std::string& work);
  /// The stored algorithms of a family, in any order.
  [[nodiscard]] std::vector<TunedSize> find_family(const std::string& family);
  /// Adds a choice to the file, which is replaced atomically.
  void store(const std::string& work, const std::string& algorithm, double microseconds, const SizeKey& size_key = {});

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

 private:
  struct Choice {
    std::string algorithm;
    std::optional<double> microseconds = std::nullopt;
    SizeKey size_key = {};
  };
  using Choices = std::map<std::string, Choice>;  // by work
  /// Identifies a version of the file.
  struct Stamp {
    std::filesystem::file_time_type written;
    std::uintmax_t bytes = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  [[nodiscard]] std::optional<Stamp> stamp() const;
  [[nodiscard]] Choices read() const;
  void write(const Choices& choices) const;
  /// The choices in the current version of the file.
  Choices& choices();
  /// Marks choices_ as current until the file's stamp differs from this one.
  void trust(const std::optional<Stamp>& stamp);

  Machine machine_;
  std::filesystem::path file_;
  Choices choices_;
  std::optional<Stamp> read_;  // nothing where choices_ may be old
};

}  // namespace headroom::tune
