#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/vendor/cudnn/library.cuh"

namespace headroom::cudnn {

/// One of the library's engines with its knobs set, for an operation graph.
struct EngineConfig {
  Descriptor config;
  std::string name;  ///< "engine 57 (12=3 2=1)"
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::vector<Descriptor> parts = {};  ///< the descriptors of `config`, if it was built here

  [[nodiscard]] bool has(cudnnBackendNumericalNote_t note) const;
};

/// Configurations that a heuristic proposes for a graph, best first, at most `most`; empty if it has none.
[[nodiscard]] std::vector<Descriptor> list_configs(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                                   std::size_t most);
/// One of them with its name. It takes some forty calls of the library.
[[nodiscard]] EngineConfig describe(Descriptor config);
/// The engine of that name, without asking the heuristics, which take milliseconds; nothing if the library has no
/// such engine for the graph. Throws Error if the library does not answer.
[[nodiscard]] std::optional<EngineConfig> find_engine(const Descriptor& graph, std::string_view name);

/// The operand of an operation graph that has a number.
struct Bound {
  std::int64_t uid;
  const void* address;
  friend bool operator==(const Bound&, const Bound&) = default;
};

/// An engine that is ready to run on a device.
class Plan {
 public:
  /// Nothing if the engine cannot run here. This may compile the engine, which takes up to a second.
  [[nodiscard]] static std::optional<Plan> make(std::shared_ptr<Context> context, const Descriptor& config);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// Whether a launch can be recorded, tried without running it. Some engines fork streams of their own, which fails
  /// while a stream is captured (cuDNN 9.19, grouped convolutions).
  [[nodiscard]] bool can_be_recorded(std::span<const Bound> operands, void* workspace) const;
  /// Submits it to a stream (cudaStream_t).
  void run(void* stream, std::span<const Bound> operands, void* workspace) const;

 private:
  Plan(std::shared_ptr<Context> context, Descriptor plan);
  void pack(std::span<const Bound> operands, void* workspace) const;
  void execute(cudaStream_t stream) const;
  void make_ready(std::span<const Bound> operands, void* workspace) const;

  std::shared_ptr<Context> context_;
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
  // The operands of the last run: the same operands need not be packed again.
  mutable std::optional<Descriptor> pack_;
  mutable std::vector<Bound> packed_;
  mutable void* packed_workspace_ = nullptr;
  // Some engines launch kernels with programmatic dependent launch that do not all wait for the previous kernel.
  // Known once a launch has been recorded.
  mutable std::optional<bool> uses_dependent_launch_;
};

}  // namespace headroom::cudnn
