// Smart constructors: normal forms (of unions: see unions.cpp).
//
// Normal forms keep the set of derivatives small. What matters most in practice (each rule keeps the language):
//   X{a,b} X{c,d}  = X{a+c,b+d}          X | X{m,n}, X{a,b} | X{c,d}  = one Repeat where the counts touch
//   e | X  = X{0,1}                      h t1 | h t2 = h (t1 | t2)     h1 t | h2 t = (h1 | h2) t
// Heads are factored before tails: this turns C* x | C* y into C* (x | y), the shape that class masks read.
#include <algorithm>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

Id Arena::raw_concat(Id head, Id tail) {
  const Node &h = node(head), &t = node(tail);
  Draft d = draft(Kind::Concat);
  d.a = index_of(head);
  d.b = index_of(tail);
  absorb(d, head, true);
  absorb(d, tail, false);
  if (has(head, kNullable) && has(tail, kNullable)) d.flags |= kNullable;
  if (has(head, kBarren) || has(tail, kBarren)) d.flags |= kBarren;
  d.shortest = add_sat(h.shortest, t.shortest);
  d.longest = add_sat(h.longest, t.longest);
  return intern(d);
}

// If head and tail repeat the same thing: one Repeat, then what is left of the tail.
bool Arena::merge_repeat(Id head, Id tail, Id& out) {
  if (has(head, kHasLook)) return false;
  const auto [second, rest] = unstack(*this, tail);
  const Node &h = node(head), &s = node(second);
  if (s.kind != Kind::Repeat || s.b) return false;
  u32 lo = 1, hi = 1;
  if (h.kind == Kind::Repeat && h.body() == s.body() && !h.b) {
    lo = h.min;
    hi = h.max;
  } else if (head != s.body()) {
    return false;
  }
  Id joined = repeat(s.body(), add_sat(lo, s.min), add_sat(hi, s.max));
  out = rest == kEpsilon ? joined : raw_concat(joined, rest);
  return true;
}

// Does e, by its shape, match only texts made of these characters?
bool Arena::is_text(Id e, const CharSet& of, int depth) const {
  const Node& n = node(e);
  if (depth > 8) return false;
  switch (n.kind) {
    case Kind::Class: return of.covers(*charsets_[n.a]);
    case Kind::Repeat: return !n.b && is_text(n.body(), of, depth + 1);
    case Kind::Concat: return is_text(n.head(), of, depth + 1) && is_text(n.tail(), of, depth + 1);
    case Kind::Union: {
      for (Id m : operands(e))
        if (!is_text(m, of, depth + 1)) return false;
      return true;
    }
    default: return false;
  }
}

// Beside C{k,}, an optional part that reads only C adds nothing: x? C{k,} = C{k,} = C{k,} x?, and c{m,n} C{k,} =
// c{m} C{k,}.
bool Arena::merge_endless(Id head, Id tail, Id& out) {
  const auto [second, rest] = unstack(*this, tail);
  const Node& h = node(head);
  const u32 before = endless_class(head), after = endless_class(second);
  if (after != kNone && !has(tail, kHasLook) && (h.kind == Kind::Repeat || nullable(head)) &&
      is_text(head, *charsets_[after])) {
    if (nullable(head)) {
      out = tail;
      return true;
    }
    if (h.max == h.min) return false;
    out = concat(repeat(h.body(), h.min, h.min), tail);
    return true;
  }
  if (before != kNone && !has(tail, kHasLook) && nullable(second) && is_text(second, *charsets_[before])) {
    out = concat(head, rest);
    return true;
  }
  return false;
}

Id Arena::concat(Id head, Id tail) {
  if (head == kEmpty || tail == kEmpty) return kEmpty;
  if (head == kEpsilon) return tail;
  if (tail == kEpsilon) return head;
  if (const Kind first = node(head).kind; first != Kind::Concat) {
    const Id second = unstack(*this, tail).head;
    if (first != Kind::Repeat && node(second).kind != Kind::Repeat) return raw_concat(head, tail);  // nothing merges
    Id merged;
    return merge_repeat(head, tail, merged) || merge_endless(head, tail, merged) ? merged : raw_concat(head, tail);
  }
  Ids heads;
  Id h = head;
  for (; node(h).kind == Kind::Concat; h = node(h).tail()) heads.push_back(node(h).head());
  tail = concat(h, tail);
  for (std::size_t i = heads.size(); i-- > 0;) tail = concat(heads[i], tail);
  return tail;
}

