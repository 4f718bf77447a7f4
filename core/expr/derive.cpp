// Derivatives (Brzozowski 1964), first bytes, memoised transitions.
//
// Look-arounds. A look-ahead in front of the rest t of the text, (?=X) t, is the intersection X any* & t. Since t must
// be *all* that follows, a Scope pushes the continuation into heads with look-arounds before it derives
// (derive_in_scope). A look-behind keeps the derivative of `any* X` by everything read so far, whether or not it has
// been reached (shift); it holds if that derivative is nullable. Both keep the number of derivatives finite. Compare
// Varatalu, Veanes, Ernits 2025 (RE#), who restrict where look-arounds may stand.
//
// Counted tokens. The first byte that a Counted reads of a token takes one off its count. Further bytes of that token
// are free; token_end says that the next byte belongs to another token. So a token counts if any of its bytes is read
// here, wherever it begins and ends. Once the count is spent, the text may only continue to the next place where it may
// end, so that a character in progress can be finished. Hence a text that can be finished at all can be finished within
// any count, and a count affects the next token only when it is spent (near_form).
#include <algorithm>

#include "base/short_set.hpp"
#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/alternatives.hpp"
#include "expr/caps.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

// Boolean combinations share their parts, and so do stacks of rules that may be empty: without a memo, the walk would
// take time exponential in their depth. Where only the head of a concatenation is read, only its depth counts.
Id Arena::derive(Id e, u8 byte) {
  const Node& n = node(e);
  if (n.first != kNone && !firsts_[n.first].has(byte)) return kEmpty;
  bool shared = false;
  switch (n.kind) {
    case Kind::Concat: shared = node(n.head()).depth >= kSharedDepth || nullable(n.head()); break;
    case Kind::Union: shared = n.depth >= kSharedDepth || n.b >= kManyOperands || has(e, kSearch); break;
    case Kind::And:
    case Kind::Scope: shared = has(e, kSearch); break;
    case Kind::Ref: shared = true; break;
    default: break;
  }
  return shared ? derive_shared(e, byte) : derive_fresh(e, byte);
}

// Of a whole state, whose transitions are stored with it.
Id Arena::derive_state(Id e, u8 byte) {
  const u32 known = node(e).first;
  return known != kNone && !firsts_[known].has(byte) ? kEmpty : derive_fresh(e, byte);
}

Id Arena::derive_shared(Id e, u8 byte) {
  const u64 key = u64{index_of(e)} << 9 | byte;
  if (const Id* known = derive_memo_.find(key)) {
    Work::spend();
    return *known;
  }
  make_room();
  const CapWatch watch(*this);
  const Id out = derive_fresh(e, byte);
  if (!watch.hit()) derive_memo_.set(key, out, memo_limit());
  return out;
}

Id Arena::derive_fresh(Id e, u8 byte) {
  Work::spend();
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Class: return class_tail(n.a, charsets_[n.a]->automaton()[CharSet::kStart][byte]);
    case Kind::ClassTail: return class_tail(n.a, charsets_[n.a]->automaton()[n.b][byte]);
    case Kind::Bytes: return byte_sets_[n.a].has(byte) ? kEpsilon : kEmpty;
    case Kind::Switch: {
      u32 lo = 0, hi = edge_count(n);  // the first edge whose high end reaches the byte
      while (lo < hi) {
        u32 mid = (lo + hi) / 2;
        if (edge(n, mid).high < byte)
          lo = mid + 1;
        else
          hi = mid;
      }
      return lo < edge_count(n) && edge(n, lo).low <= byte ? edge(n, lo).to : kEmpty;
    }
    case Kind::Concat:
    case Kind::Union:
    case Kind::Repeat:
    case Kind::And: return derive_composed(e, byte);
    case Kind::Not: return negate(derive(n.body(), byte));
    case Kind::Ref: return derive(rules_[n.a].body, byte);
    case Kind::Scope: return scope(derive_in_scope(n.body(), byte, 0));
    case Kind::Counted: {
      const bool free = n.b || n.min == 0;
      return counted_at(derive(n.body(), byte), free ? n.min : n.min - 1, n.b || n.min > 0);
    }
    case Kind::Empty:
    case Kind::Epsilon:
    case Kind::Ahead:
    case Kind::Behind: return kEmpty;
    case Kind::Token: return has(e, kUnknownText) ? e : kEmpty;  // what follows stays unknown
    default: {
      const Alternatives::Pause pause;  // families keep what they find
      return family_of(n.kind)->derivative(e, byte);
    }
  }
}

