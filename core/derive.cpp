// Derivatives (Brzozowski 1964), first bytes, liveness, and the canonical form that masks are cached under.
//
// Look-arounds. A look-ahead in front of the rest t of the text, (?=X) t, is the intersection X any* & t; since t must
// be *all* that follows, a Scope pushes the continuation into heads that hold look-arounds before it derives
// (derive_in_scope). A look-behind keeps the derivative of `any* X` by everything read so far, whether or not it has
// been reached (shift), and is satisfied if that is nullable. Both keep the number of derivatives finite. Compare
// Varatalu, Veanes, Ernits 2025 (RE#), who restrict where look-arounds may stand.
#include <algorithm>
#include <deque>
#include <queue>
#include <unordered_set>

#include "expression.hpp"

namespace guiderail {
namespace {

u32 add_sat(u32 a, u32 b) { return a == kInf || b == kInf || a > kInf - 1 - b ? kInf : a + b; }
u32 mul_sat(u32 a, u32 b) {
  if (a == 0 || b == 0) return 0;
  u64 p = u64{a} * b;
  return a == kInf || b == kInf || p >= kInf ? kInf : static_cast<u32>(p);
}

}  // namespace

Id Arena::derive(Id e, u8 byte) {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Class: return class_tail(n.a, charsets_[n.a]->automaton()[CharSet::kStart][byte]);
    case Kind::ClassTail: return class_tail(n.a, charsets_[n.a]->automaton()[n.b][byte]);
    case Kind::Bytes: return byte_sets_[n.a].has(byte) ? kEpsilon : kEmpty;
    case Kind::Switch: {
      const u32* edges = pool_.data() + n.a;
      u32 lo = 0, hi = n.b / 2;  // the first edge whose high end reaches the byte
      while (lo < hi) {
        u32 mid = (lo + hi) / 2;
        if ((edges[2 * mid] >> 8) < byte)
          lo = mid + 1;
        else
          hi = mid;
      }
      return lo < n.b / 2 && (edges[2 * lo] & 0xFF) <= byte ? edges[2 * lo + 1] : kEmpty;
    }
    case Kind::Concat: {
      std::vector<Id> parts;
      Id only = kEmpty;  // the common case has one part and needs no list
      auto add = [&](Id d) {
        if (d == kEmpty) return;
        if (parts.empty() && only == kEmpty) {
          only = d;
        } else {
          if (parts.empty()) parts.push_back(only);
          parts.push_back(d);
        }
      };
      Id cur = e;
      while (node(cur).kind == Kind::Concat) {
        const Id head = node(cur).a, tail = node(cur).b;
        Id d = derive(head, byte);
        if (node(head).kind == Kind::Greedy && d != kEmpty && live(d)) {
          add(concat(d, tail));
          cur = kEmpty;  // maximal munch: no way out while the head can go on
          break;
        }
        if (d != kEmpty) add(concat(d, tail));
        cur = nullable(head) ? tail : kEmpty;
      }
      if (cur != kEmpty) add(derive(cur, byte));
      return parts.empty() ? only : unite(std::move(parts));
    }
    case Kind::Union: {
      std::vector<Id> members(operands(e).begin(), operands(e).end()), parts;
      for (Id m : members)
        if (Id d = derive(m, byte); d != kEmpty) parts.push_back(d);
      return parts.size() == 1 ? parts[0] : unite(std::move(parts));
    }
    case Kind::Repeat: {
      if (n.max == 0) return kEmpty;  // a cap
      Id d = derive(n.a, byte);
      return d == kEmpty ? kEmpty : concat(d, repeat_less(e));
    }
    case Kind::And: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id& m : members)
        if ((m = derive(m, byte)) == kEmpty) return kEmpty;
      return intersect(std::move(members));
    }
    case Kind::Not: return negate(derive(n.a, byte));
    case Kind::Ref: return derive(rules_[n.a].body, byte);
    case Kind::Greedy: return greedy(derive(n.a, byte));
    case Kind::Scope: return scope(derive_in_scope(n.a, byte, 0));
    case Kind::Empty:
    case Kind::Epsilon:
    case Kind::Token:
    case Kind::Ahead:
    case Kind::Behind: return kEmpty;
  }
  return kEmpty;
}

