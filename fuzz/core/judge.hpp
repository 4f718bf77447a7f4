// A direct implementation of expressions, for texts that grow and shrink by a byte. For each term and each possible end
// in the text so far, it finds where a match with this end may begin. A byte adds a column to that table, filled on
// demand. All texts with a common prefix share its columns, so many texts cost little.
#pragma once

#include <map>
#include <unordered_map>

#include "oracle.hpp"

namespace guiderail::fuzz {

struct Unjudged {};  // thrown if a text is too long for a look-around, or a grammar has too many states

class Judge {
 public:
  static constexpr u32 kLongest = 31;  // bytes: sets of places are 32 bits
  explicit Judge(Oracle& oracle);
  void push(u8 byte);
  void shrink(u32 size) { size_ = size; }  // to a prefix
  void clear() { size_ = 0; }
  u32 size() const { return size_; }
  std::string_view text() const { return {text_.data(), size_}; }
  bool matches(int term);                          // the whole text read
  bool contains(int term, std::string_view text);  // another text

 private:
  using Places = u32;
  struct Grammar;
  struct Writing;  // an object in progress
  Places begins(int term, u32 end);
  Places evaluate(int term, u32 end);
  void start_column(u32 end);
  Places before(int term, Places ends);
  bool in_escape(int term, u32 from, u32 end);
  bool member(const Object& object, u32 from, u32 end, Writing& so_far);
  bool complete(const Object& object, const Writing& written) const;
  bool item(const Term& list, u32 from, u32 end, std::vector<std::string>& values);
  bool in_lexemes(int term, u32 from, u32 end);
  std::string_view span(u32 from, u32 end) const { return {text_.data() + from, end - from}; }
  std::unordered_map<std::string, bool>& memo(int term);

  Oracle& oracle_;
  const std::vector<Term>& terms_;
  std::array<char, kLongest + 1> text_{};
  u32 size_ = 0;
  std::vector<Places> columns_;  // end * terms + term
  std::vector<u8> known_;
  std::array<Places, kLongest + 1> utf8_{};
  std::vector<int> rules_;
  std::vector<u8> looks_;  // terms with look-arounds
  std::unordered_map<int, std::unordered_map<std::string, bool>> memo_;
  std::map<int, std::shared_ptr<Grammar>> grammars_;
  std::unique_ptr<Judge> inner_;  // for texts inside others
};

}  // namespace guiderail::fuzz
