// The spelling of text inside a JSON string, as a transducer from spelled bytes to characters (Koo et al. 2024, §3.2,
// use one of the same kind for detokenising).
#pragma once

#include "text/charset.hpp"

namespace guiderail {

enum class Escapes : u8 {
  Canonical,  // one spelling each: raw UTF-8 except for \" \\ \b \f \n \r \t and \u00xx (lower case) for other controls
  All,        // every legal spelling
};

// The state of the reader: 0 between characters, otherwise inside an escape.
using EscapeAt = u32;
constexpr EscapeAt kBetween = 0;

struct Unescaped {
  enum { Refused, Inside, Raw, Character } what;
  EscapeAt at = kBetween;  // Inside
  u32 character = 0;       // Character: its code point. Raw: a byte that represents itself
};
Unescaped unescape(EscapeAt at, u8 byte, Escapes mode);

// The characters that the escape in progress at `at` can still become.
CharSet::Ptr escape_range(EscapeAt at, Escapes mode);

// The least number of bytes that complete it.
u32 escape_left(EscapeAt at);

// The bytes of it that have been read.
u32 escape_read(EscapeAt at);

// May the byte represent itself?
constexpr bool is_raw(u8 byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; }
// The characters that may represent themselves.
const CharSet::Ptr& raw_characters();

// The bytes that can come next if the decoded text continues with one of `inner`.
ByteSet first_escaped(ByteSet inner, EscapeAt at, Escapes mode);

std::string utf8(u32 code_point);
std::string json_spelling(std::string_view text);
void add_json_spelling(std::string& out, std::string_view text);

}  // namespace guiderail