Id Arena::shift(Id e, u8 byte) {
  if (!has(e, kHasBehind)) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Behind: return behind(derive(n.a, byte), n.b);
    case Kind::Ahead: return ahead(shift(n.a, byte), n.b);
    case Kind::Concat: {
      std::vector<Id> heads;
      Id cur = e;
      for (; node(cur).kind == Kind::Concat; cur = node(cur).b) heads.push_back(node(cur).a);
      Id out = shift(cur, byte);
      for (std::size_t i = heads.size(); i-- > 0;) out = concat(shift(heads[i], byte), out);
      return out;
    }
    case Kind::Union:
    case Kind::And: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id& m : members) m = shift(m, byte);
      return n.kind == Kind::Union ? unite(std::move(members)) : intersect(std::move(members));
    }
    case Kind::Not: return negate(shift(n.a, byte));
    case Kind::Repeat: return repeat(shift(n.a, byte), n.min, n.max);
    case Kind::Greedy: return greedy(shift(n.a, byte));
    default: return e;
  }
}

// The derivative of e where everything up to the end of the scope is in e.
Id Arena::derive_in_scope(Id e, u8 byte, u32 depth) {
  if (!has(e, kHasLook)) return derive(e, byte);
  if (depth > 4 * limits_.max_depth)
    throw Error("depth", "look-arounds inside a loop that may read nothing; rewrite the loop to read a character");
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Union:
    case Kind::And: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id& m : members) m = derive_in_scope(m, byte, depth + 1);
      return n.kind == Kind::Union ? unite(std::move(members)) : intersect(std::move(members));
    }
    case Kind::Not: return negate(derive_in_scope(n.a, byte, depth + 1));
    case Kind::Repeat: return derive_in_scope(raw_concat(e, kEpsilon), byte, depth + 1);
    case Kind::Concat: break;
    default: return kEmpty;  // a look-around at the very end reads nothing
  }
  const Id head = n.a, tail = n.b;
  const Node& h = node(head);
  if (!has(head, kHasLook)) {
    Id d = derive(head, byte);
    Id read = d == kEmpty ? kEmpty : concat(d, shift(tail, byte));
    return nullable(head) ? unite(read, derive_in_scope(tail, byte, depth + 1)) : read;
  }
  switch (h.kind) {
    case Kind::Behind: return nullable(h.a) != bool(h.b) ? derive_in_scope(tail, byte, depth + 1) : kEmpty;
    case Kind::Ahead: {
      Id rest = derive_in_scope(tail, byte, depth + 1);
      if (rest == kEmpty) return kEmpty;
      Id seen = derive_in_scope(concat(h.a, any_text_), byte, depth + 1);
      return intersect({h.b ? negate(seen) : seen, rest});
    }
    case Kind::Union: {
      std::vector<Id> members(operands(head).begin(), operands(head).end());
      for (Id& m : members) m = derive_in_scope(concat(m, tail), byte, depth + 1);
      return unite(std::move(members));
    }
    case Kind::Repeat: {
      Id more = concat(repeat_less(head), tail);
      Id read = derive_in_scope(concat(h.a, more), byte, depth + 1);
      return h.min == 0 ? unite(read, derive_in_scope(tail, byte, depth + 1)) : read;
    }
    default:
      throw Error("look-outside-scope",
                  "a look-around inside an intersection, complement or terminal must stand in a scope of its own");
  }
}

Id Arena::derive_symbol(Id e, u32 symbol) {
  if (!has(e, kHasToken | kHasRef)) return kEmpty;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Token: {
      auto list = operands(e);
      return std::binary_search(list.begin(), list.end(), symbol) ? kEpsilon : kEmpty;
    }
    case Kind::Concat: {
      std::vector<Id> parts;
      Id cur = e;
      while (node(cur).kind == Kind::Concat) {
        const Id head = node(cur).a, tail = node(cur).b;
        if (Id d = derive_symbol(head, symbol); d != kEmpty) parts.push_back(concat(d, tail));
        cur = nullable(head) ? tail : kEmpty;
      }
      if (cur != kEmpty) parts.push_back(derive_symbol(cur, symbol));
      return unite(std::move(parts));
    }
    case Kind::Union: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id& m : members) m = derive_symbol(m, symbol);
      return unite(std::move(members));
    }
    case Kind::Repeat: {
      Id d = derive_symbol(n.a, symbol);
      return d == kEmpty ? kEmpty : concat(d, repeat_less(e));
    }
    case Kind::Ref: return derive_symbol(rules_[n.a].body, symbol);
    default: return kEmpty;
  }
}