Id Arena::derive_composed(Id e, u8 byte) {
  if (Alternatives::has_readings(*this, e)) return Alternatives::derive_readings(*this, e, byte);
  if (has(e, kHasRef) && Alternatives::Attempt::failed_in(*this)) {
    note_cap(true);  // the attempt is given up: nothing that it finds is kept
    return kEmpty;
  }
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Concat: {
      if (!nullable(n.head())) {
        const Id tail = n.tail(), d = derive(n.head(), byte);
        return d == kEmpty ? kEmpty : Alternatives::append(*this, d, tail);
      }
      Ids parts;
      Id only = kEmpty;  // usually there is one part, which needs no list
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
        const Id head = node(cur).head(), tail = node(cur).tail();
        Id d = derive(head, byte);
        if (d != kEmpty) add(concat(d, tail));
        cur = nullable(head) ? tail : kEmpty;
      }
      if (cur != kEmpty) add(derive(cur, byte));
      return parts.empty() ? only : unite(parts);
    }
    case Kind::Union: {
      Ids members(operands(e)), parts;
      for (Id m : members)
        if (Id d = derive(m, byte); d != kEmpty) parts.push_back(d);
      return parts.size() == 1 ? parts[0] : unite(parts);
    }
    case Kind::Repeat: {
      if (n.max == 0) return kEmpty;  // a cap
      Id d = derive(n.body(), byte);
      return d == kEmpty ? kEmpty : Alternatives::append(*this, d, repeat_less(e));
    }
    case Kind::And: {
      bool grouped = false;
      Ids members = conditions(e, grouped);
      for (Id& m : members)
        if ((m = derive(m, byte)) == kEmpty) return kEmpty;
      return grouped ? memoised(Kind::And, members) : intersect(members, has(e, kHasRef | kHasToken));
    }
    default: return kEmpty;
  }
}

// Of many conditions, those without counts, as an And of their own; kEmpty: they are too few, or all. Expressions that
// differ only in their counts share it.
Id Arena::plain_parts(Id e) {
  const u64 key = index_of(e);
  if (const Id* known = plain_parts_.find(key)) return *known;
  Ids plain;
  for (Id m : operands(e))
    if (node(m).longest == kInf && !has(m, kBigRepeat | kCapHit | kHasLook | kHasRef | kHasToken | kHasItem))
      plain.push_back(m);
  const Id out = plain.size() >= kManyOperands && plain.size() < node(e).b ? make_list(Kind::And, plain) : kEmpty;
  plain_parts_.set(key, out);
  return out;
}

Ids Arena::conditions(Id e, bool& grouped) {
  Ids members(operands(e));
  grouped = false;
  if (members.size() <= kManyOperands || has(e, kHasRef | kHasToken | kHasLook)) return members;
  const Id plain = plain_parts(e);
  if (plain == kEmpty) return members;
  const auto in_plain = operands(plain);  // sorted, like the members
  members.erase_if([&](Id m) { return std::binary_search(in_plain.begin(), in_plain.end(), m); });
  members.push_back(plain);
  grouped = true;
  return members;
}

