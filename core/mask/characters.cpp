// The walk by whole characters, for states that are intersections: see expr/characters.cpp. Inside a character, it
// follows the trie without a state; a token that ends there is allowed if some character with these first bytes may
// follow.
#include <algorithm>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/characters.hpp"
#include "mask/mask.hpp"

namespace guiderail {
namespace {
constexpr u32 kSurrogates = 0xD800, kAfterSurrogates = 0xE000, kLast = 0x10FFFF;
constexpr std::array<u32, 4> kLeast{0, 0x80, 0x800, 0x10000};  // the smallest characters with this many more bytes

u32 more_bytes(u8 lead) { return lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3; }
}  // namespace

// The tokens below `node`, which the first byte of a character beyond ASCII leads to; e is the state before that byte.
void MaskBuilder::follow_character(Id e, u32 node) {
  const u8 lead = trie_.nodes[node].byte;
  if (!arena_.first(e).has(lead)) return;
  const u32 all = more_bytes(lead);
  Work::spend(1 + (trie_.nodes[node].end - node) / kNodesPerStep);
  inside_character(e, node, all, all, lead & (0x3Fu >> all));
}

void MaskBuilder::inside_character(Id e, u32 node, u32 all, u32 due, u32 value) {
  const u32 low = std::max(value << 6 * due, kLeast[all]);
  u32 high = std::min(((value + 1) << 6 * due) - 1, kLast);
  if (low >= kSurrogates && high < kAfterSurrogates) return;
  if (low < kSurrogates && high >= kSurrogates && high < kAfterSurrogates) high = kSurrogates - 1;
  if (low > high) return;
  if (due == 0) {
    if (const Id next = arena_.characters().step(e, value); next != kEmpty) enter(forget(next), node);
    return;
  }
  if (const int token = trie_.nodes[node].token; token >= 0 && arena_.characters().may_follow(e, low, high)) set(token);
  trie_.each_child(node, [&](u32 child, u8 byte) {
    if (is_continuation(byte)) inside_character(e, child, all, due - 1, value << 6 | (byte & 0x3F));
    return true;
  });
}

}  // namespace guiderail
