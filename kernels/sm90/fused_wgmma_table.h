#pragma once

namespace flashbench {

/// A shape of the kernel in fused_wgmma.cu.
struct Config {
  int head_dim;    ///< columns computed; smaller heads are padded with zeros by TMA
  int warpgroups;  ///< consumers; a tile has 64 rows for each
  int block;       ///< keys a block
  int stages;      ///< of the K and of the V ring
  int q_buffers;
  int producer_registers;
  int consumer_registers;
  bool overlap;  ///< softmax while P V runs; else both products are awaited together, which needs
                 ///< fewer registers
};

constexpr int kMaxSharedBytes = 227 * 1024;

constexpr Config kTable[] = {
    {64, 4, 64, 4, 2, 32, 112, false}, {96, 3, 64, 4, 2, 32, 160, true},
    {128, 3, 64, 4, 2, 32, 160, true}, {192, 2, 64, 3, 1, 40, 232, true},
    {256, 2, 64, 2, 1, 40, 232, true},
};

}  // namespace flashbench