void Arena::first_symbols(Id e, std::vector<u32>& out) {
  for (;;) {
    if (!has(e, kHasToken | kHasRef)) return;
    const Node& n = node(e);
    switch (n.kind) {
      case Kind::Token: {
        auto list = operands(e);
        out.insert(out.end(), list.begin(), list.end());
        return;
      }
      case Kind::Concat:
        first_symbols(n.a, out);
        if (!nullable(n.a)) return;
        e = n.b;
        continue;
      case Kind::Union: {
        std::vector<Id> members(operands(e).begin(), operands(e).end());
        for (Id m : members) first_symbols(m, out);
        return;
      }
      case Kind::Repeat: e = n.a; continue;
      case Kind::Ref: e = rules_[n.a].body; continue;
      default: return;
    }
  }
}

const ByteSet& Arena::first(Id e) {
  Node& n = node(e);
  if (n.first != kUnknown) return firsts_[n.first];
  ByteSet set;
  switch (n.kind) {
    case Kind::Class: set = charsets_[n.a]->first(); break;
    case Kind::ClassTail: {
      const auto& row = charsets_[n.a]->automaton()[n.b];
      for (unsigned b = 0; b < 256; ++b)
        if (row[b] != CharSet::kDead) set.add(static_cast<u8>(b));
      break;
    }
    case Kind::Bytes: set = byte_sets_[n.a]; break;
    case Kind::Switch:
      for (u32 i = 0; i < n.b; i += 2) set.add_range(pool_[n.a + i] & 0xFF, pool_[n.a + i] >> 8);
      break;
    case Kind::Concat: {
      Id cur = e;
      for (; node(cur).kind == Kind::Concat; cur = node(cur).b) {
        Id head = node(cur).a;
        set |= first(head);
        bool skippable = has(head, kHasLook) ? node(head).shortest == 0 : nullable(head);
        if (!skippable) break;
      }
      if (node(cur).kind != Kind::Concat) set |= first(cur);
      break;
    }
    case Kind::Union: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id m : members) set |= first(m);
      break;
    }
    case Kind::And: {
      set = ByteSet::all();
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id m : members) set &= first(m);
      break;
    }
    case Kind::Not: set = ByteSet::all(); break;
    case Kind::Repeat:
    case Kind::Greedy:
    case Kind::Scope: set = first(n.a); break;
    case Kind::Ref: set = first(rules_[n.a].body); break;
    default: break;
  }
  Hash h;
  for (u64 w : set.words) h = hash_step(h, w);
  auto [it, fresh] = first_ids_.try_emplace(h, static_cast<u32>(firsts_.size()));
  if (fresh) firsts_.push_back(set);
  n.first = it->second;
  return firsts_[n.first];
}

// -- liveness
// ----------------------------------------------------------------------------------------------------------
bool Arena::live(Id e) {
  for (;;) {
    if (e == kEmpty) return false;
    if (!has(e, kSearch)) return true;
    const Node& n = node(e);
    if (has(e, kLiveKnown)) return !has(e, kDead);
    switch (n.kind) {
      case Kind::Concat:
        if (node(n.a).kind == Kind::Greedy && !has(e, kHasRef)) return live_search(e);
        if (!live(n.a)) return false;
        e = n.b;
        continue;
      case Kind::Union: {
        std::vector<Id> members(operands(e).begin(), operands(e).end());
        for (Id m : members)
          if (live(m)) return true;
        return false;
      }
      case Kind::Repeat:
        if (n.min == 0) return true;
        e = n.a;
        continue;
      case Kind::Greedy: e = n.a; continue;
      case Kind::Switch: return true;  // targets are literals
      default: return live_search(e);
    }
  }
}

