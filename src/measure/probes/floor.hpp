#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "backends/backend.hpp"
#include "ir/graph.hpp"
#include "ir/test_cases/op_cases.hpp"
#include "measure/protocol/op_run.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/statistics/trials.hpp"
#include "measure/tables/table.hpp"

/// The floor of a piece of work: the least time in which this machine could do it, at measured rates. Three parts
/// have a time:
/// - bytes that must move: a copy of as many bytes;
/// - FLOPs of a GEMM, attention or a convolution: the rate of the fastest of several bare GEMMs in the same
///   arithmetic;
/// - exponentials of all other work, on a CPU: their time by themselves.
/// The parts can overlap, so the floor is the longest of them. Other arithmetic counts as free, as do exponentials on
/// a GPU, which has units for them.
namespace headroom {

/// Reference work whose time was measured on this machine, alone and with warm caches.
struct Yardstick {
  std::string_view of;                ///< kFloorOfFlops, kFloorOfCopy or kFloorOfExp
  double work = 0;                    ///< per launch: FLOPs, bytes read and written, or exponentials
  Stream* stream = nullptr;           ///< where `submit` puts one more launch
  std::function<void()> submit = {};  ///< valid as long as the MachineRates that returned it
  double ms = 0;                      ///< per launch, the median of `trials`
  Trials trials = {};
};

/// A number of launches of a yardstick, which must outlive it.
struct Floor {
  const Yardstick* yardstick = nullptr;
  double launches = 0;
  [[nodiscard]] double ms() const { return launches * yardstick->ms; }
};

/// A piece of work cannot take less than its floor by more than the floor's own error. If it does, one of the two times
/// is wrong.
inline constexpr double kErrorOfFloor = 0.05;
/// `over_floor` is a time divided by its floor.
[[nodiscard]] constexpr bool is_below_floor(double over_floor) { return over_floor < 1 - kErrorOfFloor; }
/// "below" for such a row of a table, else how many times its floor it takes, at least 1.
[[nodiscard]] Cell over_floor_cell(double over_floor);
/// A line below a table that has such rows: how many, and the likely reason. Empty if there are none.
[[nodiscard]] std::string remark_on_rows_below_floor(std::int64_t rows, bool is_disturbed);

/// Exponentials of softmax, silu, gelu, tanh and similar ops: one for each element computed.
struct Exponentials {
  double count = 0;
  DType dtype = DType::kF32;  ///< bf16 if some of the results are, which takes less time
};
/// The exponentials of a graph's ops, including those in bodies of fused ops.
[[nodiscard]] Exponentials exponentials_of(const Graph& graph);

/// The measured rates of a machine. Each rate is measured at its first use and then kept.
class MachineRates {
 public:
  /// Size of a copy that no last-level cache holds; larger copies take proportionally longer.
  static constexpr std::size_t kLargestCopy = kLargeTensorBytes;

  /// `protocol` is used for each measurement. `backend` must outlive the object.
  MachineRates(Backend& backend, const Protocol& protocol)
      : backend_(backend), protocol_(protocol), copy_run_(backend) {}
  MachineRates(const MachineRates&) = delete;

  /// A copy that moves `moved_bytes`, half of them read and half written, but at most kLargestCopy; sizes above a
  /// page are rounded to whole pages. Caches are warm, as for the work that it models: small copies run at the rate
  /// of a cache.
  [[nodiscard]] const Yardstick& copy(double moved_bytes);
  /// The fastest of several bare GEMMs in this arithmetic, as named by Kernel::compute_name(): "bf16", "tf32". If
  /// bf16 has no units of its own, those in f32 are used. Throws Error if no kernel runs one.
  [[nodiscard]] const Yardstick& gemm(std::string_view arithmetic);
  /// Exponentials alone, of numbers in each core's first-level cache, for results of this dtype. Null on a GPU.
  [[nodiscard]] const Yardstick* exponentials(DType dtype);

 private:
  struct Gemm {
    std::unique_ptr<OpRun> run;
    Yardstick yardstick;
  };
  Yardstick measure(Yardstick yardstick);

  Backend& backend_;
  Protocol protocol_;
  CopyRun copy_run_;
  std::map<std::size_t, Yardstick> copies_;  // by bytes copied
  std::map<std::string, Gemm, std::less<>> gemms_;
  std::map<DType, Yardstick> exponentials_;
};

/// The floor of one launch of a program, without its activation.
[[nodiscard]] Floor floor_of(const Step& launch, MachineRates& rates);
/// The floor of one run of a whole program: the sum over its launches. A loop counts once per iteration; an `if`
/// counts the cheaper branch.
[[nodiscard]] double floor_ms(const Program& program, MachineRates& rates);
/// The floor of the op that `run` runs; the same whether it runs in one launch or as its plain ops.
[[nodiscard]] Floor floor_of(const OpRun& run, MachineRates& rates);
/// The floor of a graph that contains no GEMM, attention or convolution, if it must move `bytes`.
[[nodiscard]] Floor floor_of(const Graph& graph, double bytes, MachineRates& rates);
/// The longer of `bytes` at the rate of `copy` and, if there is `other`, `work` at the rate of `other`.
[[nodiscard]] Floor longer_of(double bytes, const Yardstick& copy, double work, const Yardstick* other);

}  // namespace headroom
