// Texts that are tokens of their own wherever they stand.
#include "vocab/spelling.hpp"

namespace guiderail {

Separate::Separate(const std::vector<std::string>& texts) : nodes_(1) {
  for (const std::string& text : texts) {
    u32 at = 0;
    for (char c : text) {
      const auto [it, fresh] = nodes_[at].next.try_emplace(static_cast<u8>(c), static_cast<u32>(nodes_.size()));
      at = it->second;
      if (fresh) nodes_.emplace_back();
    }
    if (at != 0) nodes_[at].found = true;
  }
  std::deque<u32> queue{0};
  while (!queue.empty()) {
    const u32 at = queue.front();
    queue.pop_front();
    for (const auto& [byte, child] : nodes_[at].next) {
      u32 shorter = nodes_[at].shorter;
      while (at != 0 && shorter != 0 && !nodes_[shorter].next.contains(byte)) shorter = nodes_[shorter].shorter;
      if (auto it = nodes_[shorter].next.find(byte); at != 0 && it != nodes_[shorter].next.end())
        nodes_[child].shorter = it->second;
      nodes_[child].found = nodes_[child].found || nodes_[nodes_[child].shorter].found;
      queue.push_back(child);
    }
  }
}

bool Separate::ends_next(u32 state) const {
  for (;; state = nodes_[state].shorter) {
    for (const auto& [byte, next] : nodes_[state].next)
      if (nodes_[next].found) return true;
    if (state == 0) return false;
  }
}

u32 Separate::read(u32 state, std::string_view bytes) const {
  for (char c : bytes) {
    auto it = nodes_[state].next.find(static_cast<u8>(c));
    while (it == nodes_[state].next.end() && state != 0) {
      state = nodes_[state].shorter;
      it = nodes_[state].next.find(static_cast<u8>(c));
    }
    if (it != nodes_[state].next.end()) state = it->second;
    if (nodes_[state].found) return kFound;
  }
  return state;
}

}  // namespace guiderail
