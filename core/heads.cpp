// Masks by heads. The tokens of a state h t are those that end within h, whatever t is, and those that t goes on with
// where h ends inside the token. The first part, and for the second all that h has to do with it, is found once for
// each h that comes again and kept with the vocabulary: strings, numbers, any value, in whatever object they stand.
#include <algorithm>

#include "mask.hpp"

namespace guiderail {
namespace {
constexpr u32 kMostParts = 8;                // of a head
constexpr u32 kOften = 32;                   // asked for so often, any head is worth a walk over the whole trie
constexpr u32 kSmallWalk = 8192;             // trie nodes; up to here one that was asked for twice is
constexpr std::size_t kMostRest = 1u << 15;  // trie nodes behind the ends of a head
constexpr std::size_t kDense = 64;           // tokens: from here on a bitset
constexpr std::size_t kMostOwn = 4096;       // heads of one arena
}  // namespace

// Is e a string, key or item in progress that any character leaves as it is, until its closing quote?
bool MaskBuilder::endless_string(Id e, Escapes& mode) {
  if (free_class(e) != raw_characters() || step(e, 'a') != e) return false;
  for (Id cur = e;;) {
    const Node& n = arena_.node(cur);
    switch (n.kind) {
      case Kind::Concat:
      case Kind::Distinct:
      case Kind::Item: cur = n.a; continue;
      case Kind::Union: cur = arena_.operands(cur)[0]; continue;
      case Kind::Escaped: mode = static_cast<Escapes>(n.min); return true;
      case Kind::Key: mode = arena_.key_escapes(cur); return true;
      default: return false;
    }
  }
}

// Fills `out`; false if that takes more than `most` trie nodes or the head is not of a kind that it can be done for.
// `endless`: the head is a string in progress, up to and with its closing quote.
bool MaskBuilder::classify(Id head, bool endless, u32 most, HeadMask& out) {
  const u32 end = trie_.nodes[0].end;
  std::vector<Id> states(vocabulary_.longest() + 2);
  std::vector<u32> ends;
  std::size_t behind = 0;
  states[0] = head;
  arena_.ensure_row(head);
  out.nullable = !endless && arena_.nullable(head);
  u32 visited = 0;
  for (u32 n = 1; n < end;) {
    const TrieNode& t = trie_.nodes[n];
    const Id before = states[trie_.depths[n] - 1u];
    const bool closes = endless && before == head && t.byte == '"';
    const Id next = closes ? kEpsilon : step(before, t.byte);
    if (next == kEmpty) {
      n = t.end;
      continue;
    }
    if (++visited > most || arena_.has(next, kUnknownText)) return false;
    if (t.token >= 0) out.tokens.push_back(t.token);
    if ((closes || (!endless && arena_.nullable(next))) && t.end > n + 1) {
      behind += t.end - n;
      if (behind > kMostRest) return false;
      ends.push_back(n);
    }
    if (next == kEpsilon) {
      n = t.end;
      continue;
    }
    states[trie_.depths[n]] = next;
    if (t.end > n + 1) arena_.ensure_row(next);
    ++n;
  }
  out.rest = vocabulary_.merged(std::move(ends), 0);
  if (out.tokens.size() >= kDense) {
    auto dense = std::make_shared<Words>(vocabulary_.words(), 0);
    for (int t : out.tokens) (*dense)[static_cast<u32>(t) >> 5] |= 1u << (t & 31);
    out.dense = dense;
    out.tokens = {};
  }
  return true;
}

// Null: not known, and not worth it yet. `make`: the head as an expression.
template <class Make>
std::shared_ptr<const HeadMask> MaskBuilder::head_mask(const Hash& key, bool portable, bool endless, Make make) {
  u32 asked = 0;
  if (portable) {
    if (auto known = vocabulary_.cached_head(key, asked)) return known;
  } else {
    if (own_heads_.size() >= kMostOwn) own_heads_.clear();
    OwnHead& own = own_heads_[key];
    if (own.mask) return own.mask;
    asked = ++own.asked;
  }
  if (asked != 2 && asked % kOften != 0) return nullptr;
  auto made = std::make_shared<HeadMask>();
  if (!classify(make(), endless, asked == 2 ? kSmallWalk : kUnknown, *made) || arena_.cap_hit()) return nullptr;
  if (portable)
    vocabulary_.cache_head(key, made);
  else
    own_heads_[key].mask = made;
  return made;
}

// May it stand in a head? What is not shared between states, or decides by what follows it, may not.
bool MaskBuilder::head_part(Id part) const {
  switch (arena_.node(part).kind) {
    case Kind::Members:
    case Kind::Key:
    case Kind::Distinct:
    case Kind::Item:
    case Kind::Terminal:
    case Kind::Lexed:
    case Kind::Scan:
    case Kind::Fence:
    case Kind::Scope: return false;
    default: return !arena_.has(part, kHasGreedy | kHasLook | kHasItem | kHasToken | kExactStep | kExactKey | kCapHit);
  }
}

// The mask of the whole vocabulary from that of the state's head.
bool MaskBuilder::headed(Id e) {
  if (arena_.has(e, kUnknownText)) return false;
  std::shared_ptr<const HeadMask> head;
  Id tail = kEmpty;
  Escapes mode{};
  if (endless_string(e, mode)) {
    tail = step(e, '"');
    if (tail == kEmpty || arena_.has(tail, kUnknownText)) return false;
    head = head_mask(hash_step(Hash{}, static_cast<u64>(mode)), true, true, [&] { return e; });
  } else {
    std::vector<Id> parts;
    bool portable = true, ended = false;
    Hash key{1, 1};
    for (tail = e; arena_.node(tail).kind == Kind::Concat && !ended && parts.size() < kMostParts;) {
      const Id part = arena_.node(tail).a;
      if (!head_part(part)) break;
      parts.push_back(part);
      const auto hash = arena_.portable_hash(part);
      key = hash_step(key, hash ? *hash : arena_.node(part).hash);
      portable = portable && hash;
      ended = arena_.has(part, kHasRef);  // a rule is where a head ends
      tail = arena_.node(tail).b;
    }
    if (parts.empty()) return false;
    head = head_mask(key, portable, false, [&] { return arena_.concat_all(parts); });
  }
  if (!head) return false;
  const Shared shared(*this);
  if (head->dense)
    add(head->dense);
  else
    for (int t : head->tokens) set(t);
  touched_ = true;
  walk_exits(head->rest, tail);
  if (head->nullable) visit(tail, 0);
  return true;
}

}  // namespace guiderail
