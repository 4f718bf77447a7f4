// The alternatives of one union, and the derivative of the alternatives of a grammar.
#pragma once

#include "expr/expression.hpp"

namespace guiderail {

// The alternatives of one union, while they are joined.
class Arena::Alternatives {
 public:
  // `deep`: what follows common heads is united in the same way. Otherwise it is only listed, where rules are ahead.
  Alternatives(Arena& arena, std::span<const Id> list, bool deep = true);
  Id unite();

  // One of the expressions. Those with rules ahead are only listed, so that the work does not depend on their depth.
  static Id listed(Arena& arena, Ids& parts);
  // The derivative of what may be read in several ways (see readings.cpp).
  static bool has_readings(const Arena& arena, Id e);
  static Id derive_readings(Arena& arena, Id e, u8 byte);
  // head tail, where the head is a derivative and has rules ahead: each of its alternatives gets the tail.
  static Id append(Arena& arena, Id head, Id tail);
  static void rank_rules(Arena& arena);

 private:
  class Readings;
  const Node& node(Id e) const { return std::as_const(arena_).node(e); }
  bool plain_repeat(Id e) const { return node(e).kind == Kind::Repeat && !node(e).b && !arena_.has(e, kHasLook); }
  bool listed_only(Id e, bool heads) const;
  void take(Ids input);
  u32 kinds() const;
  bool any_text() const;
  bool join_kinds();
  void keep_most_tokens();
  bool join_repeats();
  bool join_repeats_of(Id body, bool several, bool bare);
  bool factor(bool heads);

  Arena& arena_;
  const bool deep_;
  Ids parts_;
  bool epsilon_ = false;  // the empty text is one, too
};

}  // namespace guiderail
