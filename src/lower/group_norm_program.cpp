#include "lower/group_norm_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "ir/activation.hpp"

namespace headroom {
namespace {

struct NoProgram {
  std::string reason;
};

[[noreturn]] void refuse_body(std::string reason) { throw NoProgram{std::move(reason)}; }

/// Matches a body from its result backwards, and counts the matched nodes, so that none is left over.
class GroupNormBody {
 public:
  explicit GroupNormBody(const Graph& body)
      : body_(body), producers_(find_producers(body)), inputs_(body.values_of(ValueKind::kInput)) {}

  GroupNormProgram read() {
    if (body_.outputs().size() > 2) refuse_body("a body with several results");
    const ValueId result = body_.outputs()[0].value;
    const Node* norm = maker_of(beneath_modulation(beneath_activation(beneath_cast(result))));
    if (norm == nullptr || norm->op != Op::kGroupNorm) refuse_body("what does not end in a group norm");
    ++read_nodes_;
    if (norm->attributes[attr::kChannels] != 0) refuse_body("a group norm of some of its channels");
    program_.groups = norm->attributes[attr::kGroups];
    program_.eps = norm->attributes[attr::kEps];
    const std::optional<EpilogueForm> own = form_of(norm->attributes[attr::kEpilogue]);
    if (!own || own->adds_operand) refuse_body("a group norm with more than an activation in its epilogue");
    if (own->activation != Activation::kNone) {
      if (program_.activation != Activation::kNone || program_.scale >= 0) refuse_body("what follows an activation");
      program_.activation = own->activation;
    }
    if (const ValueId weight = norm->input(Role::kWeight); weight != kNoValue) program_.weight = input_number(weight);
    if (const ValueId bias = norm->input(Role::kBias); bias != kNoValue) program_.bias = input_number(bias);
    const ValueId x = beneath_shift(norm->input(Role::kX));
    read_parts(x);
    read_whole(x);
    if (read_nodes_ != body_.nodes().size()) refuse_body("a group norm with ops outside its pattern");
    check_types(body_.type(result));
    return program_;
  }

 private:
  [[nodiscard]] const Node* maker_of(ValueId value) const {
    const int maker = producers_[index_of(value)];
    return maker < 0 ? nullptr : &body_.nodes()[static_cast<std::size_t>(maker)];
  }
  ValueId beneath_cast(ValueId value) {
    const Node* maker = maker_of(value);
    if (maker == nullptr || maker->op != Op::kCast) return value;
    ++read_nodes_;
    return maker->inputs[0];
  }
  ValueId beneath_activation(ValueId value) {
    const Node* maker = maker_of(value);
    const std::optional<Activation> activation = maker == nullptr ? std::nullopt : activation_for(maker->op);
    if (!activation) return value;
    ++read_nodes_;
    program_.activation = *activation;
    return maker->inputs[0];
  }
  /// The value under a per-channel scale and offset.
  ValueId beneath_modulation(ValueId value) {
    const Node* sum = maker_of(value);
    if (sum == nullptr || sum->op != Op::kAdd) return value;
    const ValueId product = beneath_channel_vector(*sum, program_.offset);
    const Node* scaled = maker_of(product);
    if (scaled == nullptr || scaled->op != Op::kMul) refuse_body("a group norm that is offset and not scaled");
    return beneath_channel_vector(*scaled, program_.scale);
  }
  /// The image that a node adds to or multiplies by a per-channel vector, which becomes operand `number`.
  ValueId beneath_channel_vector(const Node& node, int& number) {
    ++read_nodes_;
    const Shape& image = body_.type(node.results[0]).shape;
    for (const std::size_t k : {1U, 0U})
      if (is_channel_vector(body_.type(node.inputs[k]).shape, image) && body_.type(node.inputs[1 - k]).shape == image) {
        ValueId vector = node.inputs[k];
        if (const Node* more = maker_of(vector); more != nullptr && more->op == Op::kAddScalar && node.op == Op::kMul) {
          ++read_nodes_;
          program_.more = more->attributes[attr::kValue];
          vector = more->inputs[0];
        }
        number = input_number(vector);
        return node.inputs[1 - k];
      }
    refuse_body("a group norm with an operand that is not a per-channel vector");
  }
  /// The number of an input, which may be cast.
  int input_number(ValueId value) {
    const auto found = std::ranges::find(inputs_, beneath_cast(value));
    if (found == inputs_.end()) refuse_body("a group norm of what is computed");
    return static_cast<int>(found - inputs_.begin());
  }

