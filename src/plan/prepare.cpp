#include "plan/prepare.hpp"

#include <type_traits>
#include <variant>
#include <vector>

namespace headroom {
namespace {

/// Bytes that tell things apart, each with a length where that may differ.
class Key {
 public:
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const std::string& value) {
    add(value.size());
    text_ += value;
  }
  void add(std::span<const std::int64_t> values) {
    add(values.size());
    for (const std::int64_t value : values) add(value);
  }
  void add(const std::vector<std::int64_t>& values) { add(std::span(values)); }
  void add(std::span<const Operand> operands) {
    for (const Operand& operand : operands) {
      add(operand.type.dtype);
      add(operand.type.layout);
      add(operand.type.shape.dims());
      add(operand.strides.dims());
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::shared_ptr<const PreparedKernel> PreparedKernels::prepare(const ChosenKernel& choice, const OpSpec& spec,
                                                               std::span<const Operand> inputs,
                                                               std::span<const Operand> outputs, const Target& target,
                                                               int copy) {
  Key key;
  key.add(choice.kernel);
  key.add(target.threads);
  key.add(copy);
  for (const auto& [name, attribute] : spec.attributes.all()) {
    key.add(std::string(name));
    key.add(attribute.index());
    std::visit([&](const auto& value) { key.add(value); }, attribute);
  }
  key.add(inputs.size());
  key.add(inputs);
  key.add(outputs);
  for (const bool weight : spec.is_weight) key.add(weight);
  std::shared_ptr<const PreparedKernel>& prepared = kernels_[key.text()];
  try {
    if (!prepared) prepared = choice.kernel->prepare(spec, inputs, outputs, target);
  } catch (const CannotPrepare& error) {
    throw Refused{{.kernel = choice.kernel, .spec = choice.spec, .reason = error.what()}};
  }
  return prepared;
}

}  // namespace headroom
