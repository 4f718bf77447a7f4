// Smart constructors: normal forms.
//
// Normal forms keep the set of derivatives small. What matters most in practice (each rule keeps the language):
//   X{a,b} X{c,d}  = X{a+c,b+d}          X | X{m,n}, X{a,b} | X{c,d}  = one Repeat where the counts touch
//   e | X  = X{0,1}                      h t1 | h t2 = h (t1 | t2)     h1 t | h2 t = (h1 | h2) t
// Heads are factored before tails: this turns C* x | C* y into C* (x | y), the shape that class masks read.
#include <algorithm>
#include <map>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/kinds.hpp"

namespace guiderail {
namespace {

constexpr u32 kUnionRoot = 0;
constexpr u32 kMostPaths = 1u << 31;  // numbers for lists of operands; then numbering starts over

}  // namespace

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
  Id second = tail, rest = kEpsilon;
  if (node(tail).kind == Kind::Concat) {
    second = node(tail).head();
    rest = node(tail).tail();
  }
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

// Does e, by its shape, match only texts made of characters?
bool Arena::is_text(Id e, int depth) const {
  const Node& n = node(e);
  if (depth > 8) return false;
  switch (n.kind) {
    case Kind::Class: return true;
    case Kind::Repeat: return !n.b && is_text(n.body(), depth + 1);
    case Kind::Concat: return is_text(n.head(), depth + 1) && is_text(n.tail(), depth + 1);
    case Kind::Union: {
      for (Id m : operands(e))
        if (!is_text(m, depth + 1)) return false;
      return true;
    }
    default: return false;
  }
}

// Beside any{k,}, an optional part adds nothing: x? any{k,} = any{k,} = any{k,} x?, c{m,n} any{k,} = c{m} any{k,}.
bool Arena::merge_any(Id head, Id tail, Id& out) {
  Id second = tail, rest = kEpsilon;
  if (node(tail).kind == Kind::Concat) {
    second = node(tail).head();
    rest = node(tail).tail();
  }
  auto endless = [&](Id e) {
    const u32 set = endless_class(e);
    return set != kNone && charsets_[set] == CharSet::any();
  };
  const Node& h = node(head);
  if (endless(second) && !has(tail, kHasLook) && (h.kind == Kind::Repeat || nullable(head)) && is_text(head)) {
    if (nullable(head)) {
      out = tail;
      return true;
    }
    if (h.max == h.min) return false;
    out = concat(repeat(h.body(), h.min, h.min), tail);
    return true;
  }
  if (endless(head) && !has(tail, kHasLook) && nullable(second) && is_text(second)) {
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
    const Id second = node(tail).kind == Kind::Concat ? node(tail).head() : tail;
    if (first != Kind::Repeat && node(second).kind != Kind::Repeat) return raw_concat(head, tail);  // nothing merges
    Id merged;
    return merge_repeat(head, tail, merged) || merge_any(head, tail, merged) ? merged : raw_concat(head, tail);
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

Id Arena::make_list(Kind kind, std::span<const Id> sorted) {
  Draft d = draft(kind);
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

// Factors common heads, then common tails, out of the members of a union. Returns whether anything changed.
bool Arena::factor(Ids& parts) {
  bool changed = false;
  for (int side = 0; side < 2; ++side) {
    if (parts.size() < 2) break;
    auto key = [&](Id e) -> Id {
      const Node& n = node(e);
      if (n.kind != Kind::Concat) return e;
      return side == 0 ? n.head() : n.tail();
    };
    ShortVector<u64, 12> keyed;  // key, part
    for (Id e : parts) keyed.push_back(u64{index_of(key(e))} << 32 | index_of(e));
    std::sort(keyed.begin(), keyed.end());
    Ids next;
    bool grouped = false;
    for (std::size_t i = 0; i < keyed.size();) {
      const Id common{static_cast<u32>(keyed[i] >> 32)};
      std::size_t j = i + 1;
      while (j < keyed.size() && keyed[j] >> 32 == index_of(common)) ++j;
      if (j - i == 1) {
        next.push_back(Id{static_cast<u32>(keyed[i])});
      } else {
        grouped = true;
        Ids others;
        for (std::size_t k = i; k < j; ++k) {
          const Node& n = node(Id{static_cast<u32>(keyed[k])});
          bool bare = n.kind != Kind::Concat;
          others.push_back(bare ? kEpsilon : (side == 0 ? n.tail() : n.head()));
        }
        const Id other = unite_memoised(others);
        next.push_back(side == 0 ? concat(common, other) : concat(other, common));
      }
      i = j;
    }
    if (grouped) {
      parts = std::move(next);
      changed = true;
    }
  }
  return changed;
}

// The number of a list: of its path in a trie.
u32 Arena::path_of(u32 root, const Ids& parts) {
  if (union_path_ >= kMostPaths) {
    union_paths_.clear();
    union_memo_.clear();
    union_path_ = 0;
    ++union_era_;
  }
  Work::spend(1 + parts.size() / 8);
  u32 path = root;
  for (Id e : parts) {
    const u64 step = u64{path} << 32 | index_of(e);
    if (const u32* known = union_paths_.find(step)) {
      path = *known;
    } else {
      path = ++union_path_;
      union_paths_.set(step, path, memo_limit());
    }
  }
  return path;
}

// What follows a common head is united again, and so is what follows that. Ambiguous texts share these tails, so
// without a memo, the work would double wherever two readings meet.
Id Arena::unite_memoised(Ids& parts) {
  parts.sort_unique();
  int stacks = 0;
  for (Id e : parts) stacks += node(e).kind == Kind::Concat || node(e).kind == Kind::Union;
  if (stacks < 2) return unite(parts);
  const u32 path = path_of(kUnionRoot, parts);
  if (const Id* known = union_memo_.find(path)) return *known;
  const u32 era = union_era_;
  const Id out = unite(parts);
  if (era == union_era_) union_memo_.set(path, out, memo_limit());  // otherwise numbering has started over
  return out;
}

// x | (x & y) = x, and x & (x | y) = x.
void Arena::absorb_members(Ids& sorted, Kind inner) const {
  if (sorted.size() < 2) return;
  Ids needless;
  for (Id e : sorted) {
    if (node(e).kind != inner) continue;
    for (Id m : operands(e))
      if (std::binary_search(sorted.begin(), sorted.end(), m)) {
        needless.push_back(e);
        break;
      }
  }
  if (!needless.empty()) sorted.erase_if([&](Id e) { return std::binary_search(needless.begin(), needless.end(), e); });
}

Id Arena::unite(std::span<const Id> list) {
  make_room();
  work_ += list.size();
  Work::spend(1 + list.size() / 8);
  // Flatten; X{0,1} contributes X and the empty string.
  bool epsilon = false;
  Ids input(list), parts;
  while (!input.empty()) {
    Id e = input.back();
    input.pop_back();
    const Node& n = node(e);
    if (e == kEmpty) continue;
    if (e == kEpsilon) {
      epsilon = true;
    } else if (n.kind == Kind::Union) {
      input.append(operands(e));
    } else if (n.kind == Kind::Repeat && n.min == 0 && n.max == 1 && !n.b && !has(e, kHasLook)) {
      epsilon = true;
      input.push_back(n.body());
    } else {
      parts.push_back(e);
    }
  }
  if (parts.size() > list.size()) Work::spend((parts.size() - list.size()) / 8);
  for (int round = 0; round < 4; ++round) {
    parts.sort_unique();
    if (parts.size() < 2) break;
    if (std::find(parts.begin(), parts.end(), any_text_) != parts.end()) {
      bool text_only = true;
      for (Id e : parts) text_only = text_only && !has(e, kHasRef | kHasToken) && node(e).kind != Kind::Not;
      if (text_only && !has_raw_bytes()) return any_text_;
    }
    // single characters become one class, single bytes one set
    u32 chars = 0;
    int classes = 0;
    ByteSet byte_union;
    int byte_sets = 0;
    u32 kinds = 0;
    for (Id e : parts) {
      const Node& n = node(e);
      kinds |= u32{1} << static_cast<u32>(n.kind);
      if (n.kind == Kind::Class) {
        chars = classes > 0 ? compose(SetOperation::Either, chars, n.a) : n.a;
        ++classes;
      } else if (n.kind == Kind::Bytes) {
        byte_union |= byte_sets_[n.a];
        ++byte_sets;
      }
    }
    bool changed = false;
    if (kinds & joined_kinds_)
      for (const auto& family : families_)
        if (kinds & family->joined_kinds()) changed = family->join(parts) || changed;
    if (classes > 1 || byte_sets > 1) {
      parts.erase_if([&](Id e) {
        Kind k = node(e).kind;
        return (k == Kind::Class && classes > 1) || (k == Kind::Bytes && byte_sets > 1);
      });
      if (classes > 1) parts.push_back(class_of(chars));
      if (byte_sets > 1) parts.push_back(bytes(byte_union));
      changed = true;
    }
    // of equal texts with different counts, the one that may have more tokens
    std::map<std::pair<Id, u32>, u32> counted;
    for (Id e : parts)
      if (const Node& n = node(e); n.kind == Kind::Counted) {
        u32& most = counted.try_emplace({n.body(), n.b}, n.min).first->second;
        most = std::max(most, n.min);
      }
    if (!counted.empty())
      parts.erase_if([&](Id e) {
        const Node& n = node(e);
        return n.kind == Kind::Counted && n.min < counted[{n.body(), n.b}];
      });
    // X{a,b} | X{c,d} and X | X{m,n}
    auto plain_repeat = [&](Id e) { return node(e).kind == Kind::Repeat && !node(e).b && !has(e, kHasLook); };
    Ids bodies;
    for (Id e : parts)
      if (plain_repeat(e)) bodies.push_back(node(e).body());
    std::sort(bodies.begin(), bodies.end());
    for (std::size_t i = 0, j = 0; i < bodies.size(); i = j) {
      const Id body = bodies[i];
      while (j < bodies.size() && bodies[j] == body) ++j;
      const bool bare =
          kinds >> static_cast<u32>(node(body).kind) & 1 && std::find(parts.begin(), parts.end(), body) != parts.end();
      if (j - i + bare + epsilon < 2) continue;
      if (j - i == 1 && !bare) {  // beside only the empty string, which it may absorb
        const auto at =
            std::find_if(parts.begin(), parts.end(), [&](Id e) { return plain_repeat(e) && node(e).body() == body; });
        if (node(*at).min != 1) continue;
        *at = repeat(body, 0, node(*at).max);
        changed = true;
        continue;
      }
      std::vector<std::pair<u32, u32>> ranges;
      if (bare) ranges.push_back({1, 1});
      if (epsilon) ranges.push_back({0, 0});
      for (Id e : parts)
        if (plain_repeat(e) && node(e).body() == body) ranges.push_back({node(e).min, node(e).max});
      std::sort(ranges.begin(), ranges.end());
      std::vector<std::pair<u32, u32>> joined;
      for (auto r : ranges) {
        if (!joined.empty() && r.first <= add_sat(joined.back().second, 1))
          joined.back().second = std::max(joined.back().second, r.second);
        else
          joined.push_back(r);
      }
      if (joined.size() == ranges.size()) continue;
      parts.erase_if([&](Id e) {
        return (bare && e == body) || (node(e).kind == Kind::Repeat && node(e).body() == body && !node(e).b);
      });
      for (auto [lo, hi] : joined)
        if (hi > 0) parts.push_back(repeat(body, lo, hi));
      changed = true;
    }
    if (factor(parts)) {
      Ids flat;
      for (Id e : parts) {
        if (e == kEpsilon) {
          epsilon = true;
        } else if (node(e).kind == Kind::Union) {
          flat.append(operands(e));
        } else {
          flat.push_back(e);
        }
      }
      parts = std::move(flat);
      changed = true;
    }
    if (!changed) break;
  }
  parts.sort_unique();
  absorb_members(parts, Kind::And);
  if (parts.empty()) return epsilon ? kEpsilon : kEmpty;
  Id e = parts.size() == 1 ? parts[0] : make_list(Kind::Union, parts);
  if (!epsilon || (has(e, kNullable) && !has(e, kHasLook))) return e;
  return repeat(e, 0, 1);
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
