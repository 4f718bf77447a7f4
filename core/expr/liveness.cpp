// Emptiness: does any string match? Structural for most expressions; for intersections, complements, look-arounds and
// maximal munch a search among derivatives, memoised, with fuel: it ends in an error, never in a guess.
#include <algorithm>
#include <deque>
#include <queue>
#include <unordered_set>

#include "base/faults.hpp"
#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/characters.hpp"
#include "expr/liveness.hpp"

namespace guiderail {
namespace {

// How many conditions the next byte must meet at once: an estimate of what a search pays for each state.
u32 conditions_ahead(const Arena& arena, Id e) {
  for (;;) {
    const Node& n = arena.node(e);
    switch (n.kind) {
      case Kind::And: return n.b;
      case Kind::Concat:
      case Kind::Repeat: e = n.body(); continue;
      default:
        if (const Family* family = arena.family_of(n.kind); family && family->spelled(e) != kUnknown) {
          e = family->spelled(e);
          continue;
        }
        return 1;
    }
  }
}

// The characters that e still needs if each condition is met by characters of its own. `shortest` takes the longest of
// several conditions; this adds them up, and so prefers states that have met more of them. An estimate: it examines at
// most `parts` parts.
u32 all_that_is_left(const Arena& arena, Id e, u32& parts) {
  u32 sum = 0;
  for (;;) {
    if (parts == 0) return add_sat(sum, arena.node(e).shortest);
    --parts;
    const Node& n = arena.node(e);
    switch (n.kind) {
      case Kind::And:
        for (const Id member : arena.operands(e)) sum = add_sat(sum, all_that_is_left(arena, member, parts));
        return sum;
      case Kind::Union: {
        u32 least = kInf;
        for (const Id member : arena.operands(e)) least = std::min(least, all_that_is_left(arena, member, parts));
        return add_sat(sum, least);
      }
      case Kind::Concat:
        sum = add_sat(sum, all_that_is_left(arena, n.head(), parts));
        e = n.tail();
        continue;
      default:
        if (const Family* family = arena.family_of(n.kind); family && family->spelled(e) != kUnknown) {
          e = family->spelled(e);
          continue;
        }
        return add_sat(sum, n.shortest);
    }
  }
}

// The states from which a search still has to read on, in two orders. The hasty one follows the first byte of a state
// that may lead closer to an end, and the other bytes of that state wait. Conditions that must hold together, such as a
// length, mislead it badly. The thorough one tries every byte of a state, and ranks states by what they have read plus
// what all their conditions still need. Conditions may be met in any order, so many states promise the same: the newest
// goes first, which has met the most. Neither order is best for all. So one of them begins, the thorough one if there
// are many conditions. From `kLiveAlone` states for each condition on they take turns, so the search takes at most
// about twice as long as the better one.
class Frontier {
 public:
  struct Step {
    bool begins;  // a character
    bool alike;   // its targets, and those of the next steps
  };
  struct Way {
    Id from;
    u32 chars;  // read so far
  };
  using Ways = std::unordered_map<Id, Way>;
  struct Item {
    u32 promise;
    u32 order;  // among equal promises
    Id id;
    u32 from;   // how many steps were tried
    u32 depth;  // steps read so far
    u32 chars;  // characters read so far
    bool thorough;
    bool operator<(const Item& o) const { return promise != o.promise ? promise > o.promise : order > o.order; }
  };

