#pragma once

namespace flashbench {

/// setmaxnreg.dec: gives this warp's registers beyond kRegisters back to the block; every warp of
/// the warpgroup must execute it. PTX ISA "Miscellaneous instructions: setmaxnreg".
template <int kRegisters>
__device__ inline void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// setmaxnreg.inc: waits until the block's pool holds the registers that are missing to kRegisters.
template <int kRegisters>
__device__ inline void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace flashbench
