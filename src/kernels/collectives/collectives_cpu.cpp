// all_gather, reduce_scatter, all_reduce, all_to_all, shift between ranks that are threads of one process
//
// Dtypes     any that is moved; f32 for sums and maxima, in double in the order of the group, so that all ranks get the
//            same bits.
// Strides    dense.
// Bytes      a rank's operand read and its result written once; what goes to or comes from another rank and is not
//            contiguous there passes through scratch memory.
//
// The ranks copy from each other's memory (backends/communicator.hpp). What a rank keeps it copies itself.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/communicator.hpp"
#include "base/tensors/divide_up.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/movement/strided_copy.hpp"

namespace headroom {
namespace {

constexpr std::size_t kScratchAlignment = 64;

/// A part of a dense tensor along one axis.
struct Stretch {
  Shape extents, strides;
  std::size_t element_bytes = 0, offset = 0, bytes = 0;
  bool is_contiguous = false;

  Stretch(const Operand& whole, std::int64_t axis, std::int64_t start, std::int64_t size)
      : extents(whole.type.shape),
        strides(row_major_strides(whole.type.shape)),
        element_bytes(size_of(whole.type.dtype)) {
    const auto at = static_cast<int>(axis);
    extents.set(at, size);
    offset = static_cast<std::size_t>(start * strides[at]) * element_bytes;
    bytes = static_cast<std::size_t>(extents.numel()) * element_bytes;
    is_contiguous = std::ranges::all_of(extents.dims().first(static_cast<std::size_t>(at)),
                                        [](std::int64_t extent) { return extent == 1; });
  }
  /// All of it.
  explicit Stretch(const Operand& whole) : Stretch(whole, 0, 0, whole.type.shape[0]) {}

  [[nodiscard]] StridedCopy copy_to(const Shape& to_strides) const {
    return {element_bytes, extents, strides, to_strides};
  }
  [[nodiscard]] StridedCopy pack() const { return copy_to(row_major_strides(extents)); }
  [[nodiscard]] StridedCopy unpack() const { return {element_bytes, extents, row_major_strides(extents), strides}; }
};

/// A stretch that goes to another rank or comes from it, with a place in the scratch memory unless it is contiguous.
struct Transfer {
  int peer;
  Stretch stretch;
  StridedCopy copy;  ///< to the scratch memory, or from there
  std::size_t scratch = 0;
};

/// Allots scratch memory.
class Scratch {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += round_up(bytes, kScratchAlignment);
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// The ranks of a collective.
struct Members {
  Ints group;
  std::size_t own;
  std::shared_ptr<Communicator> communicator;

  explicit Members(const KernelBinding& binding)
      : group(binding.spec.attributes[attr::kGroup]),
        own(static_cast<std::size_t>(binding.spec.attributes[attr::kRank])),
        communicator(binding.target.communicator) {}

  [[nodiscard]] std::size_t count() const { return group.size(); }
  [[nodiscard]] int rank(std::size_t member) const { return static_cast<int>(group[member]); }

  void exchange(Stream& stream, std::span<const Communicator::Sent> sent,
                std::span<const Communicator::Received> received) const {
    if (count() == 1) return;
    if (communicator == nullptr)
      fail("a program of {} ranks cannot run on one: run it as a request with the switch cp", count());
    communicator->exchange(stream, sent, received);
  }
};

/// An exchange of stretches of an operand and a result.
class StretchExchange {
 public:
  explicit StretchExchange(const KernelBinding& binding) : members_(binding), threads_(binding.threads) {}

  void send(std::size_t to, const Stretch& from) {
    sent_.push_back({members_.rank(to), from, from.pack()});
    if (!from.is_contiguous) sent_.back().scratch = scratch_.take(from.bytes);
  }
  void receive(std::size_t from, const Stretch& to) {
    received_.push_back({members_.rank(from), to, to.unpack()});
    if (!to.is_contiguous) received_.back().scratch = scratch_.take(to.bytes);
  }
  void keep(const Stretch& from, const Stretch& to) { kept_.push_back({from, to}); }

