// Emptiness: does any string match? Structural for most expressions; for intersections, complements, look-arounds and
// maximal munch a search among derivatives, memoised, with fuel: it ends in an error, never in a guess.
#include <algorithm>
#include <deque>
#include <queue>
#include <unordered_set>

#include "base/faults.hpp"
#include "base/thresholds.hpp"
#include "base/work.hpp"
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

// The states from which a search still has to read on. At first, it follows the first byte of a state that may lead
// closer to an end, and the other bytes of that state wait. Conditions that must hold together, such as a length,
// mislead it badly. So it starts over thoroughly: it tries every byte of a state, and ranks states by what they have
// read plus what all their conditions still need. Conditions may be met in any order, so many states promise the same:
// the newest goes first, which has met the most.
class Frontier {
 public:
  struct Item {
    u32 promise;
    u32 order;  // among equal promises
    Id id;
    u32 from;   // how many bytes were tried
    u32 depth;  // bytes read so far
    bool operator<(const Item& o) const { return promise != o.promise ? promise > o.promise : order > o.order; }
  };

  Frontier(const Arena& arena, Id start)
      : arena_(arena), start_(start), thorough_(conditions_ahead(arena, start) >= kLiveConditions) {
    begin();
  }
  bool empty() const { return queue_.empty(); }
  u32 pushed() const { return order_; }
  Item next() {
    const Item item = queue_.top();
    queue_.pop();
    return item;
  }
  // Starts over thoroughly, if that can help and has not been tried.
  bool begin_thoroughly() {
    if (thorough_ || conditions_ahead(arena_, start_) < 2) return false;
    thorough_ = true;
    begin();
    return true;
  }
  void push(const Item& from, Id id) {
    u32 parts = kLiveParts;
    const u32 depth = from.depth + 1;
    const u32 promise = thorough_ ? add_sat(depth, all_that_is_left(arena_, id, parts)) : arena_.node(id).shortest;
    const u32 pushed = order_++;
    queue_.push({promise, thorough_ ? ~pushed : pushed, id, 0, depth});
  }
  // Pushes the target of `byte`, after `tried` bytes of `from`. False: its other bytes wait.
  bool push(const Item& from, Id id, u8 byte, u32 tried) {
    push(from, id);
    const u32 shortest = arena_.node(from.id).shortest;
    // They wait if this one is a step closer, or belongs to a character beyond ASCII: there, most bytes are alike.
    if (thorough_ || (arena_.node(id).shortest >= shortest && byte < 0x80)) return true;
    queue_.push({add_sat(shortest, kLiveWait), order_++, from.id, tried, from.depth});
    return false;
  }

 private:
  void begin() {
    queue_ = {};
    order_ = 0;
    queue_.push({0, order_++, start_, 0, 0});
  }

  const Arena& arena_;
  const Id start_;
  std::priority_queue<Item> queue_;
  u32 order_ = 0;
  bool thorough_;
};
}  // namespace

bool Arena::live(Id e) {
  if (e == kEmpty || !has(e, kSearch) || has(e, kUnknownText)) return e != kEmpty;
  if (!liveness_) liveness_ = std::make_unique<Liveness>(*this);
  return liveness_->live(e);
}

bool Liveness::live(Id e) {
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
      default:
        if (Family* family = arena_.family_of(n.kind))
          if (const Id as = family->live_as(e); as != e) {
            e = as;
            continue;
          }
        return search(e);
    }
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

// The length in characters of some match of e, usually a shortest one: the search prefers what promises to be short.
// kInf: it found none. It stores the remaining length of each state on the path, so these need no search of their own.
u32 Liveness::some_length(Id start) {
  if (const u32* known = some_lengths_.find(index_of(start))) return *known;
  arena_.ensure_classes();
  struct Way {
    Id from;
    u32 chars;  // read so far
  };
  Frontier frontier(arena_, start);
  std::unordered_map<Id, Way> ways{{start, {start, 0}}};
  Id end = arena_.nullable(start) ? start : kEmpty;
  u32 left = 0;  // of the match, after `end`
  while (!frontier.empty() && end == kEmpty) {
    if (ways.size() >= kLiveHaste || frontier.pushed() >= kLiveHaste) {
      if (!frontier.begin_thoroughly()) break;
      ways = {{start, {start, 0}}};
    }
    arena_.make_room();
    const Frontier::Item item = frontier.next();
    const Id state = item.id;
    const ByteSet possible = arena_.first(state);
    const u32 chars = ways.at(state).chars;
    u32 tried = 0;
    arena_.each_byte(state, [&](u8 byte) {
      if (tried++ < item.from || !possible.has(byte)) return true;
      const Id next = arena_.derive(state, byte);
      if (next == kEmpty || arena_.has(next, kDead | kUnknownText)) return true;
      const u32 so_far = chars + (is_continuation(byte) ? 0 : 1);
      if (!ways.try_emplace(next, Way{state, so_far}).second) return true;
      const u32* known = some_lengths_.find(index_of(next));
      if (arena_.nullable(next) || (known && *known != kInf)) {
        end = next;
        left = arena_.nullable(next) ? 0 : *known;
        return false;
      }
      return frontier.push(item, next, byte, tried);
    });
  }
  if (end == kEmpty) {
    some_lengths_.set(index_of(start), kInf);
    return kInf;
  }
  const u32 whole = ways.at(end).chars + left;
  for (Id s = end;; s = ways.at(s).from) {
    some_lengths_.set(index_of(s), whole - ways.at(s).chars);
    if (s == start) return whole;
  }
}

