#include "plan/choose.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace headroom {
namespace {

OpSpec spec_of(const Graph& graph, const Node& node, const std::vector<bool>& is_weight) {
  OpSpec spec{.op = node.op, .attributes = node.attributes, .inputs = {}, .outputs = {}, .is_weight = {}};
  for (const ValueId input : node.inputs) {
    spec.inputs.push_back(graph.type(input));
    spec.is_weight.push_back(is_weight[index_of(input)]);
  }
  for (const ValueId result : node.results) spec.outputs.push_back(graph.type(result));
  return spec;
}

[[noreturn]] void fail_without_kernel(const Node& node, const OpSpec& spec, const Target& target,
                                      const std::vector<RejectedKernel>& rejections) {
  std::vector<std::string> reasons;
  for (const RejectedKernel& rejected : rejections)
    reasons.push_back(fmt::format("{}: {}", rejected.kernel, rejected.reason));
  const std::string message =
      fmt::format("no {} kernel runs {} on ({})", name_of(target.device), describe(node), fmt::join(spec.inputs, ", "));
  if (reasons.empty()) throw NoKernel(message, "no kernel is of this op");
  const std::string all = fmt::format("{}", fmt::join(reasons, "; "));
  throw NoKernel(fmt::format("{}; {}", message, all), all);
}

Support support_of(const Kernel& kernel, const OpSpec& spec, const Target& target,
                   std::span<const RefusedWork> refused) {
  for (const RefusedWork& work : refused)
    if (work.kernel == &kernel && work.spec == spec) return Rejection{work.reason};
  return kernel.supports(spec, target);
}

/// The first of the kernels that supports the work, and why those before it do not.
ChosenKernel choose_kernel(const Node& node, OpSpec spec, const Target& target, std::span<const Kernel* const> kernels,
                           std::span<const RefusedWork> refused) {
  ChosenKernel choice{.node = -1, .kernel = nullptr, .spec = std::move(spec), .rejections = {}};
  for (const Kernel* kernel : kernels) {
    if (kernel->op() != node.op) continue;
    Support support = support_of(*kernel, choice.spec, target, refused);
    if (!support) {
      choice.kernel = kernel;
      return choice;
    }
    choice.rejections.push_back({kernel->name(), std::move(support->reason)});
  }
  fail_without_kernel(node, choice.spec, target, choice.rejections);
}

}  // namespace

std::vector<ChosenKernel> choose_kernels(const Graph& graph, const std::vector<bool>& is_weight, const Target& target,
                                         std::span<const Kernel* const> kernels, std::span<const RefusedWork> refused) {
  std::vector<ChosenKernel> chosen;
  std::map<Op, std::vector<std::size_t>> known;  // choices for different work
  for (int i = 0; i < static_cast<int>(graph.nodes().size()); ++i) {
    const Node& node = graph.nodes()[static_cast<std::size_t>(i)];
    if (is_weight[index_of(node.results[0])]) continue;
    OpSpec spec = spec_of(graph, node, is_weight);
    std::vector<std::size_t>& alike = known[node.op];
    const auto same = std::ranges::find_if(alike, [&](std::size_t earlier) { return chosen[earlier].spec == spec; });
    if (same == alike.end()) {
      alike.push_back(chosen.size());
      chosen.push_back(choose_kernel(node, std::move(spec), target, kernels, refused));
    } else {
      chosen.push_back(ChosenKernel(chosen[*same]));  // as in every block of a model
    }
    chosen.back().node = i;
  }
  return chosen;
}

std::shared_ptr<const PreparedKernel> PreparedKernels::prepare(const ChosenKernel& choice, const PlacedWork& work,
                                                               const DeviceTarget& target, int copy) {
  std::vector<Known>& known = known_[{choice.kernel, target.threads, copy}];
  const auto same = std::ranges::find(known, work, &Known::first);
  if (same != known.end()) return same->second;
  try {
    return known.emplace_back(work, choice.kernel->prepare(work.spec, work.inputs, work.outputs, target)).second;
  } catch (const CannotPrepare& error) {
    throw Refused{{.kernel = choice.kernel, .spec = choice.spec, .reason = error.what()}};
  }
}

void PreparedKernels::finish() {
  for (const auto& [what, works] : known_)
    for (const auto& [work, prepared] : works) try {
        prepared->finish();
      } catch (const CannotPrepare& error) {
        throw Refused{{.kernel = std::get<0>(what), .spec = work.spec, .reason = error.what()}};
      }
}

}  // namespace headroom
