#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "plan/program.hpp"
#include "run/weights/folded_weight.hpp"
#include "run/weights/param_values.hpp"

namespace headroom {

class Session;

/// What a folding's program is given: a param, or what an update adds to one.
struct FoldingInput {
  std::string name;  ///< of the program's input
  TensorType type;
  std::string param = {};                 ///< empty for what an update adds
  std::span<const std::byte> bytes = {};  ///< of a factor
  float scale = 0;                        ///< of a term, where it is neither

  /// Its elements on the host; `params` has a param's.
  [[nodiscard]] std::span<const std::byte> elements(const ParamValues& params) const;
  /// Submits what writes it to `to`.
  void write(const ParamValues& params, Backend& backend, Stream& stream, DevicePointer to) const;
  /// Once its elements have been read: gives back the memory behind a param. Throws Error where their file has become
  /// shorter meanwhile.
  void finish_reading(const ParamValues& params) const;
};

/// The programs that fold weights: those that do the same with params of the same types, as layers of a network do, share
/// one.
class FoldingPrograms {
 public:
  [[nodiscard]] std::shared_ptr<const Program> find(const Graph& graph, const Target& target);

 private:
  static constexpr std::size_t kMostKept = 64;
  std::map<std::string, std::shared_ptr<const Program>> kept_;  // by the graph's text
};

/// How weights are made of params: what one node makes (a quantized weight and its scales) by one small program, a
/// param that is a weight as it stands by none. It is kept to make them again, where they are: when a param changes, or when
/// they come back without their bytes.
class WeightFolding {
 public:
  /// `uses` are weights of `program` that one node makes, or a single one.
  WeightFolding(const Program& program, std::span<const WeightUse* const> uses);

  [[nodiscard]] bool depends_on(std::span<const std::string> params) const;
  /// Whether it may be needed again: somebody holds what it made, which depends on params or can be unloaded.
  [[nodiscard]] bool is_needed() const;
  /// Those of its weights that somebody holds.
  [[nodiscard]] std::vector<WeightHandle> weights() const;

  /// What it does, with the updates that there are: without nodes where the weight is a param as it stands.
  [[nodiscard]] Graph graph(const ParamValues& params) const;
  /// What plans that; null where there is nothing to do.
  [[nodiscard]] std::shared_ptr<const Program> program(const ParamValues& params, FoldingPrograms& programs) const;
  [[nodiscard]] std::vector<FoldingInput> inputs(const ParamValues& params) const;

  /// Submits what makes the weights, in the order of `uses`. Memory is taken for one after the other. Throws Error for
  /// params that are not as the program needs them.
  [[nodiscard]] std::vector<WeightHandle> fold(const ParamValues& params, FoldingPrograms& programs, Backend& backend,
                                               const std::shared_ptr<Stream>& stream);
  /// Submits what makes `wanted`, which are some of them, again in the same memory, of what the params are now; calls
  /// `before_writing` before it submits what writes there.
  void fold_again(std::span<const WeightHandle> wanted, const ParamValues& params, FoldingPrograms& programs,
                  Backend& backend, const std::shared_ptr<Stream>& stream,
                  const std::function<void()>& before_writing) const;
  /// The end of fold_again(): submits what copies `wanted` from where a session that has run the program has them.
  void take_made(std::span<const WeightHandle> wanted, const Session& session, Backend& backend, Stream& stream) const;

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
  using Place = std::function<DevicePointer(std::size_t made)>;

  void copy_param(const ParamValues& params, Backend& backend, Stream& stream, const Place& place) const;
  void run_program(std::shared_ptr<const Program> program, const ParamValues& params, Backend& backend,
                   const std::shared_ptr<Stream>& stream, const Place& place) const;
  /// Writes the packed form of a dense weight, or a copy of it.
  static void pack(const Made& made, Backend& backend, Stream& stream, DevicePointer dense, DevicePointer to);
  void make(const ParamValues& params, FoldingPrograms& programs, Backend& backend,
            const std::shared_ptr<Stream>& stream, const Place& place) const;

  Target target_;
  Graph weight_;  // params are its inputs
  std::vector<Param> params_;
  std::vector<Made> made_;
};

/// The values that `uses` are, each once.
[[nodiscard]] std::vector<ValueId> values_of(std::span<const WeightUse* const> uses);

}  // namespace headroom
