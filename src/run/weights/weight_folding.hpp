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

/// An input of a folding program: a param, or a tensor of an update.
struct FoldingInput {
  std::string name;  ///< of the program's input
  TensorType type;
  std::string param = {};                 ///< empty for a tensor of an update
  std::span<const std::byte> bytes = {};  ///< of a factor
  float scale = 0;                        ///< of a term, for an input that is neither

  /// Submits the copy or the random fill of its elements to `to`; those of a param are in `params`.
  void write(const ParamValues& params, Backend& backend, Stream& stream, DevicePointer to) const;
  /// Called after its elements have been read: releases the memory of a param. Throws Error if the file has been
  /// truncated meanwhile.
  void finish_reading(const ParamValues& params) const;

 private:
  /// Its elements on the host.
  [[nodiscard]] std::span<const std::byte> elements(const ParamValues& params) const;
};

/// Programs that fold weights. Equal foldings of params of the same types, such as those of a network's layers, share
/// one.
/// one.
class FoldingPrograms {
 public:
  [[nodiscard]] std::shared_ptr<const Program> find(const Graph& graph, const DeviceTarget& target);

 private:
  static constexpr std::size_t kMostKept = 64;
  std::map<std::string, std::shared_ptr<const Program>> kept_;  // by the graph's text
};

/// How weights are made from params. The results of one node (a quantized weight and its scales) are made by one
/// small program. A param that is used unchanged as a weight needs no program. The folding is kept to make the
/// weights again at the same addresses, when a param changes or when they are reloaded without a host copy.
class WeightFolding {
 public:
  /// `uses` are the weights of `program` that one node makes, or a single weight.
  WeightFolding(const Program& program, std::span<const WeightUse* const> uses);

  [[nodiscard]] bool depends_on(std::span<const std::string> params) const;
  struct Param {
    std::string name;
    TensorType type;
  };
  /// The params that it reads.
  [[nodiscard]] const std::vector<Param>& params() const noexcept { return params_; }
  /// Whether it may be needed again: a weight is still held, and depends on params or can be unloaded.
  [[nodiscard]] bool is_needed() const;
  /// Its weights that are still held.
  [[nodiscard]] std::vector<WeightHandle> weights() const;

  /// Its graph with the current updates; without nodes if the weight is an unchanged param.
  [[nodiscard]] Graph graph(const ParamValues& params) const;
  /// The planned graph; null if there is nothing to compute.
  [[nodiscard]] std::shared_ptr<const Program> program(const ParamValues& params, FoldingPrograms& programs) const;
  [[nodiscard]] std::vector<FoldingInput> inputs(const ParamValues& params) const;

  /// Submits the work that makes the weights, in the order of `uses`. Memory is allocated for one after the other.
  /// Throws Error if params differ from what the program needs.
  [[nodiscard]] std::vector<WeightHandle> fold(const ParamValues& params, FoldingPrograms& programs, Backend& backend,
                                               const std::shared_ptr<Stream>& stream);
  /// Submits work that makes the `wanted` subset again in the same memory, from the current params. Calls
  /// `before_writing` before the first write to it.
  void fold_again(std::span<const WeightHandle> wanted, const ParamValues& params, FoldingPrograms& programs,
                  Backend& backend, const std::shared_ptr<Stream>& stream,
                  const std::function<void()>& before_writing) const;
  /// The last part of fold_again(): submits copies to `wanted` from a session that has run the program.
  void take_made(std::span<const WeightHandle> wanted, const Session& session, Backend& backend, Stream& stream) const;

 private:
  struct Made {
    std::string output;  ///< of the program
    std::size_t bytes = 0;
    std::shared_ptr<const PreparedKernel> packer;  ///< null: it stays dense
    std::size_t packed_index = 0;
    std::weak_ptr<FoldedWeight> weight = {};
  };
  /// The destination of an element of `made_`; null if it is not wanted. Called in order, before each is written.
  using Place = std::function<DevicePointer(std::size_t made)>;

  void copy_param(const ParamValues& params, Backend& backend, Stream& stream, const Place& place) const;
  void run_program(std::shared_ptr<const Program> program, const ParamValues& params, Backend& backend,
                   const std::shared_ptr<Stream>& stream, const Place& place) const;
  /// Writes a dense weight in packed form, or copies it.
  static void pack(const Made& made, Backend& backend, Stream& stream, DevicePointer dense, DevicePointer to);
  void make(const ParamValues& params, FoldingPrograms& programs, Backend& backend,
            const std::shared_ptr<Stream>& stream, const Place& place) const;

  DeviceTarget target_;
  Graph weight_;  // params are its inputs
  std::vector<Param> params_;
  std::vector<Made> made_;
};

/// The values of `uses`, each once.
[[nodiscard]] std::vector<ValueId> values_of(std::span<const WeightUse* const> uses);

}  // namespace headroom
