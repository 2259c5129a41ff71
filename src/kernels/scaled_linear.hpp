#pragma once

#include "kernels/kernel.hpp"

namespace headroom {

/// Products of quantized rows in int8 on AMX tiles, scaled, biased and activated block by block as the sums are made:
/// for CPUs with AMX, weights that fit in a core's cache, and activations whose results become bf16.
[[nodiscard]] const Kernel& amx_scaled_linear();
/// Products of quantized rows in int8 on oneDNN's matmul primitive, scaled, biased and activated row by row; packs
/// weights. Needs a CPU with VNNI or AMX.
[[nodiscard]] const Kernel& onednn_scaled_linear();
/// The same for any sizes and any CPU, without a library: for what oneDNN declines.
[[nodiscard]] const Kernel& plain_scaled_linear();
/// Why neither kernel takes these dtypes, or nothing.
[[nodiscard]] Support check_scaled_dtypes(const OpSpec& spec);

}  // namespace headroom
