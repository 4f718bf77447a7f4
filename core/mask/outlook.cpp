// Which characters may follow tokens: found along the trie, and along chains of states that most characters lead
// through.
//
// Every answer is true. Tokens without an answer are decided one by one by the caller.
#include "mask/outlook.hpp"

#include <algorithm>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/identities.hpp"

namespace guiderail {

Outlooks::Row& Outlooks::row(Id state) {
  if (state != at_ || !row_) {
    auto it = rows_.find(state);
    if (it == rows_.end()) it = rows_.try_emplace(state, arena_.first(state)).first;
    row_ = &it->second;
    at_ = state;
  }
  return *row_;
}

Id Outlooks::step(Id state, u8 byte) {
  Row& row = this->row(state);
  if (!row.first.has(byte)) return kEmpty;
  Id& known = row.to[byte];
  if (known != kUnknown) return known;
  const Id next = arena_.known_step(state, arena_.byte_class(byte));
  Id to = next != kUnknown ? next : arena_.step_slow(state, byte);
  if (arena_.has(to, kExactKey) && !arena_.has(to, kHasScan))
    to = Abstraction::of(arena_).near_form(to, vocabulary_.longest());  // without the texts of keys
  return arena_.cap_hit() ? to : known = to;
}

// Atoms of the characters that may come in a state; bit kEnd: the text may end.
Spelling::Follow Outlooks::follow(Id state) {
  if (state == followed_) return follow_;
  if (auto it = follows_.find(state); it != follows_.end()) {
    followed_ = state;
    return follow_ = it->second;
  }
  Follow out = arena_.nullable(state) ? u64{1} << Pretokens::kEnd : 0;
  if (state != kEpsilon) {
    const ByteSet first = arena_.first(state);
    const bool exact = arena_.has(state, kExactStep);
    enum : u8 { kUnasked, kDead, kLive };
    std::array<u8, 256> live{};
    for (unsigned b = 0; b < 0x80; ++b) {
      const u8 byte = static_cast<u8>(b);
      if (!first.has(byte) || !spelling_.spells(byte) || (out & spelling_.follow(byte))) continue;
      u8 own = kUnasked;
      u8& of = exact ? own : live[arena_.byte_class(byte)];
      if (of == kUnasked) of = known(step(state, byte)) ? kLive : kDead;
      if (of == kLive) out |= spelling_.follow(byte);
    }
  }
  if (!arena_.cap_hit()) follows_.emplace(state, out);
  return out;
}

void Outlooks::emit(int token, Id state) {
  if (token < 0) return;
  if (arena_.has(state, kCounting)) state = arena_.token_end(state);
  if (!known(state)) return;
  if (ends_) {
    if (ends_->of[token >> 5] >> (token & 31) & 1) ends_->tokens.push_back({static_cast<u32>(token), state});
    return;
  }
  if (const Follow after = follow(state)) out_->others.push_back({static_cast<u32>(token), after});
}

void Outlooks::take(Id state, u32 node) {
  if (!known(state)) return;
  emit(vocabulary_.trie().nodes[node].token, state);
  take_below(state, node);
}

void Outlooks::take_below(Id state, u32 node) {
  const Trie& trie = vocabulary_.trie();
  if (trie.nodes[node].end == node + 1 || state == kEpsilon) return;
  u32 walked = 0;
  walk(state, node, [&](Id from, u32 n, u8 byte) {
    if (walked++ % kNodesBetweenBreaks == 0) {
      arena_.make_room();
      Work::spend(kNodesBetweenBreaks / kNodesPerStep);
      if (arena_.cap_hit()) return kUnknown;
    }
    const Id next = step(from, byte);
    if (!known(next)) return kEmpty;
    emit(trie.nodes[n].token, next);
    return next == kEpsilon ? kEmpty : next;
  });
}

void Outlooks::take_trie(const ExitTrie& trie, Id state) {
  if (!known(state)) return;
  std::vector<Id> states{state};
  for (u32 n = 0; n < trie.nodes.size();) {
    if (n % kNodesBetweenBreaks == 0) {
      arena_.make_room();
      Work::spend(kNodesBetweenBreaks / kNodesPerStep);
      if (arena_.cap_hit()) return;
    }
    const ExitTrie::Node& node = trie.nodes[n];
    Id next = state;
    if (n > 0) {
      states.resize(node.depth);
      next = step(states[node.depth - 1u], node.byte);
      if (!known(next)) {
        n = node.end;
        continue;
      }
      states.push_back(next);
    }
    for (u32 i = node.first; i < node.last; ++i) emit(trie.tokens[i], next);
    n = next == kEpsilon ? node.end : n + 1;
  }
}

// Do all non-ASCII characters lead from one state to the other?
bool Outlooks::returns(Id from, Id to) {
  const auto& any = CharSet::any()->automaton();
  std::vector<std::pair<u16, Id>> seen{{CharSet::kStart, from}};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto [at, state] = seen[i];
    if (seen.size() > kMostOfCharacter) return false;
    for (unsigned b = 0x80; b < 256; ++b) {
      const u16 after = any[at][b];
      if (after == CharSet::kDead) continue;
      const std::pair<u16, Id> next{after, step(state, static_cast<u8>(b))};
      if (next.second == kEmpty || (after == CharSet::kDone && next.second != to)) return false;
      if (after != CharSet::kDone && std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
    }
  }
  return true;
}

const Outlooks::Lead& Outlooks::lead(Id state) {
  if (auto it = leads_.find(state); it != leads_.end()) return it->second;
  Lead found;
  const ByteSet first = arena_.first(state);
  if (static_cast<u32>(std::popcount(first.words[0]) + std::popcount(first.words[1])) >= kLeadCharacters) {
    std::map<Id, ByteSet> reached;
    for (unsigned b = 0x20; b < 0x7F; ++b)
      if (const Id next = step(state, static_cast<u8>(b)); known(next)) reached[next].add(static_cast<u8>(b));
    for (const auto& [next, set] : reached)
      if (set.count() >= static_cast<int>(kLeadCharacters) && set.count() > found.ascii.count()) found = {next, set};
    if (found.to != kEmpty) found.beyond = returns(state, found.to);
  }
  return leads_.emplace(state, found).first->second;
}

Outlooks::Chain Outlooks::chain(Id state) {
  Chain out;
  out.states.push_back(state);
  const u32 most = vocabulary_.longest();
  while (out.states.size() <= most && !out.loops) {
    const Lead next = lead(out.states.back());
    if (next.to == kEmpty) break;
    ByteSet ascii = next.ascii;
    if (out.states.size() > 1)
      for (std::size_t i = 0; i < ascii.words.size(); ++i) ascii.words[i] &= out.ascii.words[i];
    if (ascii.count() < static_cast<int>(kLeadCharacters)) break;
    out.ascii = ascii;
    out.beyond = out.beyond && next.beyond;
    out.loops = next.to == out.states.back() && out.states.size() > 1;
    if (!out.loops) out.states.push_back(next.to);
  }
  return out;
}

// The tokens that consist of the characters of a chain.
void Outlooks::take_class(const Chain& chain, ClassMask& mask) {
  const u32 last = static_cast<u32>(chain.states.size()) - 1;
  std::vector<Follow> follows;
  for (Id state : chain.states) follows.push_back(follow(state));
  u32 most = last;  // near the end of a bounded text, few characters may follow
  while (!chain.loops && most > 1 && 2 * std::popcount(follows[most]) < std::popcount(follows[1])) --most;
  const bool two = chain.loops || last > kTwoCharacters;  // may two more follow a token?
  if (two && !chain.loops) most = std::min(most, last - kTwoCharacters);
  Follow all = ~u64{0};
  for (u32 i = 1; i <= most; ++i) all &= follows[i];
  out_->all = vocabulary_.bounded(mask, chain.loops ? kInf : most);
  out_->after_all = out_->all ? all : 0;
  out_->then_two = out_->all && two ? chain.apart(spelling_) : 0;
  const u32 from = out_->all ? most + 1 : 1;
  for (u32 n = from; n <= mask.most && (chain.loops ? !out_->all : n <= last); ++n)
    for (u32 i = mask.upto[n - 1]; i < mask.upto[n]; ++i)
      if (const Follow after = follows[std::min(n, last)])
        out_->others.push_back({static_cast<u32>(mask.tokens[i]), after});
}

void Outlooks::take_exits(const Chain& chain, ClassMask& mask) {
  const Trie& trie = vocabulary_.trie();
  const ByteSet inside = mask.chars->first();
  const bool one = chain.loops && chain.states.size() == 2;
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    if (mask.exit_at[b] == mask.exit_at[b + 1]) continue;
    if (one && !inside.has(byte)) {
      if (const Id next = step(chain.states[1], byte); known(next)) take_trie(*vocabulary_.exit_trie(mask, byte), next);
      continue;
    }
    for (u32 i = mask.exit_at[b]; i < mask.exit_at[b + 1]; ++i) {
      const u32 node = mask.exits[i];
      if (mask.is_alive(node)) continue;
      if (const Id before = chain.at(trie.nodes[trie.parents[node]].chars); before != kEmpty)
        take(step(before, byte), node);
    }
  }
}

