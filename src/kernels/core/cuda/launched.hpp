#pragma once

namespace headroom::cuda {

/// Throws Error where the launch just made was refused; `kernel` names it. Declared apart, because nvcc takes long for
/// the headers that Error needs.
void check_launched(const char* kernel);

}  // namespace headroom::cuda
