// Numbers and texts as bytes, as saved files hold them (docs/program_format.md).
//
// A number takes 7 bits per byte, low bits first; a set high bit says that more bytes follow (LEB128). A signed number
// is folded first: 0, -1, 1, -2 … become 0, 1, 2, 3 … A text is its length in bytes, then the bytes.
#pragma once

#include "base/support.hpp"

namespace guiderail {

class ByteWriter {
 public:
  void byte(u8 value) { out_.push_back(static_cast<char>(value)); }
  void number(u64 value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<u8>(value | 0x80));
    byte(static_cast<u8>(value));
  }
  void integer(std::int64_t value) { number((static_cast<u64>(value) << 1) ^ static_cast<u64>(value >> 63)); }
  void raw(std::string_view bytes) { out_.append(bytes); }
  void text(std::string_view text) {
    number(text.size());
    raw(text);
  }
  template <class T>
  void fixed(T value) {  // unsigned, little-endian
    for (std::size_t i = 0; i < sizeof(T); ++i) byte(static_cast<u8>(value >> (8 * i)));
  }
  std::string& out() { return out_; }
  const std::string& out() const { return out_; }

 private:
  std::string out_;
};

// Reads bytes that may be anything. It never reads past the end; Error("saved-file") says what is wrong.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t at() const { return at_; }
  u8 byte() { return static_cast<u8>(raw(1)[0]); }
  u64 number() {
    u64 out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const u8 next = byte();
      if (shift == 63 && next > 1) break;
      out |= static_cast<u64>(next & 0x7F) << shift;
      if (next < 0x80) return out;
    }
    refuse("a number is too large");
  }
  u32 number32() {
    const u64 out = number();
    if (out > 0xFFFFFFFF) refuse("a number is too large");
    return static_cast<u32>(out);
  }
  std::int64_t integer() {
    const u64 folded = number();
    return static_cast<std::int64_t>((folded >> 1) ^ (u64{0} - (folded & 1)));
  }
  // Reads the length of a list whose elements take at least a byte each: it cannot exceed what is left of the file.
  std::size_t count() {
    const u64 out = number();
    if (out > left()) refuse("a list is longer than the file");
    return static_cast<std::size_t>(out);
  }
  std::string_view raw(std::size_t size) {
    if (size > left()) refuse("it ends too early");
    const std::string_view out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }
  std::string_view text() { return raw(count()); }
  template <class T>
  T fixed() {
    const std::string_view from = raw(sizeof(T));
    T out = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out |= static_cast<T>(static_cast<T>(static_cast<u8>(from[i])) << (8 * i));
    return out;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error("saved-file", "this file is damaged: " + why + ", at byte " + std::to_string(at_) +
                                  " of its contents; save it again");
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace guiderail
