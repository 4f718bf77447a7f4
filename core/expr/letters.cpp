// Emptiness without a search: a letter that every match must contain, but that none may.
#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/liveness.hpp"

namespace guiderail {

// Do the conditions of e need a letter that one of them forbids? So it is where an address has read `@` and a pattern
// still needs one. A search would meet every state of the domain before it said so.
bool Liveness::lacks_letters(Id e) {
  if (!letters(e, 0).none()) return false;
  arena_.node(e).flags.fetch_or(static_cast<u32>(kLiveKnown | kDead), std::memory_order_relaxed);
  return true;
}

Liveness::Letters Liveness::letters(Id e, u32 depth) {
  const Kind kind = arena_.node(e).kind;
  if (kind != Kind::And && kind != Kind::Union && kind != Kind::Concat) return letters_of(e, depth);
  if (const auto known = letters_.find(e); known != letters_.end()) return known->second;
  Work::spend();
  const Letters found = letters_of(e, depth);
  letters_.emplace(e, found);
  return found;
}

Liveness::Letters Liveness::letters_of(Id e, u32 depth) {
  const Letters nothing{{}, ByteSet::all()}, anything{ByteSet::all(), {}};
  const auto maybe = [](const Letters& a) { return a.none() ? Letters{} : Letters{a.may, {}}; };
  const auto in_turn = [&](Letters a, const Letters& b) {
    if (a.none() || b.none()) return nothing;
    a.may |= b.may;
    a.must |= b.must;
    return a;
  };
  if (depth > kLetterDepth) return anything;
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Empty: return nothing;
    case Kind::Epsilon:
    case Kind::ClassTail: return {};  // no ASCII
    case Kind::Class:
    case Kind::Bytes: {
      const ByteSet set = arena_.first(e);
      return {set, set.count() == 1 && set.least() < 0x80 ? set : ByteSet{}};
    }
    case Kind::Repeat: {
      if (n.b) return anything;
      const Letters one = letters(n.body(), depth + 1);
      return n.min == 0 ? maybe(one) : one;
    }
    case Kind::Concat: return in_turn(letters(n.head(), depth + 1), letters(n.tail(), depth + 1));
    case Kind::And: {
      Letters all = anything;
      for (const Id member : arena_.operands(e)) {
        const Letters one = letters(member, depth + 1);
        all.may &= one.may;
        all.must |= one.must;
      }
      return all;
    }
    case Kind::Union: {
      Letters any = nothing;
      for (const Id member : arena_.operands(e)) {
        const Letters one = letters(member, depth + 1);
        if (one.none()) continue;
        any.may |= one.may;
        any.must &= one.must;
      }
      return any;
    }
    case Kind::Switch: {
      const ByteSet set = arena_.first(e);
      if (set.count() != 1 || set.least() >= 0x80) return anything;
      const Letters whole = in_turn({set, set}, letters(arena_.edge(n, 0).to, depth + 1));
      return arena_.nullable(e) ? maybe(whole) : whole;
    }
    default: return anything;
  }
}

}  // namespace guiderail
