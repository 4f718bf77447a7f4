// Keys of objects while they are being read.
#include <algorithm>

#include "base/thresholds.hpp"
#include "json/json.hpp"
#include "json/patterned.hpp"

namespace guiderail {
namespace {

// The first character of a UTF-8 text.
u32 character_at(std::string_view text) {
  const u8 b = static_cast<u8>(text[0]);
  const u32 more = b < 0x80 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
  u32 c = more == 0 ? b : b & (0x3F >> more);
  for (u32 i = 1; i <= more; ++i) c = c << 6 | (static_cast<u8>(text[i]) & 0x3F);
  return c;
}

// Narrows a sorted range to the texts that continue with a byte. `at(k)` is the k-th text.
template <class At>
void narrow_range(u32& lo, u32& hi, u32 depth, u8 byte, At at) {
  auto below = [&](u32 k, unsigned limit) {  // a text that ends here sorts first
    const std::string& text = at(k);
    return text.size() <= depth || static_cast<u8>(text[depth]) < limit;
  };
  auto first_not_below = [&](u32 from, u32 to, unsigned limit) {
    while (from < to) {
      const u32 middle = (from + to) / 2;
      if (below(middle, limit))
        from = middle + 1;
      else
        to = middle;
    }
    return from;
  };
  const u32 end = hi;
  lo = first_not_below(lo, end, byte);
  hi = first_not_below(lo, end, byte + 1u);
}

}  // namespace

// May a name that is due continue the key? True if there are many candidates.
bool Json::perhaps_due(const KeyState& key) const {
  const MemberState& state = member_states_.values[key.members];
  const MemberTable& table = tables_[state.table];
  if (key.hi - key.lo > kFewNames) return true;
  for (u32 k = key.lo; k < key.hi; ++k) {
    const u32 field = table.order[k];
    if ((table.needed[field >> 6] & ~state.gone[field >> 6]) >> (field & 63) & 1) return true;
  }
  return false;
}

Id Json::key_node(KeyState key) {
  const MemberState& state = member_states_.values[key.members];
  const MemberTable& table = tables_[state.table];
  if (!others_allowed_at(key.members)) std::fill(key.others.begin(), key.others.end(), kEmpty);
  if (table.vote || state.pending != 0)
    for (u32 r = 0; r < key.others.size(); ++r)
      if (key.others[r] != kEmpty && !other_allowed_at(key.members, r)) key.others[r] = kEmpty;
  bool live_now = false;
  for (u32 k = key.lo; k < key.hi && !live_now; ++k) {
    const u32 field = table.order[k];
    if (!allowed_at(key.members, field)) continue;
    const std::string& name = table.names[field];
    const bool whole = name.size() > key.depth && !inside_character(key, name);
    live_now = key.at == kBetween ||
               (whole &&
                escape_range(key.at, table.escapes)->contains(character_at(std::string_view(name).substr(key.depth))));
  }
  for (std::size_t r = 0; r < key.others.size() && !live_now; ++r) {
    Id rest = key.others[r];
    if (rest == kEmpty) continue;
    if (!table.others[r].dense && (key.lo < key.hi || key.seen_lo < key.seen_hi) &&
        !(key.at == kBetween && surely_endless(rest))) {
      std::vector<std::string> taken;
      const CharSet::Ptr begun = key.at == kBetween ? nullptr : escape_range(key.at, table.escapes);
      auto take = [&](const std::string& text) {  // an escape in progress rules out most texts
        const std::string_view left = std::string_view(text).substr(key.depth);
        if (!begun ||
            (!left.empty() && !is_continuation(static_cast<u8>(left[0])) && begun->contains(character_at(left))))
          taken.emplace_back(left);
      };
      for (u32 k = key.lo; k < key.hi; ++k) take(table.names[table.order[k]]);
      for (u32 k = key.seen_lo; k < key.seen_hi; ++k) take(texts_.whole(sets_.at(state.seen, k)));
      if (!taken.empty()) rest = intersect(rest, negate(choice(std::move(taken))));
    }
    live_now = escaped_.live_escaped(rest, key.at, table.escapes) != Escaped::Life::No;
  }
  if (!live_now) return kEmpty;
  Draft d = draft(Kind::Key);
  d.flags = table.flags;
  if (key.text != kSomeText) d.flags |= kExactKey;
  if (key.text != kSomeText || key.seen_lo < key.seen_hi) d.flags |= kExactStep;
  std::optional<MembersDue>& due = facts_of(key.members).due;
  if (!due) due = members_due(state);
  u32 rest = key.lo < key.hi ? table.name_value : kInf;  // at least how long the rest of the key and its value are
  for (std::size_t r = 0; r < key.others.size(); ++r)
    if (key.others[r] != kEmpty)
      rest = std::min(rest, add_sat(node(key.others[r]).shortest, least_characters(table.others[r].value)));
  const u32 quote = key.quoted ? 1 : 0;
  d.shortest = add_sat(add_sat(table.around - quote, rest), shortest_members(state, *due, Member::Other, 0));
  if (key.text == 0 && key.at == kBetween)
    d.shortest = std::max(d.shortest, shortest_members(state, *due, Member::Any, quote));
  if (due->count > 0 && perhaps_due(key)) {
    const std::string_view prefix = std::string_view(table.names[table.order[key.lo]]).substr(0, key.depth);
    const u32 written = quote + count_characters(prefix);
    d.shortest = std::min(d.shortest, shortest_members(state, *due, Member::Due, written));
  }
  d.longest = kInf;
  d.a = key_states_.id(std::move(key));
  return intern(d);
}

bool Json::feed_key(KeyState& key, u8 byte) {
  const MemberState& state = member_states_.values[key.members];
  const MemberTable& table = tables_[state.table];
  narrow_range(key.lo, key.hi, key.depth, byte,
               [&](u32 k) -> const std::string& { return table.names[table.order[k]]; });
  narrow_range(key.seen_lo, key.seen_hi, key.depth, byte,
               [&](u32 k) -> const std::string& { return texts_.whole(sets_.at(state.seen, k)); });
  bool any = key.lo < key.hi;
  for (Id& o : key.others) {
    if (o != kEmpty) o = step_text(o, byte);
    if (o != kEmpty && !live(o)) o = kEmpty;
    any = any || o != kEmpty;
  }
  if (key.text != kSomeText) key.text = texts_.grow(key.text, byte);
  ++key.depth;
  // Empty ranges carry no information: all of them get one representation.
  if (key.lo == key.hi) key.lo = key.hi = 0;
  if (key.seen_lo == key.seen_hi) key.seen_lo = key.seen_hi = 0;
  if (key.lo == key.hi && key.seen_lo == key.seen_hi) key.depth = 0;
  return any;
}

Id Json::derive_key(Id e, u8 byte) {
  KeyState key = key_states_.values[key_state(node(e))];
  const MemberTable& table = tables_[member_states_.values[key.members].table];
  if (!key.quoted) {
    if (byte != '"') return kEmpty;
    key.quoted = true;
    return key_node(std::move(key));
  }
  if (key.at == kBetween && byte == '"') return close_key(key);
  const Unescaped read = unescape(key.at, byte, table.escapes);
  switch (read.what) {
    case Unescaped::Refused: return kEmpty;
    case Unescaped::Inside: key.at = read.at; break;
    case Unescaped::Raw:
      if (!feed_key(key, byte)) return kEmpty;
      break;
    case Unescaped::Character:
      key.at = kBetween;
      for (char c : utf8(read.character))
        if (!feed_key(key, static_cast<u8>(c))) return kEmpty;
      break;
  }
  return key_node(std::move(key));
}

std::size_t Json::read_key(Id& e, std::string_view bytes) {
  if (!has(e, kExactKey)) return 0;
  const auto [head, tail] = unstack(e);
  if (node(head).kind != Kind::Key) return 0;
  const KeyState& from = key_states_.values[key_state(node(head))];
  if (!from.quoted || from.at != kBetween || from.text == kSomeText) return 0;
  const auto end = std::find_if_not(bytes.begin(), bytes.end(), [](char c) { return is_raw(static_cast<u8>(c)); });
  const auto count = static_cast<std::size_t>(end - bytes.begin());
  if (count < 2) return 0;
  KeyState key = from;
  for (std::size_t i = 0; i < count; ++i)
    if (!feed_key(key, static_cast<u8>(bytes[i]))) {
      e = kEmpty;
      return count;
    }
  e = concat(key_node(std::move(key)), tail);
  if (e != kEmpty && !live(e)) e = kEmpty;
  return count;
}

ByteSet Json::first_member(Id e) {
  ByteSet out;
  if (node(e).kind == Kind::Members) {
    const MemberState& state = member_states_.values[members_state(node(e))];
    if (state.count > 0) return first(tables_[state.table].comma);
    out.add('"');
    return out;
  }
  const KeyState& key = key_states_.values[key_state(node(e))];
  if (!key.quoted) {
    out.add('"');
    return out;
  }
  const MemberState& state = member_states_.values[key.members];
  const MemberTable& table = tables_[state.table];
  bool can_close = false;
  for (u32 k = key.lo; k < key.hi; ++k) {
    const std::string& name = table.names[table.order[k]];
    if (name.size() > key.depth)
      out.add(static_cast<u8>(name[key.depth]));
    else
      can_close = true;
  }
  for (Id o : key.others) {
    out |= first(o);
    can_close = can_close || nullable(o);
  }
  out = first_escaped(out, key.at, table.escapes);
  if (can_close && key.at == kBetween) out.add('"');
  return out;
}

// The key is complete: what follows is its value and the rest of the object.
Id Json::close_key(const KeyState& key) {
  const MemberState& state = member_states_.values[key.members];
  const MemberTable& table = tables_[state.table];
  Ids ways;
  struct Same {  // of a vote: values that lead to the same state
    MemberState next;
    Ids values;
    std::vector<u32> numbers;
  };
  std::vector<Same> same;
  auto follow = [&](Id value, u32 number, MemberState next) {
    if (!feasible(next)) return;
    if (!table.vote) {
      ways.push_back(concat(table.colon, concat(value, members_node(std::move(next)))));
      return;
    }
    auto known = std::find_if(same.begin(), same.end(), [&](const Same& other) { return other.next == next; });
    if (known == same.end()) known = same.insert(same.end(), {std::move(next), {}, {}});
    known->values.push_back(value);
    known->numbers.push_back(number);
  };
  auto finish = [&](std::span<const Vote::Whole> wholes = {}) {
    for (Same& of : same) {
      const auto whole =
          std::find_if(wholes.begin(), wholes.end(), [&](const Vote::Whole& one) { return one.values == of.numbers; });
      const Id value = whole == wholes.end() ? unite(std::move(of.values)) : whole->value;
      ways.push_back(concat(table.colon, concat(value, members_node(std::move(of.next)))));
    }
    return unite(ways);
  };
  if (key.lo < key.hi && table.names[table.order[key.lo]].size() == key.depth) {
    const u32 field = table.order[key.lo];
    const auto& values = table.values[field];
    if (allowed_at(key.members, field))
      for (u32 i = 0; i < values.size(); ++i)
        follow(values[i].value, i, with_field(state, field, values[i].discharges));
    if (!table.vote) return finish();
    return finish(table.vote->wholes[field]);
  }
  if (key.seen_lo < key.seen_hi && texts_.whole(sets_.at(state.seen, key.seen_lo)).size() == key.depth) return kEmpty;
  if (!others_allowed_at(key.members)) return kEmpty;
  for (std::size_t r = 0; r < key.others.size(); ++r) {
    if (key.others[r] == kEmpty || !nullable(key.others[r])) continue;
    // Whether this key was already written is unknown: see near_form().
    if (state.some) return unknown();
    const Patterned& patterned = Patterned::of(arena_);
    const Id value = patterned.chooses(key.others[r]) ? patterned.value(key.others[r]) : table.others[r].value;
    follow(value, static_cast<u32>(r), with_other(state, key.text, table.others[r].discharges));
  }
  return finish();
}

u32 Json::free_key(Id e) const {
  const Node& n = node(e);
  if (n.kind != Kind::Key) return kNone;
  const KeyState& key = key_states_.values[key_state(n)];
  const bool named = key.lo < key.hi || key.seen_lo < key.seen_hi;
  if (named || !key.quoted || key.at != kBetween || key.remembers()) return kNone;
  u32 set = kNone;
  for (Id o : key.others) {
    if (o == kEmpty) continue;
    const u32 other = endless_class(o);
    if (other == kNone || (set != kNone && set != other)) return kNone;
    set = other;
  }
  return set;
}

Escapes Json::key_escapes(Id key) const {
  return tables_[member_states_.values[key_states_.values[key_state(node(key))].members].table].escapes;
}

bool Json::key_in_progress(Id e, Ids& others) const {
  const KeyState& key = key_states_.values[key_state(node(e))];
  if (!key.quoted || key.at != kBetween || key.remembers()) return false;
  others = Ids(key.others);
  return true;
}

bool Json::inside_character(const KeyState& key, std::string_view name) {
  return key.depth < name.size() && is_continuation(static_cast<u8>(name[key.depth]));
}

std::string Json::spelled_rest(const KeyState& key, std::string_view name) {
  std::string rest;
  rest.reserve(name.size() - key.depth + 2);
  if (!key.quoted) rest += '"';
  add_json_spelling(rest, name.substr(key.depth));
  rest += '"';
  return rest;
}

bool Json::named_rests(const KeyState& key, bool only_allowed, std::vector<std::string>& rests) {
  const MemberState& state = member_states_.values[key.members];
  const MemberTable& table = tables_[state.table];
  if (table.escapes != Escapes::Canonical || key.at != kBetween) return false;
  auto add = [&](std::string_view name) { rests.push_back(spelled_rest(key, name)); };
  for (u32 k = key.lo; k < key.hi; ++k) {
    const std::string& name = table.names[table.order[k]];
    if (inside_character(key, name)) return false;
    if (!only_allowed || allowed_at(key.members, table.order[k])) add(name);
  }
  for (u32 k = key.seen_lo; k < key.seen_hi && !only_allowed; ++k) add(texts_.whole(sets_.at(state.seen, k)));
  return true;
}

bool Json::key_without_names(Id e, Id& free, std::vector<std::string>& rests) {
  if (node(e).kind != Kind::Key) return false;
  const KeyState& key = key_states_.values[key_state(node(e))];
  const bool closed = std::all_of(key.others.begin(), key.others.end(), [](Id o) { return o == kEmpty; });
  if (key.lo == key.hi && key.seen_lo == key.seen_hi) return false;
  if (!closed && (!tables_[member_states_.values[key.members].table].dense || key.remembers())) return false;
  free = kEmpty;
  if (!closed) {
    KeyState bare = key;
    bare.lo = bare.hi = bare.seen_lo = bare.seen_hi = bare.depth = 0;
    bare.text = kSomeText;
    KeyState inside = bare;
    inside.quoted = true;
    free = key_node(std::move(bare));
    if (free != kEmpty && free_key(key_node(std::move(inside))) == kNone) return false;
  }
  return named_rests(key, closed, rests);
}

// Forgets the text of the key: without it, all keys that no name begins with share one mask.
Id Json::key_without_text(Id e) {
  KeyState key = key_states_.values[key_state(node(e))];
  key.text = kSomeText;
  return key_node(std::move(key));
}

MemberState Json::without_keys(MemberState state) {
  state.some = state.some || state.seen != 0;
  state.seen = 0;
  return state;
}

Id Json::key_without_values(Id e) {
  const KeyState& whole = key_states_.values[key_state(node(e))];
  const MemberState& state = member_states_.values[whole.members];
  if (state.seen == 0 && whole.text == kSomeText) return e;
  KeyState key = whole;
  key.text = kSomeText;
  if (state.seen != 0) {
    MemberState plain = without_keys(state);
    key.members = member_states_.id(std::move(plain));
    key.seen_lo = key.seen_hi = 0;
    if (key.lo == key.hi) key.depth = 0;
  }
  return key_node(std::move(key));
}

// -- for masks --
// The Key before its opening quote.
Id Json::key_start(u32 id) {
  if (facts_of(id).start != kEmpty) return facts_of(id).start;
  const MemberState& state = member_states_.values[id];
  const MemberTable& table = tables_[state.table];
  KeyState key;
  key.members = id;
  key.hi = static_cast<u32>(table.order.size());
  key.seen_hi = sets_.size(state.seen);
  key.text = table.others.empty() ? kSomeText : 0;
  for (const OtherKeys& o : table.others) key.others.push_back(o.key);
  const Id start = key_node(std::move(key));
  facts_of(id).start = start;
  return start;
}

bool Json::key_apart(Id key, KeyApart& out) {
  if (node(key).kind != Kind::Key) return false;
  const KeyState& k = key_states_.values[key_state(node(key))];
  const MemberState& state = member_states_.values[k.members];
  const MemberTable& table = tables_[state.table];
  if (k.at != kBetween || table.escapes != Escapes::Canonical) return false;
  out = {&k, &state, &table, state.table, true, false, sets_.size(state.seen) <= kFewSeen};
  for (Id o : k.others) {
    out.closed = out.closed && o == kEmpty;
    out.any = out.any || any_key_text(o);
  }
  return true;
}

// Can other keys share a prefix with a name, along `rest`, the remainder of that name? Where only finitely many do,
// there must be more of them than names and keys written; counting first bytes is enough. `read`: how many bytes of
// `rest` were read when this became unclear, or impossible.
KeyAlong Json::others_along(const KeyApart& key, std::string_view rest, std::size_t& read) {
  read = rest.size();
  if (key.any) return KeyAlong::Endless;
  Ids texts(key.key->others);
  const std::size_t taken = key.table->names.size() + kFewSeen;
  auto surely_enough = [&](Id t) {
    return key.few_seen && !has(t, kSearch | kHasRef | kHasLook) && static_cast<std::size_t>(first(t).count()) > taken;
  };
  for (std::size_t i = 0;; ++i) {
    auto continues = [&](Id t) { return t != kEmpty && (key.table->dense || surely_endless(t) || surely_enough(t)); };
    if (std::none_of(texts.begin(), texts.end(), continues)) {
      const bool none = std::all_of(texts.begin(), texts.end(), [](Id t) { return t == kEmpty; });
      read = i;
      return none ? KeyAlong::Dies : KeyAlong::Unclear;
    }
    if (i == rest.size()) return KeyAlong::Endless;
    for (Id& t : texts)
      if (t != kEmpty) t = step_text(t, static_cast<u8>(rest[i]));
  }
}

const std::string& Json::text_of(u32 text) { return texts_.whole(text); }

bool Json::any_key_text(Id text) const {
  const u32 set = endless_class(text);
  return set != kNone && charset_ptr(set) == CharSet::any();
}

// Does some character lead to a text that infinitely many characters may follow, or back to this text? Then some texts
// are left, whichever few are removed. False: unknown.
bool Json::surely_endless(Id text, int depth) {
  if (text == kEmpty) return false;
  if (endless_class(text) != kNone) return true;
  if (!has(text, kSearch | kHasRef | kHasLook)) return node(text).longest == kInf;
  const u64 key = u64{index_of(text)} << 2 | static_cast<u64>(depth);
  if (const u32* known = endless_memo_.find(key)) return *known != 0;
  bool found = false;
  const ByteSet possible = first(text);
  for (int round = 0; round < 2 && !found && depth < kEndlessProbes; ++round)
    each_byte(text, [&](u8 byte) {
      if (byte < 0x80 && possible.has(byte)) {
        const Id next = step_slow(text, byte);
        found =
            round == 0 ? endless_class(next) != kNone || (next == text && live(text)) : surely_endless(next, depth + 1);
      }
      return !found;
    });
  endless_memo_.set(key, found);
  return found;
}

bool Json::others_endless_at(u32 id) {
  if (!others_allowed_at(id)) return false;
  const u32 of = member_states_.values[id].table;
  const MemberTable& table = tables_[of];
  if (table.dense) return true;
  const bool each = table.vote || member_states_.values[id].pending != 0;
  for (u32 r = 0; r < table.others.size(); ++r)
    if ((table.others[r].dense || surely_endless(table.others[r].key)) && (!each || other_allowed_at(id, r)))
      return true;
  return false;
}

void Json::note_after(u32 state, std::vector<Id> after) {
  facts_bytes_ += bytes_of(after);
  facts_of(state).after = std::move(after);
}

}  // namespace guiderail
