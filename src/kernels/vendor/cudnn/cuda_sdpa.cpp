#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/vendor/cudnn/engines.cuh"
#include "kernels/vendor/cudnn/sdpa.hpp"

namespace headroom::cudnn {
namespace {

constexpr std::int64_t kAlignment = 16;
constexpr std::size_t kListed = 8;  // engines of the heuristic, of which the first that runs is taken

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kScale, kStats };

cudnnDataType_t data_type(DType dtype) {
  HR_CHECK(dtype == DType::kBF16 || dtype == DType::kF16);
  return dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

Descriptor make_tensor(Uid uid, cudnnDataType_t type, const std::array<std::int64_t, 4>& dims,
                       const AttentionProblem::Strides& strides, bool is_by_value) {
  const std::array<std::int64_t, 4> steps{strides.batch, strides.head, strides.token, 1};
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uid));
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(dims));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(steps));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, is_by_value ? std::int64_t{4} : kAlignment);
  if (is_by_value) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  tensor.finalize();
  return tensor;
}

class Sdpa {
 public:
  Sdpa(const AttentionProblem& problem, Backend& backend)
      : scale_(static_cast<float>(problem.scale)), plan_(make_plan(problem, backend.context<Context>())) {}

  [[nodiscard]] std::size_t workspace_bytes() const { return plan_.workspace_bytes(); }

  void run(void* stream, const attentions::Operands& operands, void* workspace) const {
    for (const void* operand :
         std::initializer_list<const void*>{operands.q, operands.k, operands.v, operands.out, operands.logsumexp})
      if (reinterpret_cast<std::uintptr_t>(operand) % kAlignment != 0)
        fail("attention by cuDNN takes operands at multiples of {} bytes, and one lies elsewhere", kAlignment);
    const std::array<Bound, 6> bound{{{kQ, operands.q},
                                      {kK, operands.k},
                                      {kV, operands.v},
                                      {kO, operands.out},
                                      {kScale, &scale_},
                                      {kStats, operands.logsumexp}}};
    plan_.run(stream, std::span(bound).first(operands.logsumexp == nullptr ? 5 : 6), workspace);
  }

 private:
  static Plan make_plan(const AttentionProblem& problem, const std::shared_ptr<Context>& context) {
    const cudnnDataType_t type = data_type(problem.dtype);
    const Descriptor q =
        make_tensor(kQ, type, {problem.batch, problem.heads, problem.queries, problem.key_dim}, problem.q, false);
    const std::int64_t kv_heads = problem.heads / problem.k.sharers;
    const Descriptor k =
        make_tensor(kK, type, {problem.batch, kv_heads, problem.keys, problem.key_dim}, problem.k, false);
    const Descriptor v =
        make_tensor(kV, type, {problem.batch, kv_heads, problem.keys, problem.value_dim}, problem.v, false);
    const Descriptor o =
        make_tensor(kO, type, {problem.batch, problem.heads, problem.queries, problem.value_dim}, problem.out, false);
    const Descriptor scale = make_tensor(kScale, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1}, true);
    Descriptor operation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, o)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale);
    std::optional<Descriptor> stats;
    if (problem.has_logsumexp) {
      stats = make_tensor(kStats, CUDNN_DATA_FLOAT, {problem.batch, problem.heads, problem.queries, 1},
                          problem.logsumexp, false);
      operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, *stats);
    }
    operation.finalize();
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, context->handle())
        .finalize();
    for (const Descriptor& config : list_configs(graph, CUDNN_HEUR_MODE_A, kListed))
      if (std::optional<Plan> plan = Plan::make(context, config)) return *std::move(plan);
    fail("{} has no engine for {} attention of {} x {} heads, {} queries and {} keys of {} and {}", version_text(),
         problem.dtype, problem.batch, problem.heads, problem.queries, problem.keys, problem.key_dim,
         problem.value_dim);
  }

  float scale_;
  Plan plan_;
};

}  // namespace

std::optional<std::string> why_unavailable() {
  try {
    if (library().GetVersion() < kLeastVersionOfAttention)
      return fmt::format("needs cuDNN 9.13.1 or newer, and the one installed is {}", version_text());
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

attentions::Algorithm make_sdpa_algorithm(const AttentionProblem& problem, Backend& backend) {
  const auto sdpa = std::make_shared<const Sdpa>(problem, backend);
  return {.name = version_text(),
          .workspace_bytes = sdpa->workspace_bytes(),
          .run = [sdpa](void* stream, const attentions::Operands& operands, void* workspace) {
            sdpa->run(stream, operands, workspace);
          }};
}

}  // namespace headroom::cudnn
