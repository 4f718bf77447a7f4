// JSON objects as automata over their members.
//
// Members(s) is the rest of an object between its braces. The state s records which names may still come, which other
// keys were written (keys are unique), how many members there are, and which obligations are open. Key(k) is the same
// while a key is being read. Both are made only if they can be completed, so they are never dead. A product of unions
// (which names in which order, and which of them the other keys exclude) becomes a table and a few integers. So an
// object of a thousand properties costs only as much as its text.
#include <algorithm>

#include "base/thresholds.hpp"
#include "json/formula.hpp"
#include "json/json.hpp"
#include "json/patterned.hpp"

namespace guiderail {
namespace {

// How many required names are still missing.
u32 names_due(const MemberTable& table, const Bits& gone) {
  u32 due = 0;
  for (std::size_t i = 0; i < gone.size(); ++i) due += static_cast<u32>(std::popcount(table.needed[i] & ~gone[i]));
  return due;
}

}  // namespace

// Calls f for each text of an expression until f returns false. False: f did, or a text is too long to be counted.
template <class F>
bool Json::each_text(Id key, F f) {
  std::vector<std::pair<Id, std::string>> stack{{key, ""}};
  while (!stack.empty()) {
    auto [e, text] = std::move(stack.back());
    stack.pop_back();
    if (nullable(e) && !f(text)) return false;
    if (text.size() > kLongestCountedKey) return false;
    const ByteSet possible = first(e);
    for (unsigned b = 256; b-- > 0;) {
      if (!possible.has(static_cast<u8>(b))) continue;
      if (const Id next = derive(e, static_cast<u8>(b)); next != kEmpty && live(next))
        stack.push_back({next, text + static_cast<char>(b)});
    }
  }
  return true;
}

// The number of texts of other keys, if it is below the minimum number of members; else kInf.
u32 Json::count_other_texts(const MemberTable& table) {
  for (const OtherKeys& o : table.others)
    if (node(o.key).longest == kInf && !has(o.key, kSearch)) return kInf;
  std::vector<std::string> found;
  for (const OtherKeys& o : table.others) {
    const bool all = each_text(o.key, [&](const std::string& text) {
      if (std::find(found.begin(), found.end(), text) == found.end() &&
          std::find(table.names.begin(), table.names.end(), text) == table.names.end())
        found.push_back(text);
      return found.size() < table.min;
    });
    if (!all) return kInf;
  }
  return static_cast<u32>(found.size());
}

// A lower bound that looks into a rule.
u32 Json::least_characters(Id value) const {
  const Node& n = node(value);
  if (n.kind != Kind::Ref) return n.shortest;
  const Id body = rule_body(n.a);
  return body == kUnknown ? 0 : node(body).shortest;
}

// How many characters members have at least.
void Json::measure(MemberTable& table) {
  table.cost.clear();
  table.least = table.name_value = table.next_least = kInf;
  table.around = add_sat(2, node(table.colon).shortest);
  for (const OtherKeys& o : table.others)
    table.least =
        std::min(table.least, add_sat(table.around, add_sat(node(o.key).shortest, least_characters(o.value))));
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    u32 cheapest = kInf;
    for (const Alternative& a : table.values[i]) cheapest = std::min(cheapest, least_characters(a.value));
    table.cost.push_back(add_sat(add_sat(table.around, count_characters(table.names[i])), cheapest));
    table.name_value = std::min(table.name_value, cheapest);
    table.least = std::min(table.least, table.cost.back());
  }
  if (table.min > 0) list_least(table);
}

u32 Json::shortest(Id e) {
  if (node(e).kind != Kind::Members || nullable(e)) return node(e).shortest;
  const u32 id = members_state(node(e));
  const MemberState& state = member_states_.values[id];
  measure(tables_[state.table]);
  if (id < facts_.size()) facts_[id].due.reset();
  return shortest_members(state, members_due(state), Member::None, 0);
}

