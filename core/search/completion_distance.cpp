#include "search/completion_distance.hpp"

#include <algorithm>
#include <queue>

#include "base/work.hpp"

namespace guiderail {
CompletionDistance::CompletionDistance(Arena& arena, Vocabulary& vocabulary, const std::vector<u32>& tokens,
                                       const std::vector<std::shared_ptr<const Words>>& sets)
    : arena_(arena),
      vocabulary_(vocabulary),
      trie_(vocabulary.trie()),
      below_(vocabulary.bytes_below()),
      specials_(tokens),
      sets_(sets) {
  for (u32 s = 0; s < specials_.size(); ++s)
    if (!sets_[s]) symbols_of_[specials_[s]].push_back(s);
  for (auto [one, other] : vocabulary.twins()) twins_[one].push_back(other);
}

// While it lives, a search has its turn. What it keeps is put away while others have theirs.
class CompletionDistance::Turn : public Arena::Aside {
 public:
  explicit Turn(CompletionDistance& costs) : Arena::Aside(costs.arena_), costs_(costs) {}
  void leave() override {
    work_ = costs_.work_;
    steps_ = costs_.steps_;
    hasty_ = costs_.hasty_;
    work_kept_ = std::exchange(costs_.work_kept_, 1);
    nodes_kept_ = std::exchange(costs_.nodes_kept_, 0);
    begun_at_ = costs_.begun_at_;
    most_nodes_ = std::exchange(costs_.most_nodes_, 0);
    depth_ = std::exchange(costs_.depth_, 0);
    unspelled_ = costs_.unspelled_;
    nodes_ = costs_.arena_.node_count();
  }
  void enter() override {
    const u32 foreign = costs_.arena_.node_count() - nodes_;
    costs_.work_ = work_;
    costs_.steps_ = steps_;
    costs_.hasty_ = hasty_;
    costs_.work_kept_ = work_kept_;
    costs_.nodes_kept_ = nodes_kept_;
    costs_.begun_at_ = begun_at_ + foreign;
    costs_.most_nodes_ = most_nodes_ + foreign;
    costs_.depth_ = depth_;
    costs_.unspelled_ = unspelled_;
  }

