// Alternatives of an object that are read in parallel.
//
// A vote is a formula over cells. A cell is a conjunction: the value of each member is in a set, certain names are
// present, and the number of members is within bounds. Python splits the values of every key into sets by the cells
// that they make fail; these cells are the effect of a member. A failed cell never recovers. So the state of the object
// is which cells have failed, which names were written, and how many members there are. At the end, a cell holds if it
// has not failed, its names are present and the count is within bounds; then the formula decides.
//
// A cell that no longer matters to the formula counts as failed, so that states merge. Once the formula simply requires
// a few cells, the state becomes one of a plain table, and costs no more than an object without alternatives.
#include <algorithm>

#include "json/formula.hpp"
#include "json/json.hpp"

namespace guiderail {

std::optional<u32> Json::plain_members(Id e) const {
  if (node(e).kind != Kind::Members) return std::nullopt;
  const MemberState& state = member_states_.values[members_state(node(e))];
  if (state.count > 0 || state.pending > 0) return std::nullopt;
  return state.table;
}

// A member with an effect was written (kOther: not one of the names).
void Json::fail(MemberState& next, u32 effect, u32 name) const {
  const MemberTable& table = tables_[next.table];
  const Vote& vote = *table.vote;
  for (std::size_t w = 0; w < next.failed.size(); ++w) next.failed[w] |= vote.effects[effect][w];
  if (table.ordered) {  // skipped names cannot come any more
    Bits passed(next.gone.size(), 0);
    for (u32 i = 0; i < table.names.size() && i != name; ++i)
      if (!bit(next.gone, i)) {
        set_bit(passed, i);
        set_bit(next.gone, i);
      }
    for (u32 i = 0; i < vote.cells.size(); ++i)
      if (meet(vote.cells[i].required, passed)) set_bit(next.failed, i);
  }
  if (name != kOther) set_bit(next.gone, name);
  if (next.count < vote.counted) ++next.count;
  settle(next);
}

void Json::settle(MemberState& state) const {
  const Vote& vote = *tables_[state.table].vote;
  for (u32 i = 0; i < vote.cells.size(); ++i)
    if (state.count > vote.cells[i].max) set_bit(state.failed, i);
  const std::vector<u8> known = truths(vote, [&](u32 i) { return bit(state.failed, i) ? False : Open; });
  Bits wanted(state.failed.size(), 0);
  const bool plain = known.back() != Open || mark(vote, known, wanted);
  for (u32 i = 0; i < vote.cells.size(); ++i)
    if (!bit(wanted, i)) set_bit(state.failed, i);
  if (!plain || known.back() == False) return;
  for (const Vote::Settled& settled : vote.settled) {
    if (settled.cells != wanted) continue;
    const MemberTable& to = tables_[settled.table];
    state.table = settled.table;
    state.failed.clear();
    state.pending = 0;
    if (to.max == kInf) state.count = std::min(state.count, std::max(to.min, 1u));
    return;
  }
}

// Does the formula hold for the object as it stands?
bool Json::vote_holds(const MemberState& state) const {
  const Vote& vote = *tables_[state.table].vote;
  return truths(vote, [&](u32 i) {
           const Vote::Cell& cell = vote.cells[i];
           if (bit(state.failed, i) || state.count < cell.min || state.count > cell.max) return False;
           for (std::size_t w = 0; w < state.gone.size(); ++w)
             if (cell.required[w] & ~state.gone[w]) return False;
           return True;
         }).back() == True;
}

bool Json::vote_feasible(const MemberState& state) {
  if (vote_holds(state)) return true;
  const u32 id = member_states_.id(MemberState(state));
  if (const u8 known = facts_of(id).feasible) return known == 2;
  const MemberTable& table = tables_[state.table];
  std::vector<u32> available;
  for (const OtherKeys& o : table.others) {
    if (o.few.empty()) {
      available.push_back(kInf);
      continue;
    }
    u32 written = 0;
    for (const std::string& text : o.few) written += sets_.has(state.seen, text) ? 1 : 0;
    available.push_back(static_cast<u32>(o.few.size()) - written);
  }
  const bool found = completable(table, state, limits().fuel, available);
  facts_of(id).feasible = found ? 2 : 1;
  return found;
}

bool Json::other_allowed_at(u32 state, u32 kind) {
  const MemberState members = member_states_.values[state];
  const MemberTable& table = tables_[members.table];
  if (facts_of(state).each_other.empty()) {
    facts_of(state).each_other.resize(table.others.size());
    facts_bytes_ += bytes_of(facts_of(state).each_other);
  }
  if (const u8 known = facts_of(state).each_other[kind]) return known == 2;
  const bool found = feasible(with_other(members, kSomeText, table.others[kind].discharges));
  facts_of(state).each_other[kind] = found ? 2 : 1;
  return found;
}

}  // namespace guiderail
