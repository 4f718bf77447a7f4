#include "mask/mask.hpp"

#include <algorithm>

#include "base/work.hpp"
#include "expr/characters.hpp"
#include "mask/in_progress.hpp"

namespace guiderail {
// Records what postponed() has left open.
void MaskBuilder::note_open(MaskEntry& entry) {
  std::sort(postponed_.begin(), postponed_.end());
  for (u32 node : postponed_)  // skips nodes below others
    if (entry.open_nodes.empty() || node >= trie_.nodes[entry.open_nodes.back()].end) entry.open_nodes.push_back(node);
  sort_unique(postponed_tokens_);
  std::sort(postponed_tokens_.begin(), postponed_tokens_.end(), [&](int a, int b) {
    return vocabulary_.bytes(static_cast<u32>(a)) < vocabulary_.bytes(static_cast<u32>(b));
  });
  entry.open_tokens = postponed_tokens_;
}

std::string MaskBuilder::path_to(u32 node) const {
  std::string path;
  for (; node != 0; node = trie_.parents[node]) path.push_back(static_cast<char>(trie_.nodes[node].byte));
  std::reverse(path.begin(), path.end());
  return path;
}

std::shared_ptr<const MaskEntry> MaskBuilder::build(Id state) {
  postponed_.clear();
  postponed_tokens_.clear();
  shared_ = false;
  return draw(state);
}

std::shared_ptr<const MaskEntry> MaskBuilder::draw(Id state) {
  const Drawing drawing(*this);
  visit(state, 0);
  auto entry = std::make_shared<MaskEntry>();
  note_open(*entry);
  finish(*entry);
  return entry;
}

// Takes the mask from the scratch: as the differences from its base, or as a whole if they are many.
void MaskBuilder::finish(MaskEntry& entry) {
  for (auto [one, other] : vocabulary_.twins()) {  // tokens copied from another mask bring twins of their own
    if (scratch_->has(one))
      set(static_cast<int>(other));
    else
      unset(static_cast<int>(other));
  }
  const Words* words = scratch_->words();
  if (!words) return;
  entry.full = allows_all(words->data(), vocabulary_.size());
  const MaskScratch::Diff& diff = scratch_->differences();
  if (diff.size() > words->size() / 3) {
    entry.base = std::make_shared<const Words>(*words);
    entry.owns_base = true;
    return;
  }
  entry.base = scratch_->base();
  entry.diff = diff;
}

bool MaskBuilder::allows_all(const u32* mask, u32 size) {
  const u32 rest = size & 31;
  return (rest == 0 || mask[size >> 5] == (1u << rest) - 1) &&
         std::all_of(mask, mask + (size >> 5), [](u32 w) { return w == ~0u; });
}

// Adds the tokens of a class mask with at most `most` characters.
void MaskBuilder::add(ClassMask& mask, u32 most) {
  const std::size_t kept = most >= mask.most ? mask.tokens.size() : mask.upto[most];
  if (!scratch_->touched() && mask.dense && mask.tokens.size() - kept < kFewLonger) {  // a difference from the class
    scratch_->add(mask.dense);
    for (std::size_t i = kept; i < mask.tokens.size(); ++i) unset(mask.tokens[i]);
    return;
  }
  if (auto dense = vocabulary_.bounded(mask, most)) return scratch_->add(dense);
  const u32 count = mask.tokens.empty() ? 0 : mask.upto[std::min(most, mask.most)];
  for (u32 i = 0; i < count; ++i) set(mask.tokens[i]);
}

Id MaskBuilder::known_part(Id e) {
  if (arena_.node(e).kind != Kind::Union) return kEmpty;
  Ids known;
  for (Id m : arena_.operands(e))
    if (!arena_.has(m, kUnknownText)) known.push_back(m);
  return arena_.unite(known);
}

void MaskBuilder::enter(Id e, u32 node) {
  if (arena_.cap_hit()) return;  // no result is valid
  arena_.make_room();
  Work::spend();
  const TrieNode& n = trie_.nodes[node];
  if (share_ && n.end - node >= kWorthSharing && shareable(e, node)) return wanted_.push_back({e, node});
  if (postponed(e, node) || may_end(e, node, nullptr)) return;
  if (n.token >= 0) set(n.token);
  if (n.end == node + 1 || e == kEpsilon) return;
  if (n.end - node >= kHeavy)
    visit(e, node);
  else if (n.end - node >= kWorthClass && n.whole && in_string(e) && by_strategy(e, node, Reach::Strings))
    return;
  else
    scan(e, node);
}

// In a string or key of any text: all constraints share these class masks, so they are worthwhile for small subtrees,
// too.
bool MaskBuilder::in_string(Id e) const {
  return each_in_progress(arena_, e, [&](const InProgress& part) {
    switch (part.what) {
      case InProgress::What::String: return arena_.node(escaped_text(arena_.node(part.e))).kind == Kind::Repeat;
      case InProgress::What::Key: return true;
      case InProgress::What::Item: return Json::of(arena_).free_item(part.e);
    }
    return false;
  });
}

void MaskBuilder::walk(Id e, u32 node) {
  const Id* row = arena_.ensure_row(e);
  const bool by_characters = trie_.nodes[node].whole && arena_.has(e, kSearch) && arena_.characters().read(e);
  trie_.each_child(node, [&](u32 child, u8 byte) {
    if (by_characters && begins_character(byte)) {
      follow_character(e, child);
      return true;
    }
    if (const Id next = step_along(e, row, byte); next != kEmpty) enter(forget(next), child);
    return true;
  });
}

// The hot loop: a subtree without class masks, with states on a stack by depth. The children of a wide node lie far
// apart, so those that nothing leads to are not touched.
void MaskBuilder::scan(Id e, u32 node) {
  const TrieNode* nodes = trie_.nodes.data();
  const u16* depths = trie_.depths.data();
  // Can anything below n be read from `next`, the state after n?
  auto reach = [&](Id& next, u32 n) {
    if (next == kEmpty || postponed(next, n) || may_end(next, n, nullptr)) return false;
    if (nodes[n].token >= 0) set(nodes[n].token);
    return nodes[n].end != n + 1 && next != kEpsilon;
  };
  auto whole = [&](Id state, u32 n) {
    return nodes[n].whole && arena_.has(state, kSearch) && arena_.characters().read(state);
  };
  if (nodes[node].fan != kNoFan) {
    const Id* row = arena_.ensure_row(e);
    const bool by_characters = whole(e, node);
    trie_.each_child(node, [&](u32 n, u8 byte) {
      if (by_characters && begins_character(byte)) {
        follow_character(e, n);
        return true;
      }
      if (Id next = step_along(e, row, byte); reach(next, n)) scan(forget(next), n);
      return true;
    });
    return;
  }
  const u32 end = nodes[node].end;
  states_[depths[node]] = e;
  rows_[depths[node]] = arena_.ensure_row(e);
  by_characters_[depths[node]] = whole(e, node);
  u32 walked = 0;
  for (u32 n = node + 1; n < end; ++walked) {
    const TrieNode& t = nodes[n];
    const u32 depth = depths[n];
    if (begins_character(t.byte) && by_characters_[depth - 1u]) {
      follow_character(states_[depth - 1u], n);
      n = t.end;
      continue;
    }
    Id next = step_along(states_[depth - 1], rows_[depth - 1], t.byte);
    if (!reach(next, n)) {
      n = t.end;
      continue;
    }
    next = forget(next);
    if (t.fan != kNoFan) {
      scan(next, n);
      n = t.end;
      continue;
    }
    states_[depth] = next;
    by_characters_[depth] = whole(next, n);
    const Id* row = arena_.node(next).row.load(std::memory_order_relaxed);
    rows_[depth] = row ? row : arena_.ensure_row(next);
    ++n;
  }
  Work::spend(walked / kNodesPerStep);
}

}  // namespace guiderail
