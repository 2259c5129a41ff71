#pragma once

#include <string>

namespace headroom::nvrtc {

/// Why no kernel can be compiled on this machine, in words for `headroom plan`; empty where one can. With a compute
/// capability as Target has it (90 for Hopper), why none can for such a GPU.
[[nodiscard]] std::string obstacle();
[[nodiscard]] std::string obstacle(int compute_capability);

/// "NVRTC 13.0". Throws Error where it is not there.
[[nodiscard]] std::string version_text();

/// The machine code (an ELF file) of `source`, one translation unit of CUDA C++17 that includes nothing, for an
/// architecture ("sm_90"). Functions without an annotation are the device's. Throws Error where NVRTC is not there or
/// does not take the source, with the first lines of its log. Several threads may compile at once.
[[nodiscard]] std::string compile_to_cubin(const std::string& source, const std::string& architecture);

/// All that the machine code depends on, apart from the machine: the version of NVRTC, its options and the source.
[[nodiscard]] std::string describe_compilation(const std::string& source, const std::string& architecture);

}  // namespace headroom::nvrtc