  /// Sends `from` to each other member and receives `to` from it, or keeps it.
  void trade(std::size_t member, const Stretch& from, const Stretch& to) {
    if (member == members_.own) {
      keep(from, to);
    } else {
      send(member, from);
      receive(member, to);
    }
  }

  [[nodiscard]] const Members& members() const { return members_; }
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_.bytes(); }

  void run(const LaunchArguments& arguments) const {
    const auto* x = arguments.input<std::byte>(0);
    auto* y = arguments.output<std::byte>(0);
    auto* scratch = arguments.scratch_memory<std::byte>();
    std::vector<Communicator::Sent> sent;
    for (const Transfer& one : sent_) {
      DevicePointer from = arguments.inputs[0] + one.stretch.offset;
      if (!one.stretch.is_contiguous) {
        one.copy.run(threads_, x + one.stretch.offset, scratch + one.scratch);
        from = arguments.scratch + one.scratch;
      }
      sent.push_back({.to = one.peer, .from = from, .bytes = one.stretch.bytes});
    }
    std::vector<Communicator::Received> received;
    for (const Transfer& one : received_)
      received.push_back({.from = one.peer,
                          .to = one.stretch.is_contiguous ? arguments.outputs[0] + one.stretch.offset
                                                          : arguments.scratch + one.scratch,
                          .bytes = one.stretch.bytes});
    members_.exchange(arguments.stream, sent, received);
    for (const Transfer& one : received_)
      if (!one.stretch.is_contiguous) one.copy.run(threads_, scratch + one.scratch, y + one.stretch.offset);
    for (const auto& [from, to] : kept_) from.copy_to(to.strides).run(threads_, x + from.offset, y + to.offset);
  }

