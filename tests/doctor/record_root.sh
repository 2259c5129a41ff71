#!/usr/bin/env bash
# record_root.sh: prints the files of proc, sys and etc that `headroom doctor` reads on this machine, for
# tests/doctor/roots/*.root. Of /proc/cpuinfo it keeps the first CPU, of the environment the variables that matter, and
# no name of a user or host.
set -euo pipefail
files=(/proc/self/status /proc/self/limits /proc/meminfo /proc/loadavg /proc/pressure/cpu
  /sys/devices/system/cpu/online /sys/devices/system/cpu/smt/active /sys/kernel/mm/transparent_hugepage/enabled
  /proc/driver/nvidia/version)
show() {
  [[ -r $1 ]] || return 0
  echo "=== ${1#/}"
  "${@:2}" <"$1"
}
show /proc/cpuinfo sed '/^$/q'
show /proc/stat head -1
show /proc/self/mountinfo grep -E ' (/dev/shm|/sys/fs/cgroup[^ ]*) ' || true
show /etc/os-release cat
for file in "${files[@]}"; do show "$file" cat; done
for file in /sys/devices/system/node/node*/cpulist /proc/driver/nvidia/gpus/*/information; do show "$file" cat; done
first=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
for name in scaling_governor scaling_driver energy_performance_preference cpuinfo_min_freq cpuinfo_max_freq scaling_max_freq; do
  show "/sys/devices/system/cpu/cpu$first/cpufreq/$name" cat
done
# The control groups of this process and the outermost ones, under another name.
while IFS=: read -r _ controllers group; do
  for mount in "/sys/fs/cgroup${controllers:+/$controllers}"; do
    for folder in "$mount$group" "$mount"; do
      for name in cpu.max cpu.cfs_quota_us cpu.cfs_period_us cpu.stat cpuset.cpus.effective cpuset.effective_cpus cpuset.cpus memory.max \
        memory.current memory.limit_in_bytes memory.usage_in_bytes; do
        [[ -r $folder/$name ]] || continue
        if [[ $folder == "$mount" ]]; then echo "=== ${mount#/}/$name"; else echo "=== ${mount#/}/group/$name"; fi
        cat "$folder/$name"
      done
      [[ $folder != "$mount/" ]] || break
    done
  done
done </proc/self/cgroup
echo "=== proc/self/cgroup"
sed -E 's#:/[^:]+$#:/group#' /proc/self/cgroup
echo "=== proc/self/environ"
env | grep -E '^(OMP_|GOMP_|KMP_|ONEDNN_|DNNL_|CUDA_|NVIDIA_|LD_LIBRARY_PATH|container=)' || true