  Frontier(const Arena& arena, Id start)
      : arena_(arena),
        start_(start),
        conditions_(conditions_ahead(arena, start)),
        now_(conditions_ >= kLiveConditions) {
    begin(now_);
  }
  // Nothing is left to read in one of the orders: it has met every state.
  bool is_exhausted() const { return orders_[now_].queue.empty() || (take_turns_ && orders_[!now_].queue.empty()); }
  // The states that the order with most of them has met.
  std::size_t met() const { return std::max(orders_[0].ways.size(), orders_[1].ways.size()); }
  // How the states of an order were reached; and those of an order that is exhausted.
  const Ways& ways(bool thorough) const { return orders_[thorough].ways; }
  const Ways& all_ways() const { return orders_[orders_[now_].queue.empty() ? now_ : !now_].ways; }
  Item next() {
    if (!take_turns_ && conditions_ > 1 && pushed_ >= kLiveAlone * conditions_) {
      take_turns_ = true;
      begin(!now_);
    }
    if (take_turns_) now_ = orders_[1].read < orders_[0].read;
    auto& queue = orders_[now_].queue;
    const Item item = queue.top();
    queue.pop();
    return item;
  }
  // Whether a state is met for the first time in the order of `from`, by a byte or a symbol.
  bool meet(const Item& from, Id id, bool is_character) {
    Order& order = orders_[from.thorough];
    ++order.read;
    return order.ways.try_emplace(id, Way{from.id, from.chars + is_character}).second;
  }
  void push(const Item& from, Id id, bool is_character = true) {
    u32 parts = kLiveParts;
    const u32 depth = from.depth + 1;
    const u32 promise = from.thorough ? add_sat(depth, mul_sat(kLiveEager, all_that_is_left(arena_, id, parts)))
                                      : arena_.node(id).shortest;
    add({promise, from.thorough ? ~pushed_ : pushed_, id, 0, depth, from.chars + is_character, from.thorough});
  }
  // Pushes the target of a step, after `tried` steps of `from`. False: its other steps wait.
  bool push(const Item& from, Id id, const Step& step, u32 tried) {
    push(from, id, step.begins);
    const u32 shortest = arena_.node(from.id).shortest;
    // They wait if this one is a step closer, or belongs to a character beyond ASCII: there, most bytes are alike.
    if (from.thorough || (arena_.node(id).shortest >= shortest && !step.alike)) return true;
    add({add_sat(shortest, kLiveWait), pushed_, from.id, tried, from.depth, from.chars, false});
    return false;
  }

 private:
  struct Order {
    std::priority_queue<Item> queue;
    Ways ways;
    u64 read = 0;  // bytes that lead on
  };
  void begin(bool thorough) {
    orders_[thorough].ways.emplace(start_, Way{start_, 0});
    add({0, pushed_, start_, 0, 0, 0, thorough});
  }
  void add(const Item& item) {
    orders_[item.thorough].queue.push(item);
    ++pushed_;
  }