// The length in characters of a shortest match of e, and whether matches of every greater length exist too (some state
// on the way reads a character and stays). kInf: none within the fuel.
Arena::Reach Arena::reach(Id start) {
  if (auto it = reach_memo_.find(start); it != reach_memo_.end()) return it->second;
  ensure_classes();
  std::unordered_map<Id, std::pair<u32, Id>> best{{start, {0, kEmpty}}};  // characters, where from
  std::deque<Id> queue{start};
  std::unordered_set<Id> done;
  Reach out{kInf, false};
  while (!queue.empty() && best.size() < limits_.fuel) {
    const Id state = queue.front();
    queue.pop_front();
    if (!done.insert(state).second) continue;
    const u32 cost = best[state].first;
    if (nullable(state)) {
      out.shortest = cost;
      for (Id s = state; s != kEmpty && !out.longer; s = best[s].second)
        for (u32 c = 0; c < class_count_ && !out.longer; ++c)
          out.longer = representatives_[c] < 0x80 && derive(s, representatives_[c]) == s;
      break;
    }
    const ByteSet possible = first(state);
    for (u32 c = 0; c < class_count_; ++c) {
      const u8 byte = representatives_[c];
      if (!possible.has(byte)) continue;
      const Id next = derive(state, byte);
      if (next == kEmpty || has(next, kDead)) continue;
      const bool middle = (byte & 0xC0) == 0x80;
      const u32 total = cost + (middle ? 0 : 1);
      auto [it, fresh] = best.try_emplace(next, total, state);
      if (!fresh && it->second.first <= total) continue;
      it->second = {total, state};
      if (middle)
        queue.push_front(next);
      else
        queue.push_back(next);
    }
  }
  reach_memo_.emplace(start, out);
  return out;
}

// R & C{m,n}: what R & C* can reach tells most of it, and is the same for all counts.
std::optional<bool> Arena::live_by_length(Id e) {
  if (node(e).kind != Kind::And || has(e, kHasLook)) return std::nullopt;
  std::vector<Id> members(operands(e).begin(), operands(e).end());
  u32 min = 0, max = kInf;
  for (Id& m : members) {
    const Node& n = node(m);
    if (n.kind != Kind::Repeat || node(n.a).kind != Kind::Class || (n.min == 0 && n.max == kInf)) continue;
    min = n.min;
    max = n.max;
    m = repeat(n.a, 0, kInf);
    break;
  }
  if (min == 0 && max == kInf) return std::nullopt;
  const Id free = intersect(std::move(members));
  if (free == kEmpty) return false;
  const Reach r = has(free, kSearch) ? reach(free) : Reach{node(free).shortest, false};
  if (r.shortest == kInf) return std::nullopt;
  if (r.shortest > max) return false;
  if (r.shortest >= min || r.longer) return true;
  return std::nullopt;
}

// Searches the derivatives of e, those that promise a short match first, for a nullable one.
bool Arena::live_search(Id start) {
  auto settle = [this](Id e, bool is_live) {
    node(e).flags.fetch_or(static_cast<u16>(kLiveKnown | (is_live ? 0 : kDead)), std::memory_order_relaxed);
  };
  if (nullable(start)) {
    settle(start, true);
    return true;
  }
  if (auto quick = live_by_length(start)) {
    settle(start, *quick);
    return *quick;
  }
  ensure_classes();
  struct Item {
    u32 shortest;
    u32 order;
    Id id;
    bool operator<(const Item& o) const { return shortest != o.shortest ? shortest > o.shortest : order > o.order; }
  };
  std::priority_queue<Item> queue;
  std::unordered_map<Id, Id> parent;
  u32 order = 0;
  queue.push({node(start).shortest, order++, start});
  parent.emplace(start, start);
  Id found = kEmpty;
  while (!queue.empty() && found == kEmpty) {
    Id state = queue.top().id;
    queue.pop();
    if (parent.size() > limits_.fuel)
      throw Error("fuel", "deciding whether an intersection or complement can still match took more than " +
                              std::to_string(limits_.fuel) + " states; simplify it or raise fuel");
    const ByteSet possible = first(state);
    for (u32 c = 0; c < class_count_; ++c) {
      if (!possible.has(representatives_[c])) continue;
      Id next = derive(state, representatives_[c]);
      if (next == kEmpty || parent.contains(next)) continue;
      bool known = !has(next, kSearch) || has(next, kLiveKnown);
      if (known && has(next, kDead)) continue;
      parent.emplace(next, state);
      if (known || nullable(next)) {
        found = next;
        break;
      }
      queue.push({node(next).shortest, order++, next});
    }
  }
  if (found == kEmpty) {
    for (auto& [id, from] : parent) settle(id, false);
    return false;
  }
  for (Id id = found;; id = parent[id]) {
    settle(id, true);
    if (id == start) return true;
  }
}