 private:
  CompletionDistance& costs_;
  std::size_t work_ = 0, steps_ = 0, work_kept_ = 0;
  std::optional<Manner> hasty_;
  u32 nodes_kept_ = 0, begun_at_ = 0, most_nodes_ = 0, nodes_ = 0;
  int depth_ = 0;
  bool unspelled_ = false;
};

std::optional<u32> CompletionDistance::found(Id state) {
  const u32 least = known(state);
  return least == kInf && !known_.contains(state) ? std::nullopt : std::optional(least);
}

// A token as a unit, whatever it spells.
Id CompletionDistance::read_special(Id state, u32 token) {
  Id next = kEmpty;
  if (auto it = symbols_of_.find(token); it != symbols_of_.end())
    for (u32 symbol : it->second) next = arena_.unite(next, arena_.derive_symbol(state, symbol));
  for (u32 s = 0; s < sets_.size(); ++s)
    if (sets_[s] && (*sets_[s])[token >> 5] >> (token & 31) & 1)
      next = arena_.unite(next, arena_.derive_symbol(state, s));
  return next != kEmpty && arena_.live(next) ? next : kEmpty;
}

ByteSet CompletionDistance::staying(Id state) {
  ByteSet out;
  if (arena_.has(state, kExactStep)) return out;
  std::array<Id, 256> steps;  // by class
  steps.fill(kUnknown);
  for (unsigned b = 0; b < 256; ++b) {
    const auto byte = static_cast<u8>(b);
    Id& next = steps[arena_.byte_class(byte)];
    if (next == kUnknown) next = arena_.step_slow(state, byte);
    if (next == state) out.add(byte);
  }
  return out;
}

template <class F, class Whole, class Many, class Open>
void CompletionDistance::each_token(Id state, F f, Whole whole, Many many, Open open) {
  std::vector<Id> states(vocabulary_.longest() + 2);
  std::unordered_map<Id, ByteSet> stay;
  states[0] = state;
  u32 count = 0;
  for (u32 n = 1; n < trie_.nodes[0].end;) {
    if (++count % kNodesBetweenBreaks == 0) {
      arena_.make_room();
      Work::spend(kNodesBetweenBreaks / kNodesPerStep);
    }
    const TrieNode& node = trie_.nodes[n];
    const u32 depth = trie_.depths[n];
    const Id before = states[depth - 1];
    Id next = arena_.known_step(before, arena_.byte_class(node.byte));
    if (next == before) {  // in the midst of a string: all that follows is known of it
      if (const ByteSet* below = below_.of(n)) {
        auto [it, fresh] = stay.try_emplace(before);
        if (fresh) it->second = staying(before);
        if (it->second.contains(*below)) {
          if (!whole(n, arena_.token_end(before))) return;
          n = node.end;
          continue;
        }
      }
    } else {
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
      if (node.end > n + 1) arena_.ensure_row(next);
    }
    states[depth] = next;
    if (node.token >= 0 && !f(static_cast<u32>(node.token), arena_.token_end(next))) return;
    ++n;
  }
  if (!specials_.empty() && arena_.has(state, kHasToken | kHasRef)) {
    std::vector<u32> symbols, tokens;
    arena_.first_symbols(state, symbols);
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    for (u32 s : symbols) {
      if (!sets_[s]) {
        tokens.push_back(specials_[s]);
      } else if (const Id next = arena_.derive_symbol(state, s); next != kEmpty && arena_.live(next)) {
        many(*sets_[s], forget(next));
      }
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (u32 token : tokens)
      if (const Id next = read_special(state, token); next != kEmpty && !f(token, forget(next))) return;
  }
}

std::size_t CompletionDistance::Branch::size() const {
  std::size_t out = tokens.size();
  for (auto [first, end] : spans) out += end - first;
  return out;
}

template <class F>
void CompletionDistance::each_of(const Branch& branch, F f) const {
  std::for_each(branch.tokens.begin(), branch.tokens.end(), f);
  for (auto [first, end] : branch.spans)
    for (u32 n = first; n < end; ++n) {
      const int token = trie_.nodes[n].token;
      if (token < 0) continue;
      f(static_cast<u32>(token));
      if (twins_.empty()) continue;
      if (auto it = twins_.find(static_cast<u32>(token)); it != twins_.end())
        std::for_each(it->second.begin(), it->second.end(), f);
    }
}

// -- completions --
u32 CompletionDistance::known(Id state) {
  if (arena_.nullable(state)) return 0;
  u32 least = kInf;
  if (auto it = known_.find(state); it != known_.end()) least = it->second.tokens;
  if (const Id plain = forget(state); plain != state)
    if (auto it = known_.find(plain); it != known_.end()) least = std::min(least, it->second.tokens);
  if (const Id spent = leave(state); spent != state)
    if (auto it = known_.find(spent); it != known_.end()) least = std::min(least, it->second.tokens);
  // A token that is read as text and as a unit leads to both: what completes one of them completes the union.
  if (!specials_.empty() && arena_.node(state).kind == Kind::Union)
    if (const std::span<const Id> parts = arena_.operands(state); parts.size() <= kFewParts)
      for (Id part : parts) least = std::min(least, known(part));
  return least;
}

void CompletionDistance::begin(std::size_t work) {
  work_ = work;
  steps_ = kMostSteps;
  work_kept_ = 1;  // an error may have left these
  nodes_kept_ = 0;
  depth_ = 0;
  const u32 now = arena_.node_count();
  if (most_nodes_ != 0) added_ += std::min(now - begun_at_, most_nodes_ - begun_at_);  // at most: others read, too
  const u32 share = arena_.limits().max_nodes / kNodesShare;
  begun_at_ = now;
  most_nodes_ = now + kFewNodes + (share > added_ ? (share - added_) / 2 : 0);
}

Id CompletionDistance::leave(Id state) {
  if (!arena_.has(state, kHasToken)) return state;
  if (auto it = left_.find(state); it != left_.end()) return it->second;
  const Id spent = arena_.counts_spent(state);
  return left_.emplace(state, spent).first->second;
}

u32 CompletionDistance::of(Id state) {
  const Turn turn(*this);
  // A way of so many bytes takes as many states, and a few expressions for each.
  const u32 shortest = arena_.node(state).shortest, far = shortest == kInf ? 0 : mul_sat(4, shortest);
  begin(2 * kMostSearchStates + far);
  most_nodes_ += std::min(far, arena_.limits().max_nodes / 4);
  const u32 needed = find(state);
  if (needed == kInf && state != kEmpty) known_.try_emplace(state);  // all that may be done for it was
  return needed;
}

u32 CompletionDistance::find(Id state) {
  if (state == kEmpty) return kInf;
  if (const u32 least = known(state); least != kInf) return least;
  if (known_.contains(state)) return kInf;            // was looked for
  if (const Id spent = leave(state); spent != state)  // these are few
    if (const u32 least = find(spent); least != kInf) return least;
  unspelled_ = false;
  if (!complete(state)) {
    if (unspelled_ && !exhausted())
      by_tokens(state, kFewByTokens, kInf);  // of texts that no tokens spell there are others
    if (!exhausted()) known_.try_emplace(state);
  }
  return known(state);
}

// As Program::shortest: of JSON first of printable ASCII, and by states without the texts of keys, for they are few.
// Where the shortest is too far to be found so, some completion is looked for in haste, and in the same manner first
// the next time. Each search leaves half of what there is to those after it.
bool CompletionDistance::complete(Id state) {
  auto half = [](auto all, auto kept) { return all > kept ? kept + (all - kept) / 2 : kept; };
  auto search = [&](Manner manner, std::size_t work_kept, u32 nodes_kept) {
    work_kept_ = work_kept;
    nodes_kept_ = nodes_kept;
    const bool found = complete(state, manner);
    work_kept_ = 1;
    nodes_kept_ = 0;
    return found;
  };
  if (hasty_ && search(*hasty_, work_ > kFewSearchStates ? work_ - kFewSearchStates : 1, 0)) return true;
  for (u32 haste : {1u, kDistanceHaste}) {
    const u32 nodes = arena_.node_count(), free = most_nodes_ > nodes ? most_nodes_ - nodes : 0;
    const std::size_t work_kept = haste == 1 ? half(work_, std::size_t{1}) : 1;
    const u32 nodes_kept = haste == 1 ? free / 2 : 0;
    for (Manner manner :
         {Manner{true, true, haste}, {true, false, haste}, {false, true, haste}, {false, false, haste}}) {
      const bool last = !manner.plain && !manner.forgetful;
      if (!arena_.has_json() && !last) continue;
      const u32 now = arena_.node_count();
      if (!search(manner, last ? work_kept : half(work_, work_kept),
                  last ? nodes_kept : half(most_nodes_ > now ? most_nodes_ - now : 0, nodes_kept)))
        continue;
      hasty_ = haste == 1 ? std::nullopt : std::optional(manner);
      return true;
    }
  }
  return false;
}

// What is at least missing, in bytes; exactly, where a completion is known.
u32 CompletionDistance::promise(Id e) const {
  if (auto it = known_.find(e); it != known_.end() && it->second.bytes != kInf) return it->second.bytes;
  auto it = bounds_.find(e);
  return it != bounds_.end() ? it->second : arena_.node(e).shortest;
}

// A better promise: a stack takes as much as its parts, the tails of which are searched on their own, inner ones first.
u32 CompletionDistance::refined(Id e, Manner manner) {
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
    if (i > 0 && depth_ < kMostSearchDepth && !arena_.nullable(part)) {
      ++depth_;
      complete(part, manner);
      --depth_;
    }
  }
  return promise(e);
}

bool CompletionDistance::complete(Id from, Manner manner) {
  auto seen = [&](Id e) { return manner.forgetful ? forget(e) : e; };
  const Id start = seen(from);
  if (arena_.has(start, kUnknownText)) return false;
  // In haste, all by the same measure: what is known better of some would make the others look nearer.
  auto missing = [&](Id e) { return manner.haste > 1 ? mul_sat(manner.haste, arena_.node(e).shortest) : promise(e); };
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
  queue.push({missing(start), 0, start});
  std::vector<u32> symbols;
  while (!queue.empty()) {
    arena_.make_room();
    Work::spend();
    const auto [total, depth, state] = queue.top();
    queue.pop();
    if (ways[state].depth < depth) continue;
    const u32 least = manner.haste > 1 ? total : add_sat(depth, refined(state, manner));
    if (least > total) {
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
        const Entry before = entry;
        entry.bytes = ++bytes;
        entry.edge = way.edge;
        entry.next = s;
        s = way.from;
        try {
          count(s);
        } catch (...) {  // a completion in bytes has its number of tokens
          entry = before;
          if (before.tokens == kInf) known_.erase(s);  // or it would be taken for one that was looked for in vain
          throw;
        }
      }
      unspelled_ = unspelled_ || known_[start].tokens == kInf;
      return known_[start].tokens != kInf;
    }
    if (exhausted() || ways.size() > manner.haste * kMostSearchStates) return false;
    --work_;
    auto visit = [&, depth = depth, state = state](u32 edge, Id next) {
      if (next == kEmpty || arena_.has(next, kUnknownText)) return;
      auto [known, fresh] = ways.try_emplace(next, Way{depth + 1, state, edge});
      if (!fresh && known->second.depth <= depth + 1) return;
      known->second = {depth + 1, state, edge};
      queue.push({add_sat(depth + 1, missing(next)), depth + 1, next});
    };
    const ByteSet first = arena_.first(state);
    arena_.each_byte(state, [&, state = state](u8 byte) {
      if (!first.has(byte) || (manner.plain && (byte < 0x20 || byte >= 0x7F || byte == '\\'))) return true;
      const Id next = arena_.step_slow(state, byte);  // as a token: what is found then, any tokens can write
      if (next != kEmpty) visit(byte, seen(arena_.token_end(next)));
      return true;
    });
    if (!specials_.empty() && arena_.has(state, kHasToken | kHasRef)) {
      symbols.clear();
      arena_.first_symbols(state, symbols);
      for (u32 s : symbols)
        if (const Id next = read_special(state, specials_[s]); next != kEmpty)
          visit(kSpecial + specials_[s], seen(next));
    }
  }
  return false;
}

