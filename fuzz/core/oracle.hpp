// A direct, slow implementation of expressions: where may a match that starts at byte `i` of a short text end? Each
// kind is one or two lines of that definition. Quoted texts (escaped strings, objects, lists of distinct values) and
// lexed ones are judged as a whole, by a Judge (judge.cpp). Counted tokens have no meaning for a text alone.
#pragma once

#include <memory>
#include <optional>

#include "input.hpp"
#include "text/charset.hpp"
#include "text/escape.hpp"

namespace guiderail::fuzz {

constexpr u32 kLongestText = 14;  // maximum bytes of a judged text: sets of places have 16 bits
constexpr int kNoMeaning = -1;

// The contents of a JSON object, like MemberTable, but with terms.
struct Object {
  struct Way {
    int value;
    u32 discharges;
  };
  struct Other {
    int key, value;  // of a patterned key, the value of its outcome counts instead
    u32 discharges;
  };
  std::vector<std::string> names;
  std::vector<std::vector<Way>> ways;  // by name
  std::vector<bool> required;          // by name
  std::vector<Other> others;
  std::string comma, colon;
  bool ordered = false;
  u32 min = 0, max = kInf, pending = 0;
  Escapes mode = Escapes::Canonical;
};

// What follows a text, by the patterns that it matches.
struct Outcomes {
  std::vector<std::vector<u32>> next;  // by outcome, by pattern
  std::vector<int> values;             // by outcome
  std::vector<bool> possible;          // by outcome: may anything follow?
};

// A grammar over terminals, which are terms.
struct Lexed {
  enum Ends { Last, First, Lazy };
  struct Terminal {
    int text;
    Ends ends;
    bool ignored;
  };
  struct Part {
    enum Kind { Terminal, Concat, Union, Repeat, Rule } kind;
    std::vector<u32> parts{};  // of a rule: its body
    u32 terminal = 0, min = 0, max = 0;
  };
  std::vector<Terminal> terminals;
  std::vector<Part> parts;
  u32 start = 0;
};

struct Term {
  enum Kind {
    Literal,
    Class,
    Bytes,
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
    Rule,
    Escaped,    // spellings of the texts of a part inside a JSON string
    Members,    // of a JSON object
    Patterned,  // texts of the first part; `outcomes`: what follows, by which of the other parts they match
    Distinct,   // an item, and `min` to `max` more after commas; `negative`: also nothing at all
    Lexed
  } kind;
  std::vector<std::string> texts{};
  CharSet::Ptr chars{};
  std::vector<int> parts{};
  u32 min = 0, max = 0;
  bool negative = false;
  Escapes mode = Escapes::Canonical;
  ByteSet bytes{};
  std::shared_ptr<const fuzz::Object> object{};
  std::shared_ptr<const fuzz::Lexed> lexed{};
  std::shared_ptr<const fuzz::Outcomes> outcomes{};
};

// What may follow a text, if it matches these of its parts; none: nothing.
template <class Matches>
std::optional<u32> outcome(const Term& patterned, Matches matches) {
  if (!matches(patterned.parts[0])) return {};
  u32 at = 0;
  for (std::size_t i = 1; i < patterned.parts.size(); ++i)
    if (matches(patterned.parts[i])) at = patterned.outcomes->next[at][i - 1];
  if (!patterned.outcomes->possible[at]) return {};
  return at;
}

class Oracle {
 public:
  int add(Term term) {
    terms_.push_back(std::move(term));
    return static_cast<int>(terms_.size() - 1);
  }
  Term& term(int index) { return terms_[static_cast<std::size_t>(index)]; }
  const std::vector<Term>& terms() const { return terms_; }
  bool matches(int root, std::string_view text);

 private:
  using Places = u16;
  Places ends(int term, u32 from, u32 low, u32 high);
  Places evaluate(const Term& term, int index, u32 from, u32 low, u32 high);
  Places after(int term, Places from, u32 low, u32 high);

  std::vector<Term> terms_;
  std::string_view text_;
  u32 run_ = 0, text_number_ = 0;
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
  static u32 runs_, texts_;
  bool grew_ = false;
  std::array<std::array<bool, 16>, 16> utf8_{};
};

}  // namespace guiderail::fuzz