// -- memoised transitions
// ------------------------------------------------------------------------------------------------
u32* Arena::ensure_row(Id e) {
  Node& n = node(e);
  if (u32* row = n.row.load(std::memory_order_relaxed)) return row;
  if (row_used_ + class_count_ > row_cap_) {
    row_cap_ = std::max<std::size_t>(row_blocks_.empty() ? 1024 : 16384, class_count_);
    row_blocks_.push_back(std::make_unique<u32[]>(row_cap_));
    row_bytes_ += row_cap_ * sizeof(u32);
    row_used_ = 0;
  }
  u32* row = row_blocks_.back().get() + row_used_;
  row_used_ += class_count_;
  const ByteSet possible = first(e);
  for (u32 c = 0; c < class_count_; ++c) row[c] = possible.has(representatives_[c]) ? kUnknown : kEmpty;
  u64 slot = n.step.load(std::memory_order_relaxed);
  if (slot) row[(slot >> 32) - 1] = static_cast<Id>(slot);
  n.row.store(row, std::memory_order_release);
  return row;
}

Id Arena::step_slow(Id e, u32 byte_class) {
  if (e == kEmpty) return kEmpty;
  if (Id known = known_step(e, byte_class); known != kUnknown) return known;
  Id next = derive(e, representatives_[byte_class]);
  if (next != kEmpty && has(next, kCapHit)) {
    cap_hit_ = true;
    return kEmpty;  // not remembered: whoever comes here again must hit the cap again
  }
  if (next != kEmpty && !live(next)) next = kEmpty;
  Node& n = node(e);
  if (u32* row = n.row.load(std::memory_order_relaxed))
    std::atomic_ref<u32>(row[byte_class]).store(next, std::memory_order_release);
  else
    n.step.store((u64{byte_class} + 1) << 32 | next, std::memory_order_release);
  return next;
}

// -- canonical forms
// --------------------------------------------------------------------------------------------------------
u32 Arena::slack(Id e) {
  const Node& n = node(e);
  if (n.longest != kInf) return n.longest;
  if (auto it = slack_memo_.find(e); it != slack_memo_.end()) return it->second;
  u32 s = kInf;
  switch (n.kind) {
    case Kind::Concat: {
      s = 0;
      Id cur = e;
      for (; node(cur).kind == Kind::Concat && s != kInf; cur = node(cur).b)
        s = std::max(s, add_sat(slack(node(cur).a), node(node(cur).b).shortest));
      if (s != kInf) s = std::max(s, slack(cur));
      break;
    }
    case Kind::Union: {
      s = 0;
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id m : members) s = std::max(s, slack(m));
      break;
    }
    case Kind::Repeat: s = add_sat(slack(n.a), mul_sat(n.min, node(n.a).shortest)); break;
    default: break;
  }
  slack_memo_.emplace(e, s);
  return s;
}

Id Arena::canonical(Id e, u32 horizon) {
  Node& n = node(e);
  if (!has(e, kBigRepeat)) return e;
  if (n.canonical != kUnknown) return n.canonical;
  Id out = e;
  switch (n.kind) {
    case Kind::Repeat: {
      // every iteration but empty ones reads a byte: bounds past the horizon cannot be felt
      u32 min = n.min > horizon ? horizon + 1 : n.min;
      u32 max = n.max > horizon ? kInf : n.max;
      if (!has(e, kSearch)) out = repeat(canonical(n.a, horizon), min, max);
      break;
    }
    case Kind::Concat: {
      std::vector<Id> heads;
      Id cur = e;
      for (; node(cur).kind == Kind::Concat && has(cur, kBigRepeat); cur = node(cur).b) heads.push_back(node(cur).a);
      out = has(cur, kBigRepeat) ? canonical(cur, horizon) : cur;
      for (std::size_t i = heads.size(); i-- > 0;) out = concat(canonical(heads[i], horizon), out);
      break;
    }
    case Kind::Union: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id& m : members) m = canonical(m, horizon);
      out = unite(std::move(members));
      break;
    }
    case Kind::And: {
      // e & any{0,n}: the bound cannot be felt while every state of e within the horizon can finish in time
      if (n.b != 2) break;
      for (int i = 0; i < 2; ++i) {
        const Id bound_id = operands(e)[i], other = operands(e)[1 - i];
        const Node& bound = node(bound_id);
        if (bound.kind != Kind::Repeat || bound.min != 0 || node(bound.a).kind != Kind::Class ||
            charsets_[node(bound.a).a] != CharSet::any() || has(other, kSearch | kHasLook))
          continue;
        if (add_sat(slack(other), horizon) <= bound.max) {
          out = canonical(other, horizon);
          break;
        }
      }
      break;
    }
    default: break;  // under And, Not and Scope a bound can be felt from afar
  }
  n.canonical = out;
  return out;
}