 private:
  Members members_;
  int threads_;
  Scratch scratch_;
  std::vector<Transfer> sent_, received_;
  std::vector<std::pair<Stretch, Stretch>> kept_;
};

KernelPlan plan_of(const StretchExchange& exchange) {
  return {.launch = [exchange](const LaunchArguments& arguments) { exchange.run(arguments); },
          .scratch_bytes = exchange.scratch_bytes()};
}

std::int64_t start_of(const Ints& shares, std::size_t member) {
  return std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(member), std::int64_t{0});
}

KernelPlan plan_all_gather(const KernelBinding& binding) {
  const Attributes& attributes = binding.spec.attributes;
  const Ints& shares = attributes[attr::kShares];
  StretchExchange exchange(binding);
  for (std::size_t member = 0; member < shares.size(); ++member)
    exchange.trade(member, Stretch(binding.inputs[0]),
                   {binding.outputs[0], attributes[attr::kAxis], start_of(shares, member), shares[member]});
  return plan_of(exchange);
}

KernelPlan plan_all_to_all(const KernelBinding& binding) {
  const Attributes& attributes = binding.spec.attributes;
  const Ints &shares = attributes[attr::kShares], &split = attributes[attr::kSplit];
  StretchExchange exchange(binding);
  for (std::size_t member = 0; member < shares.size(); ++member)
    exchange.trade(member, {binding.inputs[0], attributes[attr::kSplitAxis], start_of(split, member), split[member]},
                   {binding.outputs[0], attributes[attr::kAxis], start_of(shares, member), shares[member]});
  return plan_of(exchange);
}

KernelPlan plan_shift(const KernelBinding& binding) {
  StretchExchange exchange(binding);
  const std::size_t count = exchange.members().count(), own = exchange.members().own;
  const Stretch from(binding.inputs[0]), to(binding.outputs[0]);
  if (count == 1) {
    exchange.keep(from, to);
  } else {
    exchange.send((own + 1) % count, from);
    exchange.receive((own + count - 1) % count, to);
  }
  return plan_of(exchange);
}

/// The larger number; NaN if one is NaN.
double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

/// The sum or maximum of the pieces of all members, for this rank. `part_of` is the stretch of the operand that a
/// member gets.
template <class PartOf>
KernelPlan plan_reduction(const KernelBinding& binding, const PartOf& part_of) {
  struct Reduction {
    Members members;
    std::vector<Transfer> parts;       // that of each member, of this rank's operand
    std::vector<std::size_t> arrived;  // places in the scratch memory of what each member sends
    std::size_t bytes;                 // of a result
    bool largest;
    int threads;
  };
  Scratch scratch;
  Reduction reduction{.members = Members(binding),
                      .parts = {},
                      .arrived = {},
                      .bytes = binding.outputs[0].type.bytes(),
                      .largest = binding.spec.attributes[attr::kLargest],
                      .threads = binding.threads};
  for (std::size_t member = 0; member < reduction.members.count(); ++member) {
    const Stretch part = part_of(member);
    reduction.parts.push_back({reduction.members.rank(member), part, part.pack(), scratch.take(part.bytes)});
    reduction.arrived.push_back(member == reduction.members.own ? reduction.parts.back().scratch
                                                                : scratch.take(reduction.bytes));
  }
  const auto launch = [reduction](const LaunchArguments& arguments) {
    auto* memory = arguments.scratch_memory<std::byte>();
    std::vector<Communicator::Sent> sent;
    std::vector<Communicator::Received> received;
    for (std::size_t member = 0; member < reduction.parts.size(); ++member) {
      const Transfer& part = reduction.parts[member];
      part.copy.run(reduction.threads, arguments.input<std::byte>(0) + part.stretch.offset, memory + part.scratch);
      if (member == reduction.members.own) continue;
      sent.push_back({.to = part.peer, .from = arguments.scratch + part.scratch, .bytes = part.stretch.bytes});
      received.push_back(
          {.from = part.peer, .to = arguments.scratch + reduction.arrived[member], .bytes = reduction.bytes});
    }
    reduction.members.exchange(arguments.stream, sent, received);
    auto* y = arguments.output<float>(0);
    for (std::size_t i = 0; i < reduction.bytes / sizeof(float); ++i) {
      const auto at = [&](std::size_t member) {
        return static_cast<double>(reinterpret_cast<const float*>(memory + reduction.arrived[member])[i]);
      };
      double value = at(0);
      for (std::size_t member = 1; member < reduction.arrived.size(); ++member)
        value = reduction.largest ? larger(value, at(member)) : value + at(member);
      y[i] = static_cast<float>(value);
    }
  };
  return {.launch = launch, .scratch_bytes = scratch.bytes()};
}

KernelPlan plan_all_reduce(const KernelBinding& binding) {
  const Shape& shape = binding.inputs[0].type.shape;
  Operand flat = binding.inputs[0];  // a scalar has no axis
  flat.type.shape = Shape{shape.numel()};
  return plan_reduction(binding, [&](std::size_t /*member*/) { return Stretch(flat); });
}

KernelPlan plan_reduce_scatter(const KernelBinding& binding) {
  const Attributes& attributes = binding.spec.attributes;
  const Ints& shares = attributes[attr::kShares];
  return plan_reduction(binding, [&](std::size_t member) {
    return Stretch(binding.inputs[0], attributes[attr::kAxis], start_of(shares, member), shares[member]);
  });
}

Support supports_f32(const OpSpec& spec) {
  if (spec.inputs[0].dtype == DType::kF32) return supports_row_major(spec);
  return Rejection{"sums of ranks are in f32"};
}

CpuKernel collective(std::string_view name, Op op, KernelPlan (*plan)(const KernelBinding&),
                     Support (*supports)(const OpSpec&)) {
  return CpuKernel({.name = name, .op = op, .supports = supports, .strides = StrideRule::kDense, .plan = plan});
}

}  // namespace

std::span<const CpuKernel> plain_collectives() {
  static const CpuKernel kernels[] = {
      collective("plain.all_gather", Op::kAllGather, plan_all_gather, supports_row_major),
      collective("plain.reduce_scatter", Op::kReduceScatter, plan_reduce_scatter, supports_f32),
      collective("plain.all_reduce", Op::kAllReduce, plan_all_reduce, supports_f32),
      collective("plain.all_to_all", Op::kAllToAll, plan_all_to_all, supports_row_major),
      collective("plain.shift", Op::kShift, plan_shift, supports_row_major),
  };
  return kernels;
}

}  // namespace headroom
