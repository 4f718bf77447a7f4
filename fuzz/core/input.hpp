// The bytes of an input, read in order. After the end follow pseudo-random ones that depend only on the input, so a
// short input still plays a long game, and always the same one.
#pragma once

#include "base/support.hpp"

namespace guiderail::fuzz {

class Input {
 public:
  Input(const u8* data, std::size_t size) : data_(data), size_(size) {
    for (std::size_t i = 0; i < size; ++i) random_ = (random_ ^ data[i]) * 0x100000001b3ULL;
  }
  bool more() const { return at_ < size_; }
  u8 byte() {
    if (at_ < size_) return data_[at_++];
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<u8>(random_ >> 24);
  }
  u32 below(u32 count) { return count <= 256 ? byte() % count : (byte() << 8 | byte()) % count; }
  bool chance(u32 one_in) { return below(one_in) == 0; }

 private:
  const u8* data_;
  std::size_t size_, at_ = 0;
  u64 random_ = 0xcbf29ce484222325ULL;
};

// Ends the process with a message, so the input is kept.
[[noreturn]] void fail(const std::string& what);

}  // namespace guiderail::fuzz
