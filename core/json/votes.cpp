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
//
// Can a state be completed? A search satisfies the formula step by step (as in DPLL). It tries choices of which cells
// hold, and checks each choice against the members that may still come. A cell that must hold needs its names, with
// values that fail no other such cell. A cell that must not hold needs a missing name, a member that fails it, or
// another count. The search is exact. It runs over members, not bytes, and its first guess settles most states.
#include <algorithm>

#include "base/faults.hpp"
#include "base/work.hpp"
#include "json/formula.hpp"
#include "json/json.hpp"

namespace guiderail {
namespace {

bool meet(const Bits& a, const Bits& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] & b[i]) return true;
  return false;
}

// Searches for members that complete a state.
class Completion {
 public:
  Completion(const MemberTable& table, const MemberState& state, u64 fuel, const std::vector<u32>& available)
      : table_(table), vote_(*table.vote), state_(state), fuel_(fuel), available_(available) {}

  bool possible() {
    Trial trial;
    for (u32 i = 0; i < vote_.cells.size(); ++i) trial.cells.push_back(bit(state_.failed, i) ? False : Open);
    trial.goals.push_back({static_cast<u32>(vote_.parts.size() - 1), True});
    return solve(std::move(trial));
  }

 private:
  using Goal = std::pair<u32, u8>;  // a part, and the truth it must have
  struct Trial {
    std::vector<u8> cells;
    std::vector<Goal> goals, waiting;
  };
  struct Plan {                                            // members still to come
    std::vector<std::pair<u32, std::vector<u32>>> chosen;  // names, each with its suitable alternatives
    Bits banned;                                           // names that must not come
    std::vector<u32> extra;                                // other keys, by kind
    u32 low = 0, high = kInf;                              // number of members in all
  };

  void step(u64 cost) {
    Work::spend(cost);
    steps_ += cost;
    if (steps_ > fuel_ * 20 || faults::on_limit())
      throw Error("fuel", "deciding which alternatives of an object can still hold took more than " +
                              std::to_string(fuel_) +
                              " states; make the alternatives of its oneOf, not, if or anyOf "
                              "exclude each other, or raise fuel");
  }

  bool solve(Trial trial) {
    for (;;) {
      while (!trial.goals.empty()) {
        const auto [at, want] = trial.goals.back();
        trial.goals.pop_back();
        const Vote::Part& part = vote_.parts[at];
        if (part.op == Vote::Op::Cell) {
          u8& cell = trial.cells[part.of[0]];
          if (cell != Open && cell != want) return false;
          cell = want;
        } else if (part.op == Vote::Op::Not) {
          trial.goals.push_back({part.of[0], want == True ? False : True});
        } else if ((part.op == Vote::Op::All && want == True) || (part.op == Vote::Op::Any && want == False)) {
          for (u32 p : part.of) trial.goals.push_back({p, want});
        } else {
          trial.waiting.push_back({at, want});
        }
      }
      step(1 + vote_.parts.size() / 4);
      const std::vector<u8> known = truths(vote_, [&](u32 cell) { return trial.cells[cell]; });
      std::vector<Goal> waiting;
      std::vector<std::vector<Goal>> options, best;
      bool forced = false;
      for (const Goal& goal : trial.waiting) {
        if (known[goal.first] != Open) {
          if (known[goal.first] != goal.second) return false;
          continue;
        }
        options = ways(goal, known);
        if (options.empty()) return false;
        if (options.size() == 1) {
          trial.goals.insert(trial.goals.end(), options[0].begin(), options[0].end());
          forced = true;
          continue;
        }
        if (waiting.empty() || options.size() < best.size()) {
          best = std::move(options);
          waiting.insert(waiting.begin(), goal);
        } else {
          waiting.push_back(goal);
        }
      }
      trial.waiting = std::move(waiting);
      if (forced) continue;
      if (!fits(trial.cells)) return false;
      if (trial.waiting.empty()) return true;
      trial.waiting.erase(trial.waiting.begin());
      for (std::vector<Goal>& way : best) {
        Trial next = trial;
        next.goals = std::move(way);
        if (solve(std::move(next))) return true;
      }
      return false;
    }
  }

