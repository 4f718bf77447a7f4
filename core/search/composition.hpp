// A completion composed of completions of the parts of a state.
//
// A search for a completion of a whole state may give up. What the parts of the state need is found once for each part,
// and the text that completes one after the other completes the state, in whatever form the algebra keeps it. So the
// number of tokens of such a text can be promised for a state that nobody has looked at yet (see need_bound.hpp).
//
// A union takes its shortest part. An object takes the names that must still come. A short search completes a key in
// progress. Where a part depends on others, as the items of a list of distinct values do, there is no composition.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "base/memory.hpp"
#include "expr/expression.hpp"

namespace guiderail {

class CompletionDistance;

// The parts that were looked at so far.
struct KnownParts {
  struct Text {
    u32 tokens = kInf;
    std::string text = {};
  };
  using Texts = std::shared_ptr<const std::vector<Text>>;
  std::unordered_map<Id, u32> tokens;
  std::unordered_map<Id, Text> found;      // by a search
  std::unordered_map<u32, Texts> members;  // by table of an object
  std::size_t listed = 0;                  // bytes that these own
  std::size_t size() const { return tokens.size() + found.size() + members.size() + listed / 16; }
  std::size_t memory() const { return bytes_of(tokens) + bytes_of(found) + bytes_of(members) + listed; }
};

// requires: that a search has its turn (see CompletionDistance). It counts towards the work of that search.
class Composition {
 public:
  explicit Composition(CompletionDistance& distance);
  u32 tokens(Id e) { return add(e, nullptr); }  // kInf: no completion is known
  std::optional<std::string> text(Id e);        // with that many tokens
  u32 members(u32 state) { return add_members(state, nullptr); }
  // By name, each member without its comma, and its tokens with it. Null: they depend on other members.
  KnownParts::Texts member_texts(u32 table);
  // Takes some of the work that is left. False: there is none.
  bool spend(std::size_t steps = 1);
  bool cut() const { return cut_; }  // nothing is found from now on, and nothing stored
  class Nested;                      // a level of the recursion

 private:
  u32 add(Id e, std::string* to);  // appends the completion
  u32 add_part(Id e, std::string* to);
  u32 add_shortest(Id e, std::string* to);
  u32 add_members(u32 members, std::string* to);
  u32 add_key(Id e, std::string* to);
  u32 add_found(Id e, std::string* to);

  CompletionDistance& distance_;
  KnownParts& known_;
  Arena& arena_;
  u32 depth_ = 0;
  bool cut_ = false;
};

class Composition::Nested {
 public:
  explicit Nested(Composition& of) : of_(of) { ++of_.depth_; }
  ~Nested() { --of_.depth_; }

 private:
  Composition& of_;
};

// What a composition may not look into: its parts read what is around them, or are no bytes.
constexpr u32 kNotApart = kHasLook | kHasBehind | kHasToken | kCounting | kUnknownText | kCapHit;

}  // namespace guiderail