  const Arena& arena_;
  const Id start_;
  const u32 conditions_;
  Order orders_[2];  // hasty, thorough
  bool now_;         // which of them
  bool take_turns_ = false;
  u32 pushed_ = 0;
};
}  // namespace

bool Arena::live(Id e) {
  if (e == kEmpty || !has(e, kSearch) || has(e, kUnknownText)) return e != kEmpty;
  if (!liveness_) liveness_ = std::make_unique<Liveness>(*this);
  return liveness_->live(e);
}

bool Liveness::live(Id e) {
  const bool alive = decide(e);
  if (alive && doubts_ && doubtful(e)) arena_.node(e).flags.fetch_or(kUnknownText, std::memory_order_relaxed);
  return alive;
}

// Does a live e depend on a forgotten text, because a part does?
bool Liveness::doubtful(Id e) {
  for (;; e = arena_.node(e).tail()) {
    if (arena_.has(e, kUnknownText)) return true;
    if (!arena_.has(e, kSearch) || arena_.nullable(e)) return false;
    const Node& n = arena_.node(e);
    switch (n.kind) {
      case Kind::Concat:
        if (doubtful(n.head())) return true;
        break;
      case Kind::Union: {
        const Ids members(arena_.operands(e));
        return std::none_of(members.begin(), members.end(), [&](Id m) { return live(m) && !doubtful(m); });
      }
      case Kind::Repeat: return n.min > 0 && doubtful(n.body());
      default: return false;
    }
  }
}

bool Liveness::decide(Id e) {
  for (;;) {
    if (e == kEmpty) return false;
    if (!arena_.has(e, kSearch) || arena_.has(e, kUnknownText)) return true;
    const Node& n = arena_.node(e);
    if (arena_.has(e, kLiveKnown)) return !arena_.has(e, kDead);
    if (arena_.nullable(e)) return true;
    if (arena_.proofs_ && surely_live(e)) {
      arena_.node(e).flags.fetch_or(kLiveKnown, std::memory_order_relaxed);
      return true;
    }
    switch (n.kind) {
      case Kind::Concat:
        if (!live(n.head())) return false;
        e = n.tail();
        continue;
      case Kind::Union: {
        Ids members(arena_.operands(e));
        for (Id m : members)  // without a search, if possible
          if (arena_.nullable(m) || (arena_.has(m, kLiveKnown) && !arena_.has(m, kDead)) || !arena_.has(m, kSearch))
            return true;
        std::sort(members.begin(), members.end(), [&](Id a, Id b) {
          const std::pair one{arena_.node(a).shortest, conditions_ahead(arena_, a)},
              other{arena_.node(b).shortest, conditions_ahead(arena_, b)};
          return one < other;
        });
        for (Id m : members)
          if (live(m)) return true;
        return false;
      }
      case Kind::Repeat:
        if (n.min == 0) return true;
        e = n.body();
        continue;
      case Kind::Counted: e = n.body(); continue;
      case Kind::Switch: return true;  // targets are literals
      case Kind::And:
        if (!arena_.has_raw_bytes() && holds_around(e)) {
          arena_.node(e).flags.fetch_or(kLiveKnown, std::memory_order_relaxed);
          return true;
        }
        return !lacks_letters(e) && search(e);
      default:
        if (Family* family = arena_.family_of(n.kind))
          if (const Id as = family->live_as(e); as != e) {
            doubts_ = doubts_ || arena_.has(e, kUnknownText);
            e = as;
            continue;
          }
        return search(e);
    }
  }
}

// Does e match every text that contains a certain text, as what a pattern is found in does? Intersections of such
// expressions need no search: a text that contains all these texts, one after the other, matches.
bool Liveness::holds_around(Id e) const {
  const Id any = arena_.any_text();
  if (e == any) return true;
  const auto holds = [this](Id part) { return holds_around(part); };
  const Node& n = arena_.node(e);
  Work::spend();
  switch (n.kind) {
    case Kind::And: return std::all_of(arena_.operands(e).begin(), arena_.operands(e).end(), holds);
    case Kind::Union: return std::any_of(arena_.operands(e).begin(), arena_.operands(e).end(), holds);
    case Kind::Concat:
      if (n.head() != any || arena_.has(e, kSearch | kHasLook | kHasRef | kHasToken | kUnknownText)) return false;
      while (arena_.node(e).kind == Kind::Concat) e = arena_.node(e).tail();
      return e == any;
    default: return false;
  }
}

bool Liveness::surely_live(Id e) {
  for (;;) {
    if (e == kEmpty) return false;
    if (arena_.nullable(e)) return true;
    const Node& n = arena_.node(e);
    switch (n.kind) {
      case Kind::Union: {
        std::vector<Id> members(arena_.operands(e).begin(), arena_.operands(e).end());
        for (Id m : members)
          if (surely_live(m)) return true;
        return false;
      }
      case Kind::Concat:
        if (!surely_live(n.head())) return false;
        e = n.tail();
        continue;
      default:
        if (Family* family = arena_.family_of(n.kind)) return family->surely_live(e);
        return !arena_.has(e, kSearch);
    }
  }
}

// Calls f(next, step, tried) for the steps from a state, `from` of which were tried, until it returns false. Where
// characters beyond ASCII can be read as a whole, each kind of them is one step. By bytes, a search meets a state for
// each prefix of a character before it finds the one that it needs.
template <class F>
void Liveness::each_step(Id state, u32 from, F f) {
  const ByteSet possible = arena_.first(state);
  const bool whole = arena_.characters().read(state);
  u32 tried = 0;
  bool more = true;
  arena_.each_byte(state, [&](u8 byte) {
    if (tried++ < from || !possible.has(byte) || (whole && byte >= 0x80)) return true;
    return more = f(arena_.derive(state, byte), Frontier::Step{!is_continuation(byte), byte >= 0x80}, tried);
  });
  if (!whole || !more) return;
  const u32 first = from > tried ? from - tried : 0;
  tried += first;
  arena_.characters().each(state, first, [&](Id next) { return f(next, Frontier::Step{true, false}, ++tried); });
}

// The first byte that leads the condition with most left closer to its end. To ask that condition alone costs little.
std::optional<u8> Liveness::wanted(Id state) {
  if (arena_.node(state).kind != Kind::And || arena_.has(state, kExactStep)) return std::nullopt;
  Id most = kEpsilon;
  for (const Id member : arena_.operands(state))
    if (!arena_.has(member, kSearch) && arena_.node(member).shortest > arena_.node(most).shortest) most = member;
  std::optional<u8> found;
  const ByteSet possible = arena_.first(state);
  const u32 shortest = arena_.node(most).shortest;
  if (shortest > 0)
    arena_.each_byte(most, [&](u8 byte) {
      const Id next = byte < 0x80 && possible.has(byte) ? arena_.step_text(most, byte) : kEmpty;
      if (next != kEmpty && arena_.node(next).shortest < shortest) found = byte;
      return !found;
    });
  return found;
}

// Does some state read a character and stay?
bool Liveness::stays(Id state) {
  for (u32 c = 0; c < arena_.class_count_; ++c)
    if (const u8 byte = arena_.representatives_[c]; byte < 0x80 && arena_.derive(state, byte) == state) return true;
  return false;
}

// Does a character lead to a state that matches and stays?
bool Liveness::stays_behind(Id state) {
  for (u32 c = 0; c < arena_.class_count_; ++c)
    if (const u8 byte = arena_.representatives_[c]; byte < 0x80)
      if (const Id next = arena_.derive(state, byte); arena_.nullable(next) && stays(next)) return true;
  return false;
}

// The length in characters of some match of e, usually a shortest one: the search prefers what promises to be short.
// kInf: it found none. It stores the rest of the match for each state on the path, so these need no search of their
// own.
u32 Liveness::some_length(Id start) {
  if (auto it = matches_.find(start); it != matches_.end()) return it->second.length;
  arena_.ensure_classes();
  if (arena_.nullable(start)) {
    matches_.emplace(start, Match{0, kEmpty});
    return 0;
  }
  Frontier frontier(arena_, start);
  Id end = kEmpty;
  u32 left = 0;  // of the match, after `end`
  bool thorough = false;
  while (end == kEmpty && !frontier.is_exhausted() && frontier.met() < kLiveLengths) {
    arena_.make_room();
    const Frontier::Item item = frontier.next();
    each_step(item.id, item.from, [&](Id next, const Frontier::Step& step, u32 tried) {
      if (next == kEmpty || arena_.has(next, kDead | kUnknownText)) return true;
      if (!frontier.meet(item, next, step.begins)) return true;
      const auto known = matches_.find(next);
      const bool is_known = known != matches_.end() && known->second.length != kInf;
      if (arena_.nullable(next) || is_known) {
        end = next;
        if (is_known) left = known->second.length;
        thorough = item.thorough;
        return false;
      }
      return frontier.push(item, next, step, tried);
    });
  }
  if (end == kEmpty) {
    matches_.emplace(start, Match{kInf, kEmpty});
    return kInf;
  }
  const Frontier::Ways& ways = frontier.ways(thorough);
  const u32 whole = ways.at(end).chars + left;
  matches_.emplace(end, Match{left, kEmpty});
  for (Id s = end; s != start;) {
    const Id next = s;
    s = ways.at(s).from;
    matches_.insert_or_assign(s, Match{whole - ways.at(s).chars, next});
  }
  return whole;
}

// Do matches of every greater length than that of `some_length` certainly exist, because a state on its way stays, or
// one that matches and follows it? What forbids words forgets the word in progress after a character or two.
bool Liveness::some_longer(Id e) {
  Ids way;
  bool longer = false;
  for (; e != kEmpty && !longer; e = matches_.at(e).next) {
    if (matches_.at(e).longer == Match::No) break;
    way.push_back(e);
    longer = matches_.at(e).longer == Match::Yes || stays(e) || (arena_.nullable(e) && stays_behind(e));
  }
  for (const Id state : way) matches_.at(state).longer = longer ? Match::Yes : Match::No;
  return longer;
}

// The length in characters of a shortest match of e, if that is at most `most`; and do matches of every greater length
// exist (because some state on the way reads a character and stays)?
Liveness::Reach Liveness::reach(Id start, u32 most) {
  const auto known = reach_memo_.find(start);
  if (known != reach_memo_.end() && (known->second.length != kInf || known->second.within >= most))
    return known->second;
  arena_.ensure_classes();
  std::unordered_map<Id, std::pair<u32, Id>> best{{start, {0, kEmpty}}};  // characters; predecessor
  std::deque<Id> queue{start};
  std::unordered_set<Id> done;
  Reach out{kInf, most};
  bool depends = arena_.has(start, kHasToken);  // on more than bytes, or on a forgotten text
  const u64 work_limit = arena_.work_ + u64{arena_.limits_.fuel} * kWorkPerFuel;
  while (!queue.empty() && best.size() < arena_.limits_.fuel && arena_.work_ < work_limit) {
    arena_.make_room();
    const Id state = queue.front();
    queue.pop_front();
    if (!done.insert(state).second) continue;
    const u32 cost = best[state].first;
    if (arena_.nullable(state)) {
      out.length = cost;
      for (Id s = state; s != kEmpty && !out.longer; s = best[s].second) out.longer = stays(s);
      break;
    }
    const auto meet = [&](Id next, bool middle) {
      if (next == kEmpty || arena_.has(next, kDead)) return;
      depends = depends || arena_.has(next, kUnknownText);
      const u32 total = cost + (middle ? 0 : 1);
      if (add_sat(total, arena_.node(next).shortest) > most) return;
      auto [it, fresh] = best.try_emplace(next, total, state);
      if (!fresh && it->second.first <= total) return;
      it->second = {total, state};
      if (middle)
        queue.push_front(next);
      else
        queue.push_back(next);
    };
    const ByteSet possible = arena_.first(state);
    const bool whole = arena_.characters().read(state) && !arena_.characters().atoms().empty();
    for (u32 c = 0; c < arena_.class_count_; ++c) {
      const u8 byte = arena_.representatives_[c];
      if (possible.has(byte) && !(whole && byte >= 0x80)) meet(arena_.derive(state, byte), is_continuation(byte));
    }
    if (whole)
      for (const CharSet::Ptr& atom : arena_.characters().atoms())
        meet(arena_.characters().after(state, atom->ranges()[0].first), false);
  }
  out.decided = out.length != kInf || (queue.empty() && !depends);
  return reach_memo_.insert_or_assign(start, out).first->second;
}

// R & C{m,n}: mostly R & C* decides, which is the same for all counts. `thorough`: however long that takes.
std::optional<bool> Liveness::by_length(Id e, bool thorough) {
  if (arena_.node(e).kind != Kind::And || arena_.has(e, kHasLook | kHasRef)) return std::nullopt;
  Ids members(arena_.operands(e));
  u32 min = 0, max = kInf;
  for (Id& m : members) {
    const Node& n = arena_.node(m);
    if (n.kind != Kind::Repeat || arena_.node(n.body()).kind != Kind::Class || (n.min == 0 && n.max == kInf)) continue;
    min = n.min;
    max = n.max;
    m = arena_.repeat(n.body(), 0, kInf);
    break;
  }
  if (min == 0 && max == kInf) return std::nullopt;
  const Id free = arena_.intersect(members);
  if (free == kEmpty) return false;
  if (arena_.has(free, kSearch)) {
    const u32 some = some_length(free);
    if (some <= max && some != kInf) {
      if (some >= min) return true;
      // A search finds a few more characters sooner.
      if ((thorough || min - some > kLiveFew) && some_longer(free)) return true;
    }
    if (!thorough) return std::nullopt;
  }
  const Reach r = arena_.has(free, kSearch) ? reach(free, max) : Reach{arena_.node(free).shortest, max};
  if (!r.decided) return std::nullopt;
  if (r.length == kInf || r.length > max) return false;
  if (r.length >= min || r.longer) return true;
  return std::nullopt;
}

// Searches the derivatives of e for a nullable one, those that promise a short match first.
bool Liveness::search(Id start) {
  auto settle = [this](Id e, bool is_live) {
    arena_.node(e).flags.fetch_or(kLiveKnown | (is_live ? 0u : u32{kDead}), std::memory_order_relaxed);
  };
  if (arena_.nullable(start)) {
    settle(start, true);
    return true;
  }
  if (const auto quick = by_length(start, false)) {
    settle(start, *quick);
    return *quick;
  }
  arena_.ensure_classes();
  u64 work_limit = arena_.work_ + u64{arena_.limits_.fuel} * kWorkPerFuel;
  Frontier frontier(arena_, start);
  Id found = kEmpty;
  bool thorough = false;
  bool measured = false;
  bool depends = false;  // the answer depends on a forgotten text
  std::vector<u32> symbols;
  while (found == kEmpty && !frontier.is_exhausted() && !(depends && frontier.met() > kLiveDoubt)) {
    arena_.make_room();
    Work::spend();
    if (!measured && frontier.met() > kLiveFew) {
      measured = true;
      const u64 before = arena_.work_;
      if (const auto known = by_length(start, true)) {
        settle(start, *known);
        return *known;
      }
      work_limit += arena_.work_ - before;  // it has a limit of its own
    }
    const Frontier::Item item = frontier.next();
    const Id state = item.id;
    if (frontier.met() > arena_.limits_.fuel || arena_.work_ > work_limit || faults::on_limit())
      throw Error("fuel", "deciding whether an intersection or complement can still match took more than " +
                              std::to_string(arena_.limits_.fuel) + " states; simplify it or raise fuel");
    auto meet = [&](Id next) {  // true: it must be searched, too
      if (next == kEmpty) return false;
      if (arena_.has(next, kUnknownText)) {
        depends = true;
        return false;
      }
      const bool known = !arena_.has(next, kSearch) || arena_.has(next, kLiveKnown);
      if ((known && arena_.has(next, kDead)) || !frontier.meet(item, next, true)) return false;
      if (!known && !arena_.nullable(next) && !(arena_.proofs_ && surely_live(next))) return true;
      found = next;
      thorough = item.thorough;
      return false;
    };
    if (!item.thorough && item.from == 0)
      if (const auto byte = wanted(state))
        if (const Id next = arena_.derive(state, *byte); meet(next) && !frontier.push(item, next, {true, false}, 0))
          continue;
    if (found == kEmpty)
      each_step(state, item.from, [&](Id next, const Frontier::Step& step, u32 tried) {
        return meet(next) ? frontier.push(item, next, step, tried) : found == kEmpty;
      });
    if (found != kEmpty || item.from > 0 || arena_.symbols_.empty() || !arena_.has(state, kHasToken | kHasRef))
      continue;
    symbols.clear();
    arena_.first_symbols(state, symbols);
    for (std::size_t i = 0; i < symbols.size() && found == kEmpty; ++i) {
      if (const Id next = arena_.derive_symbol(state, symbols[i]); meet(next)) frontier.push(item, next);
    }
  }
  if (found == kEmpty && depends) {
    doubts_ = true;
    arena_.node(start).flags.fetch_or(static_cast<u32>(kLiveKnown | kUnknownText), std::memory_order_relaxed);
    return true;
  }
  if (found == kEmpty) {
    for (auto& [id, way] : frontier.all_ways()) settle(id, false);
    return false;
  }
  const Frontier::Ways& ways = frontier.ways(thorough);
  for (Id id = found;; id = ways.at(id).from) {
    settle(id, true);
    if (id == start) return true;
  }
}

}  // namespace guiderail
