// An upper bound of what a text needs after any one token, found without looking at the tokens.
//
// Most masks are made while a budget is far from spent. Then no token can matter, and a proof of that is cheap: what a
// token may open has to be closed, and the rest of the text comes after that as before. So the bound of a stack is made
// of the bounds of its parts. The parts of a constraint are few, and their bounds are kept; a state costs a sum. After
// any token, a completion composed of parts is within the bound, so later masks need no search to find it.
//
// A token reads only so many bytes, and only so many opening brackets: that ends the recursion of rules. After some
// bytes, a quote among them, tokens have only a few more.
//
// A bound is kInf where none is found, for example for alternatives read side by side, or where it takes too much work:
// then the tokens are examined one by one.
#pragma once

#include <memory>
#include <unordered_map>

#include "search/composition.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

// The bounds of the parts of a constraint that were found so far.
struct KnownNeeds {
  struct Members {  // by name, of a member in progress, at most
    std::vector<u32> names = {};
    u32 other = 0;  // of one with another key
  };
  std::unordered_map<u64, u32> most;  // by expression and rest of a token
  // To complete any state that a part reaches: as bytes, inside a string, or as a key, which must differ from others.
  std::unordered_map<Id, u32> bytes, texts, keys;
  std::unordered_map<u64, u32> heights;                             // the same, found from its parts
  std::unordered_map<u64, std::shared_ptr<const Members>> members;  // by table and rest of a token
  std::size_t listed = 0;                                           // names in these
  std::size_t size() const;                                         // entries
  std::size_t memory() const;
};

// One search for a bound.
class NeedBound {
 public:
  explicit NeedBound(CompletionDistance& distance);
  u32 after_any_token(Id state) { return most(state, below_.whole()); }

 private:
  enum class Company : u8 { None, Limits, Others };  // of a part of an intersection
  bool spend(std::size_t steps = 1) { return parts_.spend(steps); }
  bool cut() const { return parts_.cut(); }
  u32 most(Id e, TokenRest rest);
  u32 most_of(Id e, TokenRest rest);
  u32 most_of_stack(Id e, TokenRest rest);
  u32 character(const Node& of, bool text) const;
  u32 height(Id e, bool text, Company company);
  bool limits_length(Id e) const;
  u32 apart(Id text);
  u32 least(Id e);
  u32 item_need(Id rest);
  u32 explored(Id e, std::unordered_map<Id, u32>& known);
  TokenRest after(Id e, TokenRest rest) const;
  TokenRest after(u8 byte, TokenRest rest) const;
  u32 most_of_members(u32 members, TokenRest rest);
  std::shared_ptr<const KnownNeeds::Members> begun_members(u32 table, TokenRest rest);

  KnownNeeds& known_;
  Arena& arena_;
  const BytesBelow& below_;
  Composition parts_;
};

}  // namespace guiderail
