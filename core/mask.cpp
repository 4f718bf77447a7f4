#include "mask.hpp"

#include <algorithm>

namespace guiderail {
namespace {
constexpr std::size_t kManyExits = 3000;  // from here on another way may be cheaper
constexpr std::size_t kManyLong = 4000;   // tokens traced one by one at most
constexpr std::size_t kFewLonger = 1000;  // tokens past a count that are cleared one by one
constexpr std::size_t kMostLoops = 12;    // alternatives taken apart at most
constexpr u32 kShortLoop = 12;
constexpr unsigned kSmallLoop = 16;  // ASCII characters that make a semantic loop worthwhile
}  // namespace

MaskBuilder::MaskBuilder(Arena& arena, Vocabulary& vocabulary)
    : arena_(arena), vocabulary_(vocabulary), trie_(vocabulary.trie()) {
  states_.resize(vocabulary.longest() + 2);
  rows_.resize(vocabulary.longest() + 2);
}

std::shared_ptr<const MaskEntry> MaskBuilder::build(Id state) {
  words_.assign(vocabulary_.words(), 0);
  base_ = nullptr;
  touched_ = false;
  visit(state, 0);
  for (auto [one, other] : vocabulary_.twins())
    if (words_[one >> 5] >> (one & 31) & 1) set(static_cast<int>(other));
  auto entry = std::make_shared<MaskEntry>();
  u32 bits = 0;
  for (u32 w : words_) bits += static_cast<u32>(std::popcount(w));
  entry->full = bits == vocabulary_.size();
  const u32* from = base_ ? base_->data() : nullptr;
  u32 differ = 0;
  for (u32 i = 0; i < words_.size(); ++i) differ += words_[i] != (from ? from[i] : 0);
  if (differ > words_.size() / 3) {
    entry->base = std::make_shared<const Words>(words_);
    entry->owns_base = true;
    return entry;
  }
  entry->base = base_;
  entry->diff.reserve(differ);
  for (u32 i = 0; i < words_.size(); ++i)
    if (words_[i] != (from ? from[i] : 0)) entry->diff.push_back({i, words_[i]});
  return entry;
}

void MaskBuilder::add(const std::shared_ptr<const Words>& dense) {
  if (!touched_) {
    words_ = *dense;
    base_ = dense;
    touched_ = true;
    return;
  }
  const u32* from = dense->data();
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= from[i];
}

// The tokens of a class mask with at most `most` characters.
void MaskBuilder::add(ClassMask& mask, u32 most) {
  const std::size_t kept = most >= mask.most ? mask.tokens.size() : mask.upto[most];
  if (!touched_ && mask.dense && mask.tokens.size() - kept < kFewLonger) {  // stored as a difference from the class
    add(mask.dense);
    for (std::size_t i = kept; i < mask.tokens.size(); ++i)
      words_[static_cast<u32>(mask.tokens[i]) >> 5] &= ~(1u << (mask.tokens[i] & 31));
    return;
  }
  if (auto dense = vocabulary_.bounded(mask, most)) return add(dense);
  const u32 count = mask.tokens.empty() ? 0 : mask.upto[std::min(most, mask.most)];
  for (u32 i = 0; i < count; ++i) set(mask.tokens[i]);
  touched_ = true;
}

// All tokens below `node` that e can begin with; e is the state after the path to it.
void MaskBuilder::visit(Id e, u32 node) {
  if (trie_.nodes[node].whole) {
    if (counted(e, node) || structural(e, node) || semantic(e, node)) return;
  }
  walk(e, node);
}

void MaskBuilder::enter(Id e, u32 node) {
  const TrieNode& n = trie_.nodes[node];
  if (n.token >= 0) {
    set(n.token);
    touched_ = true;
  }
  if (n.end == node + 1 || e == kEpsilon) return;
  if (n.end - node >= Vocabulary::kHeavy)
    visit(e, node);
  else
    scan(e, node);
}

void MaskBuilder::walk(Id e, u32 node) {
  const u32* row = arena_.ensure_row(e);
  auto go = [&](u32 child, u8 byte) {
    u32 c = arena_.byte_class(byte);
    Id next = row[c];
    if (next == kUnknown) next = arena_.step_slow(e, c);
    if (next != kEmpty) enter(next, child);
  };
  const TrieNode& n = trie_.nodes[node];
  if (n.fan != kNoFan) {
    const Fan fan = trie_.fans[n.fan];
    for (u32 i = fan.offset; i < fan.offset + fan.count; ++i) go(trie_.fan_nodes[i], trie_.fan_bytes[i]);
  } else {
    for (u32 c = node + 1; c < n.end; c = trie_.nodes[c].end) go(c, trie_.nodes[c].byte);
  }
}

// The hot loop: a subtree without class masks, states on a stack by depth.
void MaskBuilder::scan(Id e, u32 node) {
  const TrieNode* nodes = trie_.nodes.data();
  const u16* depths = trie_.depths.data();
  const auto& classes = arena_.byte_classes();
  const u32 end = nodes[node].end;
  states_[depths[node]] = e;
  rows_[depths[node]] = arena_.ensure_row(e);
  for (u32 n = node + 1; n < end;) {
    const TrieNode& t = nodes[n];
    const u32 depth = depths[n], c = classes[t.byte];
    Id next = rows_[depth - 1][c];
    if (next == kUnknown) next = arena_.step_slow(states_[depth - 1], c);
    if (next == kEmpty) {
      n = t.end;
      continue;
    }
    if (t.token >= 0) set(t.token);
    if (t.end == n + 1 || next == kEpsilon) {
      n = t.end;
      continue;
    }
    states_[depth] = next;
    const u32* row = arena_.node(next).row.load(std::memory_order_relaxed);
    rows_[depth] = row ? row : arena_.ensure_row(next);
    ++n;
  }
  touched_ = true;
}

// -- structural: C{m,M} t --
bool MaskBuilder::starts_with_loop(Id e, int depth) const {
  if (depth > 12) return false;
  for (;;) {
    const Node& n = arena_.node(e);
    switch (n.kind) {
      case Kind::Repeat:
        if (arena_.node(n.a).kind == Kind::Class) return n.max >= 2;
        e = n.a;
        continue;
      case Kind::Concat:
        if (starts_with_loop(n.a, depth + 1)) return true;
        if (!arena_.nullable(n.a)) return false;
        e = n.b;
        continue;
      case Kind::Union: {
        for (Id m : arena_.operands(e))
          if (starts_with_loop(m, depth + 1)) return true;
        return false;
      }
      case Kind::Ref:
        e = arena_.rule_body(n.a);
        if (++depth > 12) return false;
        continue;
      default: return false;
    }
  }
}

// Takes e apart into loops over a class and the rest. False: not worth it.
bool MaskBuilder::split(Id e, std::vector<Loop>& loops, std::vector<Id>& rest) {
  std::vector<Id> work{e};
  int budget = 64;
  while (!work.empty()) {
    Id x = work.back();
    work.pop_back();
    if (x == kEmpty || x == kEpsilon) continue;
    if (--budget < 0 || loops.size() > kMostLoops) return false;
    if (!starts_with_loop(x, 0)) {
      rest.push_back(x);
      continue;
    }
    if (!arena_.live(x)) continue;
    const Node& n = arena_.node(x);
    Id head = x, tail = kEpsilon;
    if (n.kind == Kind::Concat) {
      head = n.a;
      tail = n.b;
    }
    const Node& h = arena_.node(head);
    switch (h.kind) {
      case Kind::Union: {
        std::vector<Id> members(arena_.operands(head).begin(), arena_.operands(head).end());
        for (Id m : members) work.push_back(arena_.concat(m, tail));
        break;
      }
      case Kind::Repeat:
        if (arena_.node(h.a).kind == Kind::Class && h.max >= 2) {
          loops.push_back({arena_.node(h.a).a, h.min, h.max, tail});
          break;
        }
        if (h.min == 0) work.push_back(tail);
        if (arena_.nullable(h.a)) return false;  // would be taken apart again and again
        arena_.note_cap(head);
        work.push_back(arena_.concat(h.a, arena_.concat(arena_.repeat_less(head), tail)));
        break;
      case Kind::Ref: work.push_back(arena_.concat(arena_.rule_body(h.a), tail)); break;
      default: rest.push_back(x); break;
    }
  }
  return !loops.empty();
}

std::size_t MaskBuilder::exit_cost(const ClassMask& mask, Id tail) {
  if (tail == kEpsilon) return 0;
  const ByteSet first = arena_.first(tail);
  std::size_t cost = 0;
  for (unsigned b = 0; b < 256; ++b)
    if (first.has(static_cast<u8>(b))) cost += mask.exit_at[b + 1] - mask.exit_at[b];
  return cost;
}

bool MaskBuilder::structural(Id e, u32 node) {
  std::vector<Loop> loops;
  std::vector<Id> rest;
  if (!starts_with_loop(e, 0) || !split(e, loops, rest)) return false;
  std::size_t cost = 0;
  std::vector<std::pair<Loop, std::shared_ptr<ClassMask>>> taken;
  for (const Loop& loop : loops) {
    // inside the trie a walk is cheaper than a class mask for a short loop
    auto mask =
        node != 0 && loop.max < kShortLoop ? nullptr : vocabulary_.class_mask(arena_.charset_ptr(loop.set), node);
    if (!mask || (goes_on(loop, *mask) && mask->tokens.size() - mask->upto[loop.max] > kManyLong)) {
      rest.push_back(whole(loop));
      continue;
    }
    cost += exit_cost(*mask, loop.tail);
    taken.push_back({loop, std::move(mask)});
  }
  if (taken.empty()) return false;
  if (cost > kManyExits && self_loop(e).chars) return false;
  // the largest class first: its bitset becomes the base that the cached mask is stored against
  std::sort(taken.begin(), taken.end(),
            [](const auto& a, const auto& b) { return a.second->tokens.size() > b.second->tokens.size(); });
  for (const auto& [loop, mask] : taken) {
    run_loop(loop, *mask, node);
    if (loop.min == 0 && loop.tail != kEpsilon) rest.push_back(loop.tail);
  }
  Id other = arena_.unite(std::move(rest));
  if (other != kEmpty && other != kEpsilon && arena_.live(other)) {
    if (!semantic(other, node)) walk(other, node);
  }
  return true;
}

Id MaskBuilder::whole(const Loop& loop) {
  return arena_.concat(arena_.repeat(arena_.char_class(arena_.charset_ptr(loop.set)), loop.min, loop.max), loop.tail);
}

// May a token made of the class alone be longer than the count and go on in the tail?
bool MaskBuilder::goes_on(const Loop& loop, const ClassMask& mask) {
  if (loop.max >= mask.most) return false;
  ByteSet both = arena_.first(loop.tail);
  both &= mask.chars->first();
  return both.any();
}

void MaskBuilder::run_loop(const Loop& loop, ClassMask& mask, u32 node) {
  add(mask, loop.max);
  if (loop.tail == kEpsilon) return;
  const ByteSet first = arena_.first(loop.tail);
  const u32 base = trie_.nodes[node].chars;
  for (unsigned b = 0; b < 256; ++b) {
    if (!first.has(static_cast<u8>(b)) || mask.exit_at[b] == mask.exit_at[b + 1]) continue;
    Id next = step(loop.tail, static_cast<u8>(b));
    if (next == kEmpty) continue;
    for (u32 i = mask.exit_at[b]; i < mask.exit_at[b + 1]; ++i) {
      const u32 at = mask.exits[i];
      const u32 read = trie_.nodes[trie_.parents[at]].chars - base;
      if (read >= loop.min && read <= loop.max) enter(next, at);
    }
  }
  if (!goes_on(loop, mask)) return;
  const Id start = whole(loop);  // few such tokens: traced one by one
  for (std::size_t i = mask.upto[loop.max]; i < mask.tokens.size(); ++i) {
    auto text = vocabulary_.bytes(static_cast<u32>(mask.tokens[i]));
    Id s = start;
    for (std::size_t k = trie_.depths[node]; k < text.size() && s != kEmpty; ++k) s = step(s, static_cast<u8>(text[k]));
    if (s != kEmpty) set(mask.tokens[i]);
  }
}

// -- semantic: a state that characters lead back to --
// Does every character beyond ASCII lead from `from` to `to`?
bool MaskBuilder::returns(Id from, Id to) {
  const auto& any = CharSet::any()->automaton();
  std::vector<std::pair<u16, Id>> work{{CharSet::kStart, from}}, seen;
  while (!work.empty()) {
    auto [u, s] = work.back();
    work.pop_back();
    for (unsigned b = 0x80; b < 256; ++b) {
      u16 v = any[u][b];
      if (v == CharSet::kDead) continue;
      Id next = step(s, static_cast<u8>(b));
      if (v == CharSet::kDone) {
        if (next != to) return false;
        continue;
      }
      if (next == kEmpty) return false;
      std::pair<u16, Id> pair{v, next};
      if (std::find(seen.begin(), seen.end(), pair) != seen.end()) continue;
      if (seen.size() > 64) return false;
      seen.push_back(pair);
      work.push_back(pair);
    }
  }
  return true;
}

const MaskBuilder::SelfLoop& MaskBuilder::self_loop(Id e) {
  auto [it, fresh] = self_loops_.try_emplace(e);
  if (!fresh) return it->second;
  const bool hit_before = arena_.cap_hit();
  SelfLoop found = find_self_loop(e);
  if (arena_.cap_hit() && !hit_before) {  // not to be trusted, and whoever asks again must hit the cap again
    self_loops_.erase(e);
    static const SelfLoop none;
    return none;
  }
  return self_loops_[e] = std::move(found);
}

MaskBuilder::SelfLoop MaskBuilder::find_self_loop(Id e) {
  arena_.ensure_row(e);
  std::map<Id, unsigned> weight;
  for (unsigned b = 0; b < 128; ++b)
    if (Id s = step(e, static_cast<u8>(b)); s != kEmpty && s != kEpsilon) ++weight[s];
  Id inside = kEmpty;
  unsigned most = kSmallLoop - 1;
  for (auto [s, w] : weight)
    if (w > most) {
      most = w;
      inside = s;
    }
  if (inside == kEmpty) return {};
  arena_.ensure_row(inside);
  std::vector<CharSet::Range> ranges;
  for (unsigned b = 0; b < 128; ++b)
    if (step(e, static_cast<u8>(b)) == inside && step(inside, static_cast<u8>(b)) == inside) ranges.push_back({b, b});
  if (ranges.size() < kSmallLoop) return {};
  if (!arena_.has_raw_bytes() && returns(e, inside) && (e == inside || returns(inside, inside)))
    ranges.push_back({0x80, 0x10FFFF});
  return {CharSet::make(std::move(ranges)), inside};
}

// The children of `node` that begin outside the class.
void MaskBuilder::enter_outside(const ClassMask& mask, Id e, u32 node) {
  for (u32 c = node + 1; c < trie_.nodes[node].end; c = trie_.nodes[c].end) {
    if (mask.is_alive(c)) continue;
    if (Id next = step(e, trie_.nodes[c].byte); next != kEmpty) enter(next, c);
  }
}

// An intersection with a counted class, R & C{m,n}, under which no state returns to itself. Where R & C* does (by
// characters of D), the states after 1, 2, 3 … characters of D are a single chain.
bool MaskBuilder::counted(Id e, u32 node) {
  if (arena_.node(e).kind != Kind::And) return false;
  std::vector<Id> members(arena_.operands(e).begin(), arena_.operands(e).end());
  bool found = false;
  for (Id& m : members) {
    const Node& n = arena_.node(m);
    if (n.kind == Kind::Repeat && arena_.node(n.a).kind == Kind::Class && (n.min > 1 || n.max != kInf)) {
      m = arena_.repeat(n.a, 0, kInf);
      found = true;
    }
  }
  if (!found) return false;
  const Id free = arena_.intersect(std::move(members));
  if (!arena_.live(free)) return false;
  const SelfLoop loop = self_loop(free);
  if (!loop.chars) return false;
  auto mask = vocabulary_.class_mask(loop.chars, node);
  const u8 sample = static_cast<u8>(loop.chars->ranges()[0].first);
  std::vector<Id> chain{e};  // after k characters of the loop
  u32 longest = mask->most;  // characters of the loop that any token reads, on its way out too
  for (u32 at : mask->exits)
    longest = std::max<u32>(longest, trie_.nodes[trie_.parents[at]].chars - trie_.nodes[node].chars);
  while (chain.size() <= longest && chain.back() != kEmpty) chain.push_back(step(chain.back(), sample));
  u32 reach = static_cast<u32>(chain.size()) - 1;
  if (chain.back() == kEmpty) --reach;
  add(*mask, reach);
  for (unsigned b = 0; b < 256; ++b)
    for (u32 i = mask->exit_at[b]; i < mask->exit_at[b + 1]; ++i) {
      const u32 at = mask->exits[i];
      if (mask->is_alive(at)) continue;
      const u32 read = trie_.nodes[trie_.parents[at]].chars - trie_.nodes[node].chars;
      if (read > reach) continue;
      if (Id next = step(chain[read], static_cast<u8>(b)); next != kEmpty) enter(next, at);
    }
  enter_outside(*mask, e, node);
  return true;
}

bool MaskBuilder::semantic(Id e, u32 node) {
  const SelfLoop loop = self_loop(e);
  if (!loop.chars) return false;
  auto mask = vocabulary_.class_mask(loop.chars, node);
  add(*mask, kInf);
  for (unsigned b = 0; b < 256; ++b) {
    if (mask->exit_at[b] == mask->exit_at[b + 1]) continue;
    Id next = step(loop.inside, static_cast<u8>(b));
    if (next == kEmpty) continue;
    for (u32 i = mask->exit_at[b]; i < mask->exit_at[b + 1]; ++i)
      if (!mask->is_alive(mask->exits[i])) enter(next, mask->exits[i]);
  }
  enter_outside(*mask, e, node);
  return true;
}

}  // namespace guiderail
