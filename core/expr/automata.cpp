// Finite languages as acyclic automata: choices (minimal, since suffixes are interned) and substrings (suffix
// automata).
#include <algorithm>
#include <map>
#include <unordered_map>

#include "expr/expression.hpp"

namespace guiderail {

// Sorted strings share prefixes by construction, and suffixes because equal Switch nodes are one node. So the result is
// the minimal acyclic automaton (Daciuk et al. 2000), built in linear time.
Id Arena::choice(std::vector<std::string> strings) {
  if (strings.empty()) return kEmpty;
  sort_unique(strings);
  struct Level {
    std::vector<std::pair<u32, Id>> edges;
    bool accept = false;
  };
  std::vector<Level> levels(1);  // levels[i]: the node reached by the first i bytes of the current string
  std::size_t depth = 0;
  auto close = [&](const std::string& text, std::size_t to) {
    for (; depth > to; --depth) {
      u32 byte = static_cast<u8>(text[depth - 1]);
      Id done = make_switch(levels[depth].edges, levels[depth].accept);
      levels[depth].edges.clear();
      levels[depth].accept = false;
      levels[depth - 1].edges.push_back({byte | byte << 8, done});
    }
  };
  const std::string* last = nullptr;
  for (const std::string& text : strings) {
    note_literal(text);
    if (last) {
      std::size_t same = 0;
      while (same < last->size() && same < text.size() && (*last)[same] == text[same]) ++same;
      close(*last, same);
    }
    if (levels.size() <= text.size()) levels.resize(text.size() + 1);
    depth = text.size();
    levels[depth].accept = true;
    last = &text;
  }
  close(*last, 0);
  return make_switch(levels[0].edges, levels[0].accept);
}

// A generalised suffix automaton (Blumer et al. 1985) over bytes. Its states are visited from the longest to the
// shortest, so that every target is interned before it is needed. A substring begins and ends at a character boundary:
// a state accepts if its strings end a character, and the root has no edge by a continuation byte.
Id Arena::substring_of(const std::vector<std::string>& texts) {
  struct State {
    int length = 0, link = -1;
    std::map<u8, int> next;
    bool accept = false;
  };
  std::vector<State> states(1);
  std::size_t total = 0;
  for (const auto& t : texts) {
    total += t.size();
    note_literal(t);
  }
  if (total > 4'000'000)
    throw Error("memory", "substring_of takes at most 4,000,000 bytes of text; got " + std::to_string(total));
  states.reserve(2 * total + 2);
  for (const std::string& text : texts) {
    int last = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const u8 c = static_cast<u8>(text[i]);
      if (auto it = states[last].next.find(c); it != states[last].next.end()) {
        int q = it->second;
        if (states[q].length == states[last].length + 1) {
          last = q;
          continue;
        }
        int clone = static_cast<int>(states.size());
        states.push_back(states[q]);
        states[clone].length = states[last].length + 1;
        states[q].link = clone;
        for (int p = last; p != -1; p = states[p].link) {
          auto at = states[p].next.find(c);
          if (at == states[p].next.end() || at->second != q) break;
          at->second = clone;
        }
        last = clone;
        continue;
      }
      int cur = static_cast<int>(states.size());
      states.push_back({states[last].length + 1, 0, {}, false});
      int p = last;
      while (p != -1 && !states[p].next.contains(c)) {
        states[p].next[c] = cur;
        p = states[p].link;
      }
      if (p != -1) {
        int q = states[p].next[c];
        if (states[q].length == states[p].length + 1) {
          states[cur].link = q;
        } else {
          int clone = static_cast<int>(states.size());
          states.push_back(states[q]);
          states[clone].length = states[p].length + 1;
          states[q].link = states[cur].link = clone;
          for (; p != -1; p = states[p].link) {
            auto at = states[p].next.find(c);
            if (at == states[p].next.end() || at->second != q) break;
            at->second = clone;
          }
        }
      }
      last = cur;
    }
  }
  // Finds the states that end a character. All strings of a state end at the same places, so one occurrence decides.
  states[0].accept = true;
  for (const std::string& text : texts) {
    int at = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      at = states[at].next[static_cast<u8>(text[i])];
      bool boundary = i + 1 == text.size() || !is_continuation(static_cast<u8>(text[i + 1]));
      if (boundary)
        for (int s = at; s > 0 && !states[s].accept; s = states[s].link) states[s].accept = true;
    }
  }
  std::vector<int> order(states.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return states[a].length > states[b].length; });
  std::vector<Id> made(states.size(), kEmpty);
  for (int s : order) {
    std::vector<std::pair<u32, Id>> edges;
    for (auto [byte, to] : states[s].next)
      if (s != 0 || !is_continuation(byte)) edges.push_back({u32{byte} | u32{byte} << 8, made[to]});
    made[s] = make_switch(edges, states[s].accept);
  }
  return made[0];
}

// Runs of consecutive chunks, by a subset construction (Rabin & Scott 1959) over the places that such a run may have
// reached. All places of a set advance together, so the set after a byte begins further right. The loop makes that one
// first.
Id Arena::substring_of_chunks(const std::vector<std::string>& chunks) {
  constexpr std::size_t kMostPlaces = 8'000'000;
  std::string text;
  std::vector<u32> start;
  std::vector<char> ends{1};  // by place: whether a run may end there
  for (const std::string& chunk : chunks) {
    if (chunk.empty()) continue;
    note_literal(chunk);
    start.push_back(static_cast<u32>(text.size()));
    text += chunk;
    ends.resize(text.size() + 1);
    ends.back() = 1;
  }
  if (start.empty()) return kEpsilon;
  struct State {
    std::vector<u32> places;
    std::map<u8, u32> next;
  };
  std::vector<State> states;
  std::map<std::vector<u32>, u32> known;
  std::size_t places = 0;
  auto state_of = [&](std::vector<u32> of) {
    const auto [it, fresh] = known.try_emplace(std::move(of), static_cast<u32>(states.size()));
    if (fresh) {
      places += it->first.size() + 8;
      if (places > kMostPlaces)
        throw Error("memory",
                    "the automaton of the chunks is too large because they repeat each other; pass fewer chunks");
      states.push_back({it->first, {}});
    }
    return it->second;
  };
  state_of(start);
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::map<u8, std::vector<u32>> ways;
    for (u32 at : states[i].places)
      if (at < text.size()) ways[static_cast<u8>(text[at])].push_back(at + 1);
    for (auto& [byte, to] : ways) {
      const u32 next = state_of(std::move(to));
      states[i].next[byte] = next;
    }
  }
  std::vector<u32> order(states.size());
  for (u32 i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return states[a].places[0] > states[b].places[0]; });
  std::vector<Id> made(states.size(), kEmpty);
  for (u32 s : order) {
    std::vector<std::pair<u32, Id>> edges;
    for (auto [byte, to] : states[s].next) edges.push_back({u32{byte} | u32{byte} << 8, made[to]});
    const auto& of = states[s].places;
    made[s] = make_switch(edges, std::any_of(of.begin(), of.end(), [&](u32 at) { return ends[at] != 0; }));
  }
  return made[0];
}

}  // namespace guiderail
