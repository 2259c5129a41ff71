/* Stands for libnvidia-ml.so.1 in tests: two GPUs. The one at 0000:41:00.0 is idle, the one at 0000:01:00.0 works, held down
   by its power cap. */
#include <stddef.h>
#include <string.h>

struct gpu {
  const char* pci_bus_id;
  unsigned sm_mhz;
  unsigned memory_mhz;
  unsigned milliwatts;
  unsigned long long throttle;
};
static struct gpu gpus[] = {{"0000:41:00.0", 345, 2619, 71000, 1}, {"0000:01:00.0", 1980, 3201, 612500, 4 | 1}};
enum { GPUS = sizeof gpus / sizeof *gpus, SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6 };

static const struct gpu* find(const void* device) {
  for (size_t i = 0; i < GPUS; ++i)
    if (device == &gpus[i]) return &gpus[i];
  return NULL;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, void** device) {
  for (size_t i = 0; i < GPUS; ++i) {
    if (strcmp(pci_bus_id, gpus[i].pci_bus_id) != 0) continue;
    *device = &gpus[i];
    return SUCCESS;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  const struct gpu* gpu = find(device);
  if (gpu == NULL) return INVALID_ARGUMENT;
  *mhz = type == 1 ? gpu->sm_mhz : gpu->memory_mhz;
  return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  const struct gpu* gpu = find(device);
  if (gpu == NULL) return INVALID_ARGUMENT;
  *milliwatts = gpu->milliwatts;
  return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  const struct gpu* gpu = find(device);
  if (gpu == NULL) return INVALID_ARGUMENT;
  *reasons = gpu->throttle;
  return SUCCESS;
}
