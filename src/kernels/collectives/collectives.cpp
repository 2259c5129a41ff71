#include "kernels/collectives/collectives.hpp"

#include <memory>
#include <numeric>
#include <utility>

#include "base/tensors/divide_up.hpp"

namespace headroom {
namespace {

constexpr std::size_t kPieceAlignment = 64;

/// A part of a dense tensor along one axis.
struct Stretch {
  std::size_t offset = 0, rows = 1, row_bytes = 0, pitch = 0;

  Stretch(const TensorType& whole, std::int64_t axis, std::int64_t start, std::int64_t size) {
    const std::span<const std::int64_t> dims = whole.shape.dims();
    const auto at = static_cast<std::size_t>(axis);
    std::size_t inner = size_of(whole.dtype);
    for (const std::int64_t extent : dims.subspan(at + 1)) inner *= static_cast<std::size_t>(extent);
    for (const std::int64_t extent : dims.first(at)) rows *= static_cast<std::size_t>(extent);
    offset = static_cast<std::size_t>(start) * inner;
    row_bytes = static_cast<std::size_t>(size) * inner;
    pitch = static_cast<std::size_t>(dims[at]) * inner;
    if (row_bytes == pitch || rows == 1) {  // contiguous
      row_bytes *= std::exchange(rows, 1);
      pitch = row_bytes;
    }
  }
  /// All of it.
  explicit Stretch(const TensorType& whole) : row_bytes(whole.bytes()), pitch(row_bytes) {}

  [[nodiscard]] std::size_t bytes() const { return rows * row_bytes; }
  [[nodiscard]] Communicator::Rows in(DevicePointer tensor) const { return {tensor + offset, rows, row_bytes, pitch}; }
};

/// The ranks of a collective.
class Members {
 public:
  explicit Members(const KernelBinding& binding)
      : group_(binding.spec.attributes[attr::kGroup]),
        own_(static_cast<std::size_t>(binding.spec.attributes[attr::kRank])),
        communicator_(binding.target.communicator) {}

  [[nodiscard]] std::size_t count() const { return group_.size(); }
  [[nodiscard]] std::size_t own() const { return own_; }
  [[nodiscard]] int rank(std::size_t member) const { return static_cast<int>(group_[member]); }
  [[nodiscard]] Communicator& communicator() const {
    if (communicator_ == nullptr)
      fail("a program of {} ranks cannot run on one: run it as a request with the switch cp", count());
    return *communicator_;
  }

 private:
  Ints group_;
  std::size_t own_;
  std::shared_ptr<Communicator> communicator_;
};

/// An exchange of stretches of an operand and a result.
class StretchExchange {
 public:
  StretchExchange(const KernelBinding& binding, const CollectiveDevice& device) : members_(binding), device_(device) {}

  void send(std::size_t to, const Stretch& from) { sent_.emplace_back(members_.rank(to), from); }
  void receive(std::size_t from, const Stretch& to) { received_.emplace_back(members_.rank(from), to); }
  void keep(const Stretch& from, const Stretch& to) { kept_.emplace_back(from, to); }

  /// Sends `from` to each other member and receives `to` from it, or keeps it.
  void trade(std::size_t member, const Stretch& from, const Stretch& to) {
    if (member == members_.own()) {
      keep(from, to);
    } else {
      send(member, from);
      receive(member, to);
    }
  }

  [[nodiscard]] const Members& members() const { return members_; }

  void run(const LaunchArguments& arguments) const {
    std::vector<Communicator::Kept> kept;
    for (const auto& [from, to] : kept_) kept.push_back({from.in(arguments.inputs[0]), to.in(arguments.outputs[0])});
    if (members_.count() == 1) {
      for (const Communicator::Kept& one : kept) device_.keep(arguments.stream, one);
      return;
    }
    std::vector<Communicator::Sent> sent;
    for (const auto& [to, from] : sent_) sent.push_back({.to = to, .from = from.in(arguments.inputs[0])});
    std::vector<Communicator::Received> received;
    for (const auto& [from, to] : received_) received.push_back({.from = from, .to = to.in(arguments.outputs[0])});
    members_.communicator().exchange(arguments.stream, sent, received, kept);
  }

