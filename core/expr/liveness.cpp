// Emptiness: does any string match? Structural for most expressions; for intersections, complements, look-arounds and
// maximal munch a search among derivatives, memoised, with fuel: it ends in an error, never in a guess.
#include <algorithm>
#include <deque>
#include <queue>
#include <unordered_set>

#include "base/faults.hpp"
#include "base/work.hpp"
#include "expr/kinds.hpp"

namespace guiderail {
namespace {
constexpr u64 kWorkPerState = 20;
constexpr u32 kWait = 16;
constexpr std::size_t kHaste = 1024;
constexpr u32 kDoubt = 64;  // states after which a search that met what was forgotten leaves the question open
// How many conditions what is read next must meet at once: what a search pays for each state.
u32 conditions_ahead(const Arena& arena, Id e) {
  for (;;) {
    const Node& n = arena.node(e);
    switch (n.kind) {
      case Kind::And: return n.b;
      case Kind::Concat:
      case Kind::Repeat: e = n.a; continue;
      default:
        if (const Family* family = arena.family_of(n.kind); family && family->spelled(e) != kUnknown) {
          e = family->spelled(e);
          continue;
        }
        return 1;
    }
  }
}
}  // namespace

bool Arena::live(Id e) {
  for (;;) {
    if (e == kEmpty) return false;
    if (!has(e, kSearch) || has(e, kUnknownText)) return true;
    const Node& n = node(e);
    if (has(e, kLiveKnown)) return !has(e, kDead);
    if (nullable(e)) return true;
    if (proofs_ && surely_live(e)) {
      node(e).flags.fetch_or(kLiveKnown, std::memory_order_relaxed);
      return true;
    }
    switch (n.kind) {
      case Kind::Concat:
        if (!live(n.a)) return false;
        e = n.b;
        continue;
      case Kind::Union: {
        Ids members(operands(e));
        for (Id m : members)  // without a search, if that can be
          if (nullable(m) || (has(m, kLiveKnown) && !has(m, kDead)) || !has(m, kSearch)) return true;
        std::sort(members.begin(), members.end(), [&](Id a, Id b) {
          const std::pair one{node(a).shortest, conditions_ahead(*this, a)},
              other{node(b).shortest, conditions_ahead(*this, b)};
          return one < other;
        });
        for (Id m : members)
          if (live(m)) return true;
        return false;
      }
      case Kind::Repeat:
        if (n.min == 0) return true;
        e = n.a;
        continue;
      case Kind::Counted: e = n.a; continue;
      case Kind::Switch: return true;  // targets are literals
      default:
        if (Family* family = family_of(n.kind))
          if (const Id as = family->live_as(e); as != e) {
            e = as;
            continue;
          }
        return live_search(e);
    }
  }
}

bool Arena::surely_live(Id e) {
  for (;;) {
    if (e == kEmpty) return false;
    if (nullable(e)) return true;
    const Node& n = node(e);
    switch (n.kind) {
      case Kind::Union: {
        std::vector<Id> members(operands(e).begin(), operands(e).end());
        for (Id m : members)
          if (surely_live(m)) return true;
        return false;
      }
      case Kind::Concat:
        if (!surely_live(n.a)) return false;
        e = n.b;
        continue;
      default:
        if (Family* family = family_of(n.kind)) return family->surely_live(e);
        return !has(e, kSearch);
    }
  }
}

// The length in characters of a match of e that is found by what promises to be short, mostly the shortest; kInf: none
// was found. What is left of that match is noted on its way, so the states that lead to each other ask for no search.
u32 Arena::some_length(Id start) {
  if (const u32* known = some_lengths_.find(start)) return *known;
  ensure_classes();
  struct Item {
    u32 shortest, order;
    Id id;
    u32 from;  // how many bytes were tried
    bool operator<(const Item& o) const { return shortest != o.shortest ? shortest > o.shortest : order > o.order; }
  };
  struct Way {
    Id from;
    u32 chars;  // up to here
  };
  std::priority_queue<Item> queue;
  std::unordered_map<Id, Way> ways{{start, {start, 0}}};
  u32 order = 0;
  queue.push({node(start).shortest, order++, start, 0});
  Id end = nullable(start) ? start : kEmpty;
  u32 left = 0;  // of the match, after its end
  while (!queue.empty() && end == kEmpty && ways.size() < kHaste && order < kHaste) {
    make_room();
    const Item item = queue.top();
    const Id state = item.id;
    queue.pop();
    const ByteSet possible = first(state);
    const u32 chars = ways.at(state).chars;
    u32 tried = 0;
    each_byte(state, [&](u8 byte) {
      if (tried++ < item.from || !possible.has(byte)) return true;
      const Id next = derive(state, byte);
      if (next == kEmpty || has(next, kDead | kUnknownText)) return true;
      const u32 so_far = chars + ((byte & 0xC0) == 0x80 ? 0 : 1);
      if (!ways.try_emplace(next, Way{state, so_far}).second) return true;
      const u32* known = some_lengths_.find(next);
      if (nullable(next) || (known && *known != kInf)) {
        end = next;
        left = nullable(next) ? 0 : *known;
        return false;
      }
      queue.push({node(next).shortest, order++, next, 0});
      if (node(next).shortest >= node(state).shortest && byte < 0x80) return true;
      queue.push({add_sat(node(state).shortest, kWait), order++, state, tried});
      return false;
    });
  }
  if (end == kEmpty) {
    some_lengths_.set(start, kInf);
    return kInf;
  }
  const u32 whole = ways.at(end).chars + left;
  for (Id s = end;; s = ways.at(s).from) {
    some_lengths_.set(s, whole - ways.at(s).chars);
    if (s == start) return whole;
  }
}

// The length in characters of a shortest match of e, and whether matches of every greater length exist too (some state
// on the way reads a character and stays). kInf: none within the fuel.
Arena::Reach Arena::reach(Id start) {
  if (auto it = reach_memo_.find(start); it != reach_memo_.end()) return it->second;
  ensure_classes();
  std::unordered_map<Id, std::pair<u32, Id>> best{{start, {0, kEmpty}}};  // characters, where from
  std::deque<Id> queue{start};
  std::unordered_set<Id> done;
  Reach out{kInf, false};
  const u64 work_limit = work_ + u64{limits_.fuel} * kWorkPerState;
  while (!queue.empty() && best.size() < limits_.fuel && work_ < work_limit) {
    make_room();
    const Id state = queue.front();
    queue.pop_front();
    if (!done.insert(state).second) continue;
    const u32 cost = best[state].first;
    if (nullable(state)) {
      out.shortest = cost;
      for (Id s = state; s != kEmpty && !out.longer; s = best[s].second)
        for (u32 c = 0; c < class_count_ && !out.longer; ++c)
          out.longer = representatives_[c] < 0x80 && derive(s, representatives_[c]) == s;
      break;
    }
    const ByteSet possible = first(state);
    for (u32 c = 0; c < class_count_; ++c) {
      const u8 byte = representatives_[c];
      if (!possible.has(byte)) continue;
      const Id next = derive(state, byte);
      if (next == kEmpty || has(next, kDead)) continue;
      const bool middle = (byte & 0xC0) == 0x80;
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

// R & C{m,n}: what R & C* can reach tells most of it, and is the same for all counts.
std::optional<bool> Arena::live_by_length(Id e) {
  if (node(e).kind != Kind::And || has(e, kHasLook | kHasRef)) return std::nullopt;
  Ids members(operands(e));
  u32 min = 0, max = kInf;
  for (Id& m : members) {
    const Node& n = node(m);
    if (n.kind != Kind::Repeat || node(n.a).kind != Kind::Class || (n.min == 0 && n.max == kInf)) continue;
    min = n.min;
    max = n.max;
    m = repeat(n.a, 0, kInf);
    break;
  }
  if (min == 0 && max == kInf) return std::nullopt;
  const Id free = intersect(members);
  if (free == kEmpty) return false;
  if (has(free, kSearch)) {
    if (const u32 some = some_length(free); some != kInf && some >= min && some <= max) return true;
  }
  const Reach r = has(free, kSearch) ? reach(free) : Reach{node(free).shortest, false};
  if (r.shortest == kInf) return std::nullopt;
  if (r.shortest > max) return false;
  if (r.shortest >= min || r.longer) return true;
  return std::nullopt;
}

// Searches the derivatives of e, those that promise a short match first, for a nullable one.
bool Arena::live_search(Id start) {
  auto settle = [this](Id e, bool is_live) {
    node(e).flags.fetch_or(kLiveKnown | (is_live ? 0u : u32{kDead}), std::memory_order_relaxed);
  };
  if (nullable(start)) {
    settle(start, true);
    return true;
  }
  if (auto quick = live_by_length(start)) {
    settle(start, *quick);
    return *quick;
  }
  ensure_classes();
  const u64 work_limit = work_ + u64{limits_.fuel} * kWorkPerState;
  struct Item {
    u32 shortest;
    u32 order;
    Id id;
    u32 from;  // how many bytes were tried
    bool operator<(const Item& o) const { return shortest != o.shortest ? shortest > o.shortest : order > o.order; }
  };
  std::priority_queue<Item> queue;
  std::unordered_map<Id, Id> parent;
  u32 order = 0;
  queue.push({node(start).shortest, order++, start, 0});
  parent.emplace(start, start);
  Id found = kEmpty;
  bool depends = false;  // on a text that was forgotten
  std::vector<u32> symbols;
  while (!queue.empty() && found == kEmpty && !(depends && parent.size() > kDoubt)) {
    make_room();
    Work::spend();
    const Item item = queue.top();
    const Id state = item.id;
    queue.pop();
    if (parent.size() > limits_.fuel || work_ > work_limit || faults::on_limit())
      throw Error("fuel", "deciding whether an intersection or complement can still match took more than " +
                              std::to_string(limits_.fuel) + " states; simplify it or raise fuel");
    const ByteSet possible = first(state);
    u32 tried = 0;
    each_byte(state, [&](u8 byte) {
      if (tried++ < item.from || !possible.has(byte)) return true;
      Id next = derive(state, byte);
      if (next == kEmpty || parent.contains(next)) return true;
      if (has(next, kUnknownText)) {
        depends = true;
        return true;
      }
      bool known = !has(next, kSearch) || has(next, kLiveKnown);
      if (known && has(next, kDead)) return true;
      parent.emplace(next, state);
      if (known || nullable(next) || (proofs_ && surely_live(next))) {
        found = next;
        return false;
      }
      queue.push({node(next).shortest, order++, next, 0});
      // One step closer, or inside a character, where one byte is mostly as good as another: the others wait.
      if (node(next).shortest >= node(state).shortest && byte < 0x80) return true;
      queue.push({add_sat(node(state).shortest, kWait), order++, state, tried});
      return false;
    });
    if (found != kEmpty || item.from > 0 || symbols_.empty() || !has(state, kHasToken | kHasRef)) continue;
    symbols.clear();
    first_symbols(state, symbols);
    for (std::size_t i = 0; i < symbols.size() && found == kEmpty; ++i) {
      const Id next = derive_symbol(state, symbols[i]);
      if (next == kEmpty || parent.contains(next)) continue;
      if (has(next, kUnknownText)) {
        depends = true;
        continue;
      }
      const bool known = !has(next, kSearch) || has(next, kLiveKnown);
      if (known && has(next, kDead)) continue;
      parent.emplace(next, state);
      if (known || nullable(next) || (proofs_ && surely_live(next)))
        found = next;
      else
        queue.push({node(next).shortest, order++, next, 0});
    }
  }
  if (found == kEmpty && depends) {
    node(start).flags.fetch_or(static_cast<u32>(kLiveKnown | kUnknownText), std::memory_order_relaxed);
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
