// A state as another one with differences. Most characters lead from it into a state b that they also lead b into: what
// can be told apart are the texts that begin otherwise, and most of these come to the same states after a byte or two.
// The mask of b, which is asked for anyway, is copied, and both are walked where they differ.
#include <algorithm>

#include "mask.hpp"

namespace guiderail {
namespace {
constexpr u32 kMostPairs = 3000;      // nodes of the trie that are visited below one first byte
constexpr u32 kMostPairsInAll = 12'000;
constexpr std::size_t kMostAnew = 4;  // first bytes below which the two have little in common
}  // namespace

// The mask of another state, drawn apart.
std::shared_ptr<const MaskEntry> MaskBuilder::entry_of(Id e) {
  const bool plain = arena_.symbols().empty();
  if (const MaskEntry* known = arena_.node(e).mask.load(std::memory_order_relaxed); known && plain)
    return {std::shared_ptr<const MaskEntry>(), known};  // kept by the program
  if (auto it = kept_.find(e); it != kept_.end()) return it->second;
  std::optional<Hash> key;
  if (plain && !arena_.has(e, kHasToken | kExactKey | kHasScan)) key = arena_.portable_hash(e);
  std::shared_ptr<const MaskEntry> made = key ? vocabulary_.cached_mask(*key) : nullptr;
  if (!made) {
    std::vector<u32> postponed = std::move(postponed_);
    std::vector<int> tokens = std::move(postponed_tokens_);
    std::unique_ptr<Canvas> canvas = std::move(canvas_);
    const bool shared = shared_;
    postponed_.clear();
    postponed_tokens_.clear();
    shared_ = false;
    made = draw(e);
    shared_ = shared;
    canvas_ = std::move(canvas);
    postponed_ = std::move(postponed);
    postponed_tokens_ = std::move(tokens);
    if (key && !arena_.cap_hit()) vocabulary_.cache_mask(*key, made);
  }
  if (!arena_.cap_hit()) kept_.emplace(e, made);
  return made;
}

// Where the tokens of e and those of b are not the same, below a node that both lead to. False: that takes too long.
bool MaskBuilder::differences(Id e, Id b, u32 node, u32& budget, std::vector<Difference>& out) {
  arena_.ensure_row(e);
  arena_.ensure_row(b);
  auto child = [&](u32 at, u8 byte) {
    if (budget == 0) return false;
    --budget;
    const Id mine = step(e, byte), other = step(b, byte);
    if (mine == other) return true;
    if (mine == kEmpty || other == kEmpty || arena_.has(mine, kUnknownText) || arena_.has(other, kUnknownText)) {
      out.push_back({at, mine, other != kEmpty});
      return true;
    }
    return trie_.nodes[at].end == at + 1 || differences(mine, other, at, budget, out);
  };
  const TrieNode& n = trie_.nodes[node];
  if (n.fan != kNoFan) {
    const Fan fan = trie_.fans[n.fan];
    for (u32 i = fan.offset; i < fan.offset + fan.count; ++i)
      if (!child(trie_.fan_nodes[i], trie_.fan_bytes[i])) return false;
    return true;
  }
  for (u32 c = node + 1; c < n.end; c = trie_.nodes[c].end)
    if (!child(c, trie_.nodes[c].byte)) return false;
  return true;
}

// The mask of e from that of b; nothing is drawn yet.
bool MaskBuilder::differential(Id e, Id b) {
  if (!canvas_ || canvas_->touched() || arena_.has(e, kUnknownText | kHasScan)) return false;
  std::vector<Difference> found;
  std::size_t anew = 0;
  u32 left = kMostPairsInAll;
  arena_.ensure_row(e);
  arena_.ensure_row(b);
  for (u32 c = 1; c < trie_.nodes[0].end; c = trie_.nodes[c].end) {
    const u8 byte = trie_.nodes[c].byte;
    const Id mine = step(e, byte), other = step(b, byte);
    if (mine == other) continue;
    const std::size_t before = found.size();
    u32 budget = std::min(kMostPairs, left);
    const u32 given = budget;
    const bool apart =
        mine == kEmpty || other == kEmpty || arena_.has(mine, kUnknownText) || arena_.has(other, kUnknownText);
    if (!apart && differences(mine, other, c, budget, found)) {
      left -= given - budget;
      continue;
    }
    left -= given - budget;
    found.resize(before);
    if (trie_.nodes[c].end - c >= kMostPairs && mine != kEmpty && ++anew > kMostAnew) return false;
    found.push_back({c, mine, other != kEmpty});
  }
  const auto entry = entry_of(b);
  if (entry->open_groups || arena_.cap_hit()) return false;
  copy(*entry);
  for (const Difference& d : found) {
    if (d.clears) clear(d.node);
    if (d.state != kEmpty) enter(d.state, d.node);
  }
  return true;
}

}  // namespace guiderail
