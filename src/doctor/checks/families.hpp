#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/machine_facts.hpp"
#include "doctor/model_facts.hpp"
#include "doctor/trace/trace_facts.hpp"

/// The functions of the checks, one file a family. checks.cpp has their rows.
namespace headroom::doctor {

using Findings = std::vector<Finding>;
#define HR_MACHINE_CHECK(function) void function(const MachineFacts& facts, std::string_view id, Findings& findings)

// cpu_checks.cpp
HR_MACHINE_CHECK(find_cpu_quota);
HR_MACHINE_CHECK(find_threads_over_cpus);
HR_MACHINE_CHECK(find_narrow_affinity);
HR_MACHINE_CHECK(find_omp_thread_limit);
HR_MACHINE_CHECK(find_omp_spinning);
HR_MACHINE_CHECK(find_unused_isa);
HR_MACHINE_CHECK(find_governor);
HR_MACHINE_CHECK(find_clock_limit);
HR_MACHINE_CHECK(find_remote_memory);
HR_MACHINE_CHECK(find_steal);
HR_MACHINE_CHECK(find_busy_cpus);
// memory_checks.cpp
HR_MACHINE_CHECK(find_memory_limit);
HR_MACHINE_CHECK(find_short_memory);
HR_MACHINE_CHECK(find_huge_pages_off);
HR_MACHINE_CHECK(find_cold_page_cache);
HR_MACHINE_CHECK(find_small_shm);
// library_checks.cpp
HR_MACHINE_CHECK(find_build_without_cuda);
HR_MACHINE_CHECK(find_missing_library);
HR_MACHINE_CHECK(find_old_library);
HR_MACHINE_CHECK(find_shadowed_library);
HR_MACHINE_CHECK(find_missing_nvml);
HR_MACHINE_CHECK(find_driver_mismatch);
HR_MACHINE_CHECK(find_old_driver);
// gpu_checks.cpp
HR_MACHINE_CHECK(find_hidden_gpus);
HR_MACHINE_CHECK(find_unsupported_gpu);
HR_MACHINE_CHECK(find_busy_gpu);
HR_MACHINE_CHECK(find_full_gpu);
HR_MACHINE_CHECK(find_throttled_gpu);
HR_MACHINE_CHECK(find_gpu_clock_setting);
HR_MACHINE_CHECK(find_gpu_power_limit);
HR_MACHINE_CHECK(find_gpu_without_ecc);
HR_MACHINE_CHECK(find_gpu_memory_errors);
HR_MACHINE_CHECK(find_narrow_pcie);
HR_MACHINE_CHECK(find_blocking_launches);
HR_MACHINE_CHECK(find_slow_gpu_copies);
HR_MACHINE_CHECK(find_slow_gpu_products);

#undef HR_MACHINE_CHECK

// model_checks.cpp
#define HR_MODEL_CHECK(function) void function(const ModelFacts& facts, std::string_view id, Findings& findings)
HR_MODEL_CHECK(find_scores_in_memory);
HR_MODEL_CHECK(find_f32_with_bf16_units);
HR_MODEL_CHECK(find_declined_switches);
HR_MODEL_CHECK(find_time_between_launches);
HR_MODEL_CHECK(find_disturbed_profile);
#undef HR_MODEL_CHECK

// trace_checks.cpp
#define HR_TRACE_CHECK(function) void function(const TraceFacts& facts, std::string_view id, Findings& findings)
HR_TRACE_CHECK(find_missing_evidence);
HR_TRACE_CHECK(find_math_attention);
HR_TRACE_CHECK(find_fp8_storage);
HR_TRACE_CHECK(find_casts);
HR_TRACE_CHECK(find_late_launches);
HR_TRACE_CHECK(find_layout_changes);
HR_TRACE_CHECK(find_syncs);
HR_TRACE_CHECK(find_weight_copies);
HR_TRACE_CHECK(find_f32_matmuls);
HR_TRACE_CHECK(find_compilations);
#undef HR_TRACE_CHECK

}  // namespace headroom::doctor
