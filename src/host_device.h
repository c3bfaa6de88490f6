#pragma once

/// Marks a function that CUDA code calls on the device as well as on the host.
#ifdef __CUDACC__
#define FLASHBENCH_HOST_DEVICE __host__ __device__
#else
#define FLASHBENCH_HOST_DEVICE
#endif