// The length in characters of a shortest match of e; and do matches of every greater length exist (because some state
// on the way reads a character and stays)? kInf: none within the fuel.
Liveness::Reach Liveness::reach(Id start) {
  if (auto it = reach_memo_.find(start); it != reach_memo_.end()) return it->second;
  arena_.ensure_classes();
  std::unordered_map<Id, std::pair<u32, Id>> best{{start, {0, kEmpty}}};  // characters; predecessor
  std::deque<Id> queue{start};
  std::unordered_set<Id> done;
  Reach out{kInf, false};
  const u64 work_limit = arena_.work_ + u64{arena_.limits_.fuel} * kWorkPerFuel;
  while (!queue.empty() && best.size() < arena_.limits_.fuel && arena_.work_ < work_limit) {
    arena_.make_room();
    const Id state = queue.front();
    queue.pop_front();
    if (!done.insert(state).second) continue;
    const u32 cost = best[state].first;
    if (arena_.nullable(state)) {
      out.shortest = cost;
      for (Id s = state; s != kEmpty && !out.longer; s = best[s].second)
        for (u32 c = 0; c < arena_.class_count_ && !out.longer; ++c)
          out.longer = arena_.representatives_[c] < 0x80 && arena_.derive(s, arena_.representatives_[c]) == s;
      break;
    }
    const ByteSet possible = arena_.first(state);
    for (u32 c = 0; c < arena_.class_count_; ++c) {
      const u8 byte = arena_.representatives_[c];
      if (!possible.has(byte)) continue;
      const Id next = arena_.derive(state, byte);
      if (next == kEmpty || arena_.has(next, kDead)) continue;
      const bool middle = is_continuation(byte);
      const u32 total = cost + (middle ? 0 : 1);
      auto [it, fresh] = best.try_emplace(next, total, state);
      if (!fresh && it->second.first <= total) continue;
      it->second = {total, state};
      if (middle)
        queue.push_front(next);
      else
        queue.push_back(next);
    }
  }
  reach_memo_.emplace(start, out);
  return out;
}

// R & C{m,n}: mostly R & C* decides, which is the same for all counts.
std::optional<bool> Liveness::by_length(Id e) {
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
    if (const u32 some = some_length(free); some != kInf && some >= min && some <= max) return true;
  }
  const Reach r = arena_.has(free, kSearch) ? reach(free) : Reach{arena_.node(free).shortest, false};
  if (r.shortest == kInf) return std::nullopt;
  if (r.shortest > max) return false;
  if (r.shortest >= min || r.longer) return true;
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
  if (auto quick = by_length(start)) {
    settle(start, *quick);
    return *quick;
  }
  arena_.ensure_classes();
  const u64 work_limit = arena_.work_ + u64{arena_.limits_.fuel} * kWorkPerFuel;
  Frontier frontier(arena_, start);
  std::unordered_map<Id, Id> parent;
  parent.emplace(start, start);
  Id found = kEmpty;
  bool depends = false;  // the answer depends on a forgotten text
  std::vector<u32> symbols;
  while (!frontier.empty() && found == kEmpty && !(depends && parent.size() > kLiveDoubt)) {
    arena_.make_room();
    Work::spend();
    if (parent.size() > kLiveHaste && frontier.begin_thoroughly()) parent = {{start, start}};
    const Frontier::Item item = frontier.next();
    const Id state = item.id;
    if (parent.size() > arena_.limits_.fuel || arena_.work_ > work_limit || faults::on_limit())
      throw Error("fuel", "deciding whether an intersection or complement can still match took more than " +
                              std::to_string(arena_.limits_.fuel) + " states; simplify it or raise fuel");
    auto meet = [&](Id next) {  // true: it must be searched, too
      if (next == kEmpty || parent.contains(next)) return false;
      if (arena_.has(next, kUnknownText)) {
        depends = true;
        return false;
      }
      const bool known = !arena_.has(next, kSearch) || arena_.has(next, kLiveKnown);
      if (known && arena_.has(next, kDead)) return false;
      parent.emplace(next, state);
      if (!known && !arena_.nullable(next) && !(arena_.proofs_ && surely_live(next))) return true;
      found = next;
      return false;
    };
    const ByteSet possible = arena_.first(state);
    u32 tried = 0;
    arena_.each_byte(state, [&](u8 byte) {
      if (tried++ < item.from || !possible.has(byte)) return true;
      const Id next = arena_.derive(state, byte);
      return meet(next) ? frontier.push(item, next, byte, tried) : found == kEmpty;
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
    arena_.node(start).flags.fetch_or(static_cast<u32>(kLiveKnown | kUnknownText), std::memory_order_relaxed);
    return true;
  }
  if (found == kEmpty) {
    for (auto& [id, from] : parent) settle(id, false);
    return false;
  }
  for (Id id = found;; id = parent[id]) {
    settle(id, true);
    if (id == start) return true;
  }
}

}  // namespace guiderail