Id Arena::cap_groups(Id e, u32 most) {
  if (!has(e, kBigGroup) || has(e, kSearch | kHasRef)) return e;
  const u64 key = u64{e} << 32 | most;
  if (auto it = cap_memo_.find(key); it != cap_memo_.end()) return it->second;
  const Node& n = node(e);
  Id out = e;
  switch (n.kind) {
    case Kind::Repeat: {
      Id body = cap_groups(n.a, most);
      bool group = node(n.a).kind != Kind::Class;
      if (group && ((n.max != kInf && n.max > most) || n.min > most))
        out = capped_repeat(body, std::min(n.min, most), most);
      else
        out = repeat(body, n.min, n.max);
      break;
    }
    case Kind::Concat: {
      std::vector<Id> heads;
      Id cur = e;
      for (; node(cur).kind == Kind::Concat && has(cur, kBigGroup); cur = node(cur).b) heads.push_back(node(cur).a);
      out = has(cur, kBigGroup) ? cap_groups(cur, most) : cur;
      for (std::size_t i = heads.size(); i-- > 0;) out = concat(cap_groups(heads[i], most), out);
      break;
    }
    case Kind::Union: {
      std::vector<Id> members(operands(e).begin(), operands(e).end());
      for (Id& m : members) m = cap_groups(m, most);
      out = unite(std::move(members));
      break;
    }
    default: break;
  }
  cap_memo_.emplace(key, out);
  return out;
}

// -- freezing
// ----------------------------------------------------------------------------------------------------------------
// Bytes that every set in the arena treats alike share a class. Derivatives introduce no finer sets.
void Arena::ensure_classes() {
  if (frozen_) return;
  std::size_t version = charsets_.size() + byte_sets_.size() + count_;
  if (classes_built_for_ == version) return;
  classes_built_for_ = version;
  std::array<u32, 256> cls{};
  u32 n = 1;
  auto refine = [&](auto value) {
    static thread_local std::vector<u16> seen(1 << 16, 0);  // (class, value) -> new class + 1; cleared after use
    std::array<u32, 256> next{};
    n = 0;
    for (unsigned b = 0; b < 256; ++b) {
      u16& slot = seen[cls[b] << 8 | value(b)];
      if (!slot) slot = static_cast<u16>(++n);
      next[b] = slot - 1u;
    }
    for (unsigned b = 0; b < 256; ++b) seen[cls[b] << 8 | value(b)] = 0;
    cls = next;
  };
  ByteSet starts;  // bytes at which some literal range begins: a boundary between classes
  for (Id id = 2; id < count_; ++id) {
    const Node& node_ = node(id);
    if (node_.kind != Kind::Switch) continue;
    for (u32 i = 0; i < node_.b; i += 2) {
      starts.add(static_cast<u8>(pool_[node_.a + i] & 0xFF));
      if ((pool_[node_.a + i] >> 8) < 255) starts.add(static_cast<u8>((pool_[node_.a + i] >> 8) + 1));
    }
  }
  std::array<u32, 256> run{};
  for (unsigned b = 1; b < 256; ++b) run[b] = run[b - 1] + starts.has(static_cast<u8>(b));
  refine([&](unsigned b) { return run[b]; });
  for (const auto& set : charsets_) {
    if (n == 256) break;
    const auto& of = set->byte_classes();
    refine([&](unsigned b) { return of[b]; });
  }
  for (const auto& set : byte_sets_) refine([&](unsigned b) { return static_cast<u32>(set.has(static_cast<u8>(b))); });
  for (unsigned b = 256; b-- > 0;) {
    classes_[b] = static_cast<u8>(cls[b]);
    representatives_[cls[b]] = static_cast<u8>(b);
  }
  class_count_ = n;
}

