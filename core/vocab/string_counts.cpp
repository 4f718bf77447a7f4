#include "vocab/string_counts.hpp"

#include <algorithm>

#include "vocab/vocabulary.hpp"

namespace guiderail {

StringCounts::StringCounts(const Trie& trie, std::size_t words, u32 longest, Escapes mode) : words_(words) {
  struct At {
    EscapeAt escape = kBetween;
    u16 state = CharSet::kDone;  // within the bytes of a raw character
    u32 chars = 0;               // begun so far
  };
  const auto& automaton = CharSet::any()->automaton();
  std::vector<At> path(longest + 2);
  for (u32 n = 1; n < trie.nodes.size();) {
    const TrieNode& node = trie.nodes[n];
    At at = path[trie.depths[n] - 1u];
    const bool between = at.escape == kBetween && at.state == CharSet::kDone;
    if (between && node.byte == '"') {
      for (u32 token : trie.below(n)) leaving_.push_back({at.chars, static_cast<int>(token)});
      n = node.end;
      continue;
    }
    bool refused = false;
    if (at.state != CharSet::kDone) {
      at.state = automaton[at.state][node.byte];
      refused = at.state == CharSet::kDead;
    } else {
      const Unescaped read = unescape(at.escape, node.byte, mode);
      if (between) ++at.chars;
      refused = read.what == Unescaped::Refused;
      at.escape = read.what == Unescaped::Inside ? read.at : kBetween;
      if (read.what == Unescaped::Raw) {
        at.state = automaton[CharSet::kStart][node.byte];
        refused = at.state == CharSet::kDead;
      }
    }
    if (refused) {
      n = node.end;
      continue;
    }
    if (node.token >= 0) inside_.push_back({at.chars, node.token});
    path[trie.depths[n]] = at;
    ++n;
  }
  std::stable_sort(inside_.begin(), inside_.end(), [](const Count& a, const Count& b) { return a.chars < b.chars; });
  std::sort(leaving_.begin(), leaving_.end(), [](const Count& a, const Count& b) { return a.token < b.token; });
}

std::span<const StringCounts::Count> StringCounts::longer(u32 than) const {
  return {std::upper_bound(inside_.begin(), inside_.end(), than, [](u32 m, const Count& c) { return m < c.chars; }),
          inside_.end()};
}

std::shared_ptr<const Words> StringCounts::inside(u32 most) {
  const std::size_t count = inside_.size() - longer(most).size();
  const auto end = inside_.begin() + static_cast<std::ptrdiff_t>(count);
  if (count == 0) return nullptr;
  if (auto it = made_.find(count); it != made_.end()) return it->second;  // bounds with no token in between share one
  std::shared_ptr<Words> words;
  auto flip = [&](auto from, auto to) {
    for (auto it = from; it != to; ++it) (*words)[static_cast<u32>(it->token) >> 5] ^= u32{1} << (it->token & 31);
  };
  if (inside_.size() - count < count && count < inside_.size()) {  // all but the longer tokens
    words = std::make_shared<Words>(*inside(kInf));
    flip(end, inside_.end());
  } else {
    words = std::make_shared<Words>(words_, 0);
    flip(inside_.begin(), end);
  }
  return made_[count] = words;
}

std::size_t StringCounts::memory() const {
  std::size_t bytes = sizeof(*this) + bytes_of(inside_) + bytes_of(leaving_) + bytes_of(made_);
  for (const auto& [count, words] : made_) bytes += shared_bytes<Words>() + bytes_of(*words);
  return bytes;
}

}  // namespace guiderail
