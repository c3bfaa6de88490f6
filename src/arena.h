#pragma once

#include <cstdint>
#include <utility>

#include "device.h"

namespace flashbench {

class Arena;

/// Device memory that an Arena handed out; returned to it on destruction.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : arena_(std::exchange(other.arena_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  friend class Arena;
  Buffer(Arena* arena, void* data, std::int64_t bytes)
      : arena_(arena), data_(data), bytes_(bytes) {}

  Arena* arena_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// The only way to device memory: counts every byte, so that memory figures are facts.
class Arena {
 public:
  explicit Arena(Device& device) : device_(&device) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// `bytes` >= 0; 0 gives an empty buffer. Throws OutOfMemory.
  Buffer allocate(std::int64_t bytes);

  std::int64_t current_bytes() const { return current_; }
  std::int64_t peak_bytes() const { return peak_; }

 private:
  friend class Buffer;
  Device* device_;
  std::int64_t current_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace flashbench
