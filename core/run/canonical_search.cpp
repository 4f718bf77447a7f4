// Searches for a completion in canonical spelling, token by token, and whether there is one at all.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "run/canonical.hpp"

namespace guiderail {

u32 CanonicalTexts::by_search(Id state, const Spelling::State& spelled) {
  Seen seen;
  u32 fuel = kCanonicalFuel;
  if (search(state, spelled, fuel, seen)) return needs_.at(key_of(state, spelled)).tokens;
  if (fuel > 0)  // everything within reach was visited
    for (const Key& key : seen) note(key, {kInf});
  return kInf;
}

// May many different bytes come? Then a walk along the trie makes a state of nearly each node.
bool CanonicalTexts::is_wide(Id state) {
  const ByteSet first = program_.first(state);
  return static_cast<u32>(std::popcount(first.words[0]) + std::popcount(first.words[1])) > kLeadCharacters;
}

// The walk of each_token() below a node of the trie.
template <class F>
bool CanonicalTexts::each_below(Id state, u32 node, const F& f) {
  const Trie& trie = spelling_.vocabulary().trie();
  const ByteSet first = program_.first(state);
  const auto take = [&](u32 n, u8 byte) {  // false: f returned true
    const char c = static_cast<char>(byte);
    const Id next = first.has(byte) ? program_.advance(state, {&c, 1}) : kEmpty;
    if (next == kEmpty) return true;
    const int token = trie.nodes[n].token;
    if (token >= 0 && f(static_cast<u32>(token), program_.token_end(next))) return false;
    return !each_below(next, n, f);
  };
  if (first.count() != 1) return !trie.each_child(node, take);
  const u32 n = spelling_.vocabulary().child(node, first.least());
  return n != kNoFan && !take(n, first.least());
}

// Calls f(token, state after it) for tokens that the constraint allows, until f returns true. All tokens that the
// spelling allows, too, are among them.
template <class F>
bool CanonicalTexts::each_token(Id state, const Spelling::State& spelled, F f) {
  const Vocabulary& vocabulary = spelling_.vocabulary();
  if (is_wide(state)) {
    Words may(vocabulary.words(), ~u32{0});
    spelling_.restrict(spelled, may.data());
    std::vector<u32> few;
    if (list_few(may.data(), kManyOpen, few))
      return std::any_of(few.begin(), few.end(), [&](u32 token) {
        if (token >= vocabulary.token_count()) return false;
        const Id next = guide_->advance(program_, state, token);
        return next != kEmpty && f(token, next);
      });
  }
  if (!program_.arena().symbols().empty()) {
    Words mask(vocabulary.words());
    guide_->fill(program_, state, {}, mask.data());
    bool done = false;
    for_each_bit(mask, [&](u32 token) {
      if (const Id next = done ? kEmpty : guide_->advance(program_, state, token); next != kEmpty)
        done = f(token, next);
    });
    return done;
  }
  return each_below(state, 0, f);
}

bool CanonicalTexts::search(Id state, const Spelling::State& spelled, u32& fuel, Seen& seen) {
  const Key key = key_of(state, spelled);
  if (seen.size() >= kCanonicalDepth) fuel = 0;
  if (fuel == 0 || !seen.insert(key).second) return false;
  struct Open {
    Id state;
    Spelling::State spelled;
    u32 token;
  };
  std::vector<Open> open;
  bool spent = false;
  const bool found = each_token(state, spelled, [&](u32 token, Id next) {
    if ((spent = fuel == 0)) return true;
    Work::spend();
    const Spelling::State after = spelling_.next(spelled, token);
    if (after.dead()) return false;
    --fuel;
    const auto known = needs_.find(key_of(next, after));
    u32 rest = known != needs_.end() ? known->second.tokens : kInf;
    if (known == needs_.end()) {
      rest = need_any(next, after.place);
      if (rest == kInf) rest = by_text(next, after);
      if (rest == kInf) {
        open.push_back({next, after, token});
        return false;
      }
      note(key_of(next, after), {rest});
    }
    if (rest == kInf) return false;
    note(key, {rest + 1, token, key_of(next, after)});
    return true;
  });
  if (found) return !spent;
  for (const auto& [next, after, token] : open)
    if (search(next, after, fuel, seen)) {
      note(key, {needs_.at(key_of(next, after)).tokens + 1, token, key_of(next, after)});
      return true;
    }
  return false;
}

// -- is there a completion at all? --
bool CanonicalTexts::lives(Id state, const Spelling::State& spelled) {
  if (!plain_) return need(state, spelled) != kInf;
  if (begins(state, spelled.place)) return true;
  if (spelled.last < 0) return need(state, spelled) != kInf;
  const Key key = key_of(state, spelled);
  if (auto it = lives_.find(key); it != lives_.end()) return it->second == Life::Some;
  const Life found = look_for_life(state, spelled);
  lives_.emplace(key, found);
  return found == Life::Some;
}

// One completion suffices. Tries a known text, a short search, a new text, a long search, and texts after some of the
// states reached. If a search visits everything within reach and finds no completion, there is none.
CanonicalTexts::Life CanonicalTexts::look_for_life(Id state, const Spelling::State& spelled) {
  const bool known = shortest_.contains(alike(state));
  if (known && by_text(state, spelled) != kInf) return Life::Some;
  Search search{kFewCanonical};
  if (go_on(state, spelled, search)) return Life::Some;
  if (search.fuel == 0) {
    if (!known && by_text(state, spelled) != kInf) return Life::Some;
    search = {kCanonicalFuel};
    if (go_on(state, spelled, search)) return Life::Some;
  }
  if (search.fuel > 0) {
    for (const Key& dead : search.seen) lives_.emplace(dead, Life::None);
    return Life::None;
  }
  const std::size_t step = search.reached.size() / kCanonicalTexts + 1;
  for (std::size_t i = 0; i < search.reached.size(); i += step)
    if (by_text(search.reached[i].first, search.reached[i].second) != kInf) return Life::Some;
  return Life::Unknown;
}

// May two characters come that begin a piece, whatever follows them? After spaces, a space and a letter do.
bool CanonicalTexts::begins_by_two(Id state, u32 place) {
  const Spelling::Follow firsts = spelling_.cuts_with_next(place);
  bool found = false;
  const auto after = [&](Id at, unsigned byte) {
    const char c = static_cast<char>(byte);
    return program_.advance(at, {&c, 1});
  };
  const ByteSet may = firsts != 0 ? program_.first(state) : ByteSet();
  for (unsigned b = 0x20; b < 0x7F && firsts != 0 && !found; ++b) {
    const Spelling::Follow first = may.has(static_cast<u8>(b)) ? firsts & spelling_.apart(static_cast<u8>(b)) : 0;
    const Id next = first != 0 ? after(state, b) : kEmpty;
    if (next == kEmpty) continue;
    const ByteSet then = program_.first(next);
    Spelling::Follow seconds = 0;
    for (unsigned c = 0x20; c < 0x7F; ++c)
      if (const Spelling::Follow one = spelling_.apart(static_cast<u8>(c)) & ~seconds;
          one && then.has(static_cast<u8>(c)) && after(next, c) != kEmpty)
        seconds |= one;
    found = spelling_.cuts_by_two(place, first, seconds);
  }
  return found;
}

// May an ASCII character that begins a piece come here, or may the text end?
bool CanonicalTexts::begins(Id state, u32 place) {
  place = spelling_.settled(place);
  const Key key = {alike(state), place, -2};
  if (auto it = lives_.find(key); it != lives_.end()) return it->second == Life::Some;
  bool found = ends(state, {place, -1});
  const Spelling::Follow cuts = found ? 0 : spelling_.cuts(place);
  const ByteSet first = cuts != 0 ? program_.first(state) : ByteSet();
  const auto comes = [&](u8 byte) {
    const char c = static_cast<char>(byte);
    return first.has(byte) && spelling_.spells(byte) && (cuts & spelling_.follow(byte)) &&
           spelling_.begins(place, byte, strict_) && program_.advance(state, {&c, 1}) != kEmpty;
  };
  for (const char c : std::string_view("\",}:] a0")) found = found || comes(static_cast<u8>(c));
  for (u8 b = 0; b < 0x80 && !found; ++b) found = comes(b);
  found = found || begins_by_two(state, place);
  lives_.emplace(key, found ? Life::Some : Life::None);
  return found;
}

// Searches through the tokens that may come next, whether they begin a piece or not.
bool CanonicalTexts::go_on(Id state, const Spelling::State& spelled, Search& search) {
  const Key key = key_of(state, spelled);
  if (auto it = lives_.find(key); it != lives_.end()) {
    if (it->second == Life::Unknown) search.fuel = 0;
    return it->second == Life::Some;
  }
  if (search.seen.size() >= kCanonicalDepth) search.fuel = 0;
  if (search.fuel == 0 || !search.seen.insert(key).second) return false;
  const std::size_t from = search.reached.size();
  bool spent = false;
  bool found = each_token(state, spelled, [&](u32 token, Id next) {
    if ((spent = search.fuel == 0)) return true;
    Work::spend();
    const Spelling::State after = spelling_.next(spelled, token);
    if (after.dead()) return false;
    --search.fuel;
    if (begins(next, after.place)) return true;
    search.reached.push_back({next, after});
    return false;
  });
  found = found && !spent;
  const std::size_t end = search.reached.size();
  for (std::size_t i = from; i < end && !found; ++i) {
    const auto [next, after] = search.reached[i];
    found = go_on(next, after, search);
  }
  if (found) lives_.emplace(key, Life::Some);
  return found;
}

}  // namespace guiderail
