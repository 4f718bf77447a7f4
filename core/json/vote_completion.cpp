// Can a state be completed? A search satisfies the formula step by step (as in DPLL). It tries choices of which cells
// hold, and checks them against the members that may still come. A cell that must hold needs its names, with
// values that fail no other such cell. A cell that must not hold needs a missing name, a member that fails it, or
// another count. The search is exact. It runs over members, not bytes, and its first guess settles most states.
#include <algorithm>

#include "base/faults.hpp"
#include "base/stack.hpp"
#include "base/work.hpp"
#include "json/formula.hpp"

namespace guiderail {
namespace {

// Calls f with the bits of a word, until it returns false.
template <class F>
bool each_bit(u64 word, std::size_t at, F f) {
  for (; word; word &= word - 1)
    if (!f(static_cast<u32>(at * 64) + static_cast<u32>(std::countr_zero(word)))) return false;
  return true;
}

// Searches for members that complete a state.
class Completion {
 public:
  Completion(const MemberTable& table, const MemberState& state, u64 fuel, const std::vector<u32>& available)
      : table_(table),
        vote_(*table.vote),
        uses_(*table.uses),
        state_(state),
        fuel_(fuel),
        available_(available),
        cells_(vote_.cells.size(), Open),
        parts_(vote_.parts.size()) {}

  bool possible() {
    step(1 + parts_.size() / 16 + cells_.size() * state_.gone.size() / 8);
    for (u32 i = 0; i < parts_.size(); ++i)
      if (vote_.parts[i].op != Vote::Op::Cell && vote_.parts[i].of.empty()) learn(i, truth(i));
    for (u32 i = 0; i < cells_.size(); ++i)
      if (bit(state_.failed, i))
        decide(i, False);
      else if (is_certain(i))
        decide(i, True);
    return require(static_cast<u32>(parts_.size() - 1), True) && spread() && solve(0);
  }

 private:
  // Does a cell hold, whatever members follow?
  bool is_certain(u32 cell) const {
    const Vote::Cell& of = vote_.cells[cell];
    if (bit(uses_.failing_others, cell) || of.min > state_.count || of.max != kInf) return false;
    for (std::size_t w = 0; w < state_.gone.size(); ++w)
      if ((of.required[w] | uses_.failing[cell][w]) & ~state_.gone[w]) return false;
    return true;
  }

  void step(u64 cost) {
    Work::spend(cost);
    steps_ += cost;
    if (steps_ > fuel_ * 20 || faults::on_limit())
      throw Error("fuel", "deciding which alternatives of an object can still hold took more than " +
                              std::to_string(fuel_) +
                              " states; make the alternatives of its oneOf, not, if or anyOf "
                              "exclude each other, or raise fuel");
  }

  // -- the formula: which cells must hold, and which must not. What is learned of a part touches only those made of it.
  struct Part {
    u8 truth = Open, wanted = Open;  // wanted: the truth it must have
    bool met = false;                // and its parts must have what this takes
    bool listed = false;             // among the choices
    u32 yes = 0, no = 0;             // of its parts
  };
  struct Change {
    enum class What : u8 { Cell, Truth, Wanted, Met } what;
    u32 which;
  };

  u8 truth(u32 at) const { return truth_of(vote_.parts[at], parts_[at].yes, parts_[at].no); }
  u32 open(u32 at) const { return static_cast<u32>(vote_.parts[at].of.size()) - parts_[at].yes - parts_[at].no; }

  bool decide(u32 cell, u8 truth) {
    if (cells_[cell] != Open) return cells_[cell] == truth;
    cells_[cell] = truth;
    changes_.push_back({Change::What::Cell, cell});
    for (u32 part : uses_.cells[cell]) learn(part, truth);
    return truth == False || bring(cell);
  }

  // The names of a cell that must hold come, and fail the cells that all their values fail.
  bool bring(u32 cell) {
    const Bits& required = vote_.cells[cell].required;
    Bits failed(state_.failed.size(), 0);
    for (std::size_t w = 0; w < required.size(); ++w)
      each_bit(required[w] & ~state_.gone[w], w, [&](u32 name) {
        step(1 + failed.size() / 4);
        add_common(failed, table_.values[name],
                   [&](const Alternative& a) -> const Bits& { return vote_.effects[a.discharges]; });
        return true;
      });
    for (std::size_t w = 0; w < failed.size(); ++w)
      if (!each_bit(failed[w], w, [&](u32 other) { return decide(other, False); })) return false;
    return true;
  }

