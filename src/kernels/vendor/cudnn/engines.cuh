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
  std::vector<Descriptor> parts = {};  ///< what `config` was made of, where it was made here

  [[nodiscard]] bool has(cudnnBackendNumericalNote_t note) const;
};

/// Configurations that a heuristic proposes for a graph, best first and at most so many; nothing where it has none.
[[nodiscard]] std::vector<Descriptor> list_configs(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                                   std::size_t most);
/// One of them with its name. It takes some forty calls of the library.
[[nodiscard]] EngineConfig describe(Descriptor config);
/// The engine of that name, whatever heuristics propose, which take milliseconds; nothing where the library has none such for the graph.
/// Throws Error where it refuses to say.
[[nodiscard]] std::optional<EngineConfig> find_engine(const Descriptor& graph, std::string_view name);

/// What stands in an operation graph under a number.
struct Bound {
  std::int64_t uid;
  const void* address;
  friend bool operator==(const Bound&, const Bound&) = default;
};

/// An engine that is ready to run on a device.
class Plan {
 public:
  /// Nothing where the engine cannot run here. It may be compiled now, which takes up to a second.
  [[nodiscard]] static std::optional<Plan> make(std::shared_ptr<Context> context, const Descriptor& config);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// Submits it to a stream (cudaStream_t).
  void run(void* stream, std::span<const Bound> operands, void* workspace) const;

 private:
  Plan(std::shared_ptr<Context> context, Descriptor plan);
  void pack(std::span<const Bound> operands, void* workspace) const;

  std::shared_ptr<Context> context_;
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
  // What the last run was given: the same again need not be packed again.
  mutable std::optional<Descriptor> pack_;
  mutable std::vector<Bound> packed_;
  mutable void* packed_workspace_ = nullptr;
  // Some engines launch kernels that begin early, of which not all wait for what is in front of the first: known at the first run.
  mutable std::optional<bool> uses_dependent_launch_;
};

}  // namespace headroom::cudnn
