// Syntactic loops over a class, C{m,M} t. The mask is that of the class, plus the tokens that leave it, which are
// walked from where they do.
#include <algorithm>

#include "base/short_set.hpp"
#include "base/work.hpp"
#include "mask/in_progress.hpp"
#include "mask/mask.hpp"

namespace guiderail {
namespace {

// Is there a loop over a class among the first parts of an expression?
class LoopSearch {
 public:
  explicit LoopSearch(Arena& arena) : arena_(arena) {}
  bool finds(Id e, int depth) {
    if (depth > kMostLoopNesting) return false;
    for (;;) {
      const Node& n = arena_.node(e);
      switch (n.kind) {
        case Kind::Repeat:
          if (arena_.node(n.body()).kind == Kind::Class) return n.max >= 2;
          e = n.body();
          continue;
        case Kind::Concat:
          if (finds(n.head(), depth + 1)) return true;
          if (!arena_.nullable(n.head())) return false;
          e = n.tail();
          continue;
        case Kind::Union: {
          if (depth > 0 && !is_new(e)) return false;
          for (Id m : arena_.operands(e))
            if (finds(m, depth + 1)) return true;
          return false;
        }
        case Kind::Ref:
          if (!is_new(e) || ++depth > kMostLoopNesting) return false;
          e = arena_.rule_body(n.a);
          continue;
        case Kind::Escaped:
          if (!is_escaped(n)) return false;
          e = escaped_text(n);
          continue;
        case Kind::Key: return Json::of(arena_).free_key(e) != kNone;
        case Kind::Distinct: return Json::of(arena_).free_item(e);
        default: return false;
      }
    }
  }

 private:
  // Alternatives share their tails: each is searched once.
  bool is_new(Id e) {
    Work::spend();
    return seen_.insert(e);
  }

  Arena& arena_;
  ShortSet<Id> seen_;
};

}  // namespace

bool MaskBuilder::starts_with_loop(Id e, int depth) const { return LoopSearch(arena_).finds(e, depth); }

// The first part of e or, if e begins in a string, of the string's text.
MaskBuilder::Within MaskBuilder::within(Id e) const {
  const auto [head, outer] = unstack(arena_, e);
  const Node& n = arena_.node(head);
  if (!is_escaped(n)) return {head, kEpsilon, outer};
  const auto [first, inner] = unstack(arena_, escaped_text(n));
  return {first, inner, outer, true, escapes_of(n)};
}

Id MaskBuilder::joined(const Within& in, Id first, Id after) {
  return in.string ? arena_.concat(Escaped::of(arena_).escaped(arena_.concat(first, after), in.mode), in.outer)
                   : arena_.concat(first, arena_.concat(after, in.outer));
}

// Splits e into loops over a class, and the rest. False: not worthwhile.
bool MaskBuilder::split(Id e, std::vector<Loop>& loops, Ids& rest) {
  Ids work{e};
  int budget = 64;
  ByteSet escape;
  escape.add('\\');
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
    const Within in = within(x);
    const Id inner = in.inner;
    auto join = [&](Id first, Id after) { return joined(in, first, after); };
    const Node& h = arena_.node(in.head);
    switch (h.kind) {
      case Kind::Key:
      case Kind::Distinct:
        if (!free_loop(x, loops)) rest.push_back(x);
        break;
      case Kind::Union: {
        Ids members(arena_.operands(in.head));
        for (Id m : members) work.push_back(join(m, inner));
        break;
      }
      case Kind::Repeat:
        if (arena_.node(h.body()).kind == Kind::Class && h.max >= 2) {
          Loop loop{arena_.charset_ptr(arena_.node(h.body()).a), h.min, h.max, join(kEpsilon, inner), x, {}};
          if (in.string) {
            loop.unit = h.body();
            loop.in = in;
            CharSet::Ptr raw = CharSet::intersect(*loop.chars, *raw_characters());
            if (raw != loop.chars || in.mode == Escapes::All) loop.other = escape;
            if (raw->ranges().empty()) {
              rest.push_back(x);
              break;
            }
            loop.chars = std::move(raw);
          }
          loops.push_back(std::move(loop));
          break;
        }
        if (h.min == 0) work.push_back(join(kEpsilon, inner));
        if (arena_.nullable(h.body())) return false;  // it would be split again and again
        arena_.note_cap(arena_.has(in.head, kCapHit));
        work.push_back(join(h.body(), arena_.concat(arena_.repeat_less(in.head), inner)));
        break;
      case Kind::Ref: work.push_back(join(arena_.rule_body(h.a), inner)); break;
      default: rest.push_back(x); break;
    }
  }
  return !loops.empty();
}

