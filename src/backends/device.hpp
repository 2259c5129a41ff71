#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "base/target.hpp"

/// Which device work runs on: what a person asks for, which GPUs there are, and what is chosen.
namespace headroom {

/// A CPU, or one of the GPUs that this process may use, as CUDA numbers them.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  ///< of a GPU
  friend bool operator==(const Device&, const Device&) = default;
};
/// "cpu", "cuda:1"
[[nodiscard]] std::string name_of(const Device& device);

/// What `--device` asks for.
struct DeviceRequest {
  std::optional<DeviceKind> kind;  ///< nothing for "auto"
  int index = 0;                   ///< of a GPU: "cuda" is "cuda:0"
  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};
/// Reads "auto", "cpu", "cuda" or "cuda:N". Throws a usage Error for anything else.
[[nodiscard]] DeviceRequest parse_device(std::string_view text);

/// The GPUs of this machine that CUDA shows to this process, by their index.
struct GpuSurvey {
  struct Gpu {
    std::string name;      ///< as the vendor writes it: "NVIDIA H200"
    std::string obstacle;  ///< why it cannot be used; empty where it can
  };
  std::vector<Gpu> gpus;
  std::string obstacle;  ///< why there are none, a clause: "this machine has no NVIDIA driver"
};
[[nodiscard]] GpuSurvey survey_gpus();

/// What is asked for, if the survey has it; "auto" is the first GPU that can be used, else the CPU. Throws Error, a
/// usage Error for an index that there is not, with the GPUs that there are.
[[nodiscard]] Device choose_device(const DeviceRequest& request, const GpuSurvey& survey);
/// The same of `text`, with the GPUs of this machine, which are not looked for where it is "cpu".
[[nodiscard]] Device find_device(std::string_view text);

/// The backend of a device; a GPU becomes the calling thread's current one. Throws Error as make_backend() of a kind.
[[nodiscard]] std::unique_ptr<Backend> make_backend(const Device& device, int threads = 0);

/// Tells one GPU from all others.
struct GpuIdentity {
  int index = 0;           ///< among those that this process may use
  std::string name;        ///< "NVIDIA H200"
  std::string uuid;        ///< "GPU-8f3c...", of the board wherever it is
  std::string pci_bus_id;  ///< "0000:41:00.0": where it is on this machine, whatever CUDA_VISIBLE_DEVICES says
};
/// The GPU that a backend runs on; nothing on a CPU.
[[nodiscard]] std::optional<GpuIdentity> gpu_of(const Backend& backend);
[[nodiscard]] Device device_of(const Backend& backend);
/// Where that GPU is; empty on a CPU.
[[nodiscard]] std::string pci_bus_id_of(const Backend& backend);

}  // namespace headroom
