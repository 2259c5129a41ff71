/* Stands for libnvidia-ml.so.1 in tests: two GPUs. The one at 0000:41:00.0 is idle, the one at 0000:01:00.0 works, held down
   by its power cap. The first is what the environment's FAKE_NVML says, "free_mib=100,pcie_width=4", and else healthy. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu {
  const char* pci_bus_id;
  unsigned sm_mhz;
  unsigned memory_mhz;
  unsigned milliwatts;
  unsigned long long throttle;
};
static struct gpu gpus[] = {{"0000:41:00.0", 345, 2619, 71000, 1}, {"0000:01:00.0", 1980, 3201, 612500, 4 | 1}};
enum { GPUS = sizeof gpus / sizeof *gpus, SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static const struct gpu* find(const void* device) {
  for (size_t i = 0; i < GPUS; ++i)
    if (device == &gpus[i]) return &gpus[i];
  return NULL;
}

/* The value of `name` in FAKE_NVML for the first GPU and for the library, `usual` elsewhere. */
static unsigned long long setting(const void* device, const char* name, unsigned long long usual) {
  const char* at = device == NULL || device == &gpus[0] ? getenv("FAKE_NVML") : NULL;
  const size_t length = strlen(name);
  for (; at != NULL; at = strchr(at, ',') == NULL ? NULL : strchr(at, ',') + 1)
    if (strncmp(at, name, length) == 0 && at[length] == '=') return strtoull(at + length + 1, NULL, 0);
  return usual;
}

static int give(void* device, const char* name, unsigned usual, unsigned* value) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  *value = (unsigned)setting(device, name, usual);
  return SUCCESS;
}

static int reads = 0; /* of the first GPU's utilization since the library was opened; after busy_reads of them it is idle */
int nvmlInit_v2(void) {
  reads = 0;
  return (int)setting(NULL, "init", SUCCESS);
}
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetNVMLVersion(char* text, unsigned length) { return snprintf(text, length, "13.580.159") > 0 ? SUCCESS : INVALID_ARGUMENT; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) { return snprintf(text, length, "580.159") > 0 ? SUCCESS : INVALID_ARGUMENT; }
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = (int)setting(NULL, "cuda", 13000);
  return SUCCESS;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)setting(NULL, "gpus", GPUS);
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= GPUS) return INVALID_ARGUMENT;
  *device = &gpus[index];
  return SUCCESS;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, void** device) {
  for (size_t i = 0; i < GPUS; ++i) {
    if (strcmp(pci_bus_id, gpus[i].pci_bus_id) != 0) continue;
    *device = &gpus[i];
    return SUCCESS;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetName(void* device, char* text, unsigned length) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  snprintf(text, length, "NVIDIA Fake");
  return SUCCESS;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  snprintf(text, length, "GPU-%s", find(device)->pci_bus_id);
  return SUCCESS;
}
struct pci_info {
  char legacy_bus_id[16];
  unsigned numbers[5];
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* info) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  snprintf(info->bus_id, sizeof info->bus_id, "0000%s", find(device)->pci_bus_id);
  return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  const int capability = (int)setting(device, "capability", 90);
  *major = capability / 10;
  *minor = capability % 10;
  return SUCCESS;
}
struct memory {
  unsigned long long total, free, used;
};
int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  memory->total = 80ULL << 30;
  memory->free = setting(device, "free_mib", 79ULL << 10) << 20;
  memory->used = memory->total - memory->free;
  return SUCCESS;
}
struct process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, struct process* processes) {
  if (find(device) == NULL || *count == 0) return INVALID_ARGUMENT;
  const unsigned pid = (unsigned)setting(device, "pid", 0);
  *count = pid != 0;
  if (pid != 0) processes[0] = (struct process){pid, setting(device, "holds_mib", 1024) << 20, 0, 0};
  return SUCCESS;
}
struct utilization {
  unsigned gpu, memory;
};
int nvmlDeviceGetUtilizationRates(void* device, struct utilization* rates) {
  rates->memory = 0;
  if (device == &gpus[0] && (unsigned)reads++ >= setting(device, "busy_reads", 1000)) {
    rates->gpu = 0;
    return SUCCESS;
  }
  return give(device, "busy", 0, &rates->gpu);
}
int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* milliwatts) { return give(device, "limit_mw", 700000, milliwatts); }
int nvmlDeviceGetPowerManagementDefaultLimit(void* device, unsigned* milliwatts) { return give(device, "default_mw", 700000, milliwatts); }
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  const struct gpu* gpu = find(device);
  if (gpu == NULL) return INVALID_ARGUMENT;
  *mhz = type == 1 ? gpu->sm_mhz : gpu->memory_mhz;
  return SUCCESS;
}
int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) { return give(device, type == 1 ? "max_sm" : "max_memory", type == 1 ? 1980 : 3201, mhz); }
int nvmlDeviceGetMemoryBusWidth(void* device, unsigned* bits) { return give(device, "bus_bits", 6144, bits); }
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const struct gpu* gpu = find(device);
  if (gpu == NULL) return INVALID_ARGUMENT;
  *milliwatts = gpu->milliwatts;
  return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  const struct gpu* gpu = find(device);
  if (gpu == NULL) return INVALID_ARGUMENT;
  *reasons = setting(device, "throttle", gpu->throttle);
  return SUCCESS;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  return sensor == 0 ? give(device, "temperature", 41, celsius) : INVALID_ARGUMENT;
}
int nvmlDeviceGetEccMode(void* device, int* now, int* pending) {
  if (find(device) == NULL) return INVALID_ARGUMENT;
  *now = *pending = (int)setting(device, "ecc", 1);
  return SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* errors) {
  if (find(device) == NULL || type != 1 || counter != 0) return INVALID_ARGUMENT;
  *errors = setting(device, "errors", 0);
  return SUCCESS;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  *pending = 0;
  return give(device, "mig", 0, now);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) { return give(device, "pcie_generation", 1, value); }
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) { return give(device, "max_pcie_generation", 5, value); }
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) { return give(device, "pcie_width", 16, value); }
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) { return give(device, "max_pcie_width", 16, value); }
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* is_active) {
  (void)link;
  (void)is_active;
  return find(device) == NULL ? INVALID_ARGUMENT : NOT_SUPPORTED;
}
