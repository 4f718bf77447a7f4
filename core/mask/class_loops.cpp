// Semantic loops: states that the characters of a class lead back to, whatever the expression is; and counted ones,
// where these characters lead along a single chain.
#include <algorithm>

#include "expr/characters.hpp"
#include "mask/mask.hpp"

namespace guiderail {
const MaskBuilder::SelfLoop& MaskBuilder::self_loop(Id e) {
  if (auto it = self_loops_.find(e); it != self_loops_.end()) return it->second;
  const bool hit_before = arena_.cap_hit();
  SelfLoop found = find_self_loop(e);
  if (arena_.cap_hit() && !hit_before) {  // invalid: later callers must reach the cap again
    static const SelfLoop none;
    return none;
  }
  return self_loops_.emplace(e, std::move(found)).first->second;
}

MaskBuilder::SelfLoop MaskBuilder::find_self_loop(Id e) {
  const ByteSet first = arena_.first(e);
  if (static_cast<unsigned>(std::popcount(first.words[0]) + std::popcount(first.words[1])) < kSmallLoop) return {};
  arena_.ensure_row(e);
  ShortVector<Id, 128> targets;
  for (unsigned b = 0; b < 128; ++b)
    if (Id s = step(e, static_cast<u8>(b)); s != kEmpty && s != kEpsilon && !arena_.has(s, kUnknownText))
      targets.push_back(s);
  std::sort(targets.begin(), targets.end());
  Id inside = kEmpty;
  std::ptrdiff_t most = kSmallLoop - 1;
  for (const Id* s = targets.begin(); s != targets.end();) {
    const Id* const next = std::upper_bound(s, static_cast<const Id*>(targets.end()), *s);
    if (next - s > most) {
      most = next - s;
      inside = *s;
    }
    s = next;
  }
  if (inside == kEmpty) return {};
  arena_.ensure_row(inside);
  std::vector<CharSet::Range> ranges;
  for (unsigned b = 0; b < 128; ++b)
    if (step(e, static_cast<u8>(b)) == inside && step(inside, static_cast<u8>(b)) == inside) ranges.push_back({b, b});
  if (ranges.size() < kSmallLoop) return {};
  if (arena_.has_raw_bytes()) return {CharSet::make(std::move(ranges)), inside};
  const bool exact = arena_.has(e, kExactStep) || arena_.has(inside, kExactStep);
  if (!exact) {
    for (const CharSet::Ptr& atom : arena_.characters().atoms()) {
      const std::string sample = utf8(atom->ranges()[0].first);
      if (read(e, sample) == inside && (e == inside || read(inside, sample) == inside))
        ranges.insert(ranges.end(), atom->ranges().begin(), atom->ranges().end());
    }
  }
  return {CharSet::make(std::move(ranges)), inside};
}

// Enters the children of `node` that begin outside the class.
void MaskBuilder::enter_outside(const ClassMask& mask, Id e, u32 node) {
  const Id* const row = arena_.ensure_row(e);
  trie_.each_child(node, [&](u32 c, u8 byte) {
    if (mask.is_alive(c)) return true;
    if (const Id next = step_along(e, row, byte); next != kEmpty) enter(forget(next), c);
    return true;
  });
}

// Enters the tokens that leave the class inside a character. `state(n)`: the state after n characters of it.
template <class State>
void MaskBuilder::enter_splits(const ClassMask& mask, u32 node, State state) {
  for (u32 n : mask.splits) {
    u32 path[4];  // backwards, to the end of the previous character
    u32 length = 0;
    u32 before = n;
    do {
      path[length++] = before;
      before = trie_.parents[before];
    } while (before != node && !trie_.nodes[before].whole && length < 4);
    Id s = state(trie_.nodes[before].chars - trie_.nodes[node].chars);
    while (length > 0 && s != kEmpty) s = step(s, trie_.nodes[path[--length]].byte);
    if (s != kEmpty) enter(s, n);
  }
}

// Adds tokens that end inside a character of the class, after `read` whole ones; e is the state after those. Even if no
// character of the class may follow there, another one with the same first bytes may.
void MaskBuilder::enter_unfinished(const ClassMask& mask, Id e, u32 read) {
  const u32 chars = read + 1;
  if (e == kEmpty || chars > mask.most || !(arena_.first(e).words[2] | arena_.first(e).words[3])) return;
  for (u32 i = mask.upto[read]; i < mask.upto[chars]; ++i) {
    const std::string_view text = vocabulary_.bytes(static_cast<u32>(mask.tokens[i]));
    if (static_cast<u8>(text.back()) < 0x80) continue;
    std::size_t from = text.size() - 1;
    while (from > 0 && is_continuation(static_cast<u8>(text[from]))) --from;
    if (is_utf8(text.substr(from))) continue;
    set_after(this->read(e, text.substr(from)), mask.tokens[i]);
  }
}

// Replaces C{m,n} t by C* t, and (R & C{m,n}) t by (R & C*) t. False: there are none. `leaving`: receives the first
// bytes of each t; `nested`: each R & C*.
static bool drop_counts(Arena& arena, Ids& parts, ByteSet& leaving, Ids& nested, bool inside = false) {
  bool found = false;
  for (Id& part : parts) {
    const auto [head, tail] = unstack(arena, part);
    const Node& n = arena.node(head);
    Id free = kEmpty;
    if (n.kind == Kind::Repeat && !n.b && arena.node(n.body()).kind == Kind::Class && (n.min > 1 || n.max != kInf)) {
      free = arena.repeat(n.body(), 0, kInf);
    } else if (n.kind == Kind::And && !inside) {
      Ids within(arena.operands(head)), deeper;
      if (!drop_counts(arena, within, leaving, deeper, true)) continue;
      free = arena.intersect(within, true);
      nested.push_back(free);
    } else {
      continue;
    }
    part = arena.concat(free, tail);
    leaving |= arena.first(tail);
    found = true;
  }
  return found;
}

// An intersection with a counted class, R & C{m,n} t, in which no state returns to itself. If R & C* t does return to
// itself (by characters of D), then the states after 1, 2, 3 … characters of D form a single chain: whichever they are,
// they lead R & C* t to itself and only take one off the count, so only their number matters. This fails if a character
// of D may also begin t, or what follows the intersection.
bool MaskBuilder::counted_intersections(Id e, u32 node) {
  const Within in = within(e);
  if (arena_.node(in.head).kind != Kind::And) return false;
  Ids members(arena_.operands(in.head)), nested;
  ByteSet leaving = arena_.first(in.outer);
  leaving |= arena_.first(in.inner);
  if (!drop_counts(arena_, members, leaving, nested)) return false;
  const Id open = arena_.intersect(members, true);
  if (!arena_.live(arena_.concat(open, in.inner))) return false;
  const Id free = joined(in, open, in.inner);
  const SelfLoop loop = self_loop(free);
  if (!loop.chars) return false;
  leaving &= loop.chars->first();
  if (leaving.any()) return false;
  for (Id part : nested) {  // the same for it alone
    const Id to = step(part, static_cast<u8>(loop.chars->ranges()[0].first));
    if (!loop.chars->ascii_only() || to == kEmpty) return false;
    for (const auto& [low, high] : loop.chars->ranges())
      for (u32 c = low; c <= high; ++c)
        if (step(part, static_cast<u8>(c)) != to || step(to, static_cast<u8>(c)) != to) return false;
  }
  const Shared shared(*this);
  auto mask = class_mask(loop.chars, node);
  const ByteSet possible = arena_.first(loop.inside);  // after a character of the loop
  const u8 sample = static_cast<u8>(loop.chars->ranges()[0].first);
  std::vector<Id> chain{e};  // after k characters of the loop
  u32 longest = mask->most;  // characters of the loop that any token reads, including those that leave it
  for (const auto* ways : {&mask->exits, &mask->splits})
    for (u32 at : *ways)
      longest = std::max<u32>(longest, trie_.nodes[trie_.parents[at]].chars - trie_.nodes[node].chars);
  while (chain.size() <= longest && chain.back() != kEmpty) chain.push_back(step(chain.back(), sample));
  u32 reach = static_cast<u32>(chain.size()) - 1;
  if (chain.back() == kEmpty) --reach;
  add(*mask, reach);
  for (unsigned b = 0; b < 256; ++b) {
    if (!possible.has(static_cast<u8>(b))) continue;
    for (u32 i = mask->exit_at[b]; i < mask->exit_at[b + 1]; ++i) {
      const u32 at = mask->exits[i];
      if (mask->is_alive(at)) continue;
      const u32 read = trie_.nodes[trie_.parents[at]].chars - trie_.nodes[node].chars;
      if (read > reach) continue;
      if (Id next = step(chain[read], static_cast<u8>(b)); next != kEmpty) enter(next, at);
    }
  }
  enter_outside(*mask, e, node);
  if (!loop.chars->ascii_only()) {
    enter_splits(*mask, node, [&](u32 read) { return read > reach ? kEmpty : chain[read]; });
    enter_unfinished(*mask, chain[reach], reach);
  }
  return true;
}

bool MaskBuilder::self_loops(Id e, u32 node) {
  const SelfLoop loop = self_loop(e);
  if (!loop.chars) return false;
  if (node == 0 && !pieces_only_ && attempt(Strategy::CharacterIndex, [&] { return semantic_spelled(loop, e); }))
    return true;
  auto mask = class_mask(loop.chars, node);
  if (arena_.has(loop.inside, kLexemeMayEnd)) class_endings_.push_back({loop.inside, mask, without_});
  const ByteSet inside = mask->chars->first();
  add(*mask, kInf);
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    if (mask->exit_at[b] == mask->exit_at[b + 1]) continue;
    const Id next = step(loop.inside, byte);
    if (next == kEmpty) continue;
    if (!inside.has(byte)) {
      leave(*mask, byte, next);
      continue;
    }
    for (u32 i = mask->exit_at[b]; i < mask->exit_at[b + 1]; ++i)
      if (!mask->is_alive(mask->exits[i])) enter(next, mask->exits[i]);
  }
  enter_outside(*mask, e, node);
  if (!loop.chars->ascii_only()) enter_splits(*mask, node, [&](u32 read) { return read == 0 ? e : loop.inside; });
  return true;
}

}  // namespace guiderail