Id Arena::shift(Id e, u8 byte) {
  if (!has(e, kHasBehind)) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Behind: return behind(derive(n.body(), byte), n.b);
    case Kind::Ahead: return ahead(shift(n.body(), byte), n.b);
    case Kind::Concat: return mapped_parts(*this, e, kHasBehind, [&](Id part) { return shift(part, byte); });
    case Kind::Union: return unite(mapped(*this, e, [&](Id m) { return shift(m, byte); }));
    case Kind::And: return intersect(mapped(*this, e, [&](Id m) { return shift(m, byte); }));
    case Kind::Not: return negate(shift(n.body(), byte));
    case Kind::Repeat: return repeat(shift(n.body(), byte), n.min, n.max);
    default: return e;
  }
}

// The derivative of e, which contains everything up to the end of its scope.
Id Arena::derive_in_scope(Id e, u8 byte, u32 depth) {
  if (!has(e, kHasLook)) return derive(e, byte);
  const u64 key = u64{index_of(e)} << 9 | 256 | byte;
  if (const Id* known = derive_memo_.find(key)) return *known;
  const CapWatch watch(*this);
  const Id out = derive_in_scope_fresh(e, byte, depth);
  if (!watch.hit()) derive_memo_.set(key, out, memo_limit());
  return out;
}

Id Arena::derive_in_scope_fresh(Id e, u8 byte, u32 depth) {
  if (depth > 4 * limits_.max_depth)
    throw Error("depth",
                "a look-around is inside a loop that may match nothing; rewrite the loop so that it reads a character");
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Union: return unite(mapped(*this, e, [&](Id m) { return derive_in_scope(m, byte, depth + 1); }));
    case Kind::And: return intersect(mapped(*this, e, [&](Id m) { return derive_in_scope(m, byte, depth + 1); }));
    case Kind::Not: return negate(derive_in_scope(n.body(), byte, depth + 1));
    case Kind::Repeat: return derive_in_scope(raw_concat(e, kEpsilon), byte, depth + 1);
    case Kind::Concat: break;
    default: return kEmpty;  // a look-around at the very end reads nothing
  }
  const Id head = n.head(), tail = n.tail();
  const Node& h = node(head);
  if (!has(head, kHasLook)) {
    Id d = derive(head, byte);
    Id read = d == kEmpty ? kEmpty : concat(d, shift(tail, byte));
    return nullable(head) ? unite(read, derive_in_scope(tail, byte, depth + 1)) : read;
  }
  switch (h.kind) {
    case Kind::Behind: return nullable(h.body()) != bool(h.b) ? derive_in_scope(tail, byte, depth + 1) : kEmpty;
    case Kind::Ahead: {
      Id rest = derive_in_scope(tail, byte, depth + 1);
      if (rest == kEmpty) return kEmpty;
      Id seen = derive_in_scope(concat(h.body(), any_text_), byte, depth + 1);
      return intersect(h.b ? negate(seen) : seen, rest);
    }
    case Kind::Union:
      return unite(mapped(*this, head, [&](Id m) { return derive_in_scope(concat(m, tail), byte, depth + 1); }));
    case Kind::Repeat: {
      Id more = concat(repeat_less(head), tail);
      Id read = derive_in_scope(concat(h.body(), more), byte, depth + 1);
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
      return std::binary_search(list.begin(), list.end(), Id{symbol}) ? kEpsilon : kEmpty;
    }
    case Kind::Concat: {
      Ids parts;
      Id cur = e;
      while (node(cur).kind == Kind::Concat) {
        const Id head = node(cur).head(), tail = node(cur).tail();
        if (Id d = derive_symbol(head, symbol); d != kEmpty) parts.push_back(concat(d, tail));
        cur = nullable(head) ? tail : kEmpty;
      }
      if (cur != kEmpty) parts.push_back(derive_symbol(cur, symbol));
      return unite(parts);
    }
    case Kind::Union: return unite(mapped(*this, e, [&](Id m) { return derive_symbol(m, symbol); }));
    case Kind::Repeat: {
      Id d = derive_symbol(n.body(), symbol);
      return d == kEmpty ? kEmpty : concat(d, repeat_less(e));
    }
    case Kind::And: {  // only nonempty() makes an And that contains tokens
      if (n.b != 2) return kEmpty;
      const Id not_empty = negate(kEpsilon);
      const Id a = operands(e)[0], b = operands(e)[1];
      return a == not_empty ? derive_symbol(b, symbol) : b == not_empty ? derive_symbol(a, symbol) : kEmpty;
    }
    case Kind::Ref: return derive_symbol(rules_[n.a].body, symbol);
    default:
      if (Family* family = family_of(n.kind)) return family->derivative_by_symbol(e, symbol);
      return kEmpty;
  }
}

