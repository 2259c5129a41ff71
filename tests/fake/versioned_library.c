/* Stands for cuDNN, cuBLASLt, NVRTC and CUPTI in tests: a library that says it is version FAKE_VERSION. */
#include <stddef.h>

size_t cudnnGetVersion(void) { return FAKE_VERSION; }
size_t cublasLtGetVersion(void) { return FAKE_VERSION; }
int nvrtcVersion(int* major, int* minor) {
  *major = FAKE_VERSION / 10000;
  *minor = FAKE_VERSION / 100 % 100;
  return 0;
}
