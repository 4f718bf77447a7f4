#include "budget.hpp"

#include <algorithm>
#include <queue>

namespace guiderail {
namespace {
constexpr std::size_t kMostStates = 20'000;     // that one search for a short completion visits
constexpr std::size_t kMostWork = 100'000;      // that all searches for one mask visit
constexpr std::size_t kMostByTokens = 400;      // states whose tokens are looked at, breadth first
constexpr std::size_t kFewByTokens = 40;        // the same, where there may be many searches
constexpr std::size_t kMostSteps = 4'000'000;   // transitions taken for that
constexpr std::size_t kMostProfiles = 1 << 22;  // tokens remembered with what is needed after them
constexpr int kMostRounds = 4;
constexpr int kMostDepth = 16;  // of searches for parts of parts
}  // namespace

Costs::Costs(Arena& arena, const Vocabulary& vocabulary, const std::vector<u32>& tokens)
    : arena_(arena), vocabulary_(vocabulary), trie_(vocabulary.trie()), specials_(tokens) {
  for (u32 s = 0; s < specials_.size(); ++s) symbols_of_[specials_[s]].push_back(s);
  for (auto [one, other] : vocabulary.twins()) twins_[one].push_back(other);
}

Id Costs::read_special(Id state, u32 token) {
  Id next = kEmpty;
  for (u32 symbol : symbols_of_[token]) next = arena_.unite(next, arena_.derive_symbol(state, symbol));
  return next != kEmpty && arena_.live(next) ? next : kEmpty;
}

template <class F, class Open>
void Costs::each_token(Id state, F f, Open open) {
  std::vector<Id> states(vocabulary_.longest() + 2);
  states[0] = state;
  for (u32 n = 1; n < trie_.nodes[0].end;) {
    const TrieNode& node = trie_.nodes[n];
    const u32 depth = trie_.depths[n];
    const Id before = states[depth - 1];
    Id next = arena_.known_step(before, arena_.byte_class(node.byte));
    if (next == kUnknown) next = arena_.step_slow(before, node.byte);
    if (next != kEmpty) next = forget(next);
    if (next == kEmpty) {
      n = node.end;
      continue;
    }
    if (arena_.has(next, kUnknownText)) {
      open(n);
      n = node.end;
      continue;
    }
    states[depth] = next;
    if (node.token >= 0) f(static_cast<u32>(node.token), next);
    if (node.end > n + 1) arena_.ensure_row(next);
    ++n;
  }
  if (!symbols_of_.empty() && arena_.has(state, kHasToken | kHasRef)) {
    std::vector<u32> symbols, tokens;
    arena_.first_symbols(state, symbols);
    for (u32 s : symbols) tokens.push_back(specials_[s]);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (u32 token : tokens)
      if (const Id next = read_special(state, token); next != kEmpty) f(token, forget(next));
  }
}

// -- completions --
u32 Costs::known(Id state) {
  if (arena_.nullable(state)) return 0;
  u32 least = kInf;
  if (auto it = known_.find(state); it != known_.end()) least = it->second.tokens;
  if (const Id plain = forget(state); plain != state)
    if (auto it = known_.find(plain); it != known_.end()) least = std::min(least, it->second.tokens);
  return least;
}

u32 Costs::of(Id state) {
  work_ = kMostStates;
  return find(state);
}

u32 Costs::find(Id state) {
  if (state == kEmpty) return kInf;
  if (const u32 least = known(state); least != kInf) return least;
  if (known_.contains(state)) return kInf;  // was looked for
  unspelled_ = false;
  if (!complete(state)) {
    if (unspelled_ && work_ > 1) by_tokens(state, kFewByTokens);  // of texts that no tokens spell there are others
    if (work_ > 1) known_.try_emplace(state);
  }
  return known(state);
}

// As Program::shortest: of JSON first of printable ASCII, and by states without the texts of keys, for they are few.
bool Costs::complete(Id state) {
  for (auto [plain, forget] : {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
    if (!arena_.has_json() && (plain || forget)) continue;
    if (complete(state, plain, forget)) return true;
  }
  return false;
}

// What is at least missing, in bytes; exactly, where a completion is known.
u32 Costs::promise(Id e) const {
  if (auto it = known_.find(e); it != known_.end() && it->second.bytes != kInf) return it->second.bytes;
  auto it = bounds_.find(e);
  return it != bounds_.end() ? it->second : arena_.node(e).shortest;
}

// A better promise: a stack takes as much as its parts, the tails of which are searched on their own, inner ones first.
u32 Costs::refined(Id e, bool plain, bool forgetful) {
  if (arena_.node(e).kind != Kind::Concat) return promise(e);
  if (auto it = known_.find(e); it != known_.end() && it->second.bytes != kInf) return it->second.bytes;
  if (auto it = bounds_.find(e); it != bounds_.end()) return it->second;
  std::vector<Id> stack{e};
  for (Id tail = arena_.node(e).b;; tail = arena_.node(tail).b) {
    if (auto it = known_.find(tail); bounds_.contains(tail) || (it != known_.end() && it->second.bytes != kInf)) break;
    stack.push_back(tail);
    if (arena_.node(tail).kind != Kind::Concat) break;
  }
  for (std::size_t i = stack.size(); i-- > 0;) {
    const Id part = stack[i];
    u32 least = arena_.node(part).shortest;
    if (arena_.node(part).kind == Kind::Concat)
      least = std::max(least, add_sat(arena_.node(arena_.node(part).a).shortest, promise(arena_.node(part).b)));
    bounds_[part] = least;
    if (i > 0 && depth_ < kMostDepth && !arena_.nullable(part)) {
      ++depth_;
      complete(part, plain, forgetful);
      --depth_;
    }
  }
  return promise(e);
}

bool Costs::complete(Id from, bool plain, bool forgetful) {
  auto seen = [&](Id e) { return forgetful ? forget(e) : e; };
  const Id start = seen(from);
  if (arena_.has(start, kUnknownText)) return false;
  struct Item {
    u32 total, depth;
    Id id;
    bool operator<(const Item& o) const { return total != o.total ? total > o.total : depth < o.depth; }
  };
  struct Way {
    u32 depth;
    Id from;
    u32 edge;
  };
  std::unordered_map<Id, Way> ways{{start, {0, kEmpty, 0}}};
  std::priority_queue<Item> queue;
  queue.push({promise(start), 0, start});
  std::vector<u32> symbols;
  while (!queue.empty()) {
    const auto [total, depth, state] = queue.top();
    queue.pop();
    if (ways[state].depth < depth) continue;
    if (const u32 least = add_sat(depth, refined(state, plain, forgetful)); least > total) {
      queue.push({least, depth, state});
      continue;
    }
    auto it = known_.find(state);
    const bool joined = it != known_.end() && it->second.bytes != kInf;
    if (joined || arena_.nullable(state)) {
      if (!joined) known_[state] = {0, 0, 0, kEmpty};
      u32 bytes = known_[state].bytes;
      for (Id s = state; s != start;) {  // backwards, so that each part knows what follows
        const Way way = ways[s];
        Entry& entry = known_[way.from];
        entry.bytes = ++bytes;
        entry.edge = way.edge;
        entry.next = s;
        s = way.from;
        count(s);
      }
      unspelled_ = unspelled_ || known_[start].tokens == kInf;
      return known_[start].tokens != kInf;
    }
    if (work_ <= 1 || ways.size() > std::min<std::size_t>(arena_.limits().fuel, kMostStates)) return false;
    --work_;
    auto visit = [&](u32 edge, Id next) {
      if (next == kEmpty || arena_.has(next, kUnknownText)) return;
      auto [known, fresh] = ways.try_emplace(next, Way{depth + 1, state, edge});
      if (!fresh && known->second.depth <= depth + 1) return;
      known->second = {depth + 1, state, edge};
      queue.push({add_sat(depth + 1, promise(next)), depth + 1, next});
    };
    const ByteSet first = arena_.first(state);
    arena_.each_byte(state, [&, state = state](u8 byte) {
      if (!first.has(byte) || (plain && (byte < 0x20 || byte >= 0x7F || byte == '\\'))) return true;
      const Id next = arena_.step_slow(state, byte);
      if (next != kEmpty) visit(byte, seen(next));
      return true;
    });
    if (!symbols_of_.empty() && arena_.has(state, kHasToken | kHasRef)) {
      symbols.clear();
      arena_.first_symbols(state, symbols);
      for (u32 s : symbols)
        if (const Id next = read_special(state, specials_[s]); next != kEmpty)
          visit(kSpecial + specials_[s], seen(next));
    }
  }
  return false;
}

// The fewest tokens of the completion of a state, when those behind it have been counted.
void Costs::count(Id state) {
  u32 least = kInf, node = 0;
  for (Id at = state; !arena_.nullable(at) || at == state;) {
    auto it = known_.find(at);
    if (it == known_.end() || it->second.bytes == kInf || it->second.bytes == 0) break;
    const Entry& entry = it->second;
    if (entry.edge >= kSpecial) {
      if (node == 0) least = add_sat(1, known(entry.next));
      break;
    }
    node = vocabulary_.child(node, static_cast<u8>(entry.edge));
    if (node == kNoFan) break;
    at = entry.next;
    if (trie_.nodes[node].token >= 0) least = std::min(least, add_sat(1, known(at)));
  }
  lower(state, least);
}

// Breadth first over tokens: the least number, if the states are few; else nothing.
bool Costs::by_tokens(Id from, std::size_t most) {
  const Id start = forget(from);
  if (arena_.has(start, kUnknownText)) return false;
  std::unordered_map<Id, Id> before{{start, kEmpty}};
  std::vector<Id> level{start}, next_level;
  std::size_t popped = 0, steps = 0;
  Id end = arena_.nullable(start) ? start : kEmpty;
  while (end == kEmpty && !level.empty()) {
    next_level.clear();
    for (Id state : level) {
      if (++popped > most || steps > kMostSteps) return false;
      if (work_ > 1) work_ -= std::min<std::size_t>(work_ - 1, 100);
      each_token(
          state,
          [&](u32, Id next) {
            ++steps;
            if (end != kEmpty || !before.try_emplace(next, state).second) return;
            if (arena_.nullable(next)) end = next;
            next_level.push_back(next);
          },
          [](u32) {});
      if (end != kEmpty) break;
    }
    level.swap(next_level);
  }
  if (end == kEmpty) return false;
  u32 tokens = 0;
  for (Id s = end; s != kEmpty; s = before[s]) lower(s, tokens++);
  return true;
}

u32 Costs::refine(Id state) {
  work_ = kMostWork;
  if (find(state) == kInf) return kInf;
  if (by_tokens(state, kMostByTokens)) return known(state);
  for (int round = 0; round < kMostRounds; ++round) {  // one step ahead, all along the way
    const u32 earlier = known(state);
    std::vector<Id> way{state};
    while (!arena_.nullable(way.back()) && way.size() <= earlier + 1) {
      const Profile& found = profile(way.back());
      if (found.tokens.empty()) break;
      const u32 token = found.tokens.begin()->second.front();
      Id next = kEmpty;
      if (symbols_of_.contains(token)) {
        next = read_special(way.back(), token);
      } else {
        next = way.back();
        for (char c : vocabulary_.bytes(token)) next = next == kEmpty ? next : arena_.step_slow(next, static_cast<u8>(c));
      }
      if (next == kEmpty) break;
      way.push_back(next);
    }
    for (std::size_t i = way.size(); i-- > 0;) {
      profiles_.erase(way[i]);
      if (!arena_.nullable(way[i])) profile(way[i]);
    }
    if (known(state) >= earlier) break;
  }
  return known(state);
}

// -- masks --
const Costs::Profile& Costs::profile(Id state) {
  if (auto it = profiles_.find(state); it != profiles_.end()) return it->second;
  if (profile_size_ > kMostProfiles) {
    profiles_.clear();
    profile_size_ = 0;
  }
  work_ = kMostWork;
  Profile found;
  std::unordered_map<Id, u32> needs;
  Id last = kEmpty;
  u32 last_needs = kInf, least = kInf;
  auto need = [&](Id next) {
    if (next == last) return last_needs;
    auto [it, fresh] = needs.try_emplace(next, 0);
    if (fresh) it->second = work_ > 1 ? find(next) : known(next);
    last = next;
    return last_needs = it->second;
  };
  std::vector<u32>* group = nullptr;  // of the tokens after which `same` are needed
  u32 same = kInf;
  auto note = [&](u32 token, u32 tokens) {
    found.worst = std::max(found.worst, tokens);
    if (tokens == kInf) return;
    if (tokens != same) {
      least = std::min(least, tokens);
      group = &found.tokens[same = tokens];
    }
    group->push_back(token);
    if (twins_.empty()) return;
    if (auto it = twins_.find(token); it != twins_.end()) group->insert(group->end(), it->second.begin(), it->second.end());
  };
  const Id plain = forget(state);
  find(state);
  std::vector<u32> open;
  const Id walked = arena_.has(plain, kUnknownText) ? state : plain;
  each_token(
      walked, [&](u32 token, Id next) { note(token, need(next)); }, [&](u32 node) { open.push_back(node); });
  if (least != kInf) lower(walked, least + 1);
  least = same = kInf;
  for (u32 node : open)
    for (u32 n = node; n < trie_.nodes[node].end; ++n) {
      const int token = trie_.nodes[n].token;
      if (token < 0) continue;
      Id next = state;
      for (char c : vocabulary_.bytes(static_cast<u32>(token)))
        if (next != kEmpty) next = arena_.step_slow(next, static_cast<u8>(c));
      if (next != kEmpty) note(static_cast<u32>(token), need(next));
    }
  if (least != kInf) lower(state, least + 1);
  worst_[state] = found.worst;
  for (const auto& [tokens, list] : found.tokens) profile_size_ += list.capacity() + 16;
  return profiles_[state] = std::move(found);
}

std::optional<u32> Costs::worst(Id state) const {
  auto it = worst_.find(state);
  return it == worst_.end() ? std::nullopt : std::optional(it->second);
}

void Costs::restrict(Id state, u32 left, u32* words) {
  const Profile& found = profile(state);
  if (found.worst <= left) return;
  Words within(vocabulary_.words(), 0);
  for (const auto& [tokens, list] : found.tokens) {
    if (tokens > left) break;
    for (u32 token : list) within[token >> 5] |= 1u << (token & 31);
  }
  for (u32 w = 0; w < within.size(); ++w) words[w] &= within[w];
}

std::size_t Costs::memory() const {
  return known_.size() * (sizeof(Entry) + 40) + (worst_.size() + bounds_.size()) * 40 + profile_size_ * 4;
}

}  // namespace guiderail
