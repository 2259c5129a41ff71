#include "doctor/checks.hpp"

#include <fmt/format.h>

#include <array>

#include "doctor/checks/families.hpp"

namespace headroom::doctor {
namespace {

using MachineCheck = Check<MachineFacts>;
using ModelCheck = Check<ModelFacts>;
using TraceCheck = Check<TraceFacts>;

constexpr std::array kMachineChecks = {
    MachineCheck{{"cpu-quota", "cpu", "a control group allows less CPU time than the threads need",
                  "`cpu.max`, `cpu.cfs_quota_us` of every group", "a higher quota, or fewer `--threads`"},
                 find_cpu_quota},
    MachineCheck{{"threads-over-cpus", "cpu", "more threads are asked for than this process has CPUs",
                  "`--threads`, `OMP_NUM_THREADS`, the affinity mask", "`taskset` without the mask, or fewer threads"},
                 find_threads_over_cpus},
    MachineCheck{{"affinity-narrow", "cpu", "the affinity mask or `OMP_PROC_BIND` leaves out CPUs of the control group",
                  "`Cpus_allowed_list`, `cpuset.cpus`", "`taskset`, `unset OMP_PROC_BIND`"},
                 find_narrow_affinity},
    MachineCheck{{"omp-thread-limit", "cpu", "OpenMP may not run a thread on each CPU", "`OMP_THREAD_LIMIT`",
                  "`unset OMP_THREAD_LIMIT`"},
                 find_omp_thread_limit},
    MachineCheck{{"omp-spinning", "cpu", "threads spin while they wait; wrong if other work shares the CPUs",
                  "`OMP_WAIT_POLICY`, `GOMP_SPINCOUNT`; quota, pressure, load, steal", "`unset OMP_WAIT_POLICY`"},
                 find_omp_spinning},
    MachineCheck{{"isa-unused", "cpu", "the CPU has wider vector units than the program, its kernels or oneDNN use",
                  "flags of `/proc/cpuinfo`, CPUID, `--cpu-isa`, `ONEDNN_MAX_CPU_ISA`",
                  "leave out the limit, or build with all vector units"},
                 find_unused_isa},
    MachineCheck{{"governor", "cpu", "the governor or the energy preference keeps the clock low",
                  "`scaling_governor`, `energy_performance_preference`", "`cpupower frequency-set -g performance`"},
                 find_governor},
    MachineCheck{{"clock-limit", "cpu", "the clock's upper limit is over 5% below the CPU's",
                  "`scaling_max_freq`, `cpuinfo_max_freq`", "`cpupower frequency-set -u`"},
                 find_clock_limit},
    MachineCheck{{"numa-remote", "cpu", "all memory comes from NUMA nodes without allowed CPUs",
                  "`Mems_allowed_list`, `node*/cpulist`", "`numactl`"},
                 find_remote_memory},
    MachineCheck{{"steal", "cpu", "other virtual machines took over 5% of the time since the system began",
                  "`/proc/stat`", "CPUs of its own"},
                 find_steal},
    MachineCheck{{"cpu-busy", "cpu", "other work holds the CPUs now; wrong if the measurement shows it",
                  "measured waits, preemptions and steal; `/proc/pressure/cpu`", "end the other work"},
                 find_busy_cpus},
    MachineCheck{
        {"memory-limit", "memory", "a control group or `ulimit` leaves less memory than the model's files have",
         "`memory.max`, `memory.limit_in_bytes`, `/proc/self/limits`", "a higher limit"},
        find_memory_limit},
    MachineCheck{{"memory-short", "memory", "less memory is available than the model's files have", "`/proc/meminfo`",
                  "end other programs"},
                 find_short_memory},
    MachineCheck{
        {"huge-pages-off", "memory", "transparent huge pages are off", "`transparent_hugepage/enabled`", "`madvise`"},
        find_huge_pages_off},
    MachineCheck{{"page-cache-cold", "memory", "over half of the model's files, and at least 64 MiB, are not in memory",
                  "`mincore`", "read the files once"},
                 find_cold_page_cache},
    MachineCheck{{"shm-small", "memory", "`/dev/shm` has at most 64 MiB on a machine with several GPUs",
                  "`/proc/self/mountinfo`", "`--shm-size`"},
                 find_small_shm},
    MachineCheck{{"build-without-cuda", "libraries", "there is a GPU, and the program was built without CUDA",
                  "`/proc/driver/nvidia/gpus`, NVML", "`scripts/bootstrap.sh cuda`, `make`"},
                 find_build_without_cuda},
    MachineCheck{
        {"library-missing", "libraries", "the loader finds no cuBLASLt, cuDNN or NVRTC (wrong) or CUPTI (could)",
         "`dlopen`", "install the package"},
        find_missing_library},
    MachineCheck{{"library-old", "libraries", "a library is older than its kernels need", "its own version function",
                  "update the package"},
                 find_old_library},
    MachineCheck{{"library-shadowed", "libraries",
                  "the loader takes an older file than another of the same soname that it could take",
                  "`dlinfo`, `LD_LIBRARY_PATH`, RUNPATH, `ld.so.conf`", "another order in `LD_LIBRARY_PATH`"},
                 find_shadowed_library},
    MachineCheck{{"nvml-missing", "libraries", "NVML is missing or does not start: GPUs cannot be looked at",
                  "`dlopen`, `nvmlInit_v2`", "install the driver's library, or let the container have it"},
                 find_missing_nvml},
    MachineCheck{{"driver-mismatch", "libraries", "the driver's libraries and its kernel module differ",
                  "NVML, `/proc/driver/nvidia/version`", "reboot"},
                 find_driver_mismatch},
    MachineCheck{
        {"driver-old", "libraries", "the driver is older than the CUDA of this program", "NVML", "update the driver"},
        find_old_driver},
    MachineCheck{{"gpu-hidden", "gpu", "`CUDA_VISIBLE_DEVICES` shows none of the GPUs", "`CUDA_VISIBLE_DEVICES`, NVML",
                  "`unset CUDA_VISIBLE_DEVICES`"},
                 find_hidden_gpus},
    MachineCheck{{"gpu-unsupported", "gpu", "the GPU is older than compute capability 8.0", "NVML",
                  "another GPU, or `--device cpu`"},
                 find_unsupported_gpu},
    MachineCheck{{"gpu-busy", "gpu", "another process works on the GPU", "NVML's utilization and processes",
                  "end it, or choose another GPU"},
                 find_busy_gpu},
    MachineCheck{{"gpu-full", "gpu", "under 10% of the GPU's memory is free, or less than the model's files have",
                  "NVML's memory and processes", "end the processes that hold it"},
                 find_full_gpu},
    MachineCheck{{"gpu-throttled", "gpu", "heat or the power supply holds the clock down now",
                  "NVML's throttle reasons", "cooling, cables"},
                 find_throttled_gpu},
    MachineCheck{
        {"gpu-clock-setting", "gpu", "a setting limits the clock", "NVML's throttle reasons", "`nvidia-smi -rgc`"},
        find_gpu_clock_setting},
    MachineCheck{{"gpu-power-limit", "gpu", "the power limit is below the default", "NVML", "`nvidia-smi -pl`"},
                 find_gpu_power_limit},
    MachineCheck{{"gpu-ecc-off", "gpu", "ECC is off", "NVML", "`nvidia-smi -e 1`"}, find_gpu_without_ecc},
    MachineCheck{{"gpu-memory-errors", "gpu", "the memory had uncorrected errors", "NVML", "reset or replace the GPU"},
                 find_gpu_memory_errors},
    MachineCheck{{"gpu-pcie", "gpu", "the PCIe link has fewer lanes than it could, or under load a lower generation",
                  "NVML", "another slot"},
                 find_narrow_pcie},
    MachineCheck{{"launch-blocking", "gpu", "every launch waits for its kernel", "`CUDA_LAUNCH_BLOCKING`",
                  "`unset CUDA_LAUNCH_BLOCKING`"},
                 find_blocking_launches},
    MachineCheck{
        {"gpu-slow-copies", "gpu", "a measured copy takes over 1.2 times as long as 85% of the memory bus' rate",
         "a copy; NVML's clock and bus width", "end other work on it"},
        find_slow_gpu_copies},
    MachineCheck{
        {"gpu-slow-matmuls", "gpu", "measured matmuls take over 1.4 times as long as 70% of the data sheet's peak",
         "matmuls; `src/measure/probes/known_cards.def`", "end other work on it, cooling, power"},
        find_slow_gpu_products},
};

constexpr std::array kModelChecks = {
    ModelCheck{{"scores-in-memory", "model", "the scores of an attention layer are written to memory",
                "the plan, the pass flash-attention", "`--opt flash`"},
               find_scores_in_memory},
    ModelCheck{{"f32-with-bf16-units", "model", "most contractions compute in f32, and the device has units for bf16",
                "the plan; the profile", "`--opt bf16` or `tf32`"},
               find_f32_with_bf16_units},
    ModelCheck{
        {"switch-declined", "model", "a switch that `--opt` names did not apply", "the passes", "as the reason says"},
        find_declined_switches},
    ModelCheck{{"launch-gaps", "model", "a GPU is idle for over 5% of a step, and `graph` is off", "CUPTI's records",
                "`--opt graph`"},
               find_time_between_launches},
    ModelCheck{{"profile-disturbed", "model", "other work disturbed the profile",
                "waits, preemptions, steal, throttling", "end the other work"},
               find_disturbed_profile},
};

constexpr std::array kTraceChecks = {
    TraceCheck{{"trace-math-attention", "trace", "attention runs as matmul, softmax, matmul, with its scores in memory",
                "`aten::_scaled_dot_product_attention_math`", "operands that a fused kernel takes"},
               find_math_attention},
    TraceCheck{{"trace-fp8-storage", "trace", "weights are stored in FP8 and cast before matmuls in a wider dtype",
                "`aten::copy_` from Float8, no `aten::_scaled_mm`", "FP8 matmuls, or bf16 weights"},
               find_fp8_storage},
    TraceCheck{{"trace-casts", "trace", "there are at least as many casts between float dtypes as matmuls",
                "`aten::copy_`, `aten::mm` and the like", "weights in the dtype that computes"},
               find_casts},
    TraceCheck{{"trace-late-launches", "trace",
                "launches come too late: over 2% of the time is idle by them, even if the host never waited",
                "kernels, and the launches of their correlation", "CUDA graphs, `torch.compile`"},
               find_late_launches},
    TraceCheck{{"trace-layout-changes", "trace", "over 2% of the GPU's work changes layouts for convolutions",
                "kernels `nchwToNhwc`, `nhwcToNchw`", "`channels_last`"},
               find_layout_changes},
    TraceCheck{{"trace-syncs", "trace",
                "the host waits for the GPU in the loop: it reads a value, or over 2% is idle by synchronization",
                "`aten::_local_scalar_dense`, `cudaStreamSynchronize`", "no `.item()` in the loop"},
               find_syncs},
    TraceCheck{{"trace-weight-copies", "trace", "over 2% of the GPU's work copies large blocks from the host",
                "`Memcpy HtoD` of 1 MiB or more", "weights that stay on the GPU"},
               find_weight_copies},
    TraceCheck{{"trace-f32-matmuls", "trace", "over 2% of the GPU's work are matmuls in f32 without TF32",
                "kernels' names", "`allow_tf32`, or bf16"},
               find_f32_matmuls},
    TraceCheck{{"trace-compilations", "trace", "`torch.compile` compiles while the trace runs", "`compile_inner`",
                "shapes that do not change, or `dynamic=True`"},
               find_compilations},
    TraceCheck{
        {"trace-evidence", "trace", "the trace lacks what other checks look at: a GPU's work, or operands' dtypes",
         "kernels, `Input type`", "`ProfilerActivity.CUDA`, `record_shapes=True`"},
        find_missing_evidence},
};

}  // namespace

std::span<const Check<MachineFacts>> machine_checks() { return kMachineChecks; }
std::span<const Check<ModelFacts>> model_checks() { return kModelChecks; }
std::span<const Check<TraceFacts>> trace_checks() { return kTraceChecks; }

std::vector<CheckText> all_checks() {
  std::vector<CheckText> all;
  for (const MachineCheck& check : kMachineChecks) all.push_back(check.text);
  for (const ModelCheck& check : kModelChecks) all.push_back(check.text);
  for (const TraceCheck& check : kTraceChecks) all.push_back(check.text);
  return all;
}

std::string checks_as_markdown() {
  std::string text = "| id | family | found if | evidence | mend |\n|---|---|---|---|---|\n";
  for (const CheckText& check : all_checks())
    text +=
        fmt::format("| `{}` | {} | {} | {} | {} |\n", check.id, check.family, check.finds, check.source, check.mend);
  return text;
}

}  // namespace headroom::doctor
