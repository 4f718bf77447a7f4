// How to make an expression in Python, for the one input that is explained. All else leaves these texts empty.
#pragma once

#include <cstdio>

#include "expressions.hpp"

namespace guiderail::fuzz {

inline std::string in_quotes(std::string_view text) {
  if (!explaining) return {};
  std::string out = "b'";
  for (char c : text) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<u8>(c));
    if (c > 0x20 && c < 0x7F && c != '\'' && c != '\\')
      out += c;
    else
      out += buffer;
  }
  return out + "'";
}

inline std::string in_quotes(const std::vector<std::string>& texts) {
  if (!explaining) return {};
  std::string out = "[";
  for (const std::string& text : texts) out += in_quotes(text) + ", ";
  return out + "]";
}

inline std::string ranges_of(const CharSet& set) {
  std::string out;
  if (!explaining) return out;
  for (auto [low, high] : set.ranges()) out += "(" + std::to_string(low) + ", " + std::to_string(high) + "), ";
  return "b.char_class(_core.CharSet([" + out + "]))";
}

inline std::string call(const char* name, const std::string& arguments) {
  return explaining ? std::string("b.") + name + "(" + arguments + ")" : std::string();
}

inline const char* truth(bool value) { return value ? "True" : "False"; }

inline std::string bound(u32 value) { return value == kInf ? "-1" : std::to_string(value); }

}  // namespace guiderail::fuzz
