#include "arena.h"

#include <algorithm>

namespace flashbench {

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  arena_->device_->deallocate(data_);
  arena_->current_ -= bytes_;
}

Buffer Arena::allocate(std::int64_t bytes) {
  if (bytes == 0) return {};
  void* data = device_->allocate(bytes);
  current_ += bytes;
  peak_ = std::max(peak_, current_);
  return {this, data, bytes};
}

}  // namespace flashbench