  // Adds the cells that all these values make fail, where effect says which ones a value does.
  template <class Values, class Effect>
  static void add_common(Bits& failed, const Values& values, Effect effect) {
    for (std::size_t w = 0; w < failed.size(); ++w) {
      u64 common = values.empty() ? 0 : ~u64{0};
      for (const auto& value : values) common &= effect(value)[w];
      failed[w] |= common;
    }
  }

  void learn(u32 at, u8 truth) {
    std::vector<std::pair<u32, u8>> todo{{at, truth}};
    while (!todo.empty()) {
      const auto [part, now] = todo.back();
      todo.pop_back();
      if (parts_[part].truth != Open) continue;
      parts_[part].truth = now;
      changes_.push_back({Change::What::Truth, part});
      if (parts_[part].wanted != Open) touched_.push_back(part);
      step(uses_.parts[part].size() / 8);
      for (u32 user : uses_.parts[part]) {
        ++(now == True ? parts_[user].yes : parts_[user].no);
        if (parts_[user].truth != Open) continue;
        if (const u8 next = this->truth(user); next != Open)
          todo.push_back({user, next});
        else if (parts_[user].wanted != Open)
          touched_.push_back(user);
      }
    }
  }

  bool require(u32 at, u8 wanted) {
    Part& part = parts_[at];
    if (part.truth != Open) return part.truth == wanted;
    if (part.wanted != Open) return part.wanted == wanted;
    part.wanted = wanted;
    changes_.push_back({Change::What::Wanted, at});
    touched_.push_back(at);
    return true;
  }

  bool require_all(u32 at, u8 wanted) {
    const std::vector<u32>& of = vote_.parts[at].of;
    step(1 + of.size() / 8);
    meet_by_parts(at);
    return std::all_of(of.rbegin(), of.rend(),  // so that the first is looked at first
                       [&](u32 p) { return parts_[p].truth != Open || require(p, wanted); });
  }

  void meet_by_parts(u32 at) {
    parts_[at].met = true;
    changes_.push_back({Change::What::Met, at});
  }

  // Follows what the changes force.
  bool spread() {
    while (!touched_.empty()) {
      const u32 at = touched_.back();
      touched_.pop_back();
      if (!force(at)) return false;
    }
    return true;
  }

  bool force(u32 at) {
    Part& known = parts_[at];
    const u8 wanted = known.wanted, other = wanted == True ? False : True;
    if (known.truth != Open) return known.truth == wanted;
    if (known.met) return true;
    const Vote::Part& part = vote_.parts[at];
    switch (part.op) {
      case Vote::Op::Cell: return decide(part.of[0], wanted);
      case Vote::Op::Not: return require_all(at, other);
      case Vote::Op::All:
      case Vote::Op::Any:
        if ((part.op == Vote::Op::All) == (wanted == True) || open(at) == 1) return require_all(at, wanted);
        break;
      case Vote::Op::One:
        if (known.yes == 1 && (wanted == True || open(at) == 1)) return require_all(at, other);
        if (known.yes == 0 && open(at) == 1) return require_all(at, wanted);
        break;
    }
    if (!std::exchange(known.listed, true)) choices_.push_back(at);
    return true;
  }

  void undo(std::size_t changes, std::size_t choices) {
    touched_.clear();
    for (; changes_.size() > changes; changes_.pop_back()) {
      const auto [what, which] = changes_.back();
      Part& part = parts_[what == Change::What::Cell ? 0 : which];
      switch (what) {
        case Change::What::Cell: cells_[which] = Open; break;
        case Change::What::Wanted: part.wanted = Open; break;
        case Change::What::Met: part.met = false; break;
        case Change::What::Truth:
          for (u32 user : uses_.parts[which]) --(part.truth == True ? parts_[user].yes : parts_[user].no);
          part.truth = Open;
          break;
      }
    }
    for (; choices_.size() > choices; choices_.pop_back()) parts_[choices_.back()].listed = false;
  }

  // How many ways are there to give an open part the truth it must have?
  u64 ways(u32 at) const {
    const u64 count = open(at);
    const bool pairs = vote_.parts[at].op == Vote::Op::One && parts_[at].wanted == False && parts_[at].yes == 0;
    return pairs ? 1 + count * (count - 1) / 2 : count;
  }

  // How many names must still come for an open part to hold, if it is a cell?
  u32 demands(u32 at) const {
    if (vote_.parts[at].op != Vote::Op::Cell) return 0;
    const Bits& required = vote_.cells[vote_.parts[at].of[0]].required;
    u32 names = 0;
    for (std::size_t w = 0; w < required.size(); ++w)
      names += static_cast<u32>(std::popcount(required[w] & ~state_.gone[w]));
    return names;
  }