// The fewest tokens of the completion of a state, when those after it have been counted.
void CompletionDistance::count(Id state) {
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
bool CompletionDistance::by_tokens(Id from, std::size_t most, u32 deepest) {
  const Id start = forget(from);
  if (arena_.has(start, kUnknownText)) return false;
  std::unordered_map<Id, Id> before{{start, kEmpty}};
  std::vector<Id> level{start}, next_level;
  std::size_t popped = 0;
  Id end = arena_.nullable(start) ? start : kEmpty;
  for (u32 depth = 0; end == kEmpty && !level.empty() && depth < deepest; ++depth) {
    next_level.clear();
    for (Id state : level) {
      if (++popped > most || steps_ == 0 || exhausted()) return false;
      work_ -= std::min<std::size_t>(work_ - 1, 100);
      auto visit = [&](u32, Id next) {
        if (steps_ > 0) --steps_;
        if (end == kEmpty && before.try_emplace(next, state).second) {
          if (arena_.nullable(next)) end = next;
          next_level.push_back(next);
        }
        return end == kEmpty && steps_ > 0;
      };
      each_token(state, visit, visit, [&](const Words&, Id next) { visit(0, next); }, [](u32) {});
      if (end != kEmpty) break;
    }
    level.swap(next_level);
  }
  if (end == kEmpty) return false;
  u32 tokens = 0;
  for (Id s = end; s != kEmpty; s = before[s]) lower(s, tokens++);
  return true;
}

u32 CompletionDistance::refine(Id state) {
  const Turn turn(*this);
  begin(kMostSearchWork);
  if (find(state) == kInf) {
    begin(kMostSearchWork);
    most_nodes_ += arena_.limits().max_nodes / kNodesShare;
    if (auto it = known_.find(state); it != known_.end()) known_.erase(it);
    if (find(state) == kInf) return kInf;
  }
  if (by_tokens(state, kMostByTokens, kInf)) return known(state);
  begin(kMostSearchWork);
  for (int round = 0; round < kMostRounds && steps_ > 0 && !exhausted(); ++round) {  // a step ahead, all along the way
    const u32 earlier = known(state);
    std::vector<Id> path{state};
    while (!arena_.nullable(path.back()) && path.size() <= earlier + 1 && steps_ > 0) {
      const Id next = best_next(path.back());
      if (next == kEmpty) break;
      path.push_back(next);
    }
    for (std::size_t i = path.size(); i-- > 0 && steps_ > 0;)
      if (!arena_.nullable(path[i])) best_next(path[i]);
    if (known(state) >= earlier) break;
  }
  return known(state);
}

// The state after the token that is nearest to an end; kEmpty if none is known to be near one.
Id CompletionDistance::best_next(Id state) {
  u32 least = kInf;
  Id best = kEmpty;
  const Branches branches = profile(state);
  for (const Branch& branch : *branches) {
    u32 needed = known(branch.next);
    if (needed == kInf && !exhausted()) needed = find(branch.next);
    if (needed >= least) continue;
    least = needed;
    best = branch.next;
  }
  if (least != kInf) lower(state, least + 1);
  return best;
}

Id CompletionDistance::read(Id state, u32 token) {
  const Id unit = specials_.empty() ? kEmpty : read_special(state, token);
  if (!vocabulary_.is_text(token)) return unit;
  for (char c : vocabulary_.bytes(token))
    if (state != kEmpty) state = arena_.step_slow(state, static_cast<u8>(c));
  if (state == kEmpty) return unit;
  return arena_.unite(unit, arena_.token_end(state));
}

// -- masks --
// The tokens of a state, by the states after them. Those are without texts where a state without texts tells of them.
CompletionDistance::Branches CompletionDistance::profile(Id state) {
  if (auto it = profiles_.find(state); it != profiles_.end()) return it->second;
  if (profile_size_ > kMostProfiles) {
    profiles_.clear();
    profile_size_ = 0;
  }
  std::vector<Branch> found;
  std::unordered_map<Id, std::size_t> places;
  Id last = kEmpty;
  std::size_t place = 0;
  auto branch = [&](Id next, bool plain) -> Branch& {
    if (next != last || found[place].plain != plain) {
      auto [it, fresh] = places.try_emplace(next, found.size());
      if (fresh) found.push_back({next, plain, {}});
      place = it->second;
      last = next;
      found[place].plain = found[place].plain && plain;
    }
    return found[place];
  };
  auto note = [&](u32 token, Id next, bool plain, bool unit = false) {
    if (steps_ > 0) --steps_;
    std::vector<u32>& tokens = branch(next, plain).tokens;
    tokens.push_back(token);
    if (twins_.empty() || unit) return;
    if (auto it = twins_.find(token); it != twins_.end())
      tokens.insert(tokens.end(), it->second.begin(), it->second.end());
  };
  const Id plain = forget(state);
  const bool forgotten = !arena_.has(plain, kUnknownText);
  std::vector<u32> open;
  each_token(
      forgotten ? plain : state,
      [&](u32 token, Id next) {
        note(token, next, forgotten);
        return true;
      },
      [&](u32 node, Id next) {
        branch(next, forgotten).spans.push_back({node, trie_.nodes[node].end});
        return true;
      },
      [&](const Words& tokens, Id next) {
        for_each_bit(tokens, [&](u32 token) { note(token, next, forgotten, true); });
      },
      [&](u32 node) { open.push_back(node); });
  for (u32 node : open)
    for (u32 n = node; n < trie_.nodes[node].end; ++n) {
      const int token = trie_.nodes[n].token;
      if (token < 0) continue;
      if (const Id next = read(state, static_cast<u32>(token)); next != kEmpty)
        note(static_cast<u32>(token), next, false);
    }
  if (auto it = profiles_.find(state); it != profiles_.end()) return it->second;  // others were first
  std::size_t size = 0;
  for (const Branch& branch : found) size += branch.tokens.capacity() + 2 * branch.spans.capacity() + 18;
  const auto made = std::make_shared<const std::vector<Branch>>(std::move(found));
  profiles_.emplace(state, made);
  profile_size_ += size;
  return made;
}

// What is needed after a token, looked for only as far as it matters to whoever has `left` tokens.
u32 CompletionDistance::need(Id next, u32 left) {
  u32 needed = known(next);
  if (needed <= left || exhausted()) return needed;
  if (promise(next) > mul_sat(left, vocabulary_.longest())) return needed;  // surely more
  if (needed == kInf) {  // no search takes what those for other tokens need
    const std::size_t kept = work_ > kSearchShare ? work_ - kSearchShare : 0;
    work_ -= kept;
    needed = find(next);
    work_ += kept;
  }
  if (needed > left && steps_ > 0 && !exhausted() && looked_at_[next] < left) {
    const bool found = by_tokens(next, kFewByTokens, left);
    looked_at_[next] = left;
    if (found) needed = known(next);
  }
  return needed;
}

bool CompletionDistance::suffices(Id before, u32 token, Id after, u32 left) {
  const Turn turn(*this);
  begin(kMaskSearchWork);
  steps_ = kFewSteps;
  u32 least = need(after, left);
  auto part = [&](Id next) {
    if (least > left && next != kEmpty && arena_.live(next)) least = std::min(least, need(forget(next), left));
  };
  if (!specials_.empty()) {
    Id text = kEmpty;
    if (vocabulary_.is_text(token)) {
      text = before;
      for (char c : vocabulary_.bytes(token))
        if (text != kEmpty) text = arena_.step_slow(text, static_cast<u8>(c));
    }
    if (text != kEmpty) part(arena_.token_end(text));
    if (auto it = symbols_of_.find(token); it != symbols_of_.end())
      for (u32 symbol : it->second) part(arena_.derive_symbol(before, symbol));
    for (u32 s = 0; s < sets_.size(); ++s)
      if (sets_[s] && (*sets_[s])[token >> 5] >> (token & 31) & 1) part(arena_.derive_symbol(before, s));
    if (least <= left) lower(after, least);
  }
  return least <= left;
}

std::optional<u32> CompletionDistance::worst(Id state) const {
  auto it = worst_.find(state);
  return it == worst_.end() ? std::nullopt : std::optional(it->second);
}

void CompletionDistance::restrict(Id state, u32 left, u32* words) {
  const Turn turn(*this);
  begin(kMaskSearchWork);
  Words refused(vocabulary_.words(), 0);
  u32 worst = 0, least = kInf;
  auto refuse = [&](u32 token) { refused[token >> 5] |= 1u << (token & 31); };
  auto allow = [&](u32 token) { refused[token >> 5] &= ~(1u << (token & 31)); };
  auto count = [&](u32 needed) {
    worst = std::max(worst, needed);
    least = std::min(least, needed);
    return needed <= left;
  };
  std::vector<u32> lost, far;  // without texts there is no end, or none that is near enough
  const Branches branches = profile(state);
  steps_ = kFewSteps;  // where there are many tokens, one more or less is no matter
  for (const Branch& branch : *branches) steps_ -= std::min(steps_, branch.size());
  std::vector<const Branch*> allowed;
  for (const Branch& branch : *branches) {
    const u32 needed = need(branch.next, left);
    if (count(needed)) {
      allowed.push_back(&branch);
      continue;
    }
    each_of(branch, refuse);
    if (branch.plain && arena_.has_json()) {
      std::vector<u32>& tokens = needed == kInf && known_.contains(branch.next) ? lost : far;
      each_of(branch, [&](u32 token) { tokens.push_back(token); });
    }
  }
  if (worst > left && !specials_.empty())  // else no token leads to two states, as text and as a unit
    for (const Branch* branch : allowed) each_of(*branch, allow);
  // With the texts there may be one, and where one was promised there is.
  auto reread = [&](const std::vector<u32>& tokens, bool thorough) {
    for (u32 token : tokens) {
      if ((!thorough || exhausted()) && least < known(state)) return;
      if (const Id next = read(state, token); next != kEmpty && count(need(next, left))) allow(token);
    }
  };
  reread(lost, lost.size() <= kFewLost);
  reread(far, false);
  if (least != kInf) lower(state, least + 1);
  worst_[state] = worst;
  for (u32 w = 0; w < refused.size(); ++w) words[w] &= ~refused[w];
}

std::size_t CompletionDistance::memory() const {
  return sizeof(*this) + bytes_of(known_) + bytes_of(worst_) + bytes_of(bounds_) + bytes_of(plain_) + bytes_of(left_) +
         bytes_of(looked_at_) + bytes_of(specials_) + bytes_of(sets_) + bytes_of(symbols_of_) + bytes_of(twins_) +
         bytes_of(profiles_) + profile_size_ * 4;
}

}  // namespace guiderail
