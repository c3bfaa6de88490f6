// An NVML for tests: one card, some of its readings missing.

#include <cstring>

// NOLINTBEGIN(readability-identifier-naming): NVML's names.
extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** card) {
  static int the_card;
  if (std::strcmp(uuid, "GPU-00000000-0000-0000-0000-000000000007") != 0) return 6;  // not found
  *card = &the_card;
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned int* milliwatts) {
  *milliwatts = 312500;
  return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned int*) {
  return 3;
}  // not supported

int nvmlDeviceGetTemperature(void*, int sensor, unsigned int* celsius) {
  *celsius = sensor == 0 ? 54 : 0;
  return 0;
}

int nvmlDeviceGetClockInfo(void*, int clock, unsigned int* megahertz) {
  *megahertz = clock == 1 ? 1965 : 0;
  return 0;
}

// The older name alone, as drivers before 535 have it.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 0x04 | 0x20 | 0x8000;  // power cap, thermal, and one that is not known yet
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