  // The first guess takes the choices in order, of each the way that demands the least, and examines members only at
  // its end. Most states need no other. Once it has failed, the choice with the fewest ways goes first. `first`:
  // earlier choices are settled.
  bool solve(std::size_t first) {
    if (stack_is_low())
      throw Error("depth",
                  "an object has more choices among its alternatives than can be tried at once; make them fewer");
    const auto settled = [&](u32 part) { return parts_[part].truth != Open || parts_[part].met; };
    while (first < choices_.size() && settled(choices_[first])) ++first;
    std::size_t best = first, next = first;
    u64 fewest = kInf;
    for (; next < choices_.size() && fewest > (hasty_ ? kInf - 1 : 2); ++next) {
      if (settled(choices_[next]) || ways(choices_[next]) >= fewest) continue;
      best = next;
      fewest = ways(choices_[best]);
    }
    step(1 + (next - first) / 8);
    if (fewest == kInf) {
      const bool found = fits();
      hasty_ = hasty_ && found;
      return found;
    }
    bool examined = !hasty_;
    if (examined && !fits()) return false;
    const u32 at = choices_[best];
    const u8 wanted = parts_[at].wanted;
    std::vector<u32> open;
    for (u32 p : vote_.parts[at].of)
      if (parts_[p].truth == Open) open.push_back(p);
    if (wanted == True) {
      step(1 + open.size() * state_.gone.size() / 8);
      std::stable_sort(open.begin(), open.end(), [&](u32 a, u32 b) { return demands(a) < demands(b); });
    }
    const std::size_t changes = changes_.size(), choices = choices_.size();
    const auto leads_on = [&](auto require_these) {
      meet_by_parts(at);
      if (require_these() && spread() && solve(first)) return true;
      undo(changes, choices);
      return false;
    };
    const auto fails_already = [&] {
      if (hasty_ || std::exchange(examined, true)) return false;
      return !fits();
    };
    const bool one = vote_.parts[at].op == Vote::Op::One, second = one && wanted == False && parts_[at].yes == 1;
    const bool pairs = one && wanted == False && !second;
    const auto all_but = [&](std::size_t i, std::size_t j) {  // these two hold; the others do not
      for (std::size_t k = 0; k < open.size(); ++k)
        if (!require(open[k], k == i || k == j ? True : False)) return false;
      return true;
    };
    if (pairs) {
      if (leads_on([&] { return all_but(open.size(), open.size()); })) return true;
      for (std::size_t i = 0; i < open.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          if (fails_already()) return false;
          if (leads_on([&] { return require(open[j], True) && require(open[i], True); })) return true;
        }
      hasty_ = false;
      return false;
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (i > 0 && fails_already()) return false;
      if (leads_on([&] { return one && !second ? all_but(i, i) : require(open[i], second ? u8{True} : wanted); }))
        return true;
    }
    hasty_ = false;
    return false;
  }

  // -- the members --
  struct Plan {                                            // members still to come
    std::vector<std::pair<u32, std::vector<u32>>> chosen;  // names, each with its suitable alternatives
    Bits taken;                                            // the names chosen
    Bits banned;                                           // names that must not come
    Bits failed;                                           // cells that these members make fail
    std::vector<u32> extra;                                // other keys, by kind
    u32 low = 0, high = kInf;                              // number of members in all
  };

  const Bits& effect(u32 name, u32 alternative) const {
    return vote_.effects[table_.values[name][alternative].discharges];
  }

  // A member fails the cells that all its alternatives fail.
  void note(Plan& plan, u32 name, const std::vector<u32>& able) const {
    add_common(plan.failed, able, [&](u32 a) -> const Bits& { return effect(name, a); });
  }

  void choose(Plan& plan, u32 name, std::vector<u32> able) const {
    note(plan, name, able);
    set_bit(plan.taken, name);
    plan.chosen.push_back({name, std::move(able)});
  }