void Arena::left_edges(Id e, std::vector<u32>& rules) const {
  for (;;) {
    if (!has(e, kHasRef)) return;
    const Node& n = node(e);
    switch (n.kind) {
      case Kind::Ref: rules.push_back(n.a); return;
      case Kind::Concat:
        left_edges(n.a, rules);
        if (!nullable(n.a)) return;
        e = n.b;
        continue;
      case Kind::Union: {
        for (Id m : operands(e)) left_edges(m, rules);
        return;
      }
      case Kind::Repeat:
      case Kind::Greedy: e = n.a; continue;
      default: return;
    }
  }
}

void Arena::check_rules(Id root) {
  if (rules_.empty()) return;
  for (const Rule& r : rules_)
    if (r.body == kUnknown) throw Error("undefined-rule", "rule '" + r.name + "' is used but never defined");
  // Nullable and productive, as least fixpoints over all nodes made so far (ids rise from operands to operators,
  // except through rules).
  std::vector<char> productive(count_, 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (Id id = 0; id < count_; ++id) {
      Node& n = node(id);
      bool null = has(id, kNullable), prod = productive[id];
      if (null && prod) continue;
      bool was_null = null, was_prod = prod;
      switch (n.kind) {
        case Kind::Empty: break;
        case Kind::Ref:
          null = null || has(rules_[n.a].body, kNullable);
          prod = productive[rules_[n.a].body];
          break;
        case Kind::Concat:
          null = null || (has(n.a, kNullable) && has(n.b, kNullable));
          prod = productive[n.a] && productive[n.b];
          break;
        case Kind::Union:
          for (Id m : operands(id)) {
            null = null || has(m, kNullable);
            prod = prod || productive[m];
          }
          break;
        case Kind::Repeat:
          null = null || n.min == 0 || has(n.a, kNullable);
          prod = n.min == 0 || productive[n.a];
          break;
        case Kind::Greedy:
          null = null || has(n.a, kNullable);
          prod = productive[n.a];
          break;
        default: prod = true; break;
      }
      if (null != was_null) n.flags.fetch_or(kNullable);
      if (prod != was_prod) productive[id] = 1;
      changed = changed || null != was_null || prod != was_prod;
    }
  }
  for (Rule& r : rules_)
    if (!productive[r.body])
      throw Error(
          "unproductive-rule",
          "rule '" + r.name + "' can never finish: each of its alternatives needs itself; add one that does not");
  std::vector<char> colour(rules_.size(), 0);  // 1: on the path, 2: done
  std::vector<std::pair<u32, std::vector<u32>>> path;
  for (u32 start = 0; start < rules_.size(); ++start) {
    if (colour[start]) continue;
    auto enter = [&](u32 r) {
      colour[r] = 1;
      std::vector<u32> next;
      left_edges(rules_[r].body, next);
      path.push_back({r, std::move(next)});
    };
    enter(start);
    while (!path.empty()) {
      auto& [r, next] = path.back();
      if (next.empty()) {
        colour[r] = 2;
        path.pop_back();
        continue;
      }
      u32 to = next.back();
      next.pop_back();
      if (colour[to] == 1)
        throw Error("left-recursion", "rule '" + rules_[to].name +
                                          "' begins with itself (left recursion); put the recursion at the right");
      if (colour[to] == 0) enter(to);
    }
  }
  (void)root;
}

void Arena::freeze(Id root) {
  if (root >= count_) throw Error("bad-handle", "no such expression in this builder");
  if (has(root, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope");
  check_rules(root);
  ensure_classes();
  // first sets were computed with what was known of the rules so far
  if (!rules_.empty())
    for (Id id = 0; id < count_; ++id) node(id).first = kUnknown;
  frozen_ = true;
}

}  // namespace guiderail