// Lists the members that have as few characters as any, unless they suffice for the minimum number or are hard to find.
void Json::list_least(MemberTable& table) {
  std::size_t found = 0;
  table.few_least = false;
  table.least_texts.clear();
  table.least_names.assign(table.names.size() / 64 + 1, 0);
  for (u32 i = 0; i < table.names.size(); ++i) {
    if (table.cost[i] > table.least) {
      table.next_least = std::min(table.next_least, table.cost[i]);
    } else if (!table.required[i]) {
      set_bit(table.least_names, i);
      ++found;
    }
  }
  for (const OtherKeys& o : table.others) {
    const u32 shortest = node(o.key).shortest;
    const u32 cost = add_sat(table.around, add_sat(shortest, least_characters(o.value)));
    table.next_least = std::min(table.next_least, cost > table.least ? cost : add_sat(cost, 1));
    if (cost > table.least) continue;
    struct Begun {
      Id rest;
      std::string text;
      u32 characters;
    };
    std::vector<Begun> stack{{o.key, "", 0}};
    for (std::size_t steps = 0; !stack.empty();) {
      const auto [rest, text, characters] = std::move(stack.back());
      stack.pop_back();
      if (nullable(rest) && characters == shortest &&
          std::find(table.names.begin(), table.names.end(), text) == table.names.end()) {
        const auto place = std::lower_bound(table.least_texts.begin(), table.least_texts.end(), text);
        if (place == table.least_texts.end() || *place != text) {
          table.least_texts.insert(place, text);
          if (++found >= table.min) return;
        }
      }
      const ByteSet possible = first(rest);
      for (unsigned b = 0; b < 256; ++b) {
        const auto byte = static_cast<u8>(b);
        const u32 read = characters + (is_continuation(byte) ? 0 : 1);
        if (!possible.has(byte) || read > shortest) continue;
        if (++steps > kMostLeastSteps) return;
        if (const Id next = derive(rest, byte); next != kEmpty && add_sat(read, node(next).shortest) <= shortest)
          stack.push_back({next, text + static_cast<char>(b), read});
      }
    }
  }
  table.few_least = found < table.min;
}

// All texts of other keys, if there are few; otherwise an empty list.
std::vector<std::string> Json::few_texts(Id key, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  if (node(key).longest == kInf && !has(key, kSearch)) return {};
  const bool all = each_text(key, [&](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) == names.end()) found.push_back(text);
    return found.size() <= kFewKeys;
  });
  return all ? found : std::vector<std::string>();
}

Id Json::members(MemberTable table) {
  used_ = true;
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
  if (std::popcount(table.pending) > kMostObligations)
    throw Error("obligations", "members: more than " + std::to_string(kMostObligations) + " obligations");
  auto take = [&](Id e) {
    if (has(e, kHasItem)) throw Error("item-outside", "an item must be directly inside its own distinct");
    table.flags |= node(e).flags.load(std::memory_order_relaxed) & (kHasRef | kHasToken);
  };
  for (u32 i = 0; i < count; ++i) {
    table.values[i].erase_if([](const Alternative& a) { return a.value == kEmpty; });
    if (table.required[i]) {
      if (table.values[i].empty()) return kEmpty;
      set_bit(table.needed, i);
    }
    if (!table.values[i].empty()) set_bit(table.possible, i);
    for (const Alternative& a : table.values[i]) take(a.value);
  }
  for (OtherKeys& o : table.others) o.value = unite(Patterned::of(arena_).values_after(o.key, o.value));
  std::erase_if(table.others, [](const OtherKeys& o) { return o.value == kEmpty || o.key == kEmpty; });
  for (const OtherKeys& o : table.others) {
    if (has(o.key, kHasRef | kHasToken | kHasLook))
      throw Error("not-regular", "the text of a key must be a regular expression");
    take(o.key);
    for (Id value : Patterned::of(arena_).values_after(o.key, o.value)) take(value);
  }
  if (table.min > 0) table.other_texts = count_other_texts(table);
  if (table.vote) {
    table.uses = std::make_shared<const VoteUses>(vote_uses(table));
    for (OtherKeys& o : table.others) o.few = few_texts(o.key, table.names);
    for (const Vote::Settled& settled : table.vote->settled) take(settled.start);
    for (const auto& wholes : table.vote->wholes)
      for (const Vote::Whole& whole : wholes) take(whole.value);
  }
  table.dense = !table.others.empty();
  for (OtherKeys& o : table.others) {
    o.dense = o.dense || endless_class(o.key) != kNone;
    table.dense = table.dense && o.dense;
  }
  if (finalized()) table.flags |= kExactStep;  // made while reading: its text is not in the byte classes
  measure(table);
  MemberState start;
  start.table = static_cast<u32>(tables_.size());
  start.gone.assign(table.needed.size(), 0);
  start.pending = table.pending;
  const bool vote = table.vote != nullptr;
  if (vote) start.failed.assign((table.vote->cells.size() + 63) / 64, 0);
  tables_.push_back(std::move(table));
  table_bytes_ += bytes_of(tables_.back());
  if (vote) settle(start);
  return feasible(start) ? members_node(std::move(start)) : kEmpty;
}

