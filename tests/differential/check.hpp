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

/// How a graph failed, and under which configuration.
struct Failure {
  std::string passes;  ///< the set's name
  std::string plan;    ///< the setup's name; empty if the passes alone are wrong
  std::string message;
  bool threw = false;  ///< an exception, rather than a wrong value
  friend bool operator==(const Failure&, const Failure&) = default;
};

/// Statistics over many graphs: how often each pass fired, how often each kernel of the device was chosen, to run
/// steps or to fold weights, and how sharp the bounds were.
struct Tally {
  std::map<std::string, std::int64_t, std::less<>> fired;
  std::map<std::string, std::int64_t, std::less<>> chosen;
  std::int64_t programs = 0;             ///< planned and run
  std::int64_t tiled = 0;                ///< programs with a tiled run
  std::int64_t without_kernel = 0;       ///< graphs that no kernels of the device can run
  std::string last_without_kernel = {};  ///< the reason for the last of them
  std::int64_t elements = 0;             ///< compared
  /// Elements with a bound of at most a tenth of their tensor's largest element.
  std::int64_t sharp = 0;
};

/// Which setups to check.
struct CheckOptions {
  std::uint64_t seed = 0;            ///< of the data
  std::optional<Failure> only = {};  ///< only the passes and plan of an earlier failure
  /// Single passes, and those for other devices, are checked on one of this many graphs.
  std::uint64_t period = 1;
  bool all_plans = false;            ///< every setup with every plan; otherwise single passes alternate between plans
  std::uint64_t special_period = 4;  ///< NaN, infinities and rows of zeros are planted in one of this many graphs
};

/// Compares graphs under every setup with the oracle. Keeps backends open; weights are written to a temporary folder
/// and read as a checkpoint.
class Checker {
 public:
  explicit Checker(DeviceKind device);
  ~Checker();

  /// The first failure, or nothing. A rewritten graph must agree with the original in the oracle, and its programs
  /// must agree with the oracle on the rewritten graph. Tolerances are bounds that follow from dtypes.
  [[nodiscard]] std::optional<Failure> check(const Graph& graph, const CheckOptions& options);

  [[nodiscard]] const Tally& tally() const noexcept { return tally_; }
  [[nodiscard]] DeviceKind device() const noexcept { return device_; }

 private:
  struct Rewritten;
  struct Work;
  /// The device with this number of threads.
  struct Place {
    std::unique_ptr<Backend> backend;
    DeviceTarget target;
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
