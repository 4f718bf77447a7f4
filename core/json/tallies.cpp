// Lists whose items are counted by kind, and alternatives of lists that are read in parallel.
//
// A tally is a formula over cells (see votes.cpp). A cell bounds the number of items, and has counters. Python splits
// the values at each position into sets that have the same effect: which cells they fail, which counters they
// increment. A state records which cells have failed, and all counts as far as they matter. Only the states that texts
// reach are made; an expression written out in advance would need one for each combination of counts.
//
// Can a state be completed? States only advance: counts grow, cells fail. So a depth-first search that first tries what
// promises to end soon is exact. It settles all states along the path that it finds.
#include "json/tallies.hpp"

#include <algorithm>

#include "base/faults.hpp"
#include "base/work.hpp"
#include "json/json.hpp"

namespace guiderail {
namespace {

constexpr u64 kNever = u64{1} << 40;  // items

// Where a count is capped: beyond that, it makes no difference.
u32 enough(u32 min, u32 max) { return max == kInf ? min : max + 1; }

}  // namespace

std::size_t bytes_of(const TallyTable& of) {
  std::size_t bytes = bytes_of(of.places) + bytes_of(of.counters) + bytes_of(of.vote.cells) + bytes_of(of.vote.parts) +
                      bytes_of(of.tight);
  for (const Bits& counters : of.together) bytes += sizeof counters + bytes_of(counters);
  for (const auto& place : of.places) {
    bytes += bytes_of(place);
    for (const TallyTable::Items& items : place) bytes += bytes_of(items.fails) + bytes_of(items.counts);
  }
  for (const Vote::Part& part : of.vote.parts) bytes += bytes_of(part.of);
  return bytes;
}

Id Tallies::tally(TallyTable table) {
  Json::of(arena_).use();
  table.least = kInf;
  table.flags = node(table.comma).flags.load(std::memory_order_relaxed) & (kHasRef | kHasToken);
  for (auto& place : table.places) {
    std::erase_if(place, [](const TallyTable::Items& items) { return items.value == kEmpty; });
    for (const TallyTable::Items& items : place) {
      if (has(items.value, kHasItem)) throw Error("item-outside", "an item must be directly inside its own distinct");
      table.flags |= node(items.value).flags.load(std::memory_order_relaxed) & (kHasRef | kHasToken);
      table.least = std::min(table.least, node(items.value).shortest);
    }
  }
  if (finalized()) table.flags |= kExactStep;  // made while reading: its text is not in the byte classes
  for (u32 i = 0; i < table.vote.cells.size(); ++i) {
    bool least = table.vote.cells[i].min > 0, most = table.vote.cells[i].max != kInf, counted = false;
    for (const TallyTable::Counter& counter : table.counters) {
      if (counter.cell != i) continue;
      counted = true;
      least = least || counter.min > 0;
      most = most || counter.max != kInf;
    }
    if (counted && least && most) table.tight.push_back(i);
  }
  table.together.assign(table.counters.size(), Bits((table.counters.size() + 63) / 64, 0));
  for (const auto& place : table.places)
    for (const TallyTable::Items& items : place)
      for (u32 c : items.counts)
        for (u32 other : items.counts) set_bit(table.together[c], other);
  TallyState start;
  start.table = static_cast<u32>(tables_.size());
  start.failed.assign((table.vote.cells.size() + 63) / 64, 0);
  start.counts.assign(table.counters.size(), 0);
  tables_.push_back(std::move(table));
  table_bytes_ += bytes_of(tables_.back());
  settle(start);
  const u32 id = states_.id(std::move(start));
  return possible(id) ? node_of(id) : kEmpty;
}

// Forgets what no longer makes a difference.
void Tallies::settle(TallyState& state) const {
  const TallyTable& table = table_of(state);
  const Vote& vote = table.vote;
  for (u32 i = 0; i < vote.cells.size(); ++i)
    if (state.items > vote.cells[i].max) set_bit(state.failed, i);
  for (u32 c = 0; c < table.counters.size(); ++c)
    if (state.counts[c] > table.counters[c].max) set_bit(state.failed, table.counters[c].cell);
  for (u32 i : table.tight) {
    if (bit(state.failed, i)) continue;
    Bits one(state.failed.size(), 0);
    set_bit(one, i);
    if (starved(state, one)) set_bit(state.failed, i);
  }
  const std::vector<u8> known = truths(vote, [&](u32 i) { return bit(state.failed, i) ? False : Open; });
  Bits wanted(state.failed.size(), 0);
  const bool all = known.back() == Open && mark(vote, known, wanted);
  if (all && !table.counters.empty() && starved(state, wanted)) wanted.assign(wanted.size(), 0);
  u32 items = 1;
  for (u32 i = 0; i < vote.cells.size(); ++i) {
    if (bit(wanted, i))
      items = std::max(items, enough(vote.cells[i].min, vote.cells[i].max));
    else
      set_bit(state.failed, i);
  }
  state.items = std::min(state.items, items);
  for (u32 c = 0; c < table.counters.size(); ++c) {
    const TallyTable::Counter& counter = table.counters[c];
    state.counts[c] = bit(wanted, counter.cell) ? std::min(state.counts[c], enough(counter.min, counter.max)) : 0;
  }
}

// Is it certain that the cells cannot all hold in the end, since there is no room for the items that they still need?
// Items that no two counters count at once need room for each. And if every item is counted by some counter with a
// maximum, the maxima leave room for few.
bool Tallies::starved(const TallyState& state, const Bits& cells) const {
  const TallyTable& table = table_of(state);
  u64 room = kNever, bounded = 0, need = 0, apart = 0;
  std::vector<std::pair<u32, u32>> due;  // counters, the largest first
  Bits full(table.together.empty() ? 0 : table.together[0].size(), 0), taken = full;
  for (u32 i = 0; i < table.vote.cells.size(); ++i) {
    if (!bit(cells, i)) continue;
    const Vote::Cell& cell = table.vote.cells[i];
    if (cell.min > state.items) need = std::max<u64>(need, cell.min - state.items);
    if (cell.max != kInf) room = std::min<u64>(room, cell.max - std::min(cell.max, state.items));
  }
  for (u32 c = 0; c < table.counters.size(); ++c) {
    const TallyTable::Counter& counter = table.counters[c];
    if (!bit(cells, counter.cell)) continue;
    if (counter.min > state.counts[c]) due.push_back({counter.min - state.counts[c], c});
    if (counter.max == kInf) continue;
    bounded += counter.max - std::min(counter.max, state.counts[c]);
    set_bit(full, c);
  }
  std::sort(due.begin(), due.end(), std::greater<>());
  for (const auto& [count, c] : due) {
    if (bit(taken, c)) continue;
    apart += count;
    for (std::size_t w = 0; w < taken.size(); ++w) taken[w] |= table.together[c][w];
  }
  need = std::max(need, apart);
  if (need == 0 || state.place + 1 < table.places.size()) return need > room;
  const auto& items = table.places.back();
  const bool counted = std::all_of(items.begin(), items.end(), [&](const TallyTable::Items& of) {
    for (std::size_t w = 0; w < cells.size(); ++w)
      if (of.fails[w] & cells[w]) return true;
    return std::any_of(of.counts.begin(), of.counts.end(), [&](u32 c) { return bit(full, c); });
  });
  return need > (counted ? std::min(room, bounded) : room);
}

TallyState Tallies::with_item(const TallyState& state, u32 which) const {
  const TallyTable& table = table_of(state);
  const TallyTable::Items& items = table.places[state.place][which];
  TallyState next = state;
  for (std::size_t w = 0; w < next.failed.size(); ++w) next.failed[w] |= items.fails[w];
  for (u32 c : items.counts) ++next.counts[c];
  ++next.items;
  next.place = std::min(next.place + 1, static_cast<u32>(table.places.size()) - 1);
  settle(next);
  return next;
}

bool Tallies::holds(const TallyState& state) const {
  const TallyTable& table = table_of(state);
  Bits short_of = state.failed;
  for (u32 c = 0; c < table.counters.size(); ++c)
    if (state.counts[c] < table.counters[c].min) set_bit(short_of, table.counters[c].cell);
  return truths(table.vote, [&](u32 i) {
           return bit(short_of, i) || state.items < table.vote.cells[i].min ? False : True;
         }).back() == True;
}

// A rough lower bound on the number of items that complete the list; kNever if none can. It only orders the search.
u64 Tallies::distance(const TallyState& state) const {
  const TallyTable& table = table_of(state);
  std::vector<u64> due(table.vote.cells.size(), 0);
  for (u32 i = 0; i < due.size(); ++i)
    due[i] = state.items < table.vote.cells[i].min ? table.vote.cells[i].min - state.items : 0;
  for (u32 c = 0; c < table.counters.size(); ++c)
    if (state.counts[c] < table.counters[c].min) due[table.counters[c].cell] += table.counters[c].min - state.counts[c];
  std::vector<std::pair<u64, u64>> cost(table.vote.parts.size());  // the cost of making each part true; false
  auto add = [](u64 a, u64 b) { return std::min(a + b, kNever); };
  for (std::size_t p = 0; p < cost.size(); ++p) {
    const Vote::Part& part = table.vote.parts[p];
    u64 all_true = 0, all_false = 0, any_true = kNever, any_false = kNever;
    if (part.op == Vote::Op::Cell) {
      const u32 i = part.of[0];
      const bool failed = bit(state.failed, i);
      cost[p] = {failed ? kNever : due[i], failed || due[i] > 0 ? 0 : 1};
      continue;
    }
    for (u32 of : part.of) {
      all_true = add(all_true, cost[of].first);
      all_false = add(all_false, cost[of].second);
      any_true = std::min(any_true, cost[of].first);
      any_false = std::min(any_false, cost[of].second);
    }
    switch (part.op) {
      case Vote::Op::All: cost[p] = {all_true, any_false}; break;
      case Vote::Op::Any: cost[p] = {any_true, all_false}; break;
      case Vote::Op::Not: cost[p] = {any_false, any_true}; break;
      case Vote::Op::One: cost[p] = {any_true, 0}; break;
      case Vote::Op::Cell: break;
    }
  }
  return cost.back().first;
}

bool Tallies::possible(u32 start) {
  auto known = [&](u32 id) {
    if (id >= hope_.size()) hope_.resize(id + 1, 0);
    return hope_[id];
  };
  if (known(start)) return hope_[start] == 2;
  struct Frame {
    u32 state;
    std::vector<std::pair<u64, u32>> ways;  // sorted, the best last: distance, index of the items
  };
  std::vector<Frame> stack;
  u64 steps = 0;
  auto open = [&](u32 id) {  // true: the state can be completed
    const TallyState& state = states_.values[id];
    const TallyTable& table = table_of(state);
    if (holds(state)) return true;
    Frame& frame = stack.emplace_back(Frame{id, {}});
    const auto& items = table.places[state.place];
    const u64 each = 1 + (table.vote.parts.size() + table.counters.size() + table.vote.cells.size()) / 8;
    Work::spend(each * items.size());
    steps += each * items.size();
    if (steps > u64{limits().fuel} * 20 || faults::on_limit())
      throw Error("fuel", "deciding how the items of an array can still be counted took more than " +
                              std::to_string(limits().fuel) +
                              " states; lower minContains, maxContains or the bounds on items, or raise fuel");
    for (u32 i = 0; i < items.size(); ++i) {
      const u64 away = distance(with_item(state, i));
      if (away < kNever) frame.ways.push_back({away, i});
    }
    std::sort(frame.ways.begin(), frame.ways.end(), std::greater<>());
    return false;
  };
  bool found = open(start);
  while (!found && !stack.empty()) {
    arena_.make_room();
    Frame& top = stack.back();
    if (top.ways.empty()) {  // all successors have been tried
      known(top.state);
      hope_[top.state] = 1;
      stack.pop_back();
      continue;
    }
    const u32 which = top.ways.back().second;
    top.ways.pop_back();
    const u32 next = states_.id(with_item(states_.values[top.state], which));
    if (next == top.state || known(next) == 1) continue;
    found = hope_[next] == 2 || open(next);
    if (found) hope_[next] = 2;
  }
  if (!found) return false;
  known(start);
  hope_[start] = 2;
  for (const Frame& frame : stack) {
    known(frame.state);
    hope_[frame.state] = 2;
  }
  return true;
}

Id Tallies::node_of(u32 id) {
  const TallyState& state = states_.values[id];
  const TallyTable& table = table_of(state);
  const bool can_end = holds(state);
  if (can_end) {
    bool more = false;
    for (u32 i = 0; i < table.places[state.place].size() && !more; ++i)
      more = possible(states_.id(with_item(state, i)));
    if (!more) return kEpsilon;
  }
  Draft d = draft(Kind::Tally);
  d.a = id;
  d.flags = table.flags | (can_end ? u32{kNullable} : 0);
  d.shortest = can_end ? 0 : add_sat(state.items > 0 ? node(table.comma).shortest : 0, table.least);
  d.longest = kInf;
  return intern(d);
}

// What comes next: an item, the separator before it, and the list after it.
Id Tallies::expand(u32 id) {
  if (id < expansion_.size() && expansion_[id] != kEmpty) return expansion_[id];
  const TallyState& state = states_.values[id];
  const TallyTable& table = table_of(state);
  const auto& items = table.places[state.place];
  std::vector<std::pair<u32, Id>> ways;  // the next state; the item
  for (u32 i = 0; i < items.size(); ++i) {
    const u32 next = states_.id(with_item(state, i));
    if (possible(next)) ways.push_back({next, items[i].value});
  }
  std::sort(ways.begin(), ways.end());
  std::vector<Id> parts;
  for (std::size_t i = 0; i < ways.size();) {
    std::vector<Id> same;
    const u32 next = ways[i].first;
    for (; i < ways.size() && ways[i].first == next; ++i) same.push_back(ways[i].second);
    const Id item = unite(std::move(same));
    parts.push_back(concat(item, node_of(next)));
  }
  const Id some = unite(std::move(parts));
  const Id out = state.items > 0 ? concat(table.comma, some) : some;
  if (id >= expansion_.size()) expansion_.resize(id + 1, kEmpty);
  return expansion_[id] = out;
}

// -- identities, copies, memory --
void Tallies::describe(Id e, Description& to) const {
  const TallyState& state = states_.values[tally_state(node(e))];
  to.shared(*this, Kind::Tally, state.table);
  to.word(u64{state.place} << 32 | state.items);
  for (u64 w : state.failed) to.word(w);
  for (u32 count : state.counts) to.word(count);
}

void Tallies::describe_shared(u32 id, Description& to) const {
  const TallyTable& table = tables_[id];
  to.part(table.comma);
  guiderail::describe(table.vote, to);
  to.word(u64{table.counters.size()} << 32 | table.places.size());
  for (const TallyTable::Counter& counter : table.counters) {
    to.word(counter.cell);
    to.word(u64{counter.min} << 32 | counter.max);
  }
  for (const auto& place : table.places) {
    to.word(place.size());
    for (const TallyTable::Items& items : place) {
      to.part(items.value);
      for (u64 w : items.fails) to.word(w);
      to.word(items.counts.size());
      for (u32 counter : items.counts) to.word(counter);
    }
  }
}

void Tallies::note_extent() {
  extent_ = {static_cast<u32>(tables_.size()), static_cast<u32>(states_.values.size()), table_bytes_};
}

void Tallies::fresh(Arena& arena) const {
  Tallies& to = Tallies::of(arena);
  to.tables_.assign(tables_.begin(), tables_.begin() + extent_.tables);
  to.table_bytes_ = extent_.table_bytes;
  to.states_ = states_.first(extent_.states);
  to.extent_ = extent_;
}

void Tallies::count(Tally& to) const {
  if (!tables_.empty())
    to.add("arrays", sizeof(*this) + bytes_of(tables_) + table_bytes_ + states_.memory() + bytes_of(hope_) +
                         bytes_of(expansion_));
}

}  // namespace guiderail
