#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "differential/bounds.hpp"
#include "differential/setups.hpp"

namespace headroom {
struct Program;
class Session;
}  // namespace headroom

namespace headroom::differential {

/// What went wrong with a graph, and how to do it again.
struct Failure {
  std::string passes;  ///< the set's name
  std::string plan;    ///< the setup's name; empty where the passes alone are wrong
  std::string message;
  bool threw = false;  ///< an exception, and no number that is off
  friend bool operator==(const Failure&, const Failure&) = default;
};

/// What many graphs came to: how often each pass fired and each kernel of the device was chosen, by name, to run steps
/// or to fold weights, and how sharp the bounds were.
struct Tally {
  std::map<std::string, std::int64_t, std::less<>> fired;
  std::map<std::string, std::int64_t, std::less<>> chosen;
  std::int64_t programs = 0;             ///< planned and run
  std::int64_t tiled = 0;                ///< programs with a tiled run
  std::int64_t without_kernel = 0;       ///< graphs that no kernels of the device run
  std::string last_without_kernel = {};  ///< and why the last of them
  std::int64_t elements = 0;             ///< compared
  std::int64_t sharp = 0;                ///< whose bound is a tenth of their tensor's largest element, or less
};

/// Which setups to try.
struct CheckOptions {
  std::uint64_t seed = 0;            ///< of the data
  std::optional<Failure> only = {};  ///< the passes and plan of an earlier failure alone
  std::uint64_t turns = 1;           ///< single passes, and those for other devices, are tried on one of so many graphs
  bool all_plans = false;            ///< every setup with every plan; otherwise single passes take turns
  std::uint64_t special_turns = 4;   ///< NaN, infinities and rows of zeros are planted in one of so many graphs
};

/// Holds graphs under every setup against the oracle. Keeps backends; weights are written to a folder of its own, for a
/// checkpoint to read.
class Checker {
 public:
  explicit Checker(DeviceKind device);
  ~Checker();

  /// Nothing, or the first failure. A rewritten graph must agree with the original in the oracle, and its programs with
  /// the oracle on the rewritten graph, within bounds that follow from dtypes.
  [[nodiscard]] std::optional<Failure> check(const Graph& graph, const CheckOptions& options);

  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }
  [[nodiscard]] DeviceKind device() const noexcept { return device_; }

 private:
  struct Rewritten;
  struct Work;
  /// The device with so many threads.
  struct Place {
    std::unique_ptr<Backend> backend;
    Target target;
  };
  std::optional<Failure> check_set(Work& work, const PassSet& set, std::size_t index);
  std::optional<std::string> check_passes(Work& work, Covers covers, const Graph& rewritten);
  std::optional<std::string> check_plan(Work& work, const Graph& graph, const PlanSetup& setup, std::uint64_t runs,
                                        bool is_original);
  std::optional<std::string> check_special_values(Work& work, const Graph& graph, Session& session,
                                                  const NamedTensors& states);
  std::optional<std::string> compare_session(const Session& session, const Graph& graph, const BoundedResult& expected);
  std::optional<std::string> compare(const NamedBounds& expected, const NamedBounds& actual, std::string_view what);
  void count_kernels(const Program& program);
  [[nodiscard]] bool may_plan(const Graph& graph);
  const Place& place(int threads);

  DeviceKind device_;
  std::vector<PassSet> sets_;
  std::map<int, Place> places_;  // by threads
  std::set<std::string> attention_geometries_;
  std::filesystem::path folder_;
  Tally tally_;
};

}  // namespace headroom::differential
