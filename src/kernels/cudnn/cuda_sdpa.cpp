#include <mutex>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kernels/cudnn/library.cuh"
#include "kernels/cudnn/sdpa.hpp"

namespace headroom::cudnn {
namespace {

/// The unified operation came in 9.13.1.
constexpr std::size_t kLeastVersion = 91301;
constexpr std::int64_t kAlignment = 16;

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kScale };

cudnnDataType_t data_type(DType dtype) {
  HR_CHECK(dtype == DType::kBF16 || dtype == DType::kF16);
  return dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

std::string version_text() {
  const std::size_t version = library().GetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
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

/// The calling process's handle; like everything the library makes, it lives on.
cudnnHandle_t handle() {
  static const cudnnHandle_t kHandle = [] {
    cudnnHandle_t made = nullptr;
    check(library().Create(&made));
    return made;
  }();
  return kHandle;
}

/// The library's handle has one stream at a time.
std::mutex& handle_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::optional<std::string> why_unavailable() {
  try {
    if (library().GetVersion() < kLeastVersion)
      return fmt::format("needs cuDNN 9.13.1 or newer, and the one installed is {}", version_text());
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

class Sdpa::Impl {
 public:
  explicit Impl(const AttentionProblem& problem)
      : scale_(static_cast<float>(problem.scale)),
        plan_(make_plan(problem)),
        pack_(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    std::int64_t count = 0;
    check(library().BackendGetAttribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                        &count, &workspace_bytes_));
  }

  [[nodiscard]] std::size_t workspace_bytes() const { return static_cast<std::size_t>(workspace_bytes_); }

  void run(void* stream, const std::array<const void*, 4>& operands, void* workspace) const {
    for (const void* operand : operands)
      if (reinterpret_cast<std::uintptr_t>(operand) % kAlignment != 0)
        fail("attention by cuDNN takes operands at multiples of {} bytes, and one lies elsewhere", kAlignment);
    const std::scoped_lock lock(handle_mutex());
    if (operands != packed_ || workspace != packed_workspace_) pack(operands, workspace);
    check(library().SetStream(handle(), static_cast<cudaStream_t>(stream)));
    check(library().BackendExecute(handle(), plan_.get(), pack_.get()));
  }

 private:
  static Descriptor make_plan(const AttentionProblem& problem) {
    const cudnnDataType_t type = data_type(problem.dtype);
    const Descriptor q =
        make_tensor(kQ, type, {problem.batch, problem.heads, problem.queries, problem.key_dim}, problem.q, false);
    const Descriptor k =
        make_tensor(kK, type, {problem.batch, problem.heads, problem.keys, problem.key_dim}, problem.k, false);
    const Descriptor v =
        make_tensor(kV, type, {problem.batch, problem.heads, problem.keys, problem.value_dim}, problem.v, false);
    const Descriptor o =
        make_tensor(kO, type, {problem.batch, problem.heads, problem.queries, problem.value_dim}, problem.out, false);
    const Descriptor scale = make_tensor(kScale, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1}, true);
    Descriptor operation(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, o)
        .set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale)
        .finalize();
    const std::scoped_lock lock(handle_mutex());
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle())
        .finalize();
    return first_plan(graph, problem);
  }

  /// The first engine of the heuristic that makes a plan.
  static Descriptor first_plan(const Descriptor& graph, const AttentionProblem& problem) {
    Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    if (heuristic.try_finalize()) {
      std::int64_t count = 0;
      check(library().BackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          0, &count, nullptr));
      std::vector<Descriptor> engines;
      std::vector<cudnnBackendDescriptor_t> slots;
      for (std::int64_t i = 0; i < count; ++i)
        slots.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
      check(library().BackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          count, &count, slots.data()));
      for (const Descriptor& engine : engines) {
        Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle())
            .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
        if (plan.try_finalize()) return plan;
      }
    }
    fail("cuDNN {} has no engine for {} attention of {} x {} heads, {} queries and {} keys of {} and {}",
         version_text(), problem.dtype, problem.batch, problem.heads, problem.queries, problem.keys, problem.key_dim,
         problem.value_dim);
  }

  void pack(const std::array<const void*, 4>& operands, void* workspace) const {
    const std::array<const void*, 5> addresses{operands[0], operands[1], operands[2], operands[3], &scale_};
    constexpr std::array<std::int64_t, 5> kUids{kQ, kK, kV, kO, kScale};
    Descriptor made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    made.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(addresses))
        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(kUids))
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
        .finalize();
    pack_ = std::move(made);
    packed_ = operands;
    packed_workspace_ = workspace;
  }

  float scale_;
  Descriptor plan_;
  std::int64_t workspace_bytes_ = 0;
  mutable Descriptor pack_;  // what the last run was given: the same again need not be packed again
  mutable std::array<const void*, 4> packed_{};
  mutable void* packed_workspace_ = nullptr;
};

Sdpa::Sdpa(const AttentionProblem& problem) : impl_(std::make_unique<Impl>(problem)) {}
Sdpa::~Sdpa() = default;

std::size_t Sdpa::workspace_bytes() const noexcept { return impl_->workspace_bytes(); }
std::string Sdpa::implementation() const { return "cuDNN " + version_text(); }
void Sdpa::run(void* stream, const void* q, const void* k, const void* v, void* o, void* workspace) const {
  impl_->run(stream, {q, k, v, o}, workspace);
}

}  // namespace headroom::cudnn