std::shared_ptr<ClassMask> Outlooks::class_of(const Chain& chain) {
  std::vector<CharSet::Range> ranges;
  for (unsigned b = 0; b < 0x80; ++b)
    if (chain.ascii.has(static_cast<u8>(b))) ranges.push_back({b, b});
  if (chain.beyond) ranges.push_back({0x80, 0x10FFFF});
  return vocabulary_.class_mask(CharSet::make(std::move(ranges)), 0);
}

bool Outlooks::by_chain(Id state) {
  const Chain chain = this->chain(state);
  if (chain.states.size() < 2) return false;
  const auto mask = class_of(chain);
  // Tokens with more characters than a bounded chain stay undecided.
  take_class(chain, *mask);
  take_exits(chain, *mask);
  vocabulary_.trie().each_child(0, [&](u32 child, u8 byte) {
    if (!mask->is_alive(child)) take(step(state, byte), child);
    return true;
  });
  return true;
}

// If many tokens may be followed by the same characters, makes a set of them.
void Outlooks::gather() {
  if (out_->all || out_->others.size() < kManyOthers) return;
  std::unordered_map<Follow, u32> count;
  u32* of = nullptr;
  for (Follow last = 0; const auto& [token, after] : out_->others) {
    if (!of || after != last) of = &count[last = after];
    ++*of;
  }
  const auto most =
      std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second < kManyOthers) return;
  auto all = std::make_shared<Words>(vocabulary_.words(), 0);
  for (const auto& [token, after] : out_->others)
    if (after == most->first) (*all)[token >> 5] |= 1u << (token & 31);
  std::erase_if(out_->others, [&](const auto& one) { return one.second == most->first; });
  out_->all = std::move(all);
  out_->after_all = most->first;
}

