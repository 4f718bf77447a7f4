// Leaves out of a state what a single token does not reach, before its mask is looked up: so positions share masks.
//
// After what is being read, a token sees only the comma or the brace of an object and the quote of the next key, hardly
// ever more. So Members becomes (comma " elision)?, where an elision stands for whatever may follow. Reading past it
// yields unknown(). The few tokens that do so stay open until they are read from the state itself. The stack below the
// deepest bracket that a token may close becomes an elision, too. A key that may be any text becomes a string, whatever
// its names, if no token can turn it into one of them. So all keys of an open object share one mask, and so do the keys
// of most objects.
#include <algorithm>

#include "base/thresholds.hpp"
#include "json/patterned.hpp"
#include "mask/abstraction.hpp"

namespace guiderail {
namespace {

enum : u32 { kAnything, kWord, kQuote, kSome };  // what may follow; kSome: one of a set of bytes

bool is_word(unsigned byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte == '_';
}

u32 elided_begins(const Node& n) { return n.a; }
u32 elided_set(const Node& n) { return n.b; }  // of kSome: the index of the set, plus one

}  // namespace

Id Abstraction::elided(u32 begins) {
  Draft d = draft(Kind::Elided);
  d.a = begins;
  d.longest = kInf;
  return intern(d);
}

Id Abstraction::elided_before(const ByteSet& begins) {
  Draft d = draft(Kind::Elided);
  d.a = kSome;
  d.b = first_id(begins) + 1;
  d.longest = kInf;
  return intern(d);
}

ByteSet Abstraction::first_elided(u32 begins, u32 some) {
  if (begins == kAnything) return ByteSet::all();
  if (begins == kSome) return first_set(some - 1);
  ByteSet set;
  if (begins == kQuote) set.add('"');
  for (unsigned b = 0; b < 128 && begins == kWord; ++b)
    if (is_word(b)) set.add(static_cast<u8>(b));
  return set;
}

ByteSet Abstraction::first_bytes(Id e) { return first_elided(elided_begins(node(e)), elided_set(node(e))); }

Id Abstraction::derivative(Id e, u8 byte) { return first(e).has(byte) ? unknown() : kEmpty; }

void Abstraction::describe(Id e, Description& to) const {
  to.word(elided_begins(node(e)));
  if (const u32 set = elided_set(node(e)))
    for (u64 w : first_set(set - 1).words) to.word(w);
}

void Abstraction::count(Tally& to) const {
  to.add("abstractions", bytes_of(slack_memo_) + bytes_of(characters_memo_) + bytes_of(cap_memo_) +
                             bytes_of(reads_memo_) + bytes_of(lengths_memo_) + bytes_of(any_length_memo_) +
                             elided_memo_.memory() + key_memo_.memory() + after_memo_.memory());
}

// What may follow the opening quote of a key.
Id Abstraction::elide_key(const MemberState& state, bool others) {
  const MemberTable& table = json_.table(state.table);
  // Most keys begin with a letter, and hardly any token continues like that.
  bool words = table.escapes == Escapes::Canonical;
  for (const std::string& name : table.names) words = words && !name.empty() && is_word(static_cast<u8>(name[0]));
  if (others && words) {
    const ByteSet word = first_elided(kWord, 0);
    for (const OtherKeys& o : table.others) {
      ByteSet begin = first(o.key);
      const int all = begin.count();
      begin &= word;
      words = words && begin.count() == all && !nullable(o.key);
    }
  }
  if (!others || words) return elided(words ? kWord : kAnything);
  if (std::none_of(table.others.begin(), table.others.end(),
                   [&](const OtherKeys& o) { return json_.any_key_text(o.key); }))
    return elided(kAnything);
  const bool may_be_empty =
      state.seen == 0 && std::none_of(table.names.begin(), table.names.end(), [](const auto& n) { return n.empty(); });
  const Id longer = escaped_.escaped_at(may_be_empty ? repeat(node(any_text()).body(), 1, kInf) : any_text(), kBetween,
                                        table.escapes);
  const Id text = concat(longer, elided(kQuote));
  return may_be_empty ? unite(text, json_.quoted(concat(table.colon, elided(kAnything)))) : text;
}

// The rest of an object, as far as a token sees it; e itself if that is not simple.
Id Abstraction::elide_members(Id e) {
  if (node(e).kind != Kind::Members) return e;
  const u32 id = members_state(node(e));
  if (json_.facts_of(id).elided != kEmpty) return json_.facts_of(id).elided;
  const MemberState& state = json_.state(id);
  const MemberTable& table = json_.table(state.table);
  const bool others = json_.others_allowed_at(id);
  Id out = e;
  if (!others || (!state.some && json_.key_start(id) != kEmpty) || json_.others_endless_at(id)) {
    out = json_.quoted(elide_key(state, others));
    if (state.count > 0) out = concat(table.comma, out);
    if (nullable(e)) out = repeat(out, 0, 1);
  }
  json_.facts_of(id).elided = out;
  return out;
}

// The same for a part that may contain objects not yet entered.
Id Abstraction::elide_part(Id e) {
  const Node& n = node(e);
  if (n.kind == Kind::Members) return elide_members(e);
  if ((n.kind != Kind::Repeat && n.kind != Kind::Union) || n.b == 1 || n.depth < kLeastObjectDepth ||
      has(e, kHasItem | kHasLook | kExactKey))
    return e;
  const u64 key = u64{index_of(e)} << 3;
  if (const Id* known = elided_memo_.find(key)) return *known;
  Id out = e;
  if (n.kind == Kind::Repeat) {
    const Id body = elide_stack(n.body(), kWholeStack);
    if (body != n.body()) out = repeat(body, n.min, n.max);
  } else {
    Ids members(operands(e));
    bool changed = false;
    for (Id& m : members) {
      const Id one = elide_stack(m, kWholeStack);
      changed = changed || one != m;
      m = one;
    }
    if (changed) out = unite(members);
  }
  elided_memo_.set(key, out);
  return out;
}

Id Abstraction::elide_stack(Id e, u32 left) {
  ShortVector<u64, 12> stack;  // a part, and how many are left: no recursion, since arrays may be nested deeply
  Id out = kEpsilon;
  for (; e != kEpsilon; e = node(e).tail()) {
    if (left == 0) {
      out = elided(kAnything);
      break;
    }
    if (node(e).kind != Kind::Concat) {
      out = elide_part(e);
      break;
    }
    const u64 key = u64{index_of(e)} << 3 | left;
    if (const Id* known = elided_memo_.find(key)) {
      out = *known;
      break;
    }
    stack.push_back(key);
    if (left != kWholeStack)
      --left;
    else if (node(node(e).head()).kind == Kind::Members)
      left = kAfterObject;
  }
  for (std::size_t i = stack.size(); i-- > 0;) {
    const Id at{static_cast<u32>(stack[i] >> 3)}, head = node(at).head(), first = elide_part(head);
    if (node(head).kind == Kind::Members && first != head && !nullable(first))
      out = first;  // it ends in an elision
    else
      out = first == head && out == node(at).tail() ? at : concat(first, out);
    elided_memo_.set(stack[i], out);
  }
  return out;
}

// -- lists of distinct values --
// Does e begin with a string that has infinitely many texts left, whichever few are removed?
bool Abstraction::begins_endless_string(Id e) {
  if (!first(e).has('"')) return false;
  const Id inside = derive(e, '"');
  const Ids ways = node(inside).kind == Kind::Union ? Ids(operands(inside)) : Ids{inside};
  return std::any_of(ways.begin(), ways.end(), [&](Id way) {
    if (node(way).kind != Kind::Concat || has(way, kSearch)) return false;
    const Node& text = node(node(way).head());
    return is_escaped(text) && json_.surely_endless(escaped_text(text));
  });
}

// An item with infinitely many values that has not begun, as far as it does not depend on earlier ones: the bytes with
// which all but finitely many of them begin, `most` at most, then an elision. kEmpty: there are none.
Id Abstraction::endless_beginning(Id e, u32 most) {
  ByteSet others = first(e);
  const bool string = begins_endless_string(e);
  if (most == 0 || (!string && others.count() > kMostBeginnings)) return kEmpty;
  Id out = string ? json_.quoted(elided(kAnything)) : kEmpty;
  u8 alone = '"';
  for (unsigned b = 0; b < 256 && !string; ++b) {
    if (!others.has(static_cast<u8>(b))) continue;
    const Id rest = step_slow(e, static_cast<u8>(b));
    if (rest == kEmpty || node(rest).longest != kInf) continue;  // it has finitely many texts
    if (out != kEmpty) return kEmpty;
    const Id begun = endless_beginning(rest, most - 1);
    const char byte = static_cast<char>(b);
    out = concat(literal({&byte, 1}), begun != kEmpty ? begun : elided_before(first(rest)));
    alone = static_cast<u8>(b);
  }
  if (out == kEmpty) return out;
  others.remove(alone);
  return others.any() ? unite(out, elided_before(others)) : out;
}

// What follows an item, up to the next item, whose possible values depend on all earlier ones.
Id Abstraction::elide_items(Id e) {
  Ids before;
  for (; node(e).kind == Kind::Concat && !has(node(e).head(), kHasItem); e = node(e).tail()) {
    if (has(e, kFiniteItem)) break;  // they decide, too, whether anything may follow
    before.push_back(node(e).head());
  }
  Id out = e;
  if (has(e, kHasItem)) {
    const auto [head, tail] = unstack(e);
    const Node& h = node(head);
    const bool endless = h.kind == Kind::Item && (item_facts(h) & kItemEndless) && !has(e, kFiniteItem);
    const Id begun = endless ? endless_beginning(item_rest(h)) : kEmpty;
    if (begun != kEmpty) {
      out = begun;
    } else if (h.kind == Kind::Repeat && !has(e, kFiniteItem)) {
      out = elide_items(h.body());
      if (h.min == 0) out = unite(out, elide_items(tail));
    } else {
      out = elided_before(first(e));
      if (nullable(e)) out = repeat(out, 0, 1);
    }
  }
  for (std::size_t i = before.size(); i-- > 0;) out = concat(before[i], out);
  return out;
}

// A list of distinct values as its current or first item, followed by what is known of the others regardless of their
// values. kEmpty: the list is not that simple.
Id Abstraction::item_alone(Id body, u32 seen) {
  if (!has(body, kHasItem)) return body;
  const auto [head, tail] = unstack(body);
  if (!has(head, kHasItem)) {
    const Id rest = item_alone(tail, seen);
    return rest == kEmpty ? kEmpty : concat(head, rest);
  }
  const Node& h = node(head);
  switch (h.kind) {
    case Kind::Item: {
      if (!nullable(tail) && json_.needs_finite(tail)) return kEmpty;  // are enough values left?
      const Id text = item_rest(h);
      if (item_text(h) == 0 && nullable(text)) return kEmpty;
      return concat(item_text(h) == 0 ? json_.other_than(text, seen) : text, elide_items(tail));
    }
    case Kind::Union: {
      Ids members(operands(head));
      for (Id& m : members)
        if ((m = item_alone(concat(m, tail), seen)) == kEmpty) return kEmpty;
      return unite(members);
    }
    case Kind::Repeat: {
      Id begin = h.body();
      while (node(begin).kind == Kind::Concat && !has(node(begin).head(), kHasItem) && nullable(node(begin).head()))
        begin = node(begin).tail();
      if (node(begin).kind == Kind::Concat && !has(node(begin).head(), kHasItem))  // a comma
        return has(body, kFiniteItem) && !nullable(body) ? kEmpty : elide_items(body);
      const u32 min = h.min;
      const Id more = concat(h.body(), concat(repeat_less(head), tail));
      const Id next = unstack(more).head;
      if (node(next).kind == Kind::Repeat && node(next).body() == h.body()) return kEmpty;  // x and x*: no comma
      const Id one = item_alone(more, seen);
      const Id none = min == 0 ? item_alone(tail, seen) : kEmpty;
      return one == kEmpty || (min == 0 && none == kEmpty) ? kEmpty : unite(one, none);
    }
    default: return kEmpty;
  }
}

Id Abstraction::list_alone(Id e) {
  const auto [list, tail] = unstack(e);
  if (node(list).kind == Kind::Union) {  // of lists, for example before and after one that is to be contained
    Ids members(operands(list));
    bool changed = false;
    for (Id& m : members)
      if (const Id alone = list_alone(m); alone != kEmpty) {
        m = alone;
        changed = true;
      }
    return changed ? concat(unite(members), tail) : kEmpty;
  }
  if (node(list).kind != Kind::Distinct) return kEmpty;
  const u32 seen = distinct_seen(node(list));
  if (json_.seen_state(seen).some) return kEmpty;
  const Id alone = item_alone(distinct_body(node(list)), seen);
  return alone == kEmpty ? kEmpty : concat(alone, tail);
}

// -- keys as strings --
// What a token sees after the text of another key of this kind: the quote, a value and the rest of the object. In most
// objects, it only matters whether the object may end there, and whether this is the first such key.
Id Abstraction::after_other(const KeyApart& key, u32 which) {
  const MemberTable& table = *key.table;
  const OtherKeys& other = table.others[which];
  const std::optional<MembersDue>& due = json_.facts_of(key.key->members).due;
  const bool plain = due && !table.ordered && !table.vote && key.state->pending == 0 && table.min == 0 &&
                     table.max == kInf && json_.others_endless_at(key.key->members);
  const u64 memo = u64{key.table_id} << 32 | u64{which} << 2 | (plain && due->count == 0 ? 2u : 0u) |
                   (key.state->seen == 0 ? 1u : 0u);
  if (const Id* known = plain ? after_memo_.find(memo) : nullptr) return *known;
  MemberState next = json_.with_other(*key.state, kSomeText, other.discharges);
  Id rest = kEmpty;
  if (json_.feasible(next)) rest = elide_members(json_.members_node(std::move(next)));
  const Id out = json_.quoted(concat(table.colon, concat(other.value, rest)));
  if (plain) after_memo_.set(memo, out);
  return out;
}

// The key as a string that is none of the names: its text, then after the quote, for each kind of value, the value and
// the rest of the object. `longer`: the text has at least one more character. kEmpty: no such string says the same.
Id Abstraction::key_as_string(const KeyApart& key, bool longer) {
  const KeyState& k = *key.key;
  if (key.state->some) return kEmpty;
  for (Id o : k.others)
    if (Patterned::of(arena_).chooses(o) || (longer && o != kEmpty && nullable(o) && !json_.any_key_text(o)))
      return kEmpty;
  const u32 id = k.members;
  const bool keep = k.others.size() == 1 && id < 1u << 30;
  const u64 memo =
      keep ? u64{id} << 34 | u64{index_of(k.others[0])} << 2 | (k.quoted ? 2u : 0u) | (longer ? 1u : 0u) : 0;
  if (const Id* known = keep ? key_memo_.find(memo) : nullptr) return *known;
  if (json_.facts_of(id).after.empty()) {
    std::vector<Id> after;  // stored only when complete: others may see it
    for (u32 r = 0; r < key.table->others.size(); ++r) after.push_back(after_other(key, r));
    json_.note_after(id, std::move(after));
  }
  Ids ways;
  for (std::size_t r = 0; r < k.others.size(); ++r)
    if (k.others[r] != kEmpty && json_.facts_of(id).after[r] != kEmpty) {
      const Id text = longer && nullable(k.others[r]) ? repeat(node(k.others[r]).body(), 1, kInf) : k.others[r];
      ways.push_back(concat(escaped_.escaped_at(text, kBetween, key.table->escapes), json_.facts_of(id).after[r]));
    }
  Id text = unite(ways);
  if (!k.quoted) text = json_.quoted(text);
  if (keep) key_memo_.set(memo, text);
  return text;
}

}  // namespace guiderail