  /// The value under the shift, if x is the sum of an image and a per-channel vector.
  ValueId beneath_shift(ValueId x) {
    const Node* sum = maker_of(x);
    return sum == nullptr || sum->op != Op::kAdd ? x : beneath_channel_vector(*sum, program_.shift);
  }
  void read_parts(ValueId x) {
    const Node* maker = maker_of(x);
    if (maker == nullptr || maker->op != Op::kConcat) {
      program_.parts = {input_number(x)};
      return;
    }
    ++read_nodes_;
    if (maker->attributes[attr::kAxis] != 1 || maker->inputs.size() != 2)
      refuse_body("a group norm of a concatenation of anything but two images along their channels");
    for (const ValueId part : maker->inputs) program_.parts.push_back(input_number(part));
  }

  void read_whole(ValueId x) {
    program_.makes_whole = body_.outputs().size() > 1;
    if (!program_.makes_whole) return;
    if (program_.parts.size() < 2 || program_.shift >= 0 || beneath_cast(body_.outputs()[1].value) != x)
      refuse_body("a group norm whose second result is not its input");
    if (body_.type(body_.outputs()[1].value) != body_.type(body_.outputs()[0].value))
      refuse_body("a group norm of images of several kinds");
  }

  void check_types(const TensorType& made) const {
    const bool is_stored = made.dtype == DType::kF32 || made.dtype == DType::kBF16 || made.dtype == DType::kF16;
    if (!is_stored || made.shape.rank() != 4 || made.layout != Layout::kChannelsLast)
      refuse_body("a group norm of anything but channels-last images");
    for (const int part : program_.parts) {
      const TensorType& type = body_.type(inputs_[static_cast<std::size_t>(part)]);
      if (type.dtype != made.dtype || type.layout != made.layout)
        refuse_body("a group norm of images of several kinds");
      if (static_cast<std::size_t>(type.shape[1]) * size_of(type.dtype) % 16 != 0)
        refuse_body("a group norm of channels that fill no packs of 16 bytes");
    }
    for (const int side : {program_.shift, program_.weight, program_.bias, program_.scale, program_.offset}) {
      if (side < 0) continue;
      const DType dtype = body_.type(inputs_[static_cast<std::size_t>(side)]).dtype;
      if (dtype != made.dtype && dtype != DType::kF32)
        refuse_body(fmt::format("a group norm with an operand of {}", dtype));
    }
    if (!fits_packs(made.shape[1] / program_.groups, made.shape[1], size_of(made.dtype)))
      refuse_body("a group norm of groups of an odd number of channels");
  }

  const Graph& body_;
  std::vector<int> producers_;  // by value
  std::vector<ValueId> inputs_;
  GroupNormProgram program_;
  std::size_t read_nodes_ = 0;
};

}  // namespace

bool is_channel_vector(const Shape& shape, const Shape& image) {
  return shape.rank() == 4 && image.rank() == 4 && (shape[0] == image[0] || shape[0] == 1) && shape[1] == image[1] &&
         shape[2] == 1 && shape[3] == 1;
}

bool fits_packs(std::int64_t channels_of_group, std::int64_t channels, std::size_t bytes) {
  const auto pack = static_cast<std::int64_t>(16 / bytes);
  return channels % pack == 0 && channels_of_group % 2 == 0;
}

std::int64_t pairs_of_run(std::int64_t channels_of_group, std::size_t bytes) {
  return std::lcm(channels_of_group, static_cast<std::int64_t>(16 / bytes)) / 2;
}

std::variant<GroupNormProgram, std::string> group_norm_program_of(const Graph& body) {
  try {
    return GroupNormBody(body).read();
  } catch (const NoProgram& none) {
    return none.reason + " is not fused";
  }
}

}  // namespace headroom
