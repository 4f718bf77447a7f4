// The strategies that make masks, by name: those that make one, in the order in which they are tried, and those that
// let states share one. The walk over the trie, which is always right, comes last. Tests and benchmarks can switch off
// each strategy: then the next one in order, and in the end the walk, makes the same mask.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/support.hpp"

namespace guiderail {

enum class Strategy : u8 {
  // They make a mask, in this order (see strategies.cpp):
  SeveralKeys,
  Keywords,
  BoundedStrings,
  ComposedStrings,
  PrefixSummaries,
  StringDifferences,
  CountedIntersections,
  AbsorbingStrings,
  ClassLoops,
  ExcludedTexts,
  StateDifferences,
  SelfLoops,
  // This makes a part of one:
  CharacterIndex,
  // These let states share one:
  LexedPieces,
  DistinctLists,
  KeysAsStrings,
  Counters,
  Elision,
  CappedGroups,
  kCount
};
inline constexpr std::size_t kStrategies = static_cast<std::size_t>(Strategy::kCount);
inline constexpr std::size_t kMakers = static_cast<std::size_t>(Strategy::CharacterIndex);  // that make whole masks

struct StrategyInfo {
  const char* name;
  const char* where;  // where it applies
  const char* does;
};
const StrategyInfo& info(Strategy strategy);

// What the strategies of one builder have done. One thread at a time writes, any thread reads.
class StrategyCounts {
 public:
  struct Count {
    u64 tried = 0, made = 0, steps = 0, bytes = 0;
  };
  StrategyCounts();
  ~StrategyCounts();
  StrategyCounts(const StrategyCounts&) = delete;
  StrategyCounts& operator=(const StrategyCounts&) = delete;
  void note(Strategy s, bool made, u64 steps) {
    Cell& cell = cells_[static_cast<std::size_t>(s)];
    add(cell.tried, 1);
    add(cell.made, made);
    add(cell.steps, steps);
  }
  void set_bytes(Strategy s, u64 bytes) const {
    cells_[static_cast<std::size_t>(s)].bytes.store(bytes, std::memory_order_relaxed);
  }
  // Of all builders that this process ever had; bytes only of living ones.
  static std::array<Count, kStrategies> all();

 private:
  struct Cell {
    std::atomic<u64> tried{0}, made{0}, steps{0};
    mutable std::atomic<u64> bytes{0};
  };
  static void add(std::atomic<u64>& to, u64 more) {
    to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  void add_to(std::array<Count, kStrategies>& sum) const;
  std::array<Cell, kStrategies> cells_;
};

// Of the process. A guide keeps the masks that it has already made.
class StrategySwitches {
 public:
  static bool on(Strategy s) {
    return off_.load(std::memory_order_relaxed) == 0 ||
           !(off_.load(std::memory_order_relaxed) >> static_cast<u32>(s) & 1);
  }
  static bool set(std::string_view name, bool on);  // false: there is no such strategy

 private:
  static inline std::atomic<u32> off_{0};
};

}  // namespace guiderail
