// Emptiness without a search: a letter that every match must contain, but that none may.
#include <algorithm>

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
  constexpr Letters kNothing{{0, 0}, {~u64{0}, ~u64{0}}}, kAnything{{~u64{0}, ~u64{0}}, {0, 0}};
  const auto of_set = [](const ByteSet& set, bool one) {
    Letters out{{set.words[0], set.words[1]}, {0, 0}};
    if (one) std::copy_n(out.may, 2, out.must);
    return out;
  };
  // Either of two, or both one after the other, or both at once.
  const auto either = [](Letters& a, const Letters& b) {
    for (int i = 0; i < 2; ++i) a.may[i] |= b.may[i], a.must[i] &= b.must[i];
  };
  const auto then = [](Letters& a, const Letters& b) {
    for (int i = 0; i < 2; ++i) a.may[i] |= b.may[i], a.must[i] |= b.must[i];
  };
  const auto both = [](Letters& a, const Letters& b) {
    for (int i = 0; i < 2; ++i) a.may[i] &= b.may[i], a.must[i] |= b.must[i];
  };
  if (depth > kLetterDepth) return kAnything;
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Empty: return kNothing;
    case Kind::Epsilon: return {};
    case Kind::Class: {
      const auto& ranges = arena_.charset_ptr(n.a)->ranges();
      return of_set(arena_.first(e),
                    ranges.size() == 1 && ranges[0].first == ranges[0].second && ranges[0].first < 0x80);
    }
    case Kind::ClassTail: return {};
    case Kind::Bytes: return of_set(arena_.byte_set(n.a), arena_.byte_set(n.a).count() == 1);
    case Kind::Repeat: {
      if (n.b) return kAnything;
      Letters out = letters(n.body(), depth + 1);
      if (out.none()) return n.min == 0 ? Letters{} : kNothing;
      if (n.min == 0) out.must[0] = out.must[1] = 0;
      return out;
    }
    case Kind::Concat: {
      Letters out = letters(n.head(), depth + 1);
      const Letters rest = out.none() ? kNothing : letters(n.tail(), depth + 1);
      if (rest.none()) return kNothing;
      then(out, rest);
      return out;
    }
    case Kind::And: {
      Letters out = kAnything;
      for (const Id member : arena_.operands(e)) both(out, letters(member, depth + 1));
      return out.none() ? kNothing : out;
    }
    case Kind::Union: {
      Letters out = kNothing;
      for (const Id member : arena_.operands(e))
        if (const Letters one = letters(member, depth + 1); !one.none()) either(out, one);
      return out;
    }
    case Kind::Switch: {
      if (n.b != 2) return kAnything;  // not a single edge
      const Edge edge = arena_.edge(n, 0);
      ByteSet set;
      set.add_range(edge.low, edge.high);
      Letters out = of_set(set, edge.low == edge.high);
      then(out, letters(edge.to, depth + 1));
      if (arena_.nullable(e)) out.must[0] = out.must[1] = 0;
      return out;
    }
    default: return kAnything;
  }
}

}  // namespace guiderail
