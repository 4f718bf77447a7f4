// The mask of a state under a budget: it lacks the tokens after which no end is close enough.
#include "search/token_walk.hpp"

namespace guiderail {

std::size_t CompletionDistance::Branch::size() const {
  std::size_t out = tokens.size();
  for (auto [first, end] : spans) out += end - first;
  return out;
}

// The tokens of a state, grouped by the next state. That state is without texts if a state without texts decides the
// token.
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
    if (found.empty() || next != last || found[place].plain != plain) {
      auto [it, fresh] = places.try_emplace(next, found.size());
      if (fresh) found.push_back({next, plain, {}});
      place = it->second;
      last = next;
      found[place].plain = found[place].plain && plain;
    }
    return found[place];
  };
  auto note = [&](u32 token, Id next, bool plain, bool unit = false) {
    if (now_.steps > 0) --now_.steps;
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
    for (u32 token : trie_.below(node)) {
      const bool crowded = arena_.node_count() > most_nodes_ever();  // then these tokens are left out
      const Id next = crowded ? kEmpty : read(state, token);
      if (crowded || next != kEmpty) note(token, next, false);
    }
  if (auto it = profiles_.find(state); it != profiles_.end()) return it->second;  // another thread was first
  std::size_t size = 0;
  for (const Branch& branch : found) size += branch.tokens.capacity() + 2 * branch.spans.capacity() + 18;
  const auto made = std::make_shared<const std::vector<Branch>>(std::move(found));
  profiles_.emplace(state, made);
  profile_size_ += size;
  return made;
}

// What is needed after a token, searched for only as far as it matters with `left` tokens left.
u32 CompletionDistance::need(Id next, u32 left) {
  u32 needed = known(next);
  if (needed > left && symbols_->empty() && below_.each_alone())
    needed = std::min(needed, Composition(*this).tokens(next));
  if (needed <= left || exhausted()) return needed;
  if (promise(next) > mul_sat(left, vocabulary_.longest())) return needed;  // certainly more
  if (needed == kInf) {  // leaves work for the searches of other tokens
    const std::size_t kept = now_.work > kSearchShare ? now_.work - kSearchShare : 0;
    now_.work -= kept;
    needed = find(next);
    now_.work += kept;
  }
  if (needed > left && now_.steps > 0 && !exhausted() && looked_at_[next] < left) {
    const bool found = by_tokens(next, kFewByTokens, left);
    looked_at_[next] = left;
    if (found) needed = known(next);
  }
  return needed;
}

bool CompletionDistance::suffices(Id before, u32 token, Id after, u32 left) {
  const Turn turn(*this);
  begin(kMaskSearchWork);
  now_.steps = kFewSteps;
  u32 least = need(after, left);
  auto part = [&](Id next) {
    if (least > left && next != kEmpty && arena_.live(next)) least = std::min(least, need(forget(next), left));
  };
  if (!symbols_->empty()) {
    Id text = kEmpty;
    if (vocabulary_.is_text(token)) {
      text = before;
      for (char c : vocabulary_.bytes(token))
        if (text != kEmpty) text = arena_.step_slow(text, static_cast<u8>(c));
    }
    if (text != kEmpty) part(arena_.token_end(text));
    for (u32 symbol : symbols_->of(token)) part(arena_.derive_symbol(before, symbol));
    if (least <= left) lower(after, least);
  }
  return least <= left;
}

// A token after which a state needs fewer than `least`, and that state: along the completion of `from`, or any.
u32 CompletionDistance::token_towards(Id from, u32 least, Id& next) {
  u32 node = 0;
  for (Id at = from;;) {
    const auto it = known_.find(at);
    if (it == known_.end() || it->second.bytes == kInf || it->second.bytes == 0) break;
    const u32 edge = it->second.edge;
    at = it->second.next;
    if (edge >= kSpecial) {
      if (node != 0 || known(at) >= least) break;
      next = at;
      return edge - kSpecial;
    }
    node = vocabulary_.child(node, static_cast<u8>(edge));
    if (node == kNoFan) break;
    if (trie_.nodes[node].token < 0 || known(at) >= least) continue;
    next = at;
    return static_cast<u32>(trie_.nodes[node].token);
  }
  const Branches branches = profile(from);
  u32 found = kNoToken;
  for (const bool texts : {false, true})
    for (const Branch& branch : *branches) {
      if (!texts && known(branch.next) >= least) continue;
      each_of(branch, [&](u32 token) {
        if (found != kNoToken) return;
        const Id to = texts ? read(from, token) : branch.next;
        if (to == kEmpty || known(to) >= least) return;
        found = token;
        next = to;
      });
      if (found != kNoToken) return found;
    }
  return kNoToken;
}

// The tokens of a completion, at most known(state) of them; empty: none is known.
std::vector<u32> CompletionDistance::promised(Id state) {
  std::vector<u32> tokens;
  while (!arena_.nullable(state)) {
    const u32 least = known(state);
    std::vector<Id> sources{state, forget(state), leave(state)};  // see known()
    if (!symbols_->empty() && arena_.node(state).kind == Kind::Union) {
      const std::span<const Id> parts = arena_.operands(state);
      sources.insert(sources.end(), parts.begin(), parts.end());
    }
    u32 token = kNoToken;
    for (std::size_t i = 0; i < sources.size() && token == kNoToken && least != kInf; ++i)
      if (known(sources[i]) == least) token = token_towards(sources[i], least, state);
    if (token == kNoToken) return {};
    tokens.push_back(token);
  }
  return tokens;
}

