// Patterned(text; p1 … pn) matches the texts of `text` whose outcome has a value. The outcome begins with 0, and
// changes with every pattern that the text matches.
//
// The value of a key may depend on many patterns that overlap. There are 2^n sets of patterns, but few outcomes: most
// sets have no value, or the value of a smaller set. So the patterns are read side by side, as one state: the rest of
// each, and the outcome of those that match whatever follows. A pattern that no longer changes the outcome is dropped,
// so states that differ only in such patterns are one. Where nothing follows the text, an outcome only says whether it
// matches.
#include "json/patterned.hpp"

#include "base/work.hpp"

namespace guiderail {

Id Patterned::patterned(Id text, std::vector<Id> patterns, std::vector<std::vector<u32>> next, std::vector<Id> values) {
  const auto check = [&](Id e, const char* what) {
    if (has(e, kHasRef | kHasToken | kHasLook))
      throw Error("not-regular", std::string("patterned: ") + what + " must be a regular expression");
  };
  check(text, "the text");
  for (Id p : patterns) check(p, "a pattern");
  PatternTable table{std::move(next), std::move(values), false, {}};
  for (Id value : table.values) {
    table.hope.push_back(value != kEmpty);
    table.chooses = table.chooses || (value != kEmpty && value != kEpsilon);
  }
  for (bool more = true; std::exchange(more, false);)
    for (std::size_t i = 0; i < table.next.size(); ++i) {
      Work::spend(1 + table.next[i].size());
      for (u32 to : table.next[i])
        if (table.hope[to] && !table.hope[i]) table.hope[i] = more = true;
    }
  PatternState state;
  state.table = static_cast<u32>(tables_.size());
  state.text = text;
  for (Id p : patterns) state.patterns.push_back(p);
  std::size_t bytes = bytes_of(table.next) + bytes_of(table.values) + bytes_of(table.hope);
  for (const auto& row : table.next) bytes += bytes_of(row);
  tables_.push_back(std::move(table));
  table_bytes_ += bytes;
  return node_of(std::move(state));
}

Id Patterned::node_of(PatternState state) {
  const PatternTable& table = tables_[state.table];
  if (state.text == kEmpty || !live(state.text)) return kEmpty;
  Work::spend(1 + state.patterns.size() / 4);
  for (std::size_t i = 0; i < state.patterns.size(); ++i)
    if (state.patterns[i] == state.text || state.patterns[i] == any_text()) {
      state.outcome = table.next[state.outcome][i];
      state.patterns[i] = kEmpty;
    }
  bool open = false;
  for (std::size_t i = 0; i < state.patterns.size(); ++i) {
    Id& p = state.patterns[i];
    if (p != kEmpty && (table.next[state.outcome][i] == state.outcome || !live(p))) p = kEmpty;
    open = open || p != kEmpty;
  }
  if (!table.hope[state.outcome] || (!open && table.values[state.outcome] == kEmpty)) return kEmpty;
  Draft d = draft(Kind::Patterned);
  absorb(d, state.text, true);
  for (Id p : state.patterns) absorb(d, p, true);
  if (open) d.flags |= kSearch;
  if (nullable(state.text) && table.values[outcome(state)] != kEmpty) d.flags |= kNullable;
  d.shortest = node(state.text).shortest;
  d.longest = node(state.text).longest;
  d.a = states_.id(std::move(state));
  return intern(d);
}

// Of a text that ends here.
u32 Patterned::outcome(const PatternState& state) const {
  u32 out = state.outcome;
  for (std::size_t i = 0; i < state.patterns.size(); ++i)
    if (nullable(state.patterns[i])) out = tables_[state.table].next[out][i];
  return out;
}

Id Patterned::value(Id e) const {
  const PatternState& state = states_.values[pattern_state(node(e))];
  return tables_[state.table].values[outcome(state)];
}

bool Patterned::chooses(Id e) const {
  return node(e).kind == Kind::Patterned && tables_[states_.values[pattern_state(node(e))].table].chooses;
}

std::span<const Id> Patterned::values_after(Id key, const Id& value) const {
  if (!chooses(key)) return {&value, 1};
  return tables_[states_.values[pattern_state(node(key))].table].values;
}

bool Patterned::never_fails(Id e) const {
  const PatternState& state = states_.values[pattern_state(node(e))];
  const PatternTable& table = tables_[state.table];
  if (state.text != any_text()) return false;
  std::vector<u32> open{state.outcome};
  std::vector<u8> met(table.values.size());
  while (!open.empty()) {
    const u32 at = open.back();
    open.pop_back();
    if (table.values[at] == kEmpty) return false;
    for (std::size_t i = 0; i < state.patterns.size(); ++i)
      if (const u32 to = table.next[at][i]; state.patterns[i] != kEmpty && !std::exchange(met[to], 1))
        open.push_back(to);
  }
  return true;
}

Id Patterned::derivative(Id e, u8 byte) {
  PatternState state = states_.values[pattern_state(node(e))];
  state.text = step_text(state.text, byte);
  if (state.text == kEmpty) return kEmpty;
  for (Id& p : state.patterns)
    if (p != kEmpty) p = step_text(p, byte);
  return node_of(std::move(state));
}

// -- identities, copies, memory --
void Patterned::describe(Id e, Description& to) const {
  const PatternState& state = states_.values[pattern_state(node(e))];
  to.shared(*this, Kind::Patterned, state.table);
  to.word(u64{state.outcome} << 32 | state.patterns.size());
  to.part(state.text);
  for (Id p : state.patterns) to.part(p);
}

void Patterned::describe_shared(u32 id, Description& to) const {
  const PatternTable& table = tables_[id];
  to.word(table.next.size());
  for (std::size_t i = 0; i < table.next.size(); ++i) {
    to.word(u64{table.next[i].size()} << 1 | (table.values[i] == kEmpty));
    for (u32 next : table.next[i]) to.word(next);
  }
}

void Patterned::note_extent() {
  extent_ = {static_cast<u32>(tables_.size()), static_cast<u32>(states_.values.size()), table_bytes_};
}

void Patterned::fresh(Arena& arena) const {
  Patterned& to = of(arena);
  to.tables_.assign(tables_.begin(), tables_.begin() + extent_.tables);
  to.table_bytes_ = extent_.table_bytes;
  to.states_ = states_.first(extent_.states);
  to.extent_ = extent_;
}

void Patterned::count(Tally& to) const {
  to.add("patterns of keys", bytes_of(tables_) + table_bytes_ + states_.memory());
}

}  // namespace guiderail
