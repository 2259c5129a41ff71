#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tune/nearest_size.hpp"

namespace headroom::tune {

/// Algorithms of a library that were found fastest before, in one JSON file (schema `headroom.algorithms/1`) for each GPU,
/// driver and version of the library. It only saves time: where the file cannot be read, is not what it should be or
/// cannot be written, it is as if there were none. Not for several threads at once; processes may share a file, which is read
/// again when it has changed.
class TuningCache {
 public:
  /// All that a choice depends on beside the work.
  struct Machine {
    std::string device;   ///< "NVIDIA H200"
    std::string driver;   ///< "580.159.03"
    std::string library;  ///< "cuBLASLt 130100"
  };
  TuningCache(const std::filesystem::path& folder, Machine machine);
  /// In ${XDG_CACHE_HOME:-~/.cache}/headroom/algorithms. Nothing where neither variable names a place.
  [[nodiscard]] static std::optional<TuningCache> of_user(Machine machine);

  /// What is kept for a piece of work, by its text.
  [[nodiscard]] std::optional<std::string> find(const std::string& work);
  /// What is kept for work of a kin, in any order.
  [[nodiscard]] std::vector<TunedSize> find_family(const std::string& family);
  /// Keeps a choice beside those that are there; the file appears whole or stays as it was.
  void store(const std::string& work, const std::string& algorithm, double microseconds, const SizeKey& size_key = {});

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

 private:
  struct Choice {
    std::string algorithm;
    std::optional<double> microseconds = std::nullopt;
    SizeKey size_key = {};
  };
  using Choices = std::map<std::string, Choice>;  // by work
  /// Which writing of the file was read.
  struct Stamp {
    std::filesystem::file_time_type written;
    std::uintmax_t bytes = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  [[nodiscard]] std::optional<Stamp> stamp() const;
  [[nodiscard]] Choices read() const;
  void write(const Choices& choices) const;
  /// As the file has them now.
  Choices& choices();
  /// What was read or written with this stamp need not be read again before the stamp is another.
  void trust(const std::optional<Stamp>& stamp);

  Machine machine_;
  std::filesystem::path file_;
  Choices choices_;
  std::optional<Stamp> read_;  // nothing where choices_ may be old
};

}  // namespace headroom::tune