// The raw characters C of strings, keys or items in progress that continue with C* and are otherwise unconstrained: all
// characters of C lead to one state, however many alternatives there are. Null if e is of another kind.
CharSet::Ptr MaskBuilder::free_class(Id e) const {
  CharSet::Ptr chars;
  const bool all = each_in_progress(arena_, e, [&](const InProgress& part) {
    const u32 set = part.endless(arena_);
    if (set == kNone) return false;
    const CharSet::Ptr& its = arena_.charset_ptr(set);
    CharSet::Ptr raw = its == CharSet::any() ? raw_characters() : CharSet::intersect(*its, *raw_characters());
    if (chars && chars != raw) return false;
    chars = std::move(raw);
    return true;
  });
  return all ? chars : nullptr;
}

// A loop over such a class, if one more character makes no difference.
bool MaskBuilder::free_loop(Id e, std::vector<Loop>& loops) {
  const CharSet::Ptr chars = free_class(e);
  if (!chars || chars->ranges().empty()) return false;
  const std::string sample = utf8(chars->ranges()[0].first);
  const Id inside = read(e, sample);
  if (inside == kEmpty || arena_.has(inside, kUnknownText) || read(inside, sample) != inside) return false;
  ByteSet quote_or_escape;
  quote_or_escape.add('"');
  quote_or_escape.add('\\');
  loops.push_back({chars, 0, kInf, kEmpty, e, quote_or_escape, inside});
  return true;
}

bool MaskBuilder::class_loops(Id e, u32 node) {
  std::vector<Loop> loops;
  Ids rest;
  return starts_with_loop(e, 0) && split(e, loops, rest) && run_loops(node, loops, rest);
}

bool MaskBuilder::run_loops(u32 node, const std::vector<Loop>& loops, Ids& rest) {
  if (node == 0 && !pieces_only_ && loops.size() == 1) {
    const Shared shared(*this);
    if (attempt(Strategy::CharacterIndex, [&] { return run_spelled(loops[0]); })) {
      if (loops[0].min == 0 && loops[0].tail != kEpsilon) rest.push_back(loops[0].tail);
      return run_rest(rest, node);
    }
  }
  std::vector<std::pair<Loop, std::shared_ptr<ClassMask>>> taken;
  for (const Loop& loop : loops) {
    // Inside the trie, a walk is cheaper than a class mask for a short loop.
    auto mask = node != 0 && loop.max < kShortLoop ? nullptr : class_mask(loop.chars, node);
    if (!mask || continues_in_tail(loop, *mask)) {
      rest.push_back(loop.whole);
      continue;
    }
    taken.push_back({loop, std::move(mask)});
  }
  if (taken.empty()) return false;
  const Shared shared(*this);
  // The largest class comes first: its bitset becomes the base against which the cached mask is stored.
  std::sort(taken.begin(), taken.end(),
            [](const auto& a, const auto& b) { return a.second->tokens.size() > b.second->tokens.size(); });
  for (const auto& [loop, mask] : taken) {
    run_loop(loop, *mask, node);
    if (loop.min == 0 && loop.tail != kEpsilon) rest.push_back(loop.tail);
  }
  return run_rest(rest, node);
}

bool MaskBuilder::run_rest(std::span<const Id> rest, u32 node) {
  const Id other = arena_.unite(rest);
  if (other != kEmpty && other != kEpsilon && arena_.live(other)) {
    if (!by_strategy(other, node, node == 0 ? Reach::Root : Reach::Large, Strategy::StateDifferences))
      walk(other, node);
  }
  return true;
}

// A loop in a string, or a key, after some characters of its class.
Id MaskBuilder::after(const Loop& loop, u32 chars) {
  if (loop.unit == kEmpty) return chars == 0 ? loop.whole : loop.inside;
  const Id left =
      arena_.repeat(loop.unit, loop.min - std::min(loop.min, chars), loop.max == kInf ? kInf : loop.max - chars);
  return joined(loop.in, left, loop.in.inner);
}

// After the first character, can no token reach a bound of the count?
bool MaskBuilder::unbounded(const Loop& loop, const ClassMask& mask) const {
  return loop.min <= 1 && (loop.max == kInf || loop.max > vocabulary_.longest() + mask.most);
}

// Can a token of characters of the class exceed the count and continue in the tail?
bool MaskBuilder::continues_in_tail(const Loop& loop, const ClassMask& mask) {
  if (loop.max >= mask.most) return false;
  ByteSet both = arena_.first(loop.tail);
  both &= mask.chars->first();
  return both.any();
}