Id Arena::concat_all(std::span<const Id> parts) {
  Id e = kEpsilon;
  for (std::size_t i = parts.size(); i-- > 0;) e = concat(parts[i], e);
  return e;
}

Id Arena::repeat(Id e, u32 min, u32 max) {
  if (max < min) throw Error("bad-bound", "repeat: max is below min");
  if (max == 0 || e == kEpsilon) return kEpsilon;
  if (e == kEmpty) return min == 0 ? kEpsilon : kEmpty;
  const bool look = has(e, kHasLook);
  if (has(e, kNullable) && !look) min = 0;
  if (min == 1 && max == 1) return e;
  const Node& n = node(e);
  if (n.kind == Kind::Repeat && !look && !n.b) {
    // do the counts [k*a, k*b] for k in min..max join without a gap?
    u32 a = n.min, b = n.max;
    bool from_zero = min > 0 || a <= 1;
    u32 k = std::max<u32>(min, 1);
    bool contiguous = max == min || b == kInf || mul_sat(add_sat(k, 1), a) <= add_sat(mul_sat(k, b), 1);
    if (from_zero && contiguous) return repeat(n.body(), mul_sat(min, a), mul_sat(max, b));
  }
  if (min == kInf) throw Error("bad-bound", "repeat: min is too large");
  Draft d = draft(Kind::Repeat);
  d.a = index_of(e);
  d.min = min;
  d.max = max;
  absorb(d, e, true);
  if (max != kInf && max > 8) d.flags |= kBigRepeat;
  if (min > 8) d.flags |= kBigRepeat;
  if (min > 0 && has(e, kBarren)) d.flags |= kBarren;
  if (n.kind != Kind::Class && ((max != kInf && max > kFewGroups) || min > kFewGroups)) d.flags |= kBigGroup;
  if (min == 0 || has(e, kNullable)) d.flags |= kNullable;
  d.shortest = mul_sat(n.shortest, min);
  d.longest = mul_sat(n.longest, max);
  return intern(d);
}

// Every normal form keeps it apart from plain Repeats. `max` counts down to a node that matches only the empty string
// and marks that more may follow.
Id Arena::capped_repeat(Id e, u32 min, u32 max) {
  Draft d = draft(Kind::Repeat);
  d.a = index_of(e);
  d.b = 1;
  d.min = min;
  d.max = max;
  absorb(d, e, true);
  if (max == 0) d.flags |= kCapHit;
  if (min == 0 || has(e, kNullable)) d.flags |= kNullable;
  d.longest = kInf;
  return intern(d);
}

Id Arena::repeat_less(Id e) {
  const Node& n = node(e);
  u32 min = n.min == 0 || n.min == kInf ? n.min : n.min - 1;
  u32 max = n.max == 0 || n.max == kInf ? n.max : n.max - 1;
  return n.b ? capped_repeat(n.body(), min, max) : repeat(n.body(), min, max);
}

Id Arena::make_list(Kind kind, std::span<const Id> sorted, u32 flags) {
  Draft d = draft(kind);
  d.flags = flags;
  bool all_null = true, any_null = false, all_barren = kind == Kind::Union;
  d.shortest = kind == Kind::Union ? kInf : 0;
  d.longest = kind == Kind::Union ? 0 : kInf;
  for (Id e : sorted) {
    const Node& n = node(e);
    absorb(d, e, true);
    all_barren = all_barren && has(e, kBarren);
    (has(e, kNullable) ? any_null : all_null) = has(e, kNullable);
    if (kind == Kind::Union) {
      d.shortest = std::min(d.shortest, n.shortest);
      d.longest = std::max(d.longest, n.longest);
    } else {
      d.shortest = std::max(d.shortest, n.shortest);
      d.longest = std::min(d.longest, n.longest);
    }
  }
  if (kind == Kind::And) d.flags |= kSearch;
  if (kind == Kind::And ? all_null : any_null) d.flags |= kNullable;
  if (all_barren) d.flags |= kBarren;
  d.list = sorted;
  d.has_list = true;
  return intern(d);
}