std::optional<u32> CompletionDistance::worst(Id state) const {
  auto it = worst_.find(state);
  return it == worst_.end() ? std::nullopt : std::optional(it->second);
}

u32 CompletionDistance::bound(Id state) {
  if (!symbols_->empty() || !below_.each_alone()) return kInf;
  const Turn turn(*this);
  begin(kMaskSearchWork);
  u32 found = kInf;
  try {
    const Work::Step step(arena_.limits().step_work, "a bound of what a text needs");
    found = NeedBound(*this).after_any_token(state);
  } catch (const Error&) {
    // A search for parts of a completion reached a limit. The tokens are examined one by one.
  }
  if (found != kInf) worst_.try_emplace(state, found);
  return found;
}

bool CompletionDistance::compose(Id state, u32 most) {
  if (!symbols_->empty() || !below_.each_alone()) return false;
  const Turn turn(*this);
  begin(kMaskSearchWork);
  Composition parts(*this);
  if (parts.tokens(state) > most) return false;
  const std::optional<std::string> text = parts.text(state);
  return text && follow(state, *text) && known(state) <= most;
}

u32 CompletionDistance::or_composed(Id state, u32 found) {
  if (found > 0 && state != kEmpty && compose(state, found - 1)) found = known(state);
  if (composed_.size() > kMostParts) composed_.clear();
  composed_.insert(state);
  return found;
}

void CompletionDistance::restrict(Id state, u32 left, u32* words) {
  const Turn turn(*this);
  begin(kMaskSearchWork);
  Words refused(vocabulary_.words(), 0);
  u32 worst = 0, least = kInf;
  auto refuse = [&](u32 token) { set_bit(refused, token); };
  auto allow = [&](u32 token) { clear_bit(refused, token); };
  auto count = [&](u32 needed) {
    worst = std::max(worst, needed);
    least = std::min(least, needed);
    return needed <= left;
  };
  std::vector<u32> lost, far;  // states without texts that have no end, or none close enough
  const Branches branches = profile(state);
  now_.steps = kFewSteps;  // with many tokens, one more or less does not matter
  for (const Branch& branch : *branches) now_.steps -= std::min(now_.steps, branch.size());
  std::vector<const Branch*> allowed;
  for (const Branch& branch : *branches) {
    const u32 needed = need(branch.next, left);
    if (count(needed)) {
      allowed.push_back(&branch);
      continue;
    }
    each_of(branch, refuse);
    if (branch.size() > kFewShared && needed == kInf && !exhausted()) {
      std::vector<u32> unsure;
      if (const u32 together = shared_need(state, branch, left, unsure); together != kInf) {
        if (count(together)) {
          each_of(branch, allow);
          for (u32 token : unsure) refuse(token);
          lost.insert(lost.end(), unsure.begin(), unsure.end());
        } else {  // one of them may need less
          each_of(branch, [&](u32 token) { far.push_back(token); });
        }
        continue;
      }
    }
    if (branch.plain && Json::of(arena_).used()) {
      std::vector<u32>& tokens = needed == kInf && known_.contains(branch.next) ? lost : far;
      each_of(branch, [&](u32 token) { tokens.push_back(token); });
    }
  }
  if (worst > left && !symbols_->empty())  // otherwise no token leads to two states, as text and as a unit
    for (const Branch* branch : allowed) each_of(*branch, allow);
  // With the texts there may be an end; where one was promised, there is.
  auto enough = [&](bool thorough) { return (!thorough || exhausted()) && least < known(state); };
  auto reread = [&](const std::vector<u32>& tokens, bool thorough) {
    for (u32 token : tokens) {
      if (enough(thorough)) return;
      if (const Id next = read(state, token); next != kEmpty && count(need(next, left))) allow(token);
    }
  };
  // What was promised stays. The states after it without texts may have no number: then these have.
  if (least >= known(state)) {
    const std::vector<u32> tokens = promised(state);
    std::vector<Id> path{state};
    for (u32 token : tokens)
      if (path.back() != kEmpty) path.push_back(read(path.back(), token));
    if (!tokens.empty() && path.back() != kEmpty && arena_.nullable(path.back())) {
      for (std::size_t i = path.size(); i-- > 0;) lower(path[i], static_cast<u32>(tokens.size() - i));
      if (count(known(path[1]))) allow(tokens[0]);
    }
  }
  // Common tokens come first.
  const bool few_lost = lost.size() <= kFewLost;
  if (!enough(few_lost)) std::sort(lost.begin(), lost.end());
  const std::size_t kept = now_.work > kLostWork ? now_.work - kLostWork : 0;
  now_.work -= kept;
  reread(lost, few_lost);
  now_.work += kept;
  reread(far, false);
  if (least != kInf) lower(state, least + 1);
  worst_[state] = worst;
  for (u32 w = 0; w < refused.size(); ++w) words[w] &= ~refused[w];
}

}  // namespace guiderail
