// The obvious, slow meaning of expressions: at which bytes of a short text may a match end that starts at byte `i`?
// Each kind is one or two lines of that definition. What has no such line here (objects, lists of distinct values,
// lexed texts, counted tokens) is only held against itself.
#pragma once

#include "charset.hpp"
#include "input.hpp"

namespace guiderail::fuzz {

constexpr u32 kLongestText = 14;  // bytes that are judged: sets of places are 16 bits
constexpr int kNoMeaning = -1;

struct Term {
  enum Kind {
    Literal,
    Class,
    Concat,
    Union,
    And,
    Complement,
    Repeat,
    Choice,
    Substring,
    Ahead,
    Behind,
    Scope,
    Token,
    Rule
  } kind;
  std::vector<std::string> texts{};
  CharSet::Ptr chars{};
  std::vector<int> parts{};
  u32 min = 0, max = 0;
  bool negative = false;
};

class Oracle {
 public:
  int add(Term term) {
    terms_.push_back(std::move(term));
    return static_cast<int>(terms_.size() - 1);
  }
  Term& term(int index) { return terms_[static_cast<std::size_t>(index)]; }
  bool matches(int root, std::string_view text);

 private:
  using Places = u16;
  Places ends(int term, u32 from, u32 low, u32 high);
  Places evaluate(const Term& term, int index, u32 from, u32 low, u32 high);
  Places after(int term, Places from, u32 low, u32 high);

  std::vector<Term> terms_;
  std::string_view text_;
  struct Memo {
    u32 run = 0;
    Places ends = 0;
  };
  struct Known {
    u32 text = 0;
    Places ends = 0;
  };
  static std::vector<Memo> memo_;
  static std::vector<Known> known_;
  static u32 run_, texts_;
  bool grew_ = false;
  std::array<std::array<bool, 16>, 16> utf8_{};
};

}  // namespace guiderail::fuzz
