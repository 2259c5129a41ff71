#include "passes/precision/fast_sums.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <set>

#include "base/switches.hpp"
#include "ir/op_definition.hpp"

namespace headroom {
namespace {

struct Loss {
  double length, share;
};
/// Dot products of positive numbers, each accumulated by one tensor core (bench/results/h200/fp8_sums/sums.jsonl).
constexpr std::array kLosses = {Loss{128, 0.0006}, Loss{512, 0.006}, Loss{3072, 0.049}, Loss{15360, 0.088}};

/// Rounding a sum to bfloat16 costs up to 0.4%, more than the loss of shorter sums.
constexpr double kLeastLoss = 1.0 / 256;
/// From this length on, the error of sums after a GELU is as large as the rounding of bfloat16 (0.17%); that of f32
/// sums is a tenth of that.
constexpr std::int64_t kLongSum = 12288;
constexpr double kLongSumError = 0.0016, kLongSumExactError = 0.00016;

/// Whether a value has no negative elements: results of relu, softmax, sigmoid, exp, squares and similar ops, and
/// results that only move, cast or join such values.
bool is_never_negative(const Graph& graph, const std::vector<int>& producers, ValueId value) {
  const int producer = producers[index_of(value)];
  if (producer < 0) return false;
  const Node& node = graph.nodes()[static_cast<std::size_t>(producer)];
  if (schema_of(node.op).has(attr::kEpilogue) && node.attributes[attr::kEpilogue] == Epilogue(Activation::kRelu))
    return true;
  const auto from = [&](std::size_t input) { return is_never_negative(graph, producers, node.inputs[input]); };
  switch (node.op) {
    case Op::kRelu:
    case Op::kAbs:
    case Op::kExp:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kSigmoid:
    case Op::kSoftmax:
      return true;
    case Op::kMul:
      return node.inputs[0] == node.inputs[1] || (from(0) && from(1));
    case Op::kAdd:
      return from(0) && from(1);
    case Op::kCast:
    case Op::kSlice:
      return from(0);
    case Op::kConcat:
      return std::ranges::all_of(node.inputs, [&](ValueId part) { return is_never_negative(graph, producers, part); });
    default:
      return is_view(node.op) && from(0);
  }
}

/// "blocks.3.ff.net.2" -> "blocks.[0-9]+.ff.net.2": the module in every block. A dot matches itself.
std::string in_every_block(const std::string& module) {
  for (std::size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
    const std::size_t end = module.find_first_not_of("0123456789", dot + 1);
    if (end == std::string::npos) break;
    if (end > dot + 1 && module[end] == '.') return module.substr(0, dot + 1) + "[0-9]+" + module.substr(end);
  }
  return module;
}

}  // namespace

double loss_of_positive_sum(std::int64_t length) {
  const auto at = static_cast<double>(length);
  if (at <= kLosses.front().length) return kLosses.front().share;
  const auto next = std::ranges::lower_bound(kLosses, at, {}, &Loss::length);
  if (next == kLosses.end()) return kLosses.back().share;
  const Loss& before = *std::prev(next);
  const double part = std::log(at / before.length) / std::log(next->length / before.length);
  return before.share * std::pow(next->share / before.share, part);
}

std::string loss_of_fast_sums(const Graph& graph, const std::vector<int>& producers, ValueId x) {
  const std::int64_t length = graph.type(x).shape[-1];
  const double loss = loss_of_positive_sum(length);
  if (loss >= kLeastLoss && is_never_negative(graph, producers, x))
    return fmt::format(
        "inputs are never negative: fast sums of {} positive products are about {:.1f}% too small; fp8=exact sums in "
        "f32",
        length, 100 * loss);
  if (length >= kLongSum)
    return fmt::format("long sums: {} products summed fast are off by {:.2f}%, summed in f32 by {:.2f}% (fp8=exact)",
                       length, 100 * kLongSumError, 100 * kLongSumExactError);
  return {};
}

std::string switch_to_exact_sums(const PassRecord& fp8, std::string_view argument) {
  constexpr std::string_view kAll = "fp8=exact", kModules = "exact:modules=";
  std::set<std::string> paths;
  bool has_unnamed = false;
  for (const PassNote& note : fp8.notes) {
    if (note.kind != NoteKind::kLossy) continue;
    for (const std::string& node : note.nodes) {
      paths.insert(in_every_block(node));
      has_unnamed = has_unnamed || parse_op(node).has_value();  // a node without a path, by which modules= selects
    }
  }
  if (paths.empty()) return {};
  const std::ptrdiff_t keys = std::ranges::count(argument, ':');
  if (has_unnamed || keys > 1 || (keys == 1 && !argument.starts_with(kModules))) return std::string(kAll);
  const std::string exact_already = keys == 1 ? fmt::format("({})|", argument.substr(kModules.size())) : "";
  const std::string wanted = fmt::format("{}{}^({})$", kModules, exact_already, fmt::join(paths, "|"));
  return wanted.size() > kMaxSwitchText ? std::string(kAll) : "fp8=" + wanted;
}

}  // namespace headroom