  // Can members follow that make the True cells hold and the False cells fail? Open cells may do either.
  bool fits() {
    Plan plan;
    plan.banned.assign(state_.gone.size(), 0);
    plan.taken.assign(state_.gone.size(), 0);
    plan.failed.assign(state_.failed.size(), 0);
    hold_.assign(state_.failed.size(), 0);
    must_fail_.assign(state_.failed.size(), 0);
    std::vector<u32> fail;
    few_ = many_ = false;
    Bits due(state_.gone.size(), 0);
    step(1 + cells_.size() / 8);
    for (u32 i = 0; i < cells_.size(); ++i) {
      const Vote::Cell& cell = vote_.cells[i];
      if (cells_[i] == False && !bit(state_.failed, i)) {
        fail.push_back(i);
        set_bit(must_fail_, i);
        few_ = few_ || cell.min > 0;
        many_ = many_ || cell.max != kInf;
      }
      if (cells_[i] != True) continue;
      set_bit(hold_, i);
      plan.low = std::max(plan.low, cell.min);
      plan.high = std::min(plan.high, cell.max);
      for (std::size_t w = 0; w < due.size(); ++w) due[w] |= cell.required[w] & ~state_.gone[w];
    }
    for (std::size_t w = 0; w < due.size(); ++w) {
      const bool possible = each_bit(due[w], w, [&](u32 name) {
        step(1);
        std::vector<u32> safe = alternatives(name, kInf);
        if (safe.empty()) return false;
        choose(plan, name, std::move(safe));
        return true;
      });
      if (!possible) return false;
    }
    return refute(std::move(plan), fail, 0);
  }

  // The alternatives of a name that fail no cell that must hold, and that fail `cell` (kInf: any).
  std::vector<u32> alternatives(u32 name, u32 cell) const {
    std::vector<u32> out;
    for (u32 a = 0; a < table_.values[name].size(); ++a)
      if (!meet(effect(name, a), hold_) && (cell == kInf || bit(effect(name, a), cell))) out.push_back(a);
    return out;
  }

  bool fails(const Plan& plan, u32 cell) const {
    const Vote::Cell& of = vote_.cells[cell];
    return bit(plan.failed, cell) || plan.high < of.min || plan.low > of.max || meet(of.required, plan.banned);
  }

  // Can all the cells that must not hold be made to fail? Those before `done` do. Begins with those that can fail in
  // the fewest ways.
  bool refute(Plan plan, std::vector<u32>& left, std::size_t done) {
    step(1);
    if (plan.low > plan.high || state_.count + plan.chosen.size() + plan.extra.size() > plan.high) return false;
    std::vector<Way> best;
    std::size_t at = left.size();
    for (std::size_t i = done; i < left.size() && (at == left.size() || best.size() > 1); ++i) {
      step(1 + plan.taken.size() / 4);
      if (fails(plan, left[i])) {
        if (at == done) at = i;
        std::swap(left[i], left[done++]);
        continue;
      }
      const bool is_first = at == left.size();
      std::vector<Way> ways = ways_to_fail(plan, left[i], is_first ? kInf : static_cast<u32>(best.size()));
      if (!is_first && ways.size() >= best.size()) continue;
      best = std::move(ways);
      at = i;
    }
    if (at == left.size()) return enough(plan);
    std::swap(left[at], left[done++]);
    for (std::size_t i = 0; i < best.size(); ++i)
      if (refute(with(i + 1 < best.size() ? plan : std::move(plan), best[i]), left, done)) return true;
    return false;
  }

  // One way to make a cell fail.
  struct Way {
    enum class What : u8 { Banned, Chosen, Member, Extra, Fewer, More } what;
    u32 which = 0;          // a name, a member chosen already, a kind of other keys, or a number of members
    std::vector<u32> able;  // alternatives of its value
  };

  Plan with(Plan plan, Way& way) const {
    switch (way.what) {
      case Way::What::Banned: set_bit(plan.banned, way.which); break;
      case Way::What::Chosen:
        note(plan, plan.chosen[way.which].first, way.able);
        plan.chosen[way.which].second = std::move(way.able);
        break;
      case Way::What::Member: choose(plan, way.which, std::move(way.able)); break;
      case Way::What::Extra: {
        const Bits& what = vote_.effects[table_.others[way.which].discharges];
        for (std::size_t w = 0; w < plan.failed.size(); ++w) plan.failed[w] |= what[w];
        plan.extra.push_back(way.which);
        break;
      }
      case Way::What::Fewer: plan.high = std::min(plan.high, way.which); break;
      case Way::What::More: plan.low = std::max(plan.low, way.which); break;
    }
    return plan;
  }

  // Is a name of no other use, so that it may as well stay away?
  bool needless(const Plan& plan, u32 name) const {
    if (many_ || plan.low > state_.count + plan.chosen.size()) return false;
    for (const Alternative& a : table_.values[name])
      if (meet(vote_.effects[a.discharges], must_fail_)) return false;
    return true;
  }

