// Objects and lists of distinct values, as families of the algebra.
#include "json/json.hpp"

#include <algorithm>

#include "json/formula.hpp"
#include "json/patterned.hpp"

namespace guiderail {

Id Json::derivative(Id e, u8 byte) {
  switch (node(e).kind) {
    case Kind::Members: return derive_members(e, byte);
    case Kind::Key: return derive_key(e, byte);
    case Kind::Distinct: return derive_list(distinct_body(node(e)), {distinct_seen(node(e))}, byte);
    case Kind::Twice:
      return derive_list(distinct_body(node(e)), {distinct_seen(node(e)), twice_labels(node(e)), true}, byte);
    default: throw Error("item-outside", "an item must stand inside a distinct");
  }
}

ByteSet Json::first_bytes(Id e) {
  switch (node(e).kind) {
    case Kind::Distinct:
    case Kind::Twice: return first(distinct_body(node(e)));
    case Kind::Item: return first(item_rest(node(e)));
    default: return first_member(e);
  }
}

Id Json::live_as(Id e) {
  switch (node(e).kind) {
    case Kind::Distinct: {
      const Id body = distinct_body(node(e));
      return needs_finite(body) ? e : body;  // there is always another value
    }
    case Kind::Twice: return distinct_body(node(e));  // a Twice exists only if some item can still come twice
    case Kind::Item: return item_rest(node(e));
    default: return e;
  }
}

// -- identities --
void Json::describe(Id e, Description& to) const {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Members: describe_members(member_states_.values[members_state(n)], to); break;
    case Kind::Key: {
      const KeyState& key = key_states_.values[key_state(n)];
      describe_members(member_states_.values[key.members], to);
      to.word(u64{key.quoted} << 33 | u64{key.text == kSomeText} << 32 | key.at);
      to.word(u64{key.depth});
      to.word(u64{key.lo} << 32 | key.hi);
      to.word(u64{key.seen_lo} << 32 | key.seen_hi);
      to.word(key.others.size());
      for (Id o : key.others) to.part(o);
      break;
    }
    case Kind::Distinct:
    case Kind::Twice: {
      const SeenState& seen = seen_states_.values[distinct_seen(n)];
      to.part(distinct_body(n));
      to.word(u64{twice_labels(n)} << 1 | seen.some);
      to.hash(sets_.identity(seen.texts));
      break;
    }
    default:
      to.word(u64{item_facts(n)} << 1 | (item_text(n) == kSomeText));
      to.part(item_rest(n));
      break;
  }
}

void Json::describe_members(const MemberState& state, Description& to) const {
  to.shared(*this, Kind::Members, state.table);
  to.word(u64{state.count} << 32 | state.pending);
  to.word(state.gone.size());
  for (u64 w : state.gone) to.word(w);
  to.word(state.failed.size());
  for (u64 w : state.failed) to.word(w);
  to.word(state.some);
  to.hash(sets_.identity(state.seen));
}

void Json::describe_shared(u32 id, Description& to) const {
  const MemberTable& table = tables_[id];
  to.word(u64{table.ordered} << 8 | static_cast<u64>(table.escapes));
  to.word(u64{table.min} << 32 | table.max);
  to.word(table.pending);
  to.part(table.comma);
  to.part(table.colon);
  to.word(table.names.size());
  for (u32 i = 0; i < table.names.size(); ++i) {
    to.text(table.names[i]);
    to.word(u64{table.values[i].size()} << 1 | table.required[i]);
    for (const Alternative& a : table.values[i]) {
      to.part(a.value);
      to.word(a.discharges);
    }
  }
  to.word(table.others.size());
  for (const OtherKeys& o : table.others) {
    to.part(o.key);
    to.word(u64{o.discharges} << 1 | o.dense);
    for (Id value : Patterned::of(arena_).values_after(o.key, o.value)) to.part(value);
  }
  if (table.vote) guiderail::describe(*table.vote, to);
}

void describe(const Vote& vote, Description& to) {
  auto bits = [&](const Bits& of) {
    for (u64 w : of) to.word(w);
  };
  to.word(vote.cells.size());
  for (const Vote::Cell& cell : vote.cells) {
    to.word(u64{cell.min} << 32 | cell.max);
    bits(cell.required);
  }
  to.word(vote.parts.size());
  for (const Vote::Part& part : vote.parts) {
    to.word(u64{part.of.size()} << 8 | static_cast<u64>(part.op));
    for (u32 p : part.of) to.word(p);
  }
  to.word(vote.effects.size());
  for (const Bits& effect : vote.effects) bits(effect);
  to.word(vote.settled.size());
  for (const Vote::Settled& settled : vote.settled) {
    bits(settled.cells);
    to.part(settled.start);
  }
  for (const auto& wholes : vote.wholes) {
    to.word(wholes.size());
    for (const Vote::Whole& whole : wholes) {
      to.word(whole.values.size());
      for (u32 value : whole.values) to.word(value);
      to.part(whole.value);
    }
  }
}

void Json::parts(Id e, Ids& to) const {
  if (node(e).kind != Kind::Members) return;
  const MemberTable& table = tables_[member_states_.values[members_state(node(e))].table];
  for (const auto& list : table.values)
    for (const Alternative& a : list) to.push_back(a.value);
  for (const OtherKeys& o : table.others)
    for (Id value : Patterned::of(arena_).values_after(o.key, o.value)) to.push_back(value);
  if (table.vote) {
    for (const Vote::Settled& settled : table.vote->settled) to.push_back(settled.start);
    for (const auto& wholes : table.vote->wholes)
      for (const Vote::Whole& whole : wholes) to.push_back(whole.value);
  }
}

