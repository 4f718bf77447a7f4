// From the spelled bytes of a JSON string to characters, and back.
#include "text/escape.hpp"

#include <algorithm>

namespace guiderail {
namespace {

// EscapeAt packs the phase (3 bits), the number of hexadecimal digits read (2), their value (12), the high surrogate
// (10).
enum Phase : u32 { kDone, kLetter, kHex, kSecondBackslash, kSecondU, kLowHex };
constexpr EscapeAt pack(Phase phase, u32 digits = 0, u32 value = 0, u32 high = 0) {
  return phase | digits << 3 | value << 5 | high << 17;
}
constexpr Phase phase_of(EscapeAt at) { return static_cast<Phase>(at & 7); }
constexpr u32 digits_of(EscapeAt at) { return at >> 3 & 3; }
constexpr u32 value_of(EscapeAt at) { return at >> 5 & 0xFFF; }
constexpr u32 high_of(EscapeAt at) { return at >> 17; }

constexpr u32 kShort = 0xFFFFFFFF;
u32 short_escape(u8 letter, Escapes mode) {
  switch (letter) {
    case '"': return '"';
    case '\\': return '\\';
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '/': return mode == Escapes::All ? '/' : kShort;
    default: return kShort;
  }
}

int hex_digit(u8 b, Escapes mode) {
  if (b >= '0' && b <= '9') return b - '0';
  if (b >= 'a' && b <= 'f') return b - 'a' + 10;
  if (mode == Escapes::All && b >= 'A' && b <= 'F') return b - 'A' + 10;
  return -1;
}

// Controls that Escapes::Canonical writes as \u00xx.
const CharSet::Ptr& odd_controls() {
  static const CharSet::Ptr set = CharSet::make({{0, 7}, {0xB, 0xB}, {0xE, 0x1F}});
  return set;
}

// Calls f(from, to) for the characters that an escape can still become once its u is read, in ascending order.
template <class F>
void each_range(EscapeAt at, Escapes mode, F f) {
  const u32 free_bits = 4 * (4 - digits_of(at));
  const u32 lo = value_of(at) << free_bits, hi = lo + (1u << free_bits) - 1;
  const u32 astral = 0x10000 + (high_of(at) << 10);
  const auto add = [&](u32 from, u32 to) {
    if (from <= to) f(from, to);
  };
  if (phase_of(at) == kLowHex) {
    const u32 first = std::max(lo, 0xDC00u), last = std::min(hi, 0xDFFFu);
    if (first <= last) add(astral + first - 0xDC00, astral + last - 0xDC00);
  } else if (phase_of(at) != kHex) {
    add(astral, astral + 0x3FF);
  } else if (mode == Escapes::Canonical) {
    for (const auto& [from, to] : odd_controls()->ranges()) add(std::max(lo, from), std::min(hi, to));
  } else {
    add(lo, std::min(hi, 0xD7FFu));
    add(std::max(lo, 0xE000u), hi);
    const u32 first = std::max(lo, 0xD800u), last = std::min(hi, 0xDBFFu);
    if (first <= last) add(0x10000 + ((first - 0xD800) << 10), 0x10000 + ((last - 0xD800) << 10) + 0x3FF);
  }
}

// The first byte of a character. It never decreases from a character to the next.
constexpr u8 first_byte(u32 c) {
  return static_cast<u8>(c < 0x80 ? c : c < 0x800 ? 0xC0 | c >> 6 : c < 0x10000 ? 0xE0 | c >> 12 : 0xF0 | c >> 18);
}

}  // namespace

const CharSet::Ptr& raw_characters() {
  static const CharSet::Ptr set = CharSet::make({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, 0x10FFFF}});
  return set;
}