Id Arena::token_end(Id e) {
  if (!has(e, kCounting)) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Counted: return counted_at(n.body(), n.min, false);
    case Kind::Concat: return mapped_parts(*this, e, kCounting, [&](Id part) { return token_end(part); });
    case Kind::Union: return unite(mapped(*this, e, [&](Id m) { return token_end(m); }));
    case Kind::Repeat:  // a token in progress stands at the front, so only e? can hold one
      if (n.max == 1 && !n.b) return repeat(token_end(n.body()), n.min, n.max);
      [[fallthrough]];
    default:
      throw Error("not-regular", "tokens cannot be counted within an intersection, a complement or a lexed text");
  }
}

Id Arena::counts_spent(Id e) {
  if (!has(e, kHasToken)) return e;
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Counted: return counted_at(n.body(), 0, false);
    case Kind::Concat: {  // the tail has not counted anything yet
      const Id tail = n.tail();
      return concat(counts_spent(n.head()), tail);
    }
    case Kind::Union: return unite(mapped(*this, e, [&](Id m) { return counts_spent(m); }));
    case Kind::Repeat: return n.max == 1 && !n.b ? repeat(counts_spent(n.body()), n.min, n.max) : e;
    default: return e;
  }
}

void Arena::first_symbols(Id e, std::vector<u32>& out) {
  if (symbols_.empty()) return;
  std::vector<Id> open{e};
  ShortSet<Id> seen;  // shared parts are visited once
  while (!open.empty()) {
    e = open.back();
    open.pop_back();
    if (!has(e, kHasToken | kHasRef) || !seen.insert(e)) continue;
    const Node& n = node(e);
    switch (n.kind) {
      case Kind::Token: {
        for (Id s : operands(e)) out.push_back(index_of(s));
        break;
      }
      case Kind::Concat:
        open.push_back(n.head());
        if (nullable(n.head())) open.push_back(n.tail());
        break;
      case Kind::Union:
      case Kind::And: {
        const bool all = n.kind == Kind::Union;
        for (Id m : operands(e))
          if (all || node(m).kind != Kind::Not) open.push_back(m);
        break;
      }
      case Kind::Repeat: open.push_back(n.body()); break;
      case Kind::Ref: open.push_back(rules_[n.a].body); break;
      default:
        if (Family* family = family_of(n.kind)) family->symbols_at(e, out, open);
        break;
    }
  }
  sort_unique(out);
}

u32 Arena::find_first(Id e) {
  Work::spend();
  Node& n = node(e);
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
      for (u32 i = 0; i < edge_count(n); ++i) set.add_range(edge(n, i).low, edge(n, i).high);
      break;
    case Kind::Concat: {
      Id cur = e;
      for (; node(cur).kind == Kind::Concat; cur = node(cur).tail()) {
        Id head = node(cur).head();
        set |= first(head);
        bool skippable = has(head, kHasLook) ? node(head).shortest == 0 : nullable(head);
        if (!skippable) break;
      }
      if (node(cur).kind != Kind::Concat) set |= first(cur);
      break;
    }
    case Kind::Union: {
      Ids members(operands(e));
      for (Id m : members) set |= first(m);
      break;
    }
    case Kind::And: {
      set = ByteSet::all();
      Ids members(operands(e));
      for (Id m : members) set &= first(m);
      break;
    }
    case Kind::Not: set = ByteSet::all(); break;
    case Kind::Token:
      if (has(e, kUnknownText)) set = ByteSet::all();
      break;
    case Kind::Repeat:
    case Kind::Counted:
    case Kind::Scope: set = first(n.body()); break;
    case Kind::Ref: set = first(rules_[n.a].body); break;
    default:
      if (Family* family = family_of(n.kind)) set = family->first_bytes(e);
      break;
  }
  return n.first = first_id(set);
}

