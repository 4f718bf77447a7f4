// Masks by prefixes. The tokens of a state h t are those that end within h, whatever t is, and those that t continues
// where h ends inside the token. The first part, and everything about the second that depends on h, is found once for
// each h that recurs, and is kept with the vocabulary: for strings, numbers or any value, in whatever object they
// occur.
#include <algorithm>

#include "expr/identities.hpp"
#include "mask/in_progress.hpp"
#include "mask/mask.hpp"

namespace guiderail {
namespace {

// See opens_string().
Hash string_summary(u32 way, Escapes mode) {
  return Identity(Of::StringSummary).add(u64{way} << 32 | static_cast<u64>(mode)).done();
}
}  // namespace

// Do all parts of e read strings, keys or items that any character may follow and that lead back to e, all with the
// same escapes, until their quote?
bool MaskBuilder::endless_string(Id e, Escapes& mode) {
  std::optional<Escapes> found;
  const bool any = each_in_progress(arena_, e, [&](const InProgress& part) {
    const u32 set = part.endless(arena_);
    if (set == kNone || arena_.charset_ptr(set) != CharSet::any()) return false;
    const Escapes its = part.escapes(arena_);
    if (!found) found = its;
    return *found == its;
  });
  if (!any || step(e, 'a') != e) return false;
  mode = *found;
  return true;
}

// Is e an endless string (1), such a string before its opening quote (2), or the latter after an optional blank (3)? 0:
// none of these. `loop`: the string in progress.
u32 MaskBuilder::opens_string(Id e, Escapes& mode, Id& loop) {
  loop = e;
  if (endless_string(e, mode)) return 1;
  ByteSet first = arena_.first(e);
  if (!first.has('"') || first.count() > 2) return 0;
  loop = step(e, '"');
  if (loop == kEmpty || !endless_string(loop, mode)) return 0;
  if (first.count() == 1) return 2;
  const Id blank = first.has(' ') ? step(e, ' ') : kEmpty;
  if (blank == kEmpty || step(blank, '"') != loop) return 0;
  first = arena_.first(blank);
  return first.count() == 1 ? 3 : 0;
}

// Fills `out`. False if that takes more than `most` trie nodes, or if the prefix is of an unsuitable kind. `loop`: the
// prefix is a string of any text, up to and including the quote that closes this state; or kEmpty.
bool MaskBuilder::classify(Id head, Id loop, u32 most, PrefixSummary& out) {
  ShortVector<u32, 128> ends;
  ShortVector<int, 256> tokens;
  std::size_t below = 0;
  u32 visited = 0;
  out.nullable = loop == kEmpty && arena_.nullable(head);
  struct Open {
    u32 node;
    Id before;
  };
  ShortVector<Open, 64> stack{{0, head}};
  while (!stack.empty()) {
    arena_.make_room();
    const auto [node, before] = stack.back();
    stack.pop_back();
    const Id* const row = arena_.ensure_row(before);
    const bool done = trie_.each_child(node, [&, before = before](u32 n, u8 byte) {
      const bool closes = before == loop && byte == '"';
      Id next = closes ? kEpsilon : step_along(before, row, byte);
      if (next == kEmpty) return true;
      next = forget(next);
      if (++visited > most || arena_.has(next, kUnknownText)) return false;
      const TrieNode& t = trie_.nodes[n];
      if (t.token >= 0) tokens.push_back(t.token);
      if (t.end == n + 1) return true;
      if (closes || (loop == kEmpty && arena_.nullable(next))) {
        below += t.end - n;
        ends.push_back(n);
      }
      if (next != kEpsilon) stack.push_back({n, next});
      return below <= kMostSummaryRest;
    });
    if (!done) return false;
  }
  out.rest = merge_exits(trie_, std::span<const u32>(ends.begin(), ends.size()), 0);
  if (tokens.size() >= kDenseSummary) {
    auto dense = std::make_shared<Words>(vocabulary_.words(), 0);
    for (int t : tokens) set_bit(*dense, t);
    out.dense = dense;
  } else {
    out.tokens.assign(tokens.begin(), tokens.end());
  }
  return true;
}

// The prefixes that almost every JSON text meets. Each takes some milliseconds, paid once when a large vocabulary is
// made.
void MaskBuilder::warm(Vocabulary& vocabulary) {
  if (vocabulary.character_index().empty()) return;
  const Escapes mode = Escapes::Canonical;
  Arena arena{Limits{}};
  const Id loop = arena.concat(Escaped::of(arena).escaped(arena.any_text(), mode), arena.literal("\""));
  const Id quoted = arena.concat(arena.literal("\""), loop);
  const Id spaced = arena.concat(arena.repeat(arena.literal(" "), 0, 1), quoted);
  arena.finalize(spaced);
  std::lock_guard lock(arena.mutex);
  MaskBuilder builder(arena, vocabulary);
  u32 way = 0;
  for (const Id e : {loop, quoted, spaced}) {
    auto made = std::make_shared<PrefixSummary>();
    if (builder.classify(e, loop, kInf, *made)) vocabulary.cache_summary(string_summary(++way, mode), made);
  }
}

// Null: not known, and not yet worth making. `make`: returns the prefix as an expression.
template <class Make>
std::shared_ptr<const PrefixSummary> MaskBuilder::summary_mask(const Hash& key, Id loop, Make make) {
  u32 asked = 0;
  if (auto known = vocabulary_.cached_summary(key, asked)) return known;
  if (asked != 2) return nullptr;
  const Id head = make();
  const bool any = loop != kEmpty;  // there are three of these, and all constraints share them
  if (!any && arena_.first(head).count() > kFewFirstBytes) return nullptr;
  auto made = std::make_shared<PrefixSummary>();
  if (!classify(head, loop, any ? kInf : kSmallWalk, *made) || arena_.cap_hit()) return nullptr;
  vocabulary_.cache_summary(key, made);
  return made;
}

// May this part belong to a prefix? Not if states do not share it, or if what follows it decides how it is read.
bool MaskBuilder::summary_part(Id part) const {
  switch (arena_.node(part).kind) {
    case Kind::Members:
    case Kind::Key:
    case Kind::Distinct:
    case Kind::Twice:
    case Kind::Tally:
    case Kind::Item:
    case Kind::Terminal:
    case Kind::Lexed:
    case Kind::Scan:
    case Kind::MunchGuard:
    case Kind::Scope: return false;
    default: return !arena_.has(part, kHasLook | kHasItem | kHasToken | kExactStep | kExactKey | kCapHit);
  }
}

// Does it begin only with what follows a JSON value? Prefixes end there, so there are few of them.
bool MaskBuilder::ends_value(Id part) const {
  ByteSet first = arena_.first(part);
  for (char c : {',', ']', '}'}) first.remove(static_cast<u8>(c));
  return !first.any();
}

// The mask of the whole vocabulary, from the summary of the state's prefix.
bool MaskBuilder::prefix_summaries(Id e, u32) {
  if (arena_.has(e, kUnknownText)) return false;
  std::shared_ptr<const PrefixSummary> head;
  Id tail = kEmpty;
  Escapes mode{};
  Id loop = kEmpty;
  if (const u32 way = opens_string(e, mode, loop)) {
    tail = step(loop, '"');
    if (tail == kEmpty || arena_.has(tail, kUnknownText)) return false;
    head = summary_mask(string_summary(way, mode), loop, [&] { return e; });
  } else {
    Ids parts;
    bool ended = false;
    Identity key(Of::Head);
    for (tail = e; arena_.node(tail).kind == Kind::Concat && !ended && parts.size() < kMostSummaryParts;) {
      const Id part = arena_.node(tail).head();
      if (!summary_part(part) || (!parts.empty() && ends_value(part))) break;
      const auto hash = arena_.identities().of(part);
      if (!hash) break;  // other arenas cannot know it
      parts.push_back(part);
      key.add(*hash);
      ended = arena_.has(part, kHasRef);  // a prefix ends after a rule
      tail = arena_.node(tail).tail();
    }
    if (parts.empty()) return false;
    head = summary_mask(key.done(), kEmpty, [&] { return arena_.concat_all(parts); });
  }
  if (!head) return false;
  const Shared shared(*this);
  if (head->dense)
    scratch_->add(head->dense);
  else
    for (int t : head->tokens) set(t);
  walk_exits(head->rest, tail);
  if (head->nullable) visit(tail, 0);
  return true;
}

}  // namespace guiderail
