// Emptiness (see liveness.cpp).
#pragma once

#include <optional>
#include <unordered_map>

#include "expr/kinds.hpp"

namespace guiderail {

// requires: mutex held
class Liveness {
 public:
  explicit Liveness(Arena& arena) : arena_(arena) {}
  // True also where that depends on a forgotten text: then e has the flag kUnknownText.
  bool live(Id e);
  std::size_t memory() const { return sizeof *this + bytes_of(matches_) + bytes_of(reach_memo_) + bytes_of(letters_); }

 private:
  struct Reach {
    u32 length;  // of a shortest match; kInf: none has at most `within` characters
    u32 within;
    bool longer = false;
    bool decided = true;  // false: the fuel ran out, or more than bytes decides
  };
  struct Match {
    enum Longer : u8 { Unknown, Yes, No };
    u32 length;  // in characters
    Id next;     // the state after its first byte; kEmpty: the match ends here
    Longer longer = Unknown;
  };
  struct Letters {
    ByteSet may;                                       // a match may contain no other ASCII
    ByteSet must;                                      // every match contains this ASCII
    bool none() const { return !may.contains(must); }  // nothing matches
  };
  bool decide(Id e);
  bool lacks_letters(Id e);
  Letters letters(Id e, u32 depth);
  Letters letters_of(Id e, u32 depth);
  bool doubtful(Id e);
  bool surely_live(Id e);
  bool holds_around(Id e) const;
  bool search(Id e);
  std::optional<bool> by_length(Id e, bool thorough);
  Reach reach(Id e, u32 most);
  u32 some_length(Id e);
  bool some_longer(Id e);
  std::optional<u8> wanted(Id state);
  bool stays(Id state);
  bool stays_behind(Id state);
  template <class F>
  void each_step(Id state, u32 from, F f);

  Arena& arena_;
  bool doubts_ = false;  // something depended on a forgotten text
  std::unordered_map<Id, Match> matches_;
  std::unordered_map<Id, Reach> reach_memo_;
  std::unordered_map<Id, Letters> letters_;  // of lists of operands and sequences
};

}  // namespace guiderail
