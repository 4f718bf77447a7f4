// Smart constructors of intersections and complements. Conditions on single characters are intersected at once, before
// anything is read.
#include <algorithm>

#include "base/work.hpp"
#include "expr/kinds.hpp"

namespace guiderail {
// Is e = C{min,max} for one character class C?
bool Arena::char_repeat(Id e, u32& set, u32& min, u32& max) const {
  const Node& n = node(e);
  min = max = 1;
  if (n.kind == Kind::Class) {
    set = n.a;
    return true;
  }
  if (n.kind != Kind::Repeat || node(n.body()).kind != Kind::Class) return false;
  set = node(n.body()).a;
  min = n.min;
  max = n.max;
  return true;
}

// e with every character class cut down to a set: the texts of e over that set.
Id Arena::narrow(Id e, u32 set) {
  const Node& n = node(e);
  if (n.kind == Kind::Class) {
    return class_of(compose(SetOperation::Both, n.a, set));
  }
  if ((n.kind != Kind::Concat && n.kind != Kind::Union && n.kind != Kind::Repeat) || has(e, kSearch | kHasLook))
    return e;
  const u64 key = u64{index_of(e)} << 32 | set;
  if (auto it = narrow_memo_.find(key); it != narrow_memo_.end()) return it->second;
  Id out = e;
  if (n.kind == Kind::Concat) {
    Ids heads;
    Id cur = e;
    for (; node(cur).kind == Kind::Concat; cur = node(cur).tail()) heads.push_back(node(cur).head());
    out = narrow(cur, set);
    for (std::size_t i = heads.size(); i-- > 0;) out = concat(narrow(heads[i], set), out);
  } else if (n.kind == Kind::Union) {
    out = unite(mapped(*this, e, [&](Id m) { return narrow(m, set); }));
  } else if (!n.b) {
    out = repeat(narrow(n.body(), set), n.min, n.max);
  }
  narrow_memo_.emplace(key, out);
  narrow_memo_.emplace(u64{index_of(out)} << 32 | set, out);
  return out;
}

Id Arena::intersect(std::span<const Id> list, bool allow_rules) {
  work_ += list.size();
  Work::spend(1 + list.size() / 8);
  Ids input(list), parts;
  while (!input.empty()) {
    Id e = input.back();
    input.pop_back();
    const Node& n = node(e);
    if (e == kEmpty) return kEmpty;
    if (n.kind == Kind::And) {
      input.append(operands(e));
    } else if (!(n.kind == Kind::Not && n.body() == kEmpty)) {
      parts.push_back(e);
    }
  }
  if (parts.empty()) return negate(kEmpty);
  for (Id e : parts)
    if (has(e, allow_rules ? kHasItem : kHasRef | kHasToken | kHasItem))
      throw Error("not-regular",
                  "intersection and complement need regular constraints, without recursive rules and special tokens; "
                  "move the recursive part out of the & or ~");
  parts.sort_unique();
  // C{a,b} & D{c,d} = (C & D){max(a,c), min(b,d)}; beside C{a,b}, other operands keep only their characters in C
  u32 chars = kNone;
  u32 lo = 0, hi = kInf;
  Ids rest = std::move(parts);
  for (bool narrowed = true; narrowed;) {
    narrowed = false;
    Ids others;
    for (Id e : rest) {
      u32 set = 0, min = 0, max = 0;
      if (!char_repeat(e, set, min, max)) {
        others.push_back(e);
        continue;
      }
      chars = chars == kNone ? set : compose(SetOperation::Both, chars, set);
      lo = std::max(lo, min);
      hi = std::min(hi, max);
    }
    rest = std::move(others);
    if (chars == kNone || charsets_[chars] == CharSet::any()) break;
    for (Id& e : rest) {
      const Id small = narrow(e, chars);
      narrowed = narrowed || small != e;
      e = small;
      if (e == kEmpty) return kEmpty;
    }
  }
  if (chars != kNone) {
    if (lo > hi) return kEmpty;
    Id joined = repeat(class_of(chars), lo, hi);
    if (joined == kEmpty) return kEmpty;
    bool positive = false;
    for (Id e : rest) positive = positive || node(e).kind != Kind::Not;
    // any text & X = X: every other positive operand matches only UTF-8 already
    if (joined != any_text_ || !positive || has_raw_bytes()) rest.push_back(joined);
  }
  rest.sort_unique();
  absorb_members(rest, Kind::Union);
  u32 shortest = 0, longest = kInf;
  bool epsilon = false, all_nullable = true;
  for (Id e : rest) {
    const Node& n = node(e);
    if (n.kind == Kind::Not && std::binary_search(rest.begin(), rest.end(), n.body())) return kEmpty;
    if (n.kind == Kind::Not && n.body() == any_text_ && !has_raw_bytes()) return kEmpty;  // others match only texts
    if (e == kEpsilon) epsilon = true;
    all_nullable = all_nullable && has(e, kNullable);
    shortest = std::max(shortest, n.shortest);
    longest = std::min(longest, n.longest);
  }
  if (epsilon) return all_nullable ? kEpsilon : kEmpty;
  if (shortest > longest) return kEmpty;
  if (rest.size() == 1) return rest[0];
  Id e = make_list(Kind::And, rest);
  return has(e, kDead) ? kEmpty : e;
}

// e without the empty text.
Id Arena::nonempty(Id e) {
  if (!nullable(e)) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Epsilon: return kEmpty;
    case Kind::Union: return unite(mapped(*this, e, [&](Id m) { return nonempty(m); }));
    case Kind::Repeat:
      if (n.max == 0) return e;  // a cap
      return concat(nonempty(n.body()), repeat_less(e));
    case Kind::Concat: {
      const Id head = nonempty(n.head()), tail = n.tail();
      return unite(concat(head, tail), nonempty(tail));
    }
    case Kind::Ref: return nonempty(rules_[n.a].body);
    default: return intersect(std::array{e, negate(kEpsilon)}, true);  // the complement is gone after the first byte
  }
}

Id Arena::negate(Id e) {
  const Node& n = node(e);
  if (n.kind == Kind::Not) return n.body();
  if (has(e, kHasRef | kHasToken | kHasItem))
    throw Error("not-regular", "the complement of a constraint with recursive rules or special tokens is not regular");
  Draft d = draft(Kind::Not);
  d.a = index_of(e);
  absorb(d, e, true);
  d.flags |= kSearch;
  if (!has(e, kNullable)) d.flags |= kNullable;
  d.longest = kInf;
  return intern(d);
}

Id Arena::complement_text(Id e) { return intersect(negate(e), any_text_); }

}  // namespace guiderail
