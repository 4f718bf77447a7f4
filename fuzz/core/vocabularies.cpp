#include <algorithm>

#include "expressions.hpp"
#include "play.hpp"

namespace guiderail::fuzz {
namespace {

struct Made {
  std::shared_ptr<Vocabulary> vocabulary;
  std::unordered_map<std::string, u32> symbols;
};

// `special`: the index of the special token <s>; the stop token is the last one.
Made make(std::vector<std::string> tokens, std::size_t special, u32 spare) {
  tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(special), "<s>");
  tokens.push_back("<eos>");
  std::string data;
  std::vector<u32> offsets{0};
  for (const std::string& token : tokens) {
    data += token;
    offsets.push_back(static_cast<u32>(data.size()));
  }
  std::vector<u8> specials(tokens.size(), 0);
  specials[special] = 1;
  specials.back() = 1;
  const u32 count = static_cast<u32>(tokens.size());
  return {std::make_shared<Vocabulary>(data, offsets, specials, count + spare, std::vector<u32>{count - 1}),
          {{"<s>", static_cast<u32>(special)}, {"<eos>", count - 1}}};
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> out;
  for (unsigned b = 0; b < 256; ++b) out.emplace_back(1, static_cast<char>(b));
  return out;
}

std::vector<Made> make_all() {
  std::vector<Made> out;
  std::vector<std::string> small = kPieces;
  for (const char* t : {"aa", "ba", "abc", "\xc3", "\xa9", "\xe2\x82", "\xac", "b\xc3",
                        "\xa9"
                        "a",
                        "a\u20ac", "01", "\":"})
    small.emplace_back(t);
  out.push_back(make(small, 3, 0));
  std::vector<std::string> bytes = all_bytes();
  std::vector<std::string> more = bytes;
  for (const std::string& one : kPieces)
    for (const char* other : {"a", "b", "\"", "\u00e9", "\xf0\x9f"}) more.push_back(one + other);
  out.push_back(make(more, 256, 3));
  std::vector<std::string> odd{"a",
                               "",
                               "b",
                               "a",
                               "ab",
                               "ab",
                               "\xff",
                               "\xc0\x80",
                               "\xed\xa0\x80",
                               "a\xff",
                               "\"",
                               "\"a",
                               "\":",
                               "{\"",
                               ",",
                               ", ",
                               "{",
                               "}",
                               "[",
                               "]",
                               ":",
                               "0",
                               "1",
                               "",
                               "\u00e9",
                               "\u20ac",
                               "\xf0\x9f\x98",
                               "\x80",
                               "\x98\x80"
                               "a",
                               "abab",
                               "\\",
                               "\\\"",
                               "\\u00",
                               "u",
                               "n",
                               "c"};
  out.push_back(make(odd, 7, 40));
  std::vector<std::string> json = bytes;
  for (const char* t :
       {"{\"",    "\":",      "\": ",   "\",",      "\", ",    "\", \"",  "\"}",     "\"}}",     "\"a",      "\"a\"",
        "\"a\":", "\"ab\": ", "\"b",    "a\"",      "ab",      "ab\"",    "abc",     "a\",\"b",  "[\"",      "\"]",
        "],",     "}]",       "},{",    "0,",       "1,",      "01",      "1]",      "1}",       "10",       "0.",
        "\\\"",   "\\n",      "\\u",    "\\u00",    "\\u00e9", "\\ud83d", "\\ude00", "\u00e9\"", "\u20ac\"", "\xe2\x82",
        "\xac\"", "a\u00e9",  "x-y\":", "{}",       "[]",      "\"\"",    "\"\":",   " \"",      ", ",       ": ",
        "true",   "null",     "aaaa",   "abababab", "\n ",     "\n",      "  "})
    json.emplace_back(t);
  out.push_back(make(json, 256, 7));
  // Large enough for what the core does only with large vocabularies.
  std::vector<std::string> large = bytes;
  for (const std::string& one : kPieces)
    for (const std::string& two : kPieces)
      for (const std::string& three : kPieces) large.push_back(one + two + three);
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'z'; ++b)
      for (char c = 'a'; c <= 'p'; ++c)
        for (const char* end : {"", "\"", "b"}) large.push_back(std::string{a, b, c} + end);
  std::sort(large.begin() + 256, large.end());
  large.erase(std::unique(large.begin() + 256, large.end()), large.end());
  out.push_back(make(large, 256, 0));
  return out;
}

const Made& at(u32 index) {
  static const std::vector<Made> all = make_all();
  return all[index];
}

}  // namespace

const std::shared_ptr<Vocabulary>& vocabulary(u32 index) { return at(index).vocabulary; }
const std::unordered_map<std::string, u32>& symbols(u32 index) { return at(index).symbols; }
bool has_all_bytes(u32 index) { return index == 1 || index >= 3; }

}  // namespace guiderail::fuzz
