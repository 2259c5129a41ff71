#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "backends/backend.hpp"
#include "ir/graph.hpp"
#include "measure/protocol/op_run.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/statistics/trials.hpp"

/// The floor of a piece of work: the least time in which the machine at hand could do it, by rates that it was measured
/// at. What must move takes as long as a copy of as many bytes; what a product, attention or a convolution must
/// multiply takes its FLOPs at the rate of the fastest of a few bare products in the same arithmetic; and of anything else
/// its exponentials take, on a CPU, what they take by themselves. All can go on at once, so the floor is the longest.
/// Other arithmetic counts as free, as do exponentials on a GPU, which has units for them.
namespace headroom {

/// Work that a machine was timed at, alone and hot.
struct Yardstick {
  std::string_view of;                ///< kFloorOfFlops, kFloorOfCopy or kFloorOfExp
  double work = 0;                    ///< of a launch: FLOPs, bytes read and written, or exponentials
  Stream* stream = nullptr;           ///< where `submit` puts one more launch
  std::function<void()> submit = {};  ///< as long as the MachineRates lives that the yardstick is from
  double ms = 0;                      ///< of a launch, the median of `trials`
  Trials trials = {};
};

/// So many launches of a yardstick, which must be there while the floor is.
struct Floor {
  const Yardstick* yardstick = nullptr;
  double launches = 0;
  [[nodiscard]] double ms() const { return launches * yardstick->ms; }
};

/// Exponentials of softmax, silu, gelu, tanh and their like: one for each element that they make.
struct Exponentials {
  double count = 0;
  DType dtype = DType::kF32;  ///< bf16 where some of the results are, which takes less time
};
/// Those of a graph's ops, fused ones by what they stand for.
[[nodiscard]] Exponentials exponentials_of(const Graph& graph);

/// All that is known of how fast a machine is. Each rate is measured when it is first asked for, and then kept.
class MachineRates {
 public:
  /// A copy of as many bytes as no last-level cache holds; what moves more takes proportionally longer.
  static constexpr std::size_t kLargestCopy = std::size_t{384} << 20;

  /// `protocol` is that of each measurement. `backend` must outlive the object.
  MachineRates(Backend& backend, const Protocol& protocol)
      : backend_(backend), protocol_(protocol), copy_run_(backend) {}
  MachineRates(const MachineRates&) = delete;

  /// A copy that moves as many bytes, half of them read and half written, or kLargestCopy; of more than a page whole pages. It is
  /// hot, as what it stands for would be: small ones have the rate of a cache.
  [[nodiscard]] const Yardstick& copy(double moved_bytes);
  /// The fastest of a few bare products in that arithmetic, as Kernel::compute_name() calls it: "bf16", "tf32"; of those in
  /// f32 where bf16 has no units of its own. Throws Error where no kernel runs one.
  [[nodiscard]] const Yardstick& product(std::string_view arithmetic);
  /// Exponentials alone, of numbers that each core has in its first-level cache, for results in that dtype. Null on a GPU.
  [[nodiscard]] const Yardstick* exponentials(DType dtype);

 private:
  struct Product {
    std::unique_ptr<OpRun> run;
    Yardstick yardstick;
  };
  Yardstick measure(Yardstick yardstick);

  Backend& backend_;
  Protocol protocol_;
  CopyRun copy_run_;
  std::map<std::size_t, Yardstick> copies_;  // by the bytes that are copied
  std::map<std::string, Product, std::less<>> products_;
  std::map<DType, Yardstick> exponentials_;
};

/// Of a launch of a program, without its activation.
[[nodiscard]] Floor floor_of(const Step& launch, MachineRates& rates);
/// Of one run of a whole program: the sum over its launches, those of a loop as often as it turns; of an `if` the branch
/// that takes less.
[[nodiscard]] double floor_ms(const Program& program, MachineRates& rates);
/// Of the op that `run` runs: the same whether it runs in one launch or as the plain ops that it stands for.
[[nodiscard]] Floor floor_of(const OpRun& run, MachineRates& rates);
/// Of what `graph`, which has no product, computes, where so many bytes must move.
[[nodiscard]] Floor floor_of(const Graph& graph, double bytes, MachineRates& rates);
/// The longer of so many bytes at the rate of `copy` and, where there is `other`, so much of its work at its.
[[nodiscard]] Floor longer_of(double bytes, const Yardstick& copy, double work, const Yardstick* other);

}  // namespace headroom
