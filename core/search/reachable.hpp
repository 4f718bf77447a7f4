// The states that a part of a constraint reaches, if they are few.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/expression.hpp"
#include "search/best_first.hpp"

namespace guiderail {

class Reachable {
 public:
  // Matches are completed by the bytes that a search for a completion tries first. `raw`: inside a JSON string.
  Reachable(Arena& arena, Id from, bool raw) : states_{from} {
    const Manner taken = manners(1)[0];
    std::unordered_map<Id, u32> numbers{{from, 0}};
    for (u32 at = 0; at < states_.size() && few(); ++at) {
      arena.make_room();
      Work::spend();
      arena.each_byte(states_[at], [&](u8 byte) {
        const Id next = arena.step_slow(states_[at], byte);
        if (next == kEmpty) return true;
        const auto [it, fresh] = numbers.try_emplace(next, static_cast<u32>(states_.size()));
        if (fresh) states_.push_back(next);
        if (taken.takes(byte) && !(raw && byte == '"')) note(at, it->second);
        return few();
      });
    }
    for (Id state : states_) ends_.push_back(arena.nullable(state));
  }
  bool few() const { return states_.size() <= kBoundStates; }
  const std::vector<Id>& states() const { return states_; }
  // By state: the least number of bytes such that more than `others` matches have no more; kInf: there are none, or
  // they are long.
  std::vector<u32> needed(u64 others) const {
    std::vector<u64> matches(ends_.begin(), ends_.end()), longer;  // with `bytes` bytes, at least
    std::vector<u64> sums(matches);
    std::vector<u32> out(states_.size(), kInf);
    u32 open = static_cast<u32>(states_.size());
    for (u32 bytes = 0;; ++bytes) {
      for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i] == kInf && sums[i] > others) {
          out[i] = bytes;
          --open;
        }
      if (open == 0 || bytes == kBoundBytes) return out;
      longer.assign(matches.size(), 0);
      for (const Step& step : steps_) longer[step.from] += step.ways * matches[step.to];
      for (std::size_t i = 0; i < longer.size(); ++i) {
        longer[i] = std::min(longer[i], others + 1);
        sums[i] += longer[i];
      }
      matches.swap(longer);
    }
  }

 private:
  struct Step {
    u32 from, to, ways;
  };
  void note(u32 from, u32 to) {
    if (steps_.empty() || steps_.back().from != from || steps_.back().to != to) steps_.push_back({from, to, 0});
    ++steps_.back().ways;
  }
  std::vector<Id> states_;
  std::vector<Step> steps_;
  std::vector<char> ends_;
};

}  // namespace guiderail
