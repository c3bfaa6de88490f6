#pragma once

namespace flashbench {

/// griddepcontrol.launch_dependents: the kernel that follows in the stream, launched with
/// programmatic stream serialisation, may start. PTX ISA "Parallel synchronization and
/// communication instructions: griddepcontrol".
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// griddepcontrol.wait: returns when the kernel before has finished and its writes are visible.
__device__ __forceinline__ void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace flashbench
