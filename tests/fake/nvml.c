/* Stands for libnvidia-ml.so.1 in tests: one GPU, number 0, UUID "GPU-1234". */
#include <string.h>

static int gpu;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index != 0) return 6; /* not found */
  *device = &gpu;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (strcmp(uuid, "GPU-1234") != 0) return 6;
  *device = &gpu;
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  if (device != &gpu) return 2;
  *mhz = type == 1 ? 1980 : 3201;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (device != &gpu) return 2;
  *milliwatts = 612500;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  if (device != &gpu) return 2;
  *reasons = 4 | 1;
  return 0;
}