MembersDue Json::members_due(const MemberState& state) const {
  const MemberTable& table = tables_[state.table];
  MembersDue due;
  for (std::size_t w = 0; w < table.needed.size(); ++w)
    for (u64 left = table.needed[w] & ~state.gone[w]; left; left &= left - 1) {
      const u32 cost = table.cost[w * 64 + static_cast<u32>(std::countr_zero(left))];
      ++due.count;
      due.characters = add_sat(due.characters, cost);
    }
  return due;
}

// At least how many characters so many members have that are not due, without commas.
u32 Json::characters_of(u32 members, const MemberState& state) const {
  const MemberTable& table = tables_[state.table];
  if (!table.few_least) return mul_sat(members, table.least);
  u32 left = 0;
  for (std::size_t w = 0; w < table.least_names.size(); ++w)
    left += static_cast<u32>(std::popcount(table.least_names[w] & ~state.gone[w]));
  for (const std::string& text : table.least_texts)
    if (!sets_.has(state.seen, text)) ++left;
  left = std::min(left, members);
  return add_sat(mul_sat(left, table.least), mul_sat(members - left, table.next_least));
}

// At least how many characters complete the object. Another member in progress counts nothing; one that is due, or just
// begins, counts all but the `written` characters.
u32 Json::shortest_members(const MemberState& state, const MembersDue& due, Member member, u32 written) const {
  const MemberTable& table = tables_[state.table];
  u32 more = state.count < table.min ? table.min - state.count : 0;  // in addition to those that are due
  if (state.pending) more = std::max(more, 1u);
  more = more > due.count ? more - due.count : 0;
  u32 count = due.count, characters = due.characters;
  if (member == Member::Any && more == 0) return 0;  // it may be one that need not come
  if (member == Member::Other && more > 0) --more;
  characters = add_sat(characters, characters_of(more, state));
  count += more;
  if (member == Member::Due || member == Member::Any) {
    --count;
    if (characters != kInf) characters -= written;
  }
  const bool begins = state.count == 0 && member == Member::None && count > 0;
  return add_sat(characters, mul_sat(node(table.comma).shortest, begins ? count - 1 : count));
}

MemberState Json::with_field(const MemberState& state, u32 field, u32 discharges) const {
  const MemberTable& table = tables_[state.table];
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

MemberState Json::with_other(const MemberState& state, u32 text, u32 discharges) {
  const MemberTable& table = tables_[state.table];
  MemberState next = state;
  if (table.ordered && !table.vote)
    for (u32 i = 0; i < table.names.size(); ++i) set_bit(next.gone, i);
  if (text == kSomeText)
    next.some = true;
  else
    next.seen = sets_.with(next.seen, text);
  if (table.vote) {
    fail(next, discharges, kOther);
    return next;
  }
  if (table.max != kInf || next.count < std::max(table.min, 1u)) ++next.count;
  next.pending &= ~discharges;
  return next;
}

// Can the object be completed, as far as counts go, after `field` is written (kInf: nothing more; kOther: another key)?
bool Json::counts_fit(const MemberState& state, u32 field) const {
  const MemberTable& table = tables_[state.table];
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
    const u32 written = sets_.size(state.seen) + state.some + (field == kOther ? 1 : 0);
    left += table.other_texts - std::min(written, table.other_texts);
  }
  return left >= table.min - count;
}