std::shared_ptr<const Spelling::Outlook> Outlooks::make(Id form) {
  auto made = std::make_shared<Spelling::Outlook>();
  out_ = made.get();
  if (!by_chain(form)) take_below(form, 0);
  gather();
  made->others.shrink_to_fit();
  made->number = spelling_.new_number();
  return made;
}

// Keys that may be anything or one of some names are seen as keys without names, which positions share. Tokens that
// read a name to its end stand apart. So do those that begin a name, unless all texts may continue where a name does.
bool Outlooks::beside_names(MaskBuilder& builder, Id state, View& out) {
  std::vector<std::string> rests;
  Id free = kEmpty;
  if (arena_.has(state, kHasScan) || !builder.without_names(state, free, rests) || free == kEmpty || rests.empty())
    return false;
  const bool any = builder.forgets(free) == MaskBuilder::Forgets::NamesOfAny;
  const Trie& trie = vocabulary_.trie();
  std::vector<u32> apart;
  const auto take = [&](u32 node) {
    if (trie.nodes[node].token >= 0) apart.push_back(static_cast<u32>(trie.nodes[node].token));
  };
  for (const std::string& rest : rests) {
    u32 at = 0;
    for (std::size_t i = 0; i < rest.size() && at != kNoFan; ++i) {
      at = vocabulary_.child(at, static_cast<u8>(rest[i]));
      if (at != kNoFan && (!any || i + 1 == rest.size())) take(at);
    }
    for (u32 n = at; at != kNoFan && ++n < trie.nodes[at].end;) take(n);
    if (apart.size() > kMostApartTokens) return false;
  }
  std::sort(apart.begin(), apart.end());
  apart.erase(std::unique(apart.begin(), apart.end()), apart.end());
  out = of(builder, free);
  out.apart = std::move(apart);
  return true;
}

Outlooks::View Outlooks::of(MaskBuilder& builder, Id state) {
  make_room();
  if (View view; beside_names(builder, state, view)) return view;
  if (follows_.size() >= kMostFollows) {
    leads_.clear();
    follows_.clear();
    followed_ = kUnknown;
    own_.clear();
  }
  const Id form = arena_.has(state, kHasScan) ? state : builder.shared_form(state, false);
  const auto forgets = arena_.has(state, kHasScan) ? MaskBuilder::Forgets::Nothing : builder.forgets(state);
  const bool brief = arena_.has(state, kBigRepeat) && !arena_.has(state, kHasScan);
  if (auto it = own_.find(form); it != own_.end()) return {form, {}, forgets, it->second, brief};
  std::optional<Hash> key;
  if (!arena_.has(form, kHasToken | kExactKey | kHasScan) && !builder.own_key(form)) key = arena_.identities().of(form);
  std::shared_ptr<const Spelling::Outlook> made = key ? spelling_.known_outlook(*key) : nullptr;
  if (!made) {
    made = make(form);
    if (key) spelling_.keep_outlook(*key, made);
  }
  own_.emplace(form, made);
  return {form, {}, forgets, made, brief};
}

void Outlooks::make_room() {
  if (ahead_.size() >= kMostAhead || judged_.size() >= kMostAnswers || endless_.size() >= kMostAhead) {
    ahead_.clear();
    outcomes_.clear();
    ahead_bytes_ = 0;
    judged_.clear();
    endless_.clear();
  }
  if (rows_.size() < kMostCanonicalSteps) return;
  rows_.clear();
  row_ = nullptr;
}

std::vector<std::pair<u32, Id>> Outlooks::outcomes(Id state, const u32* words) {
  make_room();
  Ends found{words, {}};
  ends_ = &found;
  struct Reset {
    Ends*& of;
    ~Reset() { of = nullptr; }
  } const reset{ends_};
  take_below(state, 0);
  return std::move(found.tokens);
}

}  // namespace guiderail
