#include "kernels/core/support.hpp"

namespace headroom {

Support check_op(Op op, DeviceKind device, const OpSpec& spec, const Target& target) {
  if (spec.op != op) return Rejection{fmt::format("runs {}, not {}", name_of(op), name_of(spec.op))};
  if (target.device != device)
    return Rejection{fmt::format("runs on {}, not on {}", name_of(device), name_of(target.device))};
  return std::nullopt;
}

Support check_amx(DType dtype, const OpSpec& spec, const Target& target) {
  // First what no switch can change.
  if (target.cpu_isa < CpuIsa::kAmx)
    return Rejection{fmt::format("needs AMX tiles; this CPU has {}", name_of(target.cpu_isa))};
  if (spec.inputs[0].dtype != dtype) return Rejection{fmt::format("takes {}, not {}", dtype, spec.inputs[0].dtype)};
  return std::nullopt;
}

Support check_amx_gemm(const OpSpec& spec, std::size_t weight) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  constexpr std::int64_t kColumns = 32, kLeastRows = 32;
  if (!spec.has_weight_at(weight)) return Rejection{"packs the weight, which here changes"};
  const TensorType& type = spec.inputs[weight];  // [n, k]
  const std::int64_t depth = 64 / static_cast<std::int64_t>(size_of(type.dtype));
  if (type.shape[0] % kColumns != 0 || type.shape[1] % depth != 0)
    return Rejection{fmt::format("takes weights of multiples of {} by {}, not {}", kColumns, depth, type.shape)};
  if (type.bytes() > kMostBytes)
    return Rejection{fmt::format("takes weights of up to {} KiB, half of a core's cache, not {}", kMostBytes >> 10,
                                 type.bytes() >> 10)};
  const std::int64_t rows = spec.inputs[0].shape.numel() / type.shape[1];
  if (rows < kLeastRows) return Rejection{fmt::format("takes {} rows or more, not {}", kLeastRows, rows)};
  return std::nullopt;
}

Support check_epilogue(const OpSpec& spec, EpilogueForms forms) {
  const Epilogue& epilogue = spec.attributes[attr::kEpilogue];
  const std::optional<EpilogueForm> form = form_of(epilogue);
  const auto takes = [&] {
    if (forms == EpilogueForms::kNone) return epilogue.is_empty();
    if (!form || !form->adds_operand) return form.has_value();
    const bool has_room =
        forms == EpilogueForms::kBoth || (forms == EpilogueForms::kEither && form->activation == Activation::kNone);
    return has_room && spec.inputs.back() == spec.outputs[0];
  };
  if (takes()) return std::nullopt;
  constexpr std::string_view kTaken[] = {"nothing", "an activation", "an activation or a residual",
                                         "a residual and an activation"};
  return Rejection{fmt::format("takes {} after the sum, not the epilogue {}", kTaken[static_cast<std::size_t>(forms)],
                               epilogue.to_text())};
}

Activation only_activation_of(const OpSpec& spec) { return form_of(spec.attributes[attr::kEpilogue])->activation; }

Support check_float_gemm(const OpSpec& spec, const Target& /*target*/) {
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16)
    return Rejection{fmt::format("takes f32, bf16 or f16, not {}", dtype)};
  for (const TensorType& input : spec.inputs)
    if (input.dtype != dtype) return Rejection{fmt::format("takes {} next to {}, not {}", dtype, dtype, input.dtype)};
  return std::nullopt;
}

}  // namespace headroom
