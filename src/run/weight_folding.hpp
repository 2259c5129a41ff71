#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/folded_weight.hpp"
#include "run/param_values.hpp"

namespace headroom {

/// How weights are made of params: what one node makes (a quantized weight and its scales) by one small program, a
/// param that is a weight as it stands by none. It is kept to make them again, where they are: when a param changes, or when
/// they come back without their bytes.
class WeightFolding {
 public:
  /// Plans it; `uses` are weights of `program` that one node makes, or a single one.
  WeightFolding(const Program& program, std::span<const WeightUse* const> uses);

  [[nodiscard]] bool depends_on(std::string_view param) const;
  /// Whether it may be needed again: somebody holds what it made, which depends on params or can be unloaded.
  [[nodiscard]] bool is_needed() const;
  /// Those of its weights that somebody holds.
  [[nodiscard]] std::vector<WeightHandle> weights() const;

  /// Submits what makes the weights, in the order of `uses`. Memory is taken for one after the other. Throws Error for
  /// params that are not as the program needs them.
  [[nodiscard]] std::vector<WeightHandle> fold(const ParamValues& params, Backend& backend,
                                               const std::shared_ptr<Stream>& stream);
  /// Submits what makes `wanted`, which are some of them, again in the same memory, of what the params are now; calls
  /// `before_writing` before it submits what writes there.
  void fold_again(std::span<const WeightHandle> wanted, const ParamValues& params, Backend& backend,
                  const std::shared_ptr<Stream>& stream, const std::function<void()>& before_writing) const;

 private:
  struct Param {
    std::string name;
    TensorType type;
  };
  struct Made {
    std::string output;  ///< of the program
    std::size_t bytes = 0;
    std::shared_ptr<const PreparedKernel> packer;  ///< null: it stays dense
    std::size_t packed_index = 0;
    std::weak_ptr<FoldedWeight> weight = {};
  };
  /// Where one of `made_` is to lie; null where nobody wants it. Asked in order, before it is written.
  using Target = std::function<DevicePointer(std::size_t made)>;

  void copy_param(const ParamValues& params, Backend& backend, Stream& stream, const Target& target) const;
  void run_program(const ParamValues& params, Backend& backend, const std::shared_ptr<Stream>& stream,
                   const Target& target) const;
  /// Writes the packed form of a dense weight, or a copy of it.
  static void pack(const Made& made, Backend& backend, Stream& stream, DevicePointer dense, DevicePointer to);
  void make(const ParamValues& params, Backend& backend, const std::shared_ptr<Stream>& stream,
            const Target& target) const;

  std::vector<Param> params_;
  std::shared_ptr<const Program> program_;  // null: the only param is the weight
  std::vector<Made> made_;
};

/// The values that `uses` are, each once.
[[nodiscard]] std::vector<ValueId> values_of(std::span<const WeightUse* const> uses);

}  // namespace headroom