// -- text --
std::vector<DumpItem> Json::dump(Id e) const {
  const Node& n = node(e);
  if (n.kind == Kind::Item) return {{"item("}, {"", item_rest(n)}, {")"}};
  if (n.kind == Kind::Distinct) return {{"distinct("}, {"", distinct_body(n)}, {")"}};
  if (n.kind == Kind::Twice) return {{"twice("}, {"", distinct_body(n)}, {")"}};
  const bool in_key = n.kind == Kind::Key;
  const MemberState& state =
      member_states_.values[in_key ? key_states_.values[key_state(n)].members : members_state(n)];
  const MemberTable& table = tables_[state.table];
  std::string out = in_key ? "key{" : "members{";
  int shown = 0;
  auto name = [&](u32 i) {
    if (bit(state.gone, i) || table.values[i].empty()) return;
    if (++shown <= 12) out += (shown > 1 ? ", " : "") + table.names[i] + (table.required[i] ? "!" : "");
  };
  if (in_key) {
    const KeyState& key = key_states_.values[key_state(n)];
    for (u32 k = key.lo; k < key.hi; ++k) name(table.order[k]);
  } else {
    for (u32 i = 0; i < table.names.size(); ++i) name(i);
  }
  if (shown > 12) out += ", ... " + std::to_string(shown) + " in all";
  out += table.others.empty() ? "}" : shown ? ", *}" : "*}";
  return {{std::move(out)}};
}

// -- the end of construction, copies, memory --
void Json::prepare() {
  if (used_) quote_ = char_class(CharSet::make({{'"', '"'}}));
}

void Json::split_bytes(ByteSet& starts) {
  for (; split_tables_ < tables_.size(); ++split_tables_)
    for (const std::string& name : tables_[split_tables_].names)
      for (char c : name) alone(starts, static_cast<u8>(c));
  if (made_) Escaped::split_spellings(starts);
}

void Json::note_extent() {
  extent_.tables = static_cast<u32>(tables_.size());
  extent_.members = static_cast<u32>(member_states_.values.size());
  extent_.keys = static_cast<u32>(key_states_.values.size());
  extent_.seen = static_cast<u32>(seen_states_.values.size());
  extent_.texts = texts_.count();
  extent_.sets = sets_.count();
  extent_.table_bytes = table_bytes_;
}

void Json::fresh(Arena& arena) const {
  Json& to = Json::of(arena);
  to.used_ = used_;
  to.made_ = made_;
  to.quote_ = quote_;
  to.tables_.assign(tables_.begin(), tables_.begin() + extent_.tables);
  to.table_bytes_ = extent_.table_bytes;
  to.member_states_ = member_states_.first(extent_.members);
  to.key_states_ = key_states_.first(extent_.keys);
  to.seen_states_ = seen_states_.first(extent_.seen);
  to.texts_ = texts_.first(extent_.texts);
  to.sets_.take_first(sets_, extent_.sets);
  to.extent_ = extent_;
}

std::size_t bytes_of(const Vote& of) {
  std::size_t bytes = 0;
  for (const Vote::Cell& cell : of.cells) bytes += sizeof cell + bytes_of(cell.required);
  for (const Vote::Part& part : of.parts) bytes += sizeof part + bytes_of(part.of);
  for (const Bits& effect : of.effects) bytes += sizeof effect + bytes_of(effect);
  for (const Vote::Settled& settled : of.settled) bytes += sizeof settled + bytes_of(settled.cells);
  for (const auto& wholes : of.wholes) {
    bytes += sizeof wholes;
    for (const Vote::Whole& whole : wholes) bytes += sizeof whole + bytes_of(whole.values);
  }
  return bytes;
}

std::size_t bytes_of(const VoteUses& of) {
  std::size_t bytes = bytes_of(of.failing_others);
  for (const auto* lists : {&of.parts, &of.cells})
    for (const std::vector<u32>& list : *lists) bytes += sizeof list + bytes_of(list);
  for (const Bits& names : of.failing) bytes += sizeof names + bytes_of(names);
  return bytes;
}

std::size_t bytes_of(const MemberTable& of) {
  std::size_t bytes = bytes_of(of.names) + bytes_of(of.values) + bytes_of(of.required) + bytes_of(of.others) +
                      bytes_of(of.order) + bytes_of(of.needed) + bytes_of(of.possible) + bytes_of(of.cost) +
                      bytes_of(of.least_names) + bytes_of(of.least_texts);
  for (const std::string& name : of.names) bytes += bytes_of(name);
  for (const std::string& text : of.least_texts) bytes += bytes_of(text);
  for (const auto& list : of.values) bytes += bytes_of(list);
  return of.vote ? bytes + bytes_of(*of.vote) + bytes_of(*of.uses) : bytes;
}

void Json::count(Tally& to) const {
  if (used_)
    to.add("objects", sizeof(*this) + texts_.memory() + sets_.memory() + member_states_.memory() +
                          key_states_.memory() + seen_states_.memory() + bytes_of(facts_) + facts_bytes_ +
                          bytes_of(tables_) + table_bytes_ + bytes_of(equal_) + values_.memory() + grown_.memory() +
                          bytes_of(bare_) + bytes_of(twice_) + endless_memo_.memory());
}

}  // namespace guiderail
