// Texts that are always tokens of their own.
#include <algorithm>

#include "vocab/spelling.hpp"

namespace guiderail {

Separate::Separate(const std::vector<std::string>& texts, bool closed) : nodes_(1), closed_(closed) {
  for (const std::string& text : texts) {
    u32 at = 0;
    for (char c : text) {
      const auto [it, fresh] = nodes_[at].next.try_emplace(static_cast<u8>(c), static_cast<u32>(nodes_.size()));
      at = it->second;
      if (fresh) nodes_.emplace_back();
    }
    if (at != 0) nodes_[at].found = true;
  }
  intern({});
}

u32 Separate::intern(Threads threads) {
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  const auto [it, fresh] = known_.try_emplace(std::move(threads), static_cast<u32>(states_.size()));
  if (fresh) {
    states_.push_back(it->first);
    steps_.emplace_back().fill(is_closed(it->second) ? kFound : kUnread);
  }
  return it->second;
}

// Adds the node after a byte to `out` if it has children. Returns it; 0: there is none.
u32 Separate::advance(u32 node, u8 byte, Threads& out) const {
  const auto it = nodes_[node].next.find(byte);
  if (it == nodes_[node].next.end()) return 0;
  if (!nodes_[it->second].next.empty()) out.push_back(it->second);
  return it->second;
}

bool Separate::ends_next(u32 state) const {
  const auto ends = [&](u32 node) {
    return std::any_of(nodes_[node].next.begin(), nodes_[node].next.end(),
                       [&](const auto& edge) { return nodes_[edge.second].found; });
  };
  return is_closed(state) || ends(0) || std::any_of(states_[state].begin(), states_[state].end(), ends);
}

u32 Separate::read(u32 state, std::string_view bytes) {
  for (char c : bytes) {
    const u8 byte = static_cast<u8>(c);
    if (steps_[state][byte] == kUnread) {
      Threads from = states_[state], next;
      from.push_back(0);
      bool found = false;
      for (u32 node : from) found = nodes_[advance(node, byte, next)].found || found;
      const u32 made = found ? kFound : intern(std::move(next));
      steps_[state][byte] = made;
    }
    state = steps_[state][byte];
    if (state == kFound) return kFound;
  }
  return state;
}

u32 Separate::pass(u32 state, std::string_view text) {
  Threads threads = states_[state], next;
  if (is_closed(state)) threads.erase(threads.begin());
  u32 own = 0;
  for (char c : text) {
    next.clear();
    for (u32 node : threads)
      if (nodes_[advance(node, static_cast<u8>(c), next)].found) return kFound;  // a text that began earlier
    std::swap(threads, next);
    own = nodes_[own].next.at(static_cast<u8>(c));
  }
  if (closed_) threads.push_back(0);
  if (!nodes_[own].next.empty()) threads.push_back(own);
  return intern(std::move(threads));
}

}  // namespace guiderail