  // The ways to give an open part the truth it must have.
  std::vector<std::vector<Goal>> ways(const Goal& goal, const std::vector<u8>& known) const {
    const Vote::Part& part = vote_.parts[goal.first];
    std::vector<u32> open;
    u32 yes = 0;
    for (u32 p : part.of) {
      if (known[p] == Open) open.push_back(p);
      yes += known[p] == True;
    }
    std::vector<std::vector<Goal>> out;
    if (part.op != Vote::Op::One) {
      for (u32 p : open) out.push_back({{p, goal.second}});
      return out;
    }
    std::vector<Goal> none;
    for (u32 p : open) none.push_back({p, False});
    if (goal.second == True) {
      if (yes == 1) return {none};
      for (std::size_t i = 0; i < open.size(); ++i) {
        out.push_back(none);
        out.back()[i].second = True;
      }
    } else if (yes == 1) {
      for (u32 p : open) out.push_back({{p, True}});
    } else {
      out.push_back(none);
      for (std::size_t i = 0; i < open.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) out.push_back({{open[j], True}, {open[i], True}});
    }
    return out;
  }

  const Bits& effect(const Alternative& a) const { return vote_.effects[a.discharges]; }

  // Can members follow that make the True cells hold and the False cells fail? Open cells may do either.
  bool fits(const std::vector<u8>& cells) {
    Plan plan;
    plan.banned.assign(state_.gone.size(), 0);
    hold_.assign(state_.failed.size(), 0);
    fail_.clear();
    counted_ = false;
    Bits due(state_.gone.size(), 0);
    for (u32 i = 0; i < cells.size(); ++i) {
      if (cells[i] == False && !bit(state_.failed, i)) {
        fail_.push_back(i);
        counted_ = counted_ || vote_.cells[i].min > 0;
      }
      if (cells[i] != True) continue;
      set_bit(hold_, i);
      const Vote::Cell& cell = vote_.cells[i];
      plan.low = std::max(plan.low, cell.min);
      plan.high = std::min(plan.high, cell.max);
      for (std::size_t w = 0; w < due.size(); ++w) due[w] |= cell.required[w] & ~state_.gone[w];
    }
    step(1 + table_.names.size() / 8);
    for (u32 name = 0; name < table_.names.size(); ++name) {
      if (!bit(due, name)) continue;
      std::vector<u32> safe = alternatives(name, kInf);
      if (safe.empty()) return false;
      plan.chosen.push_back({name, std::move(safe)});
    }
    return refute(std::move(plan), fail_);
  }

  // The alternatives of a name that fail no cell that must hold, and that fail `cell` (kInf: any).
  std::vector<u32> alternatives(u32 name, u32 cell) const {
    std::vector<u32> out;
    const auto& values = table_.values[name];
    for (u32 a = 0; a < values.size(); ++a)
      if (!meet(effect(values[a]), hold_) && (cell == kInf || bit(effect(values[a]), cell))) out.push_back(a);
    return out;
  }

  bool fails(const Plan& plan, u32 cell) const {
    const Vote::Cell& of = vote_.cells[cell];
    if (plan.high < of.min || plan.low > of.max || meet(of.required, plan.banned)) return true;
    for (const auto& [name, able] : plan.chosen)
      if (std::all_of(able.begin(), able.end(),
                      [&, name = name](u32 a) { return bit(effect(table_.values[name][a]), cell); }))
        return true;
    for (u32 r : plan.extra)
      if (bit(vote_.effects[table_.others[r].discharges], cell)) return true;
    return false;
  }

  // Can all the cells that must not hold be made to fail? Begins with those that can fail in the fewest ways.
  bool refute(Plan plan, std::vector<u32> left) {
    step(1 + plan.chosen.size());
    if (plan.low > plan.high || state_.count + plan.chosen.size() + plan.extra.size() > plan.high) return false;
    std::vector<Way> best;
    std::size_t at = 0;
    std::erase_if(left, [&](u32 cell) { return fails(plan, cell); });
    for (std::size_t i = 0; i < left.size() && (i == 0 || best.size() > 1); ++i) {
      step(1 + table_.names.size() / 8);
      std::vector<Way> ways = ways_to_fail(plan, left[i], i == 0 ? kInf : static_cast<u32>(best.size()));
      if (i > 0 && ways.size() >= best.size()) continue;
      best = std::move(ways);
      at = i;
    }
    if (left.empty()) return enough(plan);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
    for (Way& way : best)
      if (refute(with(plan, way), left)) return true;
    return false;
  }

  // One way to make a cell fail.
  struct Way {
    enum class What : u8 { Banned, Chosen, Member, Extra, Fewer, More } what;
    u32 which = 0;          // a name, a member chosen already, a kind of other keys, or a number of members
    std::vector<u32> able;  // alternatives of its value
  };