 private:
  Members members_;
  CollectiveDevice device_;
  std::vector<std::pair<int, Stretch>> sent_, received_;  // by rank
  std::vector<std::pair<Stretch, Stretch>> kept_;
};

KernelPlan plan_of(const StretchExchange& exchange) {
  return {.launch = [exchange](const LaunchArguments& arguments) { exchange.run(arguments); }};
}

std::int64_t start_of(const Ints& shares, std::size_t member) {
  return std::accumulate(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(member), std::int64_t{0});
}

/// The sum or maximum of the pieces of all members, for this rank. `part_of` is the stretch of the operand that a
/// member gets.
template <class PartOf>
KernelPlan plan_sum(const KernelBinding& binding, const CollectiveDevice& device, const PartOf& part_of) {
  struct Sum {
    Members members;
    std::vector<Stretch> parts;  // that of each member, of this rank's operand
    PieceSum pieces;
    CollectiveDevice device;
  };
  Sum sum{.members = Members(binding),
          .parts = {},
          .pieces = {.pieces = {},
                     .elements = static_cast<std::size_t>(binding.outputs[0].type.shape.numel()),
                     .largest = binding.spec.attributes[attr::kLargest]},
          .device = device};
  const std::size_t piece_bytes = round_up(binding.outputs[0].type.bytes(), kPieceAlignment);
  for (std::size_t member = 0; member < sum.members.count(); ++member) {
    sum.parts.push_back(part_of(member));
    sum.pieces.pieces.push_back(member * piece_bytes);
  }
  const std::size_t scratch_bytes = sum.members.count() * piece_bytes;
  const auto launch = [sum = std::move(sum)](const LaunchArguments& arguments) {
    const std::size_t own = sum.members.own();
    const auto piece = [&](std::size_t member) {
      return Communicator::contiguous(arguments.scratch + sum.pieces.pieces[member], sum.parts[own].bytes());
    };
    const Communicator::Kept kept{.from = sum.parts[own].in(arguments.inputs[0]), .to = piece(own)};
    std::vector<Communicator::Sent> sent;
    std::vector<Communicator::Received> received;
    for (std::size_t member = 0; member < sum.members.count(); ++member) {
      if (member == own) continue;
      const int rank = sum.members.rank(member);
      sent.push_back({.to = rank, .from = sum.parts[member].in(arguments.inputs[0])});
      received.push_back({.from = rank, .to = piece(member)});
    }
    if (sum.members.count() == 1)
      sum.device.keep(arguments.stream, kept);
    else
      sum.members.communicator().exchange(arguments.stream, sent, received, {&kept, 1});
    sum.device.add_up(arguments, sum.pieces);
  };
  return {.launch = launch, .scratch_bytes = scratch_bytes};
}

}  // namespace

KernelPlan plan_all_gather(const KernelBinding& binding, const CollectiveDevice& device) {
  const Attributes& attributes = binding.spec.attributes;
  const Ints& shares = attributes[attr::kShares];
  StretchExchange exchange(binding, device);
  for (std::size_t member = 0; member < shares.size(); ++member)
    exchange.trade(member, Stretch(binding.inputs[0].type),
                   {binding.outputs[0].type, attributes[attr::kAxis], start_of(shares, member), shares[member]});
  return plan_of(exchange);
}

KernelPlan plan_all_to_all(const KernelBinding& binding, const CollectiveDevice& device) {
  const Attributes& attributes = binding.spec.attributes;
  const Ints &shares = attributes[attr::kShares], &split = attributes[attr::kSplit];
  StretchExchange exchange(binding, device);
  for (std::size_t member = 0; member < shares.size(); ++member)
    exchange.trade(member,
                   {binding.inputs[0].type, attributes[attr::kSplitAxis], start_of(split, member), split[member]},
                   {binding.outputs[0].type, attributes[attr::kAxis], start_of(shares, member), shares[member]});
  return plan_of(exchange);
}

KernelPlan plan_shift(const KernelBinding& binding, const CollectiveDevice& device) {
  StretchExchange exchange(binding, device);
  const std::size_t count = exchange.members().count(), own = exchange.members().own();
  const Stretch from(binding.inputs[0].type), to(binding.outputs[0].type);
  if (count == 1) {
    exchange.keep(from, to);
  } else {
    exchange.send((own + 1) % count, from);
    exchange.receive((own + count - 1) % count, to);
  }
  return plan_of(exchange);
}

KernelPlan plan_all_reduce(const KernelBinding& binding, const CollectiveDevice& device) {
  return plan_sum(binding, device, [&](std::size_t /*member*/) { return Stretch(binding.inputs[0].type); });
}

KernelPlan plan_reduce_scatter(const KernelBinding& binding, const CollectiveDevice& device) {
  const Attributes& attributes = binding.spec.attributes;
  const Ints& shares = attributes[attr::kShares];
  return plan_sum(binding, device, [&](std::size_t member) {
    return Stretch(binding.inputs[0].type, attributes[attr::kAxis], start_of(shares, member), shares[member]);
  });
}

Support supports_sum_of_ranks(const OpSpec& spec) {
  if (spec.inputs[0].dtype == DType::kF32) return supports_row_major(spec);
  return Rejection{"sums of ranks are in f32"};
}

}  // namespace headroom
