#include "measure/probes/floor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "ir/expand.hpp"
#include "ir/op_definition.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/elementwise/exponentials.hpp"
#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"

namespace headroom {
namespace {

/// Sizes of a GEMM: rows of x, its channels, and output channels.
struct GemmSize {
  std::int64_t rows, k, n;
};

/// Candidate sizes; cache sizes and the number of cores that share the work decide which one is fastest.
constexpr std::array kOnCpu = {GemmSize{4096, 192, 768}, GemmSize{4096, 960, 192}, GemmSize{2048, 1024, 1024}};
constexpr std::array kOnGpu = {GemmSize{4096, 4096, 4096}, GemmSize{8192, 8192, 8192}};

OpSpec bare_gemm(std::string_view arithmetic, const GemmSize& size) {
  const bool is_tf32 = arithmetic == "tf32";
  const std::optional<DType> dtype = is_tf32 ? DType::kF32 : parse_dtype(arithmetic);
  if (!dtype) fail("'{}' is no arithmetic of products", arithmetic);
  const TensorType x{*dtype, {size.rows, size.k}}, weight{*dtype, {size.n, size.k}};
  if (*dtype != DType::kI8 && *dtype != DType::kF8E4M3)
    return make_spec(Op::kLinear, {x, weight}, {{attr::kTf32, is_tf32}}, {false, true});
  return make_spec(Op::kScaledLinear, {x, {DType::kF32, {size.rows}}, weight, {DType::kF32, {size.n}}},
                   {{attr::kDType, DType::kBF16}}, {false, false, true, true});
}

bool multiplies(const Step& launch) { return launch.kernel != nullptr && launch.cost.unit == ComputeUnit::kMatrix; }

Floor floor_of_gemm(const Cost& cost, const Step& launch, MachineRates& rates) {
  return longer_of(cost.bytes, rates.copy(cost.bytes), cost.flops,
                   &rates.gemm(launch.kernel->compute_name(launch.spec)));
}

double floor_ms(const Segment& segment, std::span<const Step> steps, MachineRates& rates) {
  double sum = 0;
  if (segment.kind == SegmentKind::kIf) {
    HR_CHECK_EQ(segment.children.size(), std::size_t{2});
    sum = std::min(floor_ms(segment.children[0], steps, rates), floor_ms(segment.children[1], steps, rates));
  } else if (segment.children.empty()) {
    for (int i = segment.first; i < segment.last; ++i)
      sum += headroom::floor_of(steps[static_cast<std::size_t>(i)], rates).ms();
  } else {
    for (const Segment& child : segment.children) sum += floor_ms(child, steps, rates);
  }
  return segment.kind == SegmentKind::kLoop ? static_cast<double>(segment.trip_count) * sum : sum;
}

/// Copies of whole pages are fast: an H200 copies 256 MiB at 4.2 TB/s, but at 2.7 TB/s with a few bytes more.
constexpr std::size_t kPage = 4096;

/// Exponentials are computed by all threads, distributed as in kernels. Their number makes the start and end of
/// threads negligible.
constexpr std::int64_t kNumbers = 2048, kRepeats = 128, kBlocksOfThread = 32;

void compute_exponentials(DType dtype, int threads) {
  parallel_for(threads, threads * kBlocksOfThread, 1, [dtype](std::int64_t begin, std::int64_t end, int /*thread*/) {
    std::array<float, kNumbers> numbers;
    for (; begin < end; ++begin) {
      numbers.fill(0.5F);
      repeat_exponentials(dtype, numbers, kRepeats);
    }
  });
}

}  // namespace

Cell over_floor_cell(double over_floor) {
  return is_below_floor(over_floor) ? no_value("below") : factor_cell(std::max(1.0, over_floor));
}

std::string remark_on_rows_below_floor(std::int64_t rows, bool is_disturbed) {
  if (rows == 0) return {};
  return fmt::format(
      "{} faster than the floor (`below`): {}\n", rows == 1 ? "1 row is" : fmt::format("{} rows are", rows),
      is_disturbed
          ? "the measurement was disturbed; measure again on a quiet machine"
          : "the data stayed in a cache, which a copy alone does not find it in, or the machine's speed changed in "
            "between (--rounds)");
}

const Yardstick& MachineRates::copy(double moved_bytes) {
  std::size_t bytes = std::clamp<std::size_t>(static_cast<std::size_t>(moved_bytes / 2), 1, kLargestCopy);
  if (bytes > kPage) bytes -= bytes % kPage;
  if (const auto known = copies_.find(bytes); known != copies_.end()) return known->second;
  copy_run_.reserve(bytes);
  return copies_
      .emplace(bytes, measure({.of = kFloorOfCopy,
                               .work = 2 * static_cast<double>(bytes),
                               .stream = &copy_run_.stream(),
                               .submit = [this, bytes] { copy_run_.submit(bytes); }}))
      .first->second;
}

const Yardstick& MachineRates::gemm(std::string_view arithmetic) {
  const Target target = backend_.properties().target;
  if (arithmetic == "bf16" && !obstacle_to(Capability::kBf16Units, target).empty()) return gemm("f32");
  if (const auto known = gemms_.find(arithmetic); known != gemms_.end()) return known->second.yardstick;
  const bool is_large = target.device->has_launches;
  Gemm fastest;
  for (const GemmSize& size : is_large ? std::span<const GemmSize>(kOnGpu) : std::span<const GemmSize>(kOnCpu)) {
    auto run = std::make_unique<OpRun>(backend_, bare_gemm(arithmetic, size));
    Yardstick yardstick = measure(
        {.of = kFloorOfFlops, .work = run->least_work().flops, .stream = &run->stream(), .submit = [&run = *run] {
           run.submit();
         }});
    if (fastest.run == nullptr || yardstick.work / yardstick.ms > fastest.yardstick.work / fastest.yardstick.ms)
      fastest = {std::move(run), std::move(yardstick)};
  }
  return gemms_.emplace(arithmetic, std::move(fastest)).first->second.yardstick;
}

const Yardstick* MachineRates::exponentials(DType dtype) {
  const Target target = backend_.properties().target;
  if (target.device != DeviceKind::kCpu) return nullptr;
  if (const auto known = exponentials_.find(dtype); known != exponentials_.end()) return &known->second;
  const int threads = target.threads;
  return &exponentials_
              .emplace(dtype, measure({.of = kFloorOfExp,
                                       .work = static_cast<double>(threads * kBlocksOfThread * kRepeats * kNumbers),
                                       .stream = &copy_run_.stream(),
                                       .submit = [dtype, threads] { compute_exponentials(dtype, threads); }}))
              .first->second;
}

Yardstick MachineRates::measure(Yardstick yardstick) {
  yardstick.trials = time_submissions(backend_, *yardstick.stream, yardstick.submit, protocol_);
  yardstick.ms = median(yardstick.trials.wall_ms);
  return yardstick;
}

Exponentials exponentials_of(const Graph& graph) {
  Exponentials all;
  const Graph plain = expand(graph);
  for (const Node& node : plain.nodes()) {
    const TensorType& result = plain.type(node.results.front());
    const double count = definition_of(node.op).exponentials * static_cast<double>(result.shape.numel());
    all.count += count;
    if (count > 0 && result.dtype == DType::kBF16) all.dtype = DType::kBF16;
  }
  return all;
}

Floor floor_of(const Step& launch, MachineRates& rates) {
  if (multiplies(launch)) return floor_of_gemm(launch.kernel->cost(bare(launch.spec)), launch, rates);
  const double bytes = launch.cost.bytes;
  if (launch.kernel == nullptr) return longer_of(bytes, rates.copy(bytes), 0, nullptr);
  return floor_of(graph_of(launch.spec), bytes, rates);
}

double floor_ms(const Program& program, MachineRates& rates) { return floor_ms(program.root, program.steps, rates); }

Floor floor_of(const OpRun& run, MachineRates& rates) {
  const std::vector<Step>& launches = run.program().steps;
  const auto gemm = std::ranges::find_if(launches, multiplies);
  if (gemm != launches.end()) return floor_of_gemm(run.least_work(), *gemm, rates);
  return floor_of(run.program().graph, run.least_work().bytes, rates);
}

Floor floor_of(const Graph& graph, double bytes, MachineRates& rates) {
  const Exponentials all = exponentials_of(graph);
  return longer_of(bytes, rates.copy(bytes), all.count, all.count > 0 ? rates.exponentials(all.dtype) : nullptr);
}

Floor longer_of(double bytes, const Yardstick& copy, double work, const Yardstick* other) {
  const Floor of_bytes{&copy, bytes / copy.work};
  if (other == nullptr) return of_bytes;
  const Floor of_work{other, work / other->work};
  return of_work.ms() > of_bytes.ms() ? of_work : of_bytes;
}

}  // namespace headroom