// `top`: includes tokens that end with the exit itself.
void MaskBuilder::walk_exits(const ExitTrie& trie, Id state, const Spelled* only, bool top) {
  if (exit_states_.size() <= trie.deepest) exit_states_.resize(trie.deepest + 1u);
  exit_states_[0] = {state, arena_.ensure_row(state)};
  auto allow = [&](const ExitTrie::Node& t) {
    for (u32 i = t.first; i < t.last; ++i)
      if (!only || only->has(i)) set(trie.tokens[i]);
  };
  if (top) allow(trie.nodes[0]);
  for (u32 n = 1, count = 0; n < trie.nodes.size(); ++count) {
    const ExitTrie::Node& t = trie.nodes[n];
    if (count % kNodesBetweenBreaks == 0) {
      arena_.make_room();
      Work::spend(kNodesBetweenBreaks / kNodesPerStep);
    }
    const Along& before = exit_states_[t.depth - 1];
    const Id next = forget(step_along(before.state, before.row, t.byte));
    if (next == kEmpty || postpone_exits(trie, next, n) || may_end(next, n, &trie)) {
      n = t.end;
      continue;
    }
    allow(t);
    exit_states_[t.depth] = {next, t.end > n + 1 ? arena_.ensure_row(next) : nullptr};
    n = next == kEpsilon ? t.end : n + 1;
  }
}

bool MaskBuilder::postpone_exits(const ExitTrie& trie, Id e, u32 node) {
  if (!arena_.has(e, kUnknownText)) return false;
  for (u32 n = node; n < trie.nodes[node].end; ++n)
    postponed_tokens_.insert(postponed_tokens_.end(), trie.tokens.begin() + trie.nodes[n].first,
                             trie.tokens.begin() + trie.nodes[n].last);
  return true;
}

// The tokens that leave a class by a byte on none of its paths, always into the same state.
void MaskBuilder::leave(ClassMask& mask, u8 byte, Id next) {
  auto exits = exit_trie(mask, byte);
  if (postpone_exits(*exits, next, 0)) return;
  if (share_ && without_ == 0 && exits->nodes.size() >= kWorthSharing && shareable(next, 0)) {
    wanted_exits_.push_back({next, std::move(exits)});
    return;
  }
  if (arena_.has(next, kLexemeMayEnd)) {
    tries_.push_back(exits);
    if (ends_lexeme(next, 0, exits.get())) return;
  }
  walk_exits(*exits, next, nullptr, true);
}

void MaskBuilder::run_loop(const Loop& loop, ClassMask& mask, u32 node) {
  const ByteSet first = arena_.first(loop.tail), inside = mask.chars->first();
  CharacterIndex& index = vocabulary_.character_index();
  const u32 base = trie_.nodes[node].chars;
  const bool merged = unbounded(loop, mask);
  std::vector<std::pair<u8, Id>> ways;  // that depend only on the byte
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    if (mask.exit_at[b] == mask.exit_at[b + 1]) continue;
    if (merged && loop.other.has(byte)) {
      if (Id next = step(after(loop, 1), byte); next != kEmpty) ways.push_back({byte, next});
    } else if (first.has(byte) && !loop.other.has(byte)) {
      if (Id next = step(loop.tail, byte); next != kEmpty) ways.push_back({byte, next});
    }
  }
  add(mask, loop.max);
  for (auto [b, next] : ways) {
    if (merged && !inside.has(b)) {
      leave(mask, b, next);
      continue;
    }
    if (Letters letters; node == 0 && !pieces_only_ && !inside.has(b) && !index.empty() && !index.many_exits(b) &&
                         CharacterIndex::letters_of(*loop.chars, letters)) {
      auto exits = index.exits(b, trie_);
      const Spelled only{exits->before, letters, loop.min, loop.max};
      if (!postpone_exits(*exits->trie, next, 0)) walk_exits(*exits->trie, next, &only, true);
      continue;
    }
    for (u32 i = mask.exit_at[b]; i < mask.exit_at[b + 1]; ++i) {
      const u32 at = mask.exits[i];
      const u32 read = trie_.nodes[trie_.parents[at]].chars - base;
      if (read >= loop.min && read <= loop.max) enter(next, at);
    }
  }
  if (loop.other.any()) {
    if (!merged)
      for (unsigned b = 0; b < 128; ++b) {
        if (!loop.other.has(static_cast<u8>(b))) continue;
        for (u32 i = mask.exit_at[b]; i < mask.exit_at[b + 1]; ++i) {
          const u32 at = mask.exits[i];
          const u32 read = trie_.nodes[trie_.parents[at]].chars - base;
          if (read > loop.max) continue;
          if (Id next = step(after(loop, read), static_cast<u8>(b)); next != kEmpty) enter(next, at);
        }
      }
    for (unsigned b = 0; b < 128; ++b) {  // before any character of the class
      if (!loop.other.has(static_cast<u8>(b))) continue;
      const u32 at = vocabulary_.child(node, static_cast<u8>(b));
      if (at == kNoFan) continue;
      if (Id next = step(loop.whole, static_cast<u8>(b)); next != kEmpty) enter(next, at);
    }
  }
}

}  // namespace guiderail
