#include "search/completion_distance.hpp"

#include <algorithm>

#include "search/token_walk.hpp"

namespace guiderail {
CompletionDistance::CompletionDistance(Arena& arena, Vocabulary& vocabulary, std::shared_ptr<const Symbols> symbols)
    : arena_(arena),
      vocabulary_(vocabulary),
      trie_(vocabulary.trie()),
      below_(vocabulary.bytes_below()),
      symbols_(std::move(symbols)) {
  for (auto [one, other] : vocabulary.twins()) twins_[one].push_back(other);
}

std::optional<u32> CompletionDistance::found(Id state) {
  const u32 least = known(state);
  return least == kInf && !known_.contains(state) ? std::nullopt : std::optional(least);
}

// Reads a token as a unit, whatever its text.
Id CompletionDistance::read_special(Id state, u32 token) {
  Id next = kEmpty;
  for (u32 symbol : symbols_->of(token)) next = arena_.unite(next, arena_.derive_symbol(state, symbol));
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

u32 CompletionDistance::known(Id state) {
  if (arena_.nullable(state)) return 0;
  u32 least = kInf;
  if (auto it = known_.find(state); it != known_.end()) least = it->second.tokens;
  if (const Id plain = forget(state); plain != state)
    if (auto it = known_.find(plain); it != known_.end()) least = std::min(least, it->second.tokens);
  if (const Id spent = leave(state); spent != state)
    if (auto it = known_.find(spent); it != known_.end()) least = std::min(least, it->second.tokens);
  // A token read as text and as a unit leads to both: what completes one of them completes the union.
  if (!symbols_->empty() && arena_.node(state).kind == Kind::Union)
    if (const std::span<const Id> parts = arena_.operands(state); parts.size() <= kFewParts)
      for (Id part : parts) least = std::min(least, known(part));
  return least;
}

void CompletionDistance::begin(std::size_t work) {
  const u32 now = arena_.node_count();
  if (now_.most_nodes != 0)  // an upper bound: others read
    added_ += std::min(now - now_.begun_at, now_.most_nodes - now_.begun_at);
  const u32 share = arena_.limits().max_nodes / kNodesShare;
  now_ = {work, kMostSteps, kPartsWork};
  now_.begun_at = now_.most_nodes = now;
  allow_nodes(kFewNodes + (share > added_ ? (share - added_) / 2 : 0));
}

Id CompletionDistance::leave(Id state) {
  if (!arena_.has(state, kHasToken)) return state;
  if (auto it = left_.find(state); it != left_.end()) return it->second;
  const Id spent = arena_.counts_spent(state);
  return left_.emplace(state, spent).first->second;
}

u32 CompletionDistance::of(Id state) {
  const Turn turn(*this);
  // A path passes one state per byte, and needs a few expressions for each.
  const u32 shortest = arena_.node(state).shortest, far = shortest == kInf ? 0 : mul_sat(4, shortest);
  begin(2 * kMostSearchStates + far);
  allow_nodes(std::min(far, arena_.limits().max_nodes / 4));
  const u32 needed = find(state);
  if (needed == kInf && state != kEmpty) known_.try_emplace(state);  // no search can do more
  return needed;
}

u32 CompletionDistance::find(Id state) {
  if (state == kEmpty) return kInf;
  if (const u32 least = known(state); least != kInf) return least;
  if (known_.contains(state)) return kInf;            // searched before, in vain
  if (const Id spent = leave(state); spent != state)  // there are few such states
    if (const u32 least = find(spent); least != kInf) return least;
  if (auto it = shared_.find(forget(state)); it != shared_.end() && follow(state, it->second)) return known(state);
  now_.unspelled = false;
  if (complete(state)) {
    share(state);
  } else {
    if (now_.unspelled && !exhausted())
      by_tokens(state, kFewByTokens, kInf);  // no tokens spell this completion, but they may spell others
    if (!exhausted()) known_.try_emplace(state);
  }
  return known(state);
}

// Like Program::shortest. For JSON, it first tries printable ASCII, and states without the texts of keys: there are few
// of these; but if keys must differ, only their texts tell how, so a few states with texts come early. If the shortest
// completion is too far away, it searches for any in haste, and next time begins in the same manner. Each search leaves
// half of the remaining work to the later ones.
bool CompletionDistance::complete(Id state) {
  auto half = [](auto all, auto kept) { return all > kept ? kept + (all - kept) / 2 : kept; };
  auto search = [&](Manner manner, std::size_t work_kept, u32 nodes_kept) {
    now_.work_kept = work_kept;
    now_.nodes_kept = nodes_kept;
    const bool found = complete(state, manner);
    now_.work_kept = 1;
    now_.nodes_kept = 0;
    return found;
  };
  auto most = [&](std::size_t states) { return now_.work > states ? now_.work - states : 1; };
  if (hasty_ && search(*hasty_, most(kFewSearchStates), 0)) return true;
  if (Json::of(arena_).used() && arena_.node(state).shortest < kFewestSearchStates)
    for (const Manner manner : manners(1))
      if (search(manner, most(kFewestSearchStates), 0)) return true;
  for (u32 haste : {1u, kDistanceHaste}) {
    const u32 nodes = arena_.node_count(), free = now_.most_nodes > nodes ? now_.most_nodes - nodes : 0;
    const std::size_t work_kept = haste == 1 ? half(now_.work, std::size_t{1}) : 1;
    const u32 nodes_kept = haste == 1 ? free / 2 : 0;
    for (const Manner manner : manners(haste)) {
      const bool last = manner.takes_all();
      if (!Json::of(arena_).used() && !last) continue;
      const u32 now = arena_.node_count();
      if (!search(manner, last ? work_kept : half(now_.work, work_kept),
                  last ? nodes_kept : half(now_.most_nodes > now ? now_.most_nodes - now : 0, nodes_kept)))
        continue;
      hasty_ = haste == 1 ? std::nullopt : std::optional(manner);
      return true;
    }
  }
  return false;
}

// A lower bound on the missing bytes; exact if a completion is known.
u32 CompletionDistance::promise(Id e) const {
  if (auto it = known_.find(e); it != known_.end() && it->second.bytes != kInf) return it->second.bytes;
  auto it = bounds_.find(e);
  return it != bounds_.end() ? it->second : arena_.node(e).shortest;
}

// A better bound: a stack needs as much as its parts. Each tail is searched on its own, inner ones first.
u32 CompletionDistance::refined(Id e, Manner manner) {
  if (arena_.node(e).kind != Kind::Concat) return promise(e);
  if (auto it = known_.find(e); it != known_.end() && it->second.bytes != kInf) return it->second.bytes;
  if (auto it = bounds_.find(e); it != bounds_.end()) return it->second;
  std::vector<Id> stack{e};
  for (Id tail = arena_.node(e).tail();; tail = arena_.node(tail).tail()) {
    if (auto it = known_.find(tail); bounds_.contains(tail) || (it != known_.end() && it->second.bytes != kInf)) break;
    stack.push_back(tail);
    if (arena_.node(tail).kind != Kind::Concat) break;
  }
  for (std::size_t i = stack.size(); i-- > 0;) {
    const Id part = stack[i];
    u32 least = arena_.node(part).shortest;
    if (arena_.node(part).kind == Kind::Concat)
      least =
          std::max(least, add_sat(arena_.node(arena_.node(part).head()).shortest, promise(arena_.node(part).tail())));
    bounds_[part] = least;
    if (i > 0 && now_.depth < kMostSearchDepth && !arena_.nullable(part)) {
      ++now_.depth;
      complete(part, manner);
      --now_.depth;
    }
  }
  return promise(e);
}

bool CompletionDistance::complete(Id from, Manner manner) {
  auto seen = [&](Id e) { return manner.forgetful ? forget(e) : e; };
  const Id start = seen(from);
  if (arena_.has(start, kUnknownText)) return false;
  // In haste, one measure for all: better knowledge of some states would make the others look closer.
  auto missing = [&](Id e) { return manner.haste > 1 ? mul_sat(manner.haste, arena_.node(e).shortest) : promise(e); };
  BestFirst<u32> states(start, missing(start));
  std::vector<u32> symbols;
  std::size_t most = manner.haste * kMostSearchStates;           // states; few more once texts are missed
  const bool texts = !manner.forgetful && forget(from) != from;  // each key leads to expressions of its own
  for (BestFirst<u32>::Open at; states.next(at);) {
    arena_.make_room();
    Work::spend();
    const Id state = at.state;
    const u32 least = manner.haste > 1 ? at.total : add_sat(at.depth, refined(state, manner));
    if (least > at.total) {
      states.postpone(at, least);
      continue;
    }
    auto it = known_.find(state);
    const bool joined = it != known_.end() && it->second.bytes != kInf;
    if (joined || arena_.nullable(state)) {
      if (!joined) known_[state] = {0, 0, 0, kEmpty};
      // Backwards, so that each state knows what follows.
      states.each_step(state, [&](Id before, u32 edge, Id next) { link(before, edge, next); });
      now_.unspelled = now_.unspelled || known_[start].tokens == kInf;
      return known_[start].tokens != kInf;
    }
    if (exhausted() || states.size() > most) return false;
    --now_.work;
    const u32 nodes = arena_.node_count();
    auto visit = [&](u32 edge, Id next) {
      if (next == kEmpty) return;
      if (arena_.has(next, kUnknownText))
        most = std::min(most, states.size() + kFewestSearchStates);
      else
        states.reach(at, edge, next, missing);
    };
    ByteSet first = arena_.first(state);
    const ByteSet all = first;
    first &= below_.all();  // no token has others
    now_.unspelled = now_.unspelled || !(first == all);
    arena_.each_byte(state, [&](u8 byte) {
      if (!first.has(byte) || !manner.takes(byte)) return true;
      const Id next = arena_.step_slow(state, byte);  // as a token's end: then any tokens can spell it
      if (next != kEmpty) visit(byte, seen(arena_.token_end(next)));
      return true;
    });
    if (!symbols_->empty() && arena_.has(state, kHasToken | kHasRef)) {
      symbols.clear();
      arena_.first_symbols(state, symbols);
      for (u32 s : symbols)
        if (const Id next = read_special(state, symbols_->token(s)); next != kEmpty)
          visit(kSpecial + symbols_->token(s), seen(next));
    }
    if (texts) now_.work -= std::min<std::size_t>(now_.work - 1, (arena_.node_count() - nodes) / kNodesPerWork);
  }
  return false;
}

// Notes that the completion of a state is an edge and the completion of the next state.
void CompletionDistance::link(Id from, u32 edge, Id next) {
  const u32 bytes = known_[next].bytes + 1;
  Entry& entry = known_[from];
  const Entry before = entry;
  entry.bytes = bytes;
  entry.edge = edge;
  entry.next = next;
  try {
    count(from);
  } catch (...) {  // a completion in bytes always has its number of tokens
    entry = before;
    if (before.tokens == kInf) known_.erase(from);  // otherwise it would look searched in vain
    throw;
  }
}

// The fewest tokens that spell the completion of a state, once the states after it are counted.
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

// Breadth first over tokens: exact if there are few states, otherwise it finds nothing.
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
      if (++popped > most || now_.steps == 0 || exhausted()) return false;
      now_.work -= std::min<std::size_t>(now_.work - 1, 100);
      auto visit = [&](u32, Id next) {
        if (now_.steps > 0) --now_.steps;
        if (end == kEmpty && before.try_emplace(next, state).second) {
          if (arena_.nullable(next)) end = next;
          next_level.push_back(next);
        }
        return end == kEmpty && now_.steps > 0;
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
    allow_nodes(arena_.limits().max_nodes / kNodesShare);
    if (auto it = known_.find(state); it != known_.end()) known_.erase(it);
    if (find(state) == kInf) return kInf;
  }
  if (by_tokens(state, kMostByTokens, kInf)) return known(state);
  begin(kMostSearchWork);
  for (int round = 0; round < kMostRounds && now_.steps > 0 && !exhausted(); ++round) {  // a step ahead along the path
    const u32 earlier = known(state);
    std::vector<Id> path{state};
    while (!arena_.nullable(path.back()) && path.size() <= earlier + 1 && now_.steps > 0) {
      const Id next = best_next(path.back());
      if (next == kEmpty) break;
      path.push_back(next);
    }
    for (std::size_t i = path.size(); i-- > 0 && now_.steps > 0;)
      if (!arena_.nullable(path[i])) best_next(path[i]);
    if (known(state) >= earlier) break;
  }
  return known(state);
}

// The state after the token that is closest to an end; kEmpty if none is known to be close.
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
  const Id unit = symbols_->empty() ? kEmpty : read_special(state, token);
  if (!vocabulary_.is_text(token)) return unit;
  for (char c : vocabulary_.bytes(token))
    if (state != kEmpty) state = arena_.step_slow(state, static_cast<u8>(c));
  if (state == kEmpty) return unit;
  return arena_.unite(unit, arena_.token_end(state));
}

std::size_t CompletionDistance::memory() const {
  return sizeof(*this) + bytes_of(known_) + bytes_of(worst_) + bytes_of(bounds_) + bytes_of(plain_) + bytes_of(left_) +
         bytes_of(looked_at_) + bytes_of(twins_) + bytes_of(profiles_) + profile_size_ * 4 + bytes_of(shared_) +
         shared_bytes_ + bytes_of(marks_) + parts_.memory() + needs_.memory() + bytes_of(composed_);
}

}  // namespace guiderail