CharSet::Ptr escape_range(EscapeAt at, Escapes mode) {
  switch (phase_of(at)) {
    case kDone: return CharSet::any();
    case kLetter: {
      static const CharSet::Ptr canonical = CharSet::make({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
      return mode == Escapes::All ? CharSet::any() : canonical;
    }
    default: break;
  }
  std::vector<CharSet::Range> ranges;
  each_range(at, mode, [&](u32 from, u32 to) { ranges.push_back({from, to}); });
  return CharSet::make(std::move(ranges));
}

u32 escape_left(EscapeAt at) {
  switch (phase_of(at)) {
    case kDone: return 0;
    case kLetter: return 1;
    case kSecondBackslash: return 6;
    case kSecondU: return 5;
    case kHex:
    case kLowHex: break;
  }
  return 4 - digits_of(at);
}

u32 escape_read(EscapeAt at) {
  switch (phase_of(at)) {
    case kDone: return 0;
    case kLetter: return 1;
    case kHex: return 2 + digits_of(at);
    case kSecondBackslash: return 6;
    case kSecondU: return 7;
    case kLowHex: break;
  }
  return 8 + digits_of(at);
}

Unescaped unescape(EscapeAt at, u8 byte, Escapes mode) {
  switch (phase_of(at)) {
    case kDone:
      if (byte == '\\') return {Unescaped::Inside, pack(kLetter)};
      if (!is_raw(byte)) return {Unescaped::Refused};
      return {Unescaped::Raw, kBetween, byte};
    case kLetter:
      if (byte == 'u') return {Unescaped::Inside, pack(kHex)};
      if (u32 c = short_escape(byte, mode); c != kShort) return {Unescaped::Character, kBetween, c};
      return {Unescaped::Refused};
    case kSecondBackslash:
      if (byte != '\\') return {Unescaped::Refused};
      return {Unescaped::Inside, pack(kSecondU, 0, 0, high_of(at))};
    case kSecondU:
      if (byte != 'u') return {Unescaped::Refused};
      return {Unescaped::Inside, pack(kLowHex, 0, 0, high_of(at))};
    case kHex:
    case kLowHex: break;
  }
  const int digit = hex_digit(byte, mode);
  if (digit < 0) return {Unescaped::Refused};
  const u32 value = value_of(at) << 4 | static_cast<u32>(digit);
  if (digits_of(at) < 3) {
    const EscapeAt next = pack(phase_of(at), digits_of(at) + 1, value, high_of(at));
    bool any = false;
    each_range(next, mode, [&](u32, u32) { any = true; });
    if (!any) return {Unescaped::Refused};
    return {Unescaped::Inside, next};
  }
  if (phase_of(at) == kLowHex) {
    if (value < 0xDC00 || value > 0xDFFF) return {Unescaped::Refused};
    return {Unescaped::Character, kBetween, 0x10000 + (high_of(at) << 10) + (value - 0xDC00)};
  }
  if (mode == Escapes::Canonical && !odd_controls()->contains(value)) return {Unescaped::Refused};
  if (value >= 0xD800 && value <= 0xDBFF) return {Unescaped::Inside, pack(kSecondBackslash, 0, 0, value - 0xD800)};
  if (value >= 0xDC00 && value <= 0xDFFF) return {Unescaped::Refused};
  return {Unescaped::Character, kBetween, value};
}

ByteSet first_escaped(ByteSet inner, EscapeAt at, Escapes mode) {
  ByteSet out;
  if (at != kBetween) {
    const auto begins = [&](u32 from, u32 to) {
      for (unsigned b = first_byte(from); b <= first_byte(to); ++b)
        if (inner.has(static_cast<u8>(b))) return true;
      return false;
    };
    for (u8 byte = 0x20; byte < 0x7F; ++byte) {
      const Unescaped read = unescape(at, byte, mode);
      if (read.what == Unescaped::Refused) continue;
      bool any = false;
      if (read.what == Unescaped::Inside)
        each_range(read.at, mode, [&](u32 from, u32 to) { any = any || begins(from, to); });
      else
        any = begins(read.character, read.character);
      if (any) out.add(byte);
    }
    return out;
  }
  static const ByteSet raw = [] {
    ByteSet set;
    for (unsigned b = 0; b < 256; ++b)
      if (is_raw(static_cast<u8>(b))) set.add(static_cast<u8>(b));
    return set;
  }();
  out = inner;
  out &= raw;
  if (mode == Escapes::All || !(out == inner)) out.add('\\');
  return out;
}

std::string utf8(u32 c) {
  std::string out(1, static_cast<char>(first_byte(c)));
  for (int shift = c < 0x80 ? 0 : c < 0x800 ? 6 : c < 0x10000 ? 12 : 18; (shift -= 6) >= 0;)
    out.push_back(static_cast<char>(0x80 | (c >> shift & 63)));
  return out;
}

std::string json_spelling(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  add_json_spelling(out, text);
  return out;
}

void add_json_spelling(std::string& out, std::string_view text) {
  static const char* hex = "0123456789abcdef";
  for (char ch : text) {
    const u8 b = static_cast<u8>(ch);
    switch (b) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (b < 0x20)
          out += std::string("\\u00") + hex[b >> 4] + hex[b & 15];
        else
          out.push_back(ch);
    }
  }
}

}  // namespace guiderail
