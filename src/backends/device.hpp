#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "base/target.hpp"

/// Device selection: the user's request, the GPUs present, and the choice.
namespace headroom {

/// A CPU, or one of the GPUs visible to this process, numbered as in CUDA.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;  ///< of a GPU
  int count = 0;  ///< GPUs from that one on for ranks that share a request; 0: all that there are
  friend bool operator==(const Device&, const Device&) = default;
};
/// "cpu", "cuda:1", "cuda:0-3"
[[nodiscard]] std::string name_of(const Device& device);

/// The parsed value of `--device`.
struct DeviceRequest {
  std::optional<DeviceKind> kind;  ///< nothing for "auto"
  int index = 0;                   ///< of a GPU: "cuda" is "cuda:0"
  int count = 0;                   ///< 4 for "cuda:0-3"; 0: not said
  friend bool operator==(const DeviceRequest&, const DeviceRequest&) = default;
};
/// Reads "auto", "cpu", "cuda", "cuda:N" or "cuda:N-M". Throws a usage Error for anything else.
[[nodiscard]] DeviceRequest parse_device(std::string_view text);

/// The GPUs that CUDA shows to this process, by index.
struct GpuSurvey {
  struct Gpu {
    std::string name;      ///< as the vendor writes it: "NVIDIA H200"
    std::string obstacle;  ///< why it cannot be used; empty where it can
  };
  std::vector<Gpu> gpus;
  std::string obstacle;  ///< why there are none, a clause: "this machine has no NVIDIA driver"
};
[[nodiscard]] GpuSurvey survey_gpus();

/// The requested device, if the survey has it; "auto" is the first usable GPU, else the CPU. Throws Error with the
/// GPUs that exist, a usage Error for an index out of range.
[[nodiscard]] Device choose_device(const DeviceRequest& request, const GpuSurvey& survey);
/// Parses `text` and chooses among the GPUs of this machine, which are not queried for "cpu".
[[nodiscard]] Device find_device(std::string_view text);

/// The backend of a device; a GPU becomes the calling thread's current one. Throws Error as make_backend() of a kind.
[[nodiscard]] std::unique_ptr<Backend> make_backend(const Device& device, int threads = 0);

/// Identifies one GPU uniquely.
struct GpuIdentity {
  int index = 0;           ///< among those that this process may use
  int count = 0;           ///< Device::count
  std::string name;        ///< "NVIDIA H200"
  std::string uuid;        ///< of the board, in any machine
  std::string pci_bus_id;  ///< its place in this machine, independent of CUDA_VISIBLE_DEVICES
};
/// The GPU that a backend runs on; nothing on a CPU.
[[nodiscard]] std::optional<GpuIdentity> gpu_of(const Backend& backend);
[[nodiscard]] Device device_of(const Backend& backend);
/// The PCI bus id of that GPU; empty on a CPU.
[[nodiscard]] std::string pci_bus_id_of(const Backend& backend);

}  // namespace headroom