  // The ways in which a cell can fail that has not yet failed. Stops once there are `most`, and where one costs
  // nothing.
  std::vector<Way> ways_to_fail(const Plan& plan, u32 cell, u32 most) const {
    const Vote::Cell& of = vote_.cells[cell];
    std::vector<Way> out;
    const auto add = [&](Way::What what, u32 which, std::vector<u32> able = {}) {
      out.push_back({what, which, std::move(able)});
      return out.size() < most;
    };
    for (std::size_t w = 0; w < of.required.size() && out.size() < most; ++w) {  // a required name stays away
      const u64 names = of.required[w] & ~state_.gone[w] & ~plan.taken[w];
      const bool costs = each_bit(names, w, [&](u32 name) {
        if (!needless(plan, name)) return add(Way::What::Banned, name);
        out = {{Way::What::Banned, name, {}}};
        return false;
      });
      if (!costs && out.size() < most) return out;
    }
    const Bits& failing = uses_.failing[cell];
    for (std::size_t w = 0; w < failing.size() && out.size() < most; ++w) {  // a member chosen already fails it
      each_bit(failing[w] & plan.taken[w], w, [&](u32 name) {
        const auto place =
            std::find_if(plan.chosen.begin(), plan.chosen.end(), [&](const auto& one) { return one.first == name; });
        std::vector<u32> able;
        for (u32 a : place->second)
          if (bit(effect(name, a), cell)) able.push_back(a);
        return able.empty() || add(Way::What::Chosen, static_cast<u32>(place - plan.chosen.begin()), std::move(able));
      });
    }
    for (u32 r = 0; r < table_.others.size() && out.size() < most; ++r) {  // one more member fails it
      const Bits& what = vote_.effects[table_.others[r].discharges];
      if (!bit(what, cell) || meet(what, hold_)) continue;
      if (available_[r] != kInf && used(plan, r) >= available_[r]) continue;
      if (available_[r] == kInf && plan.high == kInf && !few_) return {{Way::What::Extra, r, {}}};  // it costs nothing
      add(Way::What::Extra, r);
    }
    for (std::size_t w = 0; w < failing.size() && out.size() < most; ++w) {
      each_bit(failing[w] & ~(state_.gone[w] | plan.banned[w] | plan.taken[w]), w, [&](u32 name) {
        std::vector<u32> able = alternatives(name, cell);
        return able.empty() || add(Way::What::Member, name, std::move(able));
      });
    }
    if (of.min > 0 && plan.low < of.min) add(Way::What::Fewer, of.min - 1);
    if (of.max != kInf && plan.high > of.max) add(Way::What::More, of.max + 1);
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
      if (bit(state_.gone, name) || bit(plan.banned, name) || bit(plan.taken, name)) continue;
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
  const VoteUses& uses_;
  const MemberState& state_;
  const u64 fuel_;
  const std::vector<u32>& available_;  // keys of each kind that have not been written yet
  u64 steps_ = 0;
  std::vector<u8> cells_;
  std::vector<Part> parts_;
  std::vector<Change> changes_;  // since the start, in order
  std::vector<u32> touched_;     // parts that may force others
  std::vector<u32> choices_;     // parts that can be given the truth they must have in several ways
  bool hasty_ = true;            // the first guess has not failed yet
  Bits hold_, must_fail_;        // cells that must hold; that must not, and have not failed yet
  bool few_ = false;             // one of these may fail for lack of members
  bool many_ = false;            // or for too many
};

}  // namespace

VoteUses vote_uses(const MemberTable& table) {
  const Vote& vote = *table.vote;
  VoteUses out;
  out.parts.resize(vote.parts.size());
  out.cells.resize(vote.cells.size());
  out.failing.assign(vote.cells.size(), Bits(table.names.size() / 64 + 1, 0));
  for (u32 i = 0; i < vote.parts.size(); ++i) {
    const Vote::Part& part = vote.parts[i];
    Work::spend(1 + part.of.size() / 4);
    for (u32 of : part.of) (part.op == Vote::Op::Cell ? out.cells[of] : out.parts[of]).push_back(i);
  }
  for (u32 name = 0; name < table.names.size(); ++name)
    for (const Alternative& a : table.values[name]) {
      const Bits& effect = vote.effects[a.discharges];
      Work::spend(1 + effect.size() / 4);
      for (std::size_t w = 0; w < effect.size(); ++w)
        each_bit(effect[w], w, [&](u32 cell) {
          set_bit(out.failing[cell], name);
          return true;
        });
    }
  out.failing_others.assign((vote.cells.size() + 63) / 64, 0);
  for (const OtherKeys& o : table.others)
    for (std::size_t w = 0; w < out.failing_others.size(); ++w) out.failing_others[w] |= vote.effects[o.discharges][w];
  return out;
}

bool completable(const MemberTable& table, const MemberState& state, u64 fuel, const std::vector<u32>& available) {
  return Completion(table, state, fuel, available).possible();
}

}  // namespace guiderail
