// JSON objects as automata over their members.
//
// Members(s) is what is left of an object between its braces in the state s: which names may still come, which other
// keys were written (keys are unique), how many members, which obligations are open. Key(k) is the same while a key is
// being read. Both are made only if they can be completed, so they are never dead. All that would be a product of
// unions (which names in which order, which of them excluded from the other keys) is a table and a few integers here:
// an object of a thousand properties costs what its text costs.
#include "json/members.hpp"

#include <algorithm>

namespace guiderail {
namespace {

constexpr std::size_t kMostObligations = 10;
constexpr std::size_t kLongestKey = 64;  // bytes, where keys are counted
constexpr u32 kFewNames = 64;

u32 count_characters(std::string_view text) {
  return static_cast<u32>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// How many names that must come have not.
u32 names_due(const MemberTable& table, const Bits& gone) {
  u32 due = 0;
  for (std::size_t i = 0; i < gone.size(); ++i) due += static_cast<u32>(std::popcount(table.needed[i] & ~gone[i]));
  return due;
}

// One character of UTF-8 text.
u32 character_at(std::string_view text) {
  const u8 b = static_cast<u8>(text[0]);
  const u32 more = b < 0x80 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : 3;
  u32 c = more == 0 ? b : b & (0x3F >> more);
  for (u32 i = 1; i <= more; ++i) c = c << 6 | (static_cast<u8>(text[i]) & 0x3F);
  return c;
}

// The part of a sorted range whose texts go on with a byte. `at(k)` is the k-th text.
template <class At>
void narrow_range(u32& lo, u32& hi, u32 depth, u8 byte, At at) {
  auto below = [&](u32 k, unsigned limit) {  // texts that end here come first
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

// The texts of other keys, if they are fewer than the least number of members; else kInf.
u32 Arena::count_other_texts(const MemberTable& table) {
  for (const OtherKeys& o : table.others)
    if (node(o.key).longest == kInf && !has(o.key, kSearch)) return kInf;
  std::vector<std::string> found;
  std::vector<std::pair<Id, std::string>> stack;
  for (const OtherKeys& o : table.others) stack.push_back({o.key, ""});
  while (!stack.empty() && found.size() < table.min) {
    auto [e, text] = std::move(stack.back());
    stack.pop_back();
    if (nullable(e) && std::find(found.begin(), found.end(), text) == found.end() &&
        std::find(table.names.begin(), table.names.end(), text) == table.names.end())
      found.push_back(text);
    if (text.size() > kLongestKey) return kInf;
    const ByteSet possible = first(e);
    for (unsigned b = 256; b-- > 0;) {
      if (!possible.has(static_cast<u8>(b))) continue;
      if (const Id next = derive(e, static_cast<u8>(b)); next != kEmpty && live(next))
        stack.push_back({next, text + static_cast<char>(b)});
    }
  }
  return found.size() < table.min ? static_cast<u32>(found.size()) : kInf;
}

Id Arena::members(MemberTable table) {
  if (!json_) json_ = std::make_unique<JsonParts>();
  const u32 count = static_cast<u32>(table.names.size());
  table.order.resize(count);
  table.needed.assign(count / 64 + 1, 0);
  table.possible = table.needed;
  for (u32 i = 0; i < count; ++i) {
    table.order[i] = i;
    note_literal(table.names[i]);
  }
  std::sort(table.order.begin(), table.order.end(), [&](u32 a, u32 b) { return table.names[a] < table.names[b]; });
  for (u32 i = 1; i < count; ++i)
    if (table.names[table.order[i - 1]] == table.names[table.order[i]])
      throw Error("duplicate-name", "members: the name '" + table.names[table.order[i]] + "' is given twice");
  if (std::popcount(table.pending) > static_cast<int>(kMostObligations))
    throw Error("obligations", "members: more than " + std::to_string(kMostObligations) + " obligations");
  auto take = [&](Id e) {
    if (has(e, kHasItem)) throw Error("item-outside", "an item must stand inside a distinct of its own");
    table.flags |= node(e).flags.load(std::memory_order_relaxed) & (kHasRef | kHasToken);
  };
  for (u32 i = 0; i < count; ++i) {
    std::erase_if(table.values[i], [](const Alternative& a) { return a.value == kEmpty; });
    if (table.required[i]) {
      if (table.values[i].empty()) return kEmpty;
      set_bit(table.needed, i);
    }
    if (!table.values[i].empty()) set_bit(table.possible, i);
    for (const Alternative& a : table.values[i]) take(a.value);
  }
  std::erase_if(table.others, [](const OtherKeys& o) { return o.value == kEmpty || o.key == kEmpty; });
  for (const OtherKeys& o : table.others) {
    if (has(o.key, kHasRef | kHasToken | kHasLook))
      throw Error("not-regular", "the text of a key must be a regular expression");
    take(o.key);
    take(o.value);
  }
  if (table.min > 0) table.other_texts = count_other_texts(table);
  if (table.vote) {
    for (OtherKeys& o : table.others) o.few = few_texts(o.key, table.names);
    for (const Vote::Settled& settled : table.vote->settled) take(settled.start);
  }
  table.dense = !table.others.empty();
  for (OtherKeys& o : table.others) {
    o.dense = o.dense || endless_class(o.key) != kUnknown;
    table.dense = table.dense && o.dense;
  }
  if (finalized_) table.flags |= kExactStep;  // made of a text met while reading
  u32 value = kInf;
  table.least = kInf;
  const u32 colon = add_sat(2, node(table.colon).shortest);
  for (const OtherKeys& o : table.others) {
    value = std::min(value, node(o.value).shortest);
    table.least = std::min(table.least, add_sat(colon, add_sat(node(o.key).shortest, node(o.value).shortest)));
  }
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    u32 cheapest = kInf;
    for (const Alternative& a : table.values[i]) cheapest = std::min(cheapest, node(a.value).shortest);
    table.cost.push_back(add_sat(add_sat(colon, count_characters(table.names[i])), cheapest));
    value = std::min(value, cheapest);
    table.least = std::min(table.least, table.cost.back());
  }
  table.bare = add_sat(colon, value);
  MemberState start;
  start.table = static_cast<u32>(json_->tables.size());
  start.gone.assign(table.needed.size(), 0);
  start.pending = table.pending;
  const bool vote = table.vote != nullptr;
  if (vote) start.failed.assign((table.vote->cells.size() + 63) / 64, 0);
  json_->tables.push_back(std::move(table));
  json_->table_bytes += bytes_of(json_->tables.back());
  if (vote) settle(start);
  return feasible(start) ? members_node(std::move(start)) : kEmpty;
}

MembersDue Arena::members_due(const MemberState& state) const {
  const MemberTable& table = json_->tables[state.table];
  MembersDue due;
  for (std::size_t w = 0; w < table.needed.size(); ++w)
    for (u64 left = table.needed[w] & ~state.gone[w]; left; left &= left - 1) {
      const u32 cost = table.cost[w * 64 + static_cast<u32>(std::countr_zero(left))];
      ++due.count;
      due.characters = add_sat(due.characters, cost);
    }
  return due;
}

// Characters that complete the object, at least. Of the member that is being written, if one is, nothing is counted;
// but of one that is due, all but the characters `written`.
u32 Arena::shortest_members(const MemberState& state, const MembersDue& due, Writing writing, u32 written) const {
  const MemberTable& table = json_->tables[state.table];
  u32 more = state.count < table.min ? table.min - state.count : 0;  // than those that are due
  if (state.pending) more = std::max(more, 1u);
  more = more > due.count ? more - due.count : 0;
  u32 count = due.count, characters = due.characters;
  if (writing == Writing::Due) {
    --count;
    if (characters != kInf) characters -= written;
  } else if (writing != Writing::Nothing && more > 0) {
    --more;
  }
  characters = add_sat(characters, mul_sat(more, table.least));
  count += more;
  const bool begins = state.count == 0 && writing == Writing::Nothing && count > 0;
  return add_sat(characters, mul_sat(node(table.comma).shortest, begins ? count - 1 : count));
}

MemberState Arena::with_field(const MemberState& state, u32 field, u32 discharges) const {
  const MemberTable& table = json_->tables[state.table];
  MemberState next = state;
  if (table.vote) {
    fail(next, discharges, field);
    return next;
  }
  if (table.ordered)
    for (u32 i = 0; i <= field; ++i) set_bit(next.gone, i);
  else
    set_bit(next.gone, field);
  if (table.max != kInf || next.count < std::max(table.min, 1u)) ++next.count;
  next.pending &= ~discharges;
  return next;
}

MemberState Arena::with_other(const MemberState& state, u32 text, u32 discharges) {
  const MemberTable& table = json_->tables[state.table];
  MemberState next = state;
  if (table.ordered && !table.vote)
    for (u32 i = 0; i < table.names.size(); ++i) set_bit(next.gone, i);
  if (text == kSomeText) {
    next.some = true;
  } else {
    Texts& texts = json_->texts;
    auto at = std::lower_bound(next.seen.begin(), next.seen.end(), text,
                               [&](u32 a, u32 b) { return texts.whole(a) < texts.whole(b); });
    next.seen.insert(at, text);
  }
  if (table.vote) {
    fail(next, discharges, kOther);
    return next;
  }
  if (table.max != kInf || next.count < std::max(table.min, 1u)) ++next.count;
  next.pending &= ~discharges;
  return next;
}

// Can the object be completed, as far as counts go, after `field` was written (kInf: nothing more; kOther: another
// key)?
bool Arena::counts_fit(const MemberState& state, u32 field) const {
  const MemberTable& table = json_->tables[state.table];
  const bool plenty = !table.others.empty() && table.other_texts == kInf;
  if (table.max == kInf && (table.min == 0 || plenty)) return true;
  u32 due = 0, left = 0, count = state.count + (field == kInf ? 0 : 1);
  for (u32 i = 0; i < state.gone.size(); ++i) {
    u64 gone = state.gone[i];
    if (field != kInf) {
      const u32 at = field / 64;
      if (field != kOther && i == at) gone |= u64{1} << (field & 63);
      if (table.ordered && (field == kOther || i < at)) gone = ~u64{0};
      if (table.ordered && field != kOther && i == at) gone |= (u64{1} << (field & 63)) - 1;
    }
    due += static_cast<u32>(std::popcount(table.needed[i] & ~gone));
    left += static_cast<u32>(std::popcount(table.possible[i] & ~gone));
  }
  if (table.max != kInf && (count > table.max || due > table.max - count)) return false;
  if (count >= table.min || plenty) return true;
  if (!table.others.empty()) {
    const u32 written = static_cast<u32>(state.seen.size()) + state.some + (field == kOther ? 1 : 0);
    left += table.other_texts - std::min(written, table.other_texts);
  }
  return left >= table.min - count;
}

// The same with obligations: the fewest members that fulfil them are found exactly, over sets of obligations: names
// that are required come first, then any others.
bool Arena::feasible(const MemberState& state) {
  const MemberTable& table = json_->tables[state.table];
  if (state.pending == 0) return counts_fit(state, kInf);
  if (table.vote) return vote_feasible(state);
  // compress the pending obligations into consecutive bits
  std::vector<u32> bits;
  for (u32 i = 0; i < 32; ++i)
    if (state.pending >> i & 1) bits.push_back(1u << i);
  const u32 sets = 1u << bits.size(), all = sets - 1;
  auto squeeze = [&](u32 mask) {
    u32 out = 0;
    for (std::size_t i = 0; i < bits.size(); ++i)
      if (mask & bits[i]) out |= 1u << i;
    return out;
  };
  std::vector<u32> fewest(sets, kInf);  // by set of obligations fulfilled
  fewest[0] = 0;
  auto choose = [&](const std::vector<Alternative>& values, bool must) {
    std::vector<u32> next = must ? std::vector<u32>(sets, kInf) : fewest;
    for (const Alternative& a : values) {
      const u32 gain = squeeze(a.discharges);
      if (gain == 0 && !must) continue;
      for (u32 s = 0; s < sets; ++s)
        if (fewest[s] != kInf) next[s | gain] = std::min(next[s | gain], fewest[s] + 1);
    }
    fewest = std::move(next);
  };
  for (u32 i = 0; i < table.names.size(); ++i) {
    if (bit(state.gone, i) || table.values[i].empty()) {
      if (bit(table.needed, i) && !bit(state.gone, i)) return false;
      continue;
    }
    if (table.required[i]) choose(table.values[i], true);
  }
  for (u32 i = 0; i < table.names.size(); ++i)
    if (!bit(state.gone, i) && !table.values[i].empty() && !table.required[i]) choose(table.values[i], false);
  for (const OtherKeys& o : table.others)
    for (std::size_t k = 0; k < bits.size(); ++k) choose({{o.value, o.discharges}}, false);
  if (fewest[all] == kInf) return false;
  if (table.max != kInf && (state.count > table.max || fewest[all] > table.max - state.count)) return false;
  return counts_fit(state, kInf);
}

bool Arena::allowed(const MemberState& state, u32 field) {
  const MemberTable& table = json_->tables[state.table];
  if (bit(state.gone, field) || table.values[field].empty()) return false;
  if (table.ordered)  // none that is required may be passed over
    for (u32 i = 0; i < field; i += 64) {
      u64 left = table.needed[i >> 6] & ~state.gone[i >> 6];
      if (field - i < 64) left &= (u64{1} << (field - i)) - 1;
      if (left) return false;
    }
  if (state.pending == 0) return counts_fit(state, field);
  for (const Alternative& a : table.values[field])
    if (feasible(with_field(state, field, a.discharges))) return true;
  return false;
}

bool Arena::others_allowed(const MemberState& state) {
  const MemberTable& table = json_->tables[state.table];
  if (table.others.empty() || (table.ordered && names_due(table, state.gone) > 0)) return false;
  if (state.pending == 0) return counts_fit(state, kOther);
  for (const OtherKeys& o : table.others)
    if (feasible(with_other(state, kSomeText, o.discharges))) return true;
  return false;
}

MemberFacts& Arena::facts_of(u32 state) {
  while (json_->facts.size() <= state) json_->facts.emplace_back();
  return json_->facts[state];
}

bool Arena::allowed_at(u32 state, u32 field) {
  const MemberState& members = json_->members.values[state];
  if (members.pending == 0) return allowed(members, field);
  MemberFacts& facts = facts_of(state);
  if (facts.fields.empty()) {
    facts.fields.resize(json_->tables[members.table].names.size());
    json_->facts_bytes += bytes_of(facts.fields);
  }
  u8& known = facts.fields[field];
  if (!known) known = allowed(members, field) ? 2 : 1;
  return known == 2;
}

bool Arena::others_allowed_at(u32 state) {
  u8& known = facts_of(state).others;
  if (!known) known = others_allowed(json_->members.values[state]) ? 2 : 1;
  return known == 2;
}

Id Arena::members_node(MemberState state) {
  const MemberTable& table = json_->tables[state.table];
  const bool can_end = state.pending == 0 ? state.count >= table.min && names_due(table, state.gone) == 0
                                          : table.vote && vote_holds(state);
  bool can_go_on = others_allowed(state);
  for (u32 i = 0; i < table.names.size() && !can_go_on; ++i) can_go_on = allowed(state, i);
  if (!can_go_on) return can_end ? kEpsilon : kEmpty;
  Draft d = draft(Kind::Members);
  d.flags = table.flags;
  if (can_end) d.flags |= kNullable;
  d.shortest = can_end ? 0 : shortest_members(state, members_due(state), Writing::Nothing, 0);
  d.longest = kInf;
  d.a = json_->members.id(std::move(state));
  return intern(d);
}

// The state after a comma (none before the first member), or the comma itself being read.
Id Arena::derive_members(Id e, u8 byte) {
  const MemberState& state = json_->members.values[node(e).a];
  const MemberTable& table = json_->tables[state.table];
  if (state.count > 0 && !first(table.comma).has(byte)) return kEmpty;
  const u32 id = node(e).a;
  const bool at_start = state.count == 0;
  if (state.some && !table.dense && others_allowed_at(id)) return unknown();
  const Id start = key_start(id);
  if (at_start) return derive(start, byte);
  return derive(concat(table.comma, start), byte);
}

// Whether a name that must come goes on from the key; perhaps, where many do.
bool Arena::perhaps_due(const KeyState& key) const {
  const MemberState& state = json_->members.values[key.members];
  const MemberTable& table = json_->tables[state.table];
  if (key.hi - key.lo > kFewNames) return true;
  for (u32 k = key.lo; k < key.hi; ++k) {
    const u32 field = table.order[k];
    if ((table.needed[field >> 6] & ~state.gone[field >> 6]) >> (field & 63) & 1) return true;
  }
  return false;
}

Id Arena::key_node(KeyState key) {
  const MemberState& state = json_->members.values[key.members];
  const MemberTable& table = json_->tables[state.table];
  if (!others_allowed_at(key.members)) std::fill(key.others.begin(), key.others.end(), kEmpty);
  if (table.vote)
    for (u32 r = 0; r < key.others.size(); ++r)
      if (key.others[r] != kEmpty && !other_allowed_at(key.members, r)) key.others[r] = kEmpty;
  bool live_now = false;
  for (u32 k = key.lo; k < key.hi && !live_now; ++k) {
    const u32 field = table.order[k];
    if (!allowed_at(key.members, field)) continue;
    const std::string& name = table.names[field];
    const bool whole = name.size() > key.depth && (static_cast<u8>(name[key.depth]) & 0xC0) != 0x80;
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
      auto take = [&](const std::string& text) {  // an escape that was begun tells most from it
        const std::string_view left = std::string_view(text).substr(key.depth);
        if (!begun ||
            (!left.empty() && (static_cast<u8>(left[0]) & 0xC0) != 0x80 && begun->contains(character_at(left))))
          taken.emplace_back(left);
      };
      for (u32 k = key.lo; k < key.hi; ++k) take(table.names[table.order[k]]);
      for (u32 k = key.seen_lo; k < key.seen_hi; ++k) take(json_->texts.whole(state.seen[k]));
      if (!taken.empty()) rest = intersect(rest, negate(choice(std::move(taken))));
    }
    live_now = live_escaped(rest, key.at, table.escapes);
  }
  if (!live_now) return kEmpty;
  Draft d = draft(Kind::Key);
  d.flags = table.flags;
  if (key.text != kSomeText) d.flags |= kExactKey;
  if (key.text != kSomeText || key.seen_lo < key.seen_hi) d.flags |= kExactStep;
  std::optional<MembersDue>& due = facts_of(key.members).due;
  if (!due) due = members_due(state);
  u32 text = key.lo < key.hi ? 0 : kInf;  // of the key that is still to come, at least
  for (Id o : key.others)
    if (text > 0 && o != kEmpty) text = std::min(text, node(o).shortest);
  const u32 quote = key.quoted ? 1 : 0;
  d.shortest = add_sat(add_sat(table.bare - quote, text), shortest_members(state, *due, Writing::Other, 0));
  if (due->count > 0 && perhaps_due(key)) {
    const std::string_view prefix = std::string_view(table.names[table.order[key.lo]]).substr(0, key.depth);
    const u32 written = quote + count_characters(prefix);
    d.shortest = std::min(d.shortest, shortest_members(state, *due, Writing::Due, written));
  }
  d.longest = kInf;
  d.a = json_->keys.id(std::move(key));
  return intern(d);
}

bool Arena::feed_key(KeyState& key, u8 byte) {
  const MemberState& state = json_->members.values[key.members];
  const MemberTable& table = json_->tables[state.table];
  narrow_range(key.lo, key.hi, key.depth, byte,
               [&](u32 k) -> const std::string& { return table.names[table.order[k]]; });
  narrow_range(key.seen_lo, key.seen_hi, key.depth, byte,
               [&](u32 k) -> const std::string& { return json_->texts.whole(state.seen[k]); });
  bool any = key.lo < key.hi;
  for (Id& o : key.others) {
    if (o != kEmpty) o = step_text(o, byte);
    if (o != kEmpty && !live(o)) o = kEmpty;
    any = any || o != kEmpty;
  }
  if (key.text != kSomeText) key.text = json_->texts.grow(key.text, byte);
  ++key.depth;
  // ranges that are empty say nothing more: one representation for all of them
  if (key.lo == key.hi) key.lo = key.hi = 0;
  if (key.seen_lo == key.seen_hi) key.seen_lo = key.seen_hi = 0;
  if (key.lo == key.hi && key.seen_lo == key.seen_hi) key.depth = 0;
  return any;
}

Id Arena::derive_key(Id e, u8 byte) {
  KeyState key = json_->keys.values[node(e).a];
  const MemberTable& table = json_->tables[json_->members.values[key.members].table];
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

std::size_t Arena::read_key(Id& e, std::string_view bytes) {
  if (!json_ || !has(e, kExactKey)) return 0;
  const bool stacked = node(e).kind == Kind::Concat;
  const Id head = stacked ? node(e).a : e;
  if (node(head).kind != Kind::Key) return 0;
  const KeyState& from = json_->keys.values[node(head).a];
  if (!from.quoted || from.at != kBetween || from.text == kSomeText) return 0;
  const auto end = std::find_if_not(bytes.begin(), bytes.end(), [](char c) { return is_raw(static_cast<u8>(c)); });
  const auto count = static_cast<std::size_t>(end - bytes.begin());
  if (count < 2) return 0;
  const Id tail = stacked ? node(e).b : kEpsilon;
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

ByteSet Arena::first_member(Id e) {
  ByteSet out;
  if (node(e).kind == Kind::Members) {
    const MemberState& state = json_->members.values[node(e).a];
    if (state.count > 0) return first(json_->tables[state.table].comma);
    out.add('"');
    return out;
  }
  const KeyState& key = json_->keys.values[node(e).a];
  if (!key.quoted) {
    out.add('"');
    return out;
  }
  const MemberState& state = json_->members.values[key.members];
  const MemberTable& table = json_->tables[state.table];
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

// The key is complete: its value, and what is left of the object.
Id Arena::close_key(const KeyState& key) {
  const MemberState& state = json_->members.values[key.members];
  const MemberTable& table = json_->tables[state.table];
  Ids ways;
  std::vector<std::pair<MemberState, Ids>> same;  // of a vote: values after which nothing differs
  auto follow = [&](Id value, MemberState next) {
    if (!feasible(next)) return;
    if (!table.vote) {
      ways.push_back(concat(table.colon, concat(value, members_node(std::move(next)))));
      return;
    }
    auto known = std::find_if(same.begin(), same.end(), [&](const auto& other) { return other.first == next; });
    if (known == same.end()) known = same.insert(same.end(), {std::move(next), {}});
    known->second.push_back(value);
  };
  auto finish = [&] {
    for (auto& [next, values] : same)
      ways.push_back(concat(table.colon, concat(unite(std::move(values)), members_node(std::move(next)))));
    return unite(ways);
  };
  if (key.lo < key.hi && table.names[table.order[key.lo]].size() == key.depth) {
    const u32 field = table.order[key.lo];
    if (allowed_at(key.members, field))
      for (const Alternative& a : table.values[field]) follow(a.value, with_field(state, field, a.discharges));
    return finish();
  }
  if (key.seen_lo < key.seen_hi && json_->texts.whole(state.seen[key.seen_lo]).size() == key.depth) return kEmpty;
  if (!others_allowed_at(key.members)) return kEmpty;
  for (std::size_t r = 0; r < key.others.size(); ++r) {
    if (key.others[r] == kEmpty || !nullable(key.others[r])) continue;
    // whether this key was written before is not known: see canonical()
    if (state.some) return unknown();
    follow(table.others[r].value, with_other(state, key.text, table.others[r].discharges));
  }
  return finish();
}

u32 Arena::endless_class(Id text) const {
  const Node& n = node(text);
  return n.kind == Kind::Repeat && n.max == kInf && !n.b && node(n.a).kind == Kind::Class ? node(n.a).a : kUnknown;
}

u32 Arena::free_key(Id e) const {
  const Node& n = node(e);
  if (n.kind != Kind::Key) return kUnknown;
  const KeyState& key = json_->keys.values[n.a];
  const bool named = key.lo < key.hi || key.seen_lo < key.seen_hi;
  if (named || !key.quoted || key.at != kBetween || key.remembers()) return kUnknown;
  u32 set = kUnknown;
  for (Id o : key.others) {
    if (o == kEmpty) continue;
    const u32 other = endless_class(o);
    if (other == kUnknown || (set != kUnknown && set != other)) return kUnknown;
    set = other;
  }
  return set;
}

Escapes Arena::key_escapes(Id key) const {
  return json_->tables[json_->members.values[json_->keys.values[node(key).a].members].table].escapes;
}

bool Arena::key_in_progress(Id e, Ids& others) const {
  const KeyState& key = json_->keys.values[node(e).a];
  if (!key.quoted || key.at != kBetween || key.remembers()) return false;
  others = Ids(key.others);
  return true;
}

bool Arena::key_without_names(Id e, Id& free, std::vector<std::string>& rests) {
  if (node(e).kind != Kind::Key) return false;
  const KeyState key = json_->keys.values[node(e).a];
  const MemberState& state = json_->members.values[key.members];
  const MemberTable& table = json_->tables[state.table];
  if (table.escapes != Escapes::Canonical || key.at != kBetween) return false;
  const bool closed = std::all_of(key.others.begin(), key.others.end(), [](Id o) { return o == kEmpty; });
  if (key.lo == key.hi && key.seen_lo == key.seen_hi) return false;
  if (!closed && (!table.dense || key.remembers())) return false;
  const std::string quote = key.quoted ? "" : "\"";
  for (u32 k = key.lo; k < key.hi; ++k) {  // inside a character
    const std::string& name = table.names[table.order[k]];
    if (name.size() > key.depth && (static_cast<u8>(name[key.depth]) & 0xC0) == 0x80) return false;
  }
  auto add = [&](std::string_view name) { rests.push_back(quote + canonical_spelling(name.substr(key.depth)) + '"'); };
  for (u32 k = key.lo; k < key.hi; ++k)
    if (!closed || allowed_at(key.members, table.order[k])) add(table.names[table.order[k]]);
  for (u32 k = key.seen_lo; k < key.seen_hi && !closed; ++k) add(json_->texts.whole(state.seen[k]));
  free = kEmpty;
  if (closed) return true;
  KeyState bare = key;
  bare.lo = bare.hi = bare.seen_lo = bare.seen_hi = bare.depth = 0;
  bare.text = kSomeText;
  KeyState inside = bare;
  inside.quoted = true;
  free = key_node(std::move(bare));
  return free == kEmpty || free_key(key_node(std::move(inside))) != kUnknown;
}

// Masks of keys that no name begins with are one mask.
Id Arena::key_without_text(Id e) {
  KeyState key = json_->keys.values[node(e).a];
  key.text = kSomeText;
  return key_node(std::move(key));
}

MemberState Arena::without_keys(MemberState state) {
  if (!state.seen.empty()) {
    state.seen.clear();
    state.some = true;
  }
  return state;
}

Id Arena::key_without_values(Id e) {
  const KeyState& whole = json_->keys.values[node(e).a];
  const MemberState& state = json_->members.values[whole.members];
  if (state.seen.empty() && whole.text == kSomeText) return e;
  KeyState key = whole;
  key.text = kSomeText;
  if (!state.seen.empty()) {
    MemberState plain = without_keys(state);
    key.members = json_->members.id(std::move(plain));
    key.seen_lo = key.seen_hi = 0;
    if (key.lo == key.hi) key.depth = 0;
  }
  return key_node(std::move(key));
}

}  // namespace guiderail
