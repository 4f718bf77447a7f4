// The search for a short completion: states in the order of the way to them plus a bound on what is missing (A*).
#pragma once

#include <array>
#include <queue>
#include <unordered_map>

#include "expr/node.hpp"

namespace guiderail {

struct Manner {                // of searching
  bool plain;                  // printable ASCII without escapes, line ends, and what completes a character
  bool forgetful;              // states without texts of keys
  u32 haste;                   // weight of what is missing; 1: finds a shortest completion
  bool takes(u8 byte) const {  // one of three bytes continues any character
    return !plain || (byte >= 0x20 && byte < 0x7F && byte != '\\') || byte == '\n' || byte == 0x80 || byte == 0x90 ||
           byte == 0xA0;
  }
  bool takes_all() const { return !plain && !forgetful; }
};
// In this order: the first ones visit the fewest states.
inline std::array<Manner, 4> manners(u32 haste) {
  return {{{true, true, haste}, {true, false, haste}, {false, true, haste}, {false, false, haste}}};
}

// An edge leads from a state to the next one: a byte, or a token.
template <class Edge>
class BestFirst {
 public:
  struct Open {
    u32 total, depth;  // of the way: with what is missing, and without
    Id state;
    bool operator<(const Open& o) const { return total != o.total ? total > o.total : depth < o.depth; }
  };
  BestFirst(Id start, u32 missing) : start_(start) {
    ways_.try_emplace(start, Way{0, kEmpty, {}});
    queue_.push({missing, 0, start});
  }
  std::size_t size() const { return ways_.size(); }  // states found
  // The best open state. False: there is none.
  bool next(Open& at) {
    while (!queue_.empty()) {
      at = queue_.top();
      queue_.pop();
      if (ways_.find(at.state)->second.depth == at.depth) return true;
    }
    return false;
  }
  // A state proves to be further away than thought: its turn comes later.
  void postpone(const Open& at, u32 total) { queue_.push({total, at.depth, at.state}); }
  // missing(to): a bound on what is missing from there.
  template <class F>
  void reach(const Open& from, Edge edge, Id to, F missing) {
    const Way way{from.depth + 1, from.state, edge};
    const auto [known, fresh] = ways_.try_emplace(to, way);
    if (!fresh && known->second.depth <= way.depth) return;
    known->second = way;
    queue_.push({add_sat(way.depth, missing(to)), way.depth, to});
  }
  // Calls f(from, edge, to) for the steps to a state, the last one first.
  template <class F>
  void each_step(Id to, F f) const {
    while (to != start_) {
      const Way& way = ways_.find(to)->second;
      f(way.from, way.edge, to);
      to = way.from;
    }
  }

 private:
  struct Way {
    u32 depth;
    Id from;
    Edge edge;
  };
  const Id start_;
  std::unordered_map<Id, Way> ways_;
  std::priority_queue<Open> queue_;
};

}  // namespace guiderail