// The same, with obligations. It finds the fewest members that meet them exactly, by sets of obligations: first with
// the required names, then with any others.
bool Json::feasible(const MemberState& state) {
  const MemberTable& table = tables_[state.table];
  if (state.pending == 0) return counts_fit(state, kInf);
  if (table.vote) return vote_feasible(state);
  // Compresses the pending obligations into consecutive bits.
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
  std::vector<u32> fewest(sets, kInf);  // by set of obligations met
  fewest[0] = 0;
  auto choose = [&](const ShortVector<Alternative, 1>& values, bool must) {
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

bool Json::allowed(const MemberState& state, u32 field) {
  const MemberTable& table = tables_[state.table];
  if (bit(state.gone, field) || table.values[field].empty()) return false;
  if (table.ordered)  // required names may not be skipped
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

bool Json::others_allowed(const MemberState& state) {
  const MemberTable& table = tables_[state.table];
  if (table.others.empty() || (table.ordered && names_due(table, state.gone) > 0)) return false;
  if (state.pending == 0) return counts_fit(state, kOther);
  for (const OtherKeys& o : table.others)
    if (feasible(with_other(state, kSomeText, o.discharges))) return true;
  return false;
}

MemberFacts& Json::facts_of(u32 state) {
  while (facts_.size() <= state) facts_.emplace_back();
  return facts_[state];
}

bool Json::allowed_at(u32 state, u32 field) {
  const MemberState& members = member_states_.values[state];
  if (members.pending == 0) return allowed(members, field);
  MemberFacts& facts = facts_of(state);
  if (facts.fields.empty()) {
    facts.fields.resize(tables_[members.table].names.size());
    facts_bytes_ += bytes_of(facts.fields);
  }
  u8& known = facts.fields[field];
  if (!known) known = allowed(members, field) ? 2 : 1;
  return known == 2;
}

bool Json::others_allowed_at(u32 state) {
  u8& known = facts_of(state).others;
  if (!known) known = others_allowed(member_states_.values[state]) ? 2 : 1;
  return known == 2;
}

Id Json::members_node(MemberState state) {
  const MemberTable& table = tables_[state.table];
  const bool can_end = state.pending == 0 ? state.count >= table.min && names_due(table, state.gone) == 0
                                          : table.vote && vote_holds(state);
  bool can_go_on = others_allowed(state);
  for (u32 i = 0; i < table.names.size() && !can_go_on; ++i) can_go_on = allowed(state, i);
  if (!can_go_on) return can_end ? kEpsilon : kEmpty;
  Draft d = draft(Kind::Members);
  d.flags = table.flags;
  if (can_end) d.flags |= kNullable;
  d.shortest = can_end ? 0 : shortest_members(state, members_due(state), Member::None, 0);
  d.longest = kInf;
  d.a = member_states_.id(std::move(state));
  made_ = true;
  return intern(d);
}

// The state after the comma (there is none before the first member), or within the comma.
Id Json::derive_members(Id e, u8 byte) {
  const MemberState& state = member_states_.values[members_state(node(e))];
  const MemberTable& table = tables_[state.table];
  if (state.count > 0 && !first(table.comma).has(byte)) return kEmpty;
  const u32 id = members_state(node(e));
  const bool at_start = state.count == 0;
  if (state.some && !table.dense && others_allowed_at(id)) return unknown();
  const Id start = key_start(id);
  if (at_start) return derive(start, byte);
  return derive(concat(table.comma, start), byte);
}

}  // namespace guiderail