u32 Arena::first_id(const ByteSet& set) { return id_of(set, firsts_, first_ids_); }

// -- memoised transitions --
Id* Arena::ensure_row(Id e) {
  Node& n = node(e);
  if (Id* row = n.row.load(std::memory_order_relaxed)) return row;
  if (has(e, kExactStep)) return nullptr;
  if (row_used_ + class_count_ > row_cap_) {
    const std::size_t count = row_blocks_.empty() ? kFirstRows : kMoreRows;  // a row has 256 entries at most
    row_blocks_.reserve(row_blocks_.size() + 1);
    row_blocks_.push_back(static_cast<Id*>(take_pages(count * sizeof(Id))));
    row_cap_ = count;
    row_bytes_ += row_cap_ * sizeof(Id);
    row_used_ = 0;
  }
  Id* row = row_blocks_.back() + row_used_;
  std::fill(row, row + class_count_, kEmpty);
  row_used_ += class_count_;
  const ByteSet possible = first(e);
  for (unsigned i = 0; i < 4; ++i)
    for (u64 bits = possible.words[i]; bits; bits &= bits - 1)
      row[classes_[i * 64 + static_cast<unsigned>(std::countr_zero(bits))]] = kUnknown;
  u64 slot = n.step.load(std::memory_order_relaxed);
  if (slot) row[(slot >> 32) - 1] = Id{static_cast<u32>(slot)};
  n.row.store(row, std::memory_order_release);
  return row;
}

// The successor as it is stored: kEmpty if it is dead.
Id Arena::settle_step(Id next) {
  if (next == kEmpty) return kEmpty;
  note_cap(has(next, kCapHit));
  return !cap_hit_ && live(next) ? next : kEmpty;
}

Id Arena::step_slow(Id e, u8 byte) {
  if (e == kEmpty) return kEmpty;
  if (!finalized_) return settle_step(derive_state(e, byte));  // byte classes may still change: nothing is stored
  if (has(e, kExactStep)) {
    if (const u32 known = node(e).first; known != kNone && !firsts_[known].has(byte)) return kEmpty;
    const u64 key = u64{index_of(e)} << 8 | byte;
    if (const Id* known = exact_memo_.find(key)) return *known;
    make_room();
    const CapWatch watch(*this);
    const Id next = settle_step(derive_state(e, byte));
    if (watch.hit()) return kEmpty;
    if (exact_memo_.size() >= kMemoLimit) exact_memo_.clear();
    exact_memo_.set(key, next);
    return next;
  }
  const u32 byte_class = classes_[byte];
  if (Id known = known_step(e, byte_class); known != kUnknown) return known;
  make_room();
  const CapWatch watch(*this);
  const Id next = settle_step(derive_state(e, byte));
  if (watch.hit()) return kEmpty;
  Node& n = node(e);
  Id* row = n.row.load(std::memory_order_relaxed);
  if (!row && n.step.load(std::memory_order_relaxed)) row = ensure_row(e);  // a second successor
  if (row)
    store_atomic(row[byte_class], next, std::memory_order_release);
  else
    n.step.store((u64{byte_class} + 1) << 32 | index_of(next), std::memory_order_release);
  return next;
}

// One step of the text of a string or key: many states contain such texts.
Id Arena::step_text(Id text, u8 byte) {
  if (!finalized_ || has(text, kExactStep)) {
    const Id next = derive(text, byte);
    return live(next) ? next : kEmpty;
  }
  ensure_row(text);
  return step_slow(text, byte);
}

}  // namespace guiderail