  static Plan with(Plan plan, Way& way) {
    switch (way.what) {
      case Way::What::Banned: set_bit(plan.banned, way.which); break;
      case Way::What::Chosen: plan.chosen[way.which].second = std::move(way.able); break;
      case Way::What::Member: plan.chosen.push_back({way.which, std::move(way.able)}); break;
      case Way::What::Extra: plan.extra.push_back(way.which); break;
      case Way::What::Fewer: plan.high = std::min(plan.high, way.which); break;
      case Way::What::More: plan.low = std::max(plan.low, way.which); break;
    }
    return plan;
  }

  // The ways in which a cell can fail that has not yet failed. Stops once there are `most`.
  std::vector<Way> ways_to_fail(const Plan& plan, u32 cell, u32 most) const {
    const Vote::Cell& of = vote_.cells[cell];
    std::vector<Way> out;
    auto is_chosen = [&](u32 name) {
      return std::any_of(plan.chosen.begin(), plan.chosen.end(), [&](const auto& c) { return c.first == name; });
    };
    for (u32 name = 0; name < table_.names.size() && out.size() < most; ++name)  // a required name stays away
      if (bit(of.required, name) && !bit(state_.gone, name) && !is_chosen(name))
        out.push_back({Way::What::Banned, name, {}});
    for (u32 i = 0; i < plan.chosen.size() && out.size() < most; ++i) {  // a member chosen already fails it
      std::vector<u32> able;
      for (u32 a : plan.chosen[i].second)
        if (bit(effect(table_.values[plan.chosen[i].first][a]), cell)) able.push_back(a);
      if (!able.empty()) out.push_back({Way::What::Chosen, i, std::move(able)});
    }
    for (u32 r = 0; r < table_.others.size() && out.size() < most; ++r) {  // one more member fails it
      const Bits& what = vote_.effects[table_.others[r].discharges];
      if (!bit(what, cell) || meet(what, hold_) || used(plan, r) >= available_[r]) continue;
      out.push_back({Way::What::Extra, r, {}});
      if (plan.high == kInf && !counted_ && available_[r] == kInf) return {std::move(out.back())};  // it costs nothing
    }
    for (u32 name = 0; name < table_.names.size() && out.size() < most; ++name) {
      if (bit(state_.gone, name) || bit(plan.banned, name) || is_chosen(name)) continue;
      std::vector<u32> able = alternatives(name, cell);
      if (!able.empty()) out.push_back({Way::What::Member, name, std::move(able)});
    }
    if (of.min > 0 && plan.low < of.min) out.push_back({Way::What::Fewer, of.min - 1, {}});
    if (of.max != kInf && plan.high > of.max) out.push_back({Way::What::More, of.max + 1, {}});
    return out;
  }

  // How many keys of a kind the plan uses; kinds with the same keys share them.
  u32 used(const Plan& plan, u32 kind) const {
    u32 count = 0;
    for (u32 r : plan.extra) count += table_.others[r].key == table_.others[kind].key;
    return count;
  }

  // Are there enough members to reach the minimum number?
  bool enough(const Plan& plan) const {
    u64 count = state_.count + plan.chosen.size() + plan.extra.size();
    if (count >= plan.low) return true;
    for (u32 name = 0; name < table_.names.size() && count < plan.low; ++name) {
      if (bit(state_.gone, name) || bit(plan.banned, name)) continue;
      if (std::any_of(plan.chosen.begin(), plan.chosen.end(), [&](const auto& c) { return c.first == name; })) continue;
      if (!alternatives(name, kInf).empty()) ++count;
    }
    std::vector<Id> counted;
    for (u32 r = 0; r < table_.others.size() && count < plan.low; ++r) {
      const OtherKeys& o = table_.others[r];
      if (meet(vote_.effects[o.discharges], hold_)) continue;
      if (std::find(counted.begin(), counted.end(), o.key) != counted.end()) continue;
      counted.push_back(o.key);
      if (available_[r] == kInf) return true;
      const u32 gone = used(plan, r);
      count += available_[r] > gone ? available_[r] - gone : 0;
    }
    return count >= plan.low;
  }

  const MemberTable& table_;
  const Vote& vote_;
  const MemberState& state_;
  const u64 fuel_;
  const std::vector<u32>& available_;  // keys of each kind that have not been written yet
  u64 steps_ = 0;
  Bits hold_;              // cells that must hold
  std::vector<u32> fail_;  // cells that must not hold, and have not failed yet
  bool counted_ = false;   // one of these may fail for lack of members
};

}  // namespace

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
  const bool found = Completion(table, state, limits().fuel, available).possible();
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