// x | (x & y) = x, and x & (x | y) = x.
void Arena::absorb_members(Ids& sorted, Kind inner) const {
  if (sorted.size() < 2) return;
  Ids needless;
  std::size_t searched = 0;
  for (Id e : sorted) {
    if (node(e).kind != inner) continue;
    for (Id m : operands(e)) {
      ++searched;
      if (std::binary_search(sorted.begin(), sorted.end(), m)) {
        needless.push_back(e);
        break;
      }
    }
  }
  Work::spend(searched / 4);
  if (!needless.empty()) sorted.erase_if([&](Id e) { return std::binary_search(needless.begin(), needless.end(), e); });
}

Id Arena::look(Kind kind, Id e, bool negative) {
  Draft d = draft(kind);
  d.a = index_of(e);
  d.b = negative;
  absorb(d, e, true);
  if (d.flags & (kHasRef | kHasToken))
    throw Error("not-regular", "a look-around cannot hold recursive rules or special tokens");
  d.flags |= kHasLook | kSearch;
  if (kind == Kind::Behind) d.flags |= kHasBehind;
  if (has(e, kNullable) != negative) d.flags |= kNullable;
  return intern(d);
}

Id Arena::ahead(Id e, bool negative) { return look(Kind::Ahead, e, negative); }

Id Arena::behind(Id e, bool negative) {
  if (has(e, kHasLook))
    throw Error("look-nesting", "a look-around inside a look-behind is not supported; take the inner one out");
  return look(Kind::Behind, e, negative);
}

Id Arena::scope(Id e) {
  if (!has(e, kHasLook)) return e;
  Draft d = draft(Kind::Scope);
  d.a = index_of(e);
  absorb(d, e, true);
  if (d.flags & (kHasRef | kHasToken))
    throw Error("not-regular", "a scope with look-arounds cannot hold recursive rules or special tokens");
  d.flags = static_cast<u32>((d.flags & ~(kHasLook | kHasBehind)) | kSearch);
  if (has(e, kNullable)) d.flags |= kNullable;
  d.shortest = node(e).shortest;
  d.longest = node(e).longest;
  Id s = intern(d);
  return has(s, kDead) ? kEmpty : s;
}

Id Arena::counted(Id e, u32 most) {
  if (has(e, kHasRef | kHasToken | kHasItem))
    throw Error("not-regular", "tokens can be counted only in a regular constraint without rules and special tokens");
  if (has(e, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope");
  return counted_at(e, most, false);
}

Id Arena::counted_at(Id e, u32 most, bool begun) {
  if (e == kEmpty || e == kEpsilon) return e;
  if (most == 0 && !begun && nullable(e)) return kEpsilon;
  Draft d = draft(Kind::Counted);
  d.a = index_of(e);
  d.b = begun;
  d.min = most;
  absorb(d, e, true);
  d.flags |= kHasToken | kBigRepeat | (begun ? u32{kCounting} : 0u) | (nullable(e) ? u32{kNullable} : 0u);
  d.shortest = node(e).shortest;
  d.longest = node(e).longest;
  return intern(d);
}

u32 Arena::endless_class(Id text) const {
  const Node& n = node(text);
  return n.kind == Kind::Repeat && n.max == kInf && !n.b && node(n.body()).kind == Kind::Class ? node(n.body()).a
                                                                                               : kNone;
}

// A marker: a forgotten text decides whether anything follows here.
Id Arena::unknown() {
  Draft d = draft(Kind::Token);
  d.flags = kUnknownText;
  d.has_list = true;
  return intern(d);
}

}  // namespace guiderail
