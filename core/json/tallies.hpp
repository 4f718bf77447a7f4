// Lists whose items are counted, or whose alternatives are read in parallel (see tallies.cpp).
#pragma once

#include <deque>

#include "base/interned.hpp"
#include "json/formula.hpp"

namespace guiderail {

struct TallyTable {
  struct Counter {  // fails its cell unless the number of items of some kind is within the bounds
    u32 cell = 0, min = 0, max = kInf;
  };
  struct Items {  // values with the same effect
    Id value;
    Bits fails;               // cells that they make fail
    std::vector<u32> counts;  // counters that they increment
  };
  std::vector<std::vector<Items>> places;  // by position; the last entry holds from there on
  std::vector<Counter> counters;
  Vote vote;  // without `required`, `effects` and `settled`; bounds apply to items
  Id comma = kEmpty;
  // Derived:
  u32 flags = 0, least = 0;    // least: characters of any item
  std::vector<Bits> together;  // by counter: those that count some item with it
  std::vector<u32> tight;      // cells whose counters may leave no room for each other
};
std::size_t bytes_of(const TallyTable& of);

struct TallyState {
  u32 table = 0;
  u32 place = 0;            // as far as it matters, like all counts
  u32 items = 0;            // items written
  Bits failed;              // cells that do not hold, or no longer matter
  std::vector<u32> counts;  // by counter
  bool operator==(const TallyState&) const = default;
};
inline u64 bucket_hash(const TallyState& s) {
  BucketHash hash(u64{s.table} << 32 | s.place);
  for (u64 w : s.failed) hash.add(w);
  return hash.add(u64{s.items}).add(s.counts).done();
}
inline std::size_t bytes_of(const TallyState& of) { return bytes_of(of.failed) + bytes_of(of.counts); }

inline u32 tally_state(const Node& n) { return n.a; }

class Tallies final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Tally};
  using Family::Family;
  static Tallies& of(Arena& arena) { return arena.family<Tallies>(); }

  Id tally(TallyTable table);

  Id derivative(Id e, u8 byte) override { return derive(expand(tally_state(node(e))), byte); }
  ByteSet first_bytes(Id e) override { return first(expand(tally_state(node(e)))); }
  void describe(Id e, Description& to) const override;
  void describe_shared(u32 table, Description& to) const override;
  std::vector<DumpItem> dump(Id e) const override { return {{"items " + std::to_string(tally_state(node(e)))}}; }
  void note_extent() override;
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  const TallyTable& table_of(const TallyState& state) const { return tables_[state.table]; }
  Id node_of(u32 state);
  Id expand(u32 state);
  bool holds(const TallyState& state) const;
  bool possible(u32 state);
  void settle(TallyState& state) const;
  bool starved(const TallyState& state, const Bits& cells) const;
  TallyState with_item(const TallyState& state, u32 which) const;
  u64 distance(const TallyState& state) const;

  std::deque<TallyTable> tables_;
  std::size_t table_bytes_ = 0;  // that the tables own
  Interned<TallyState> states_;
  std::vector<u8> hope_;       // by state: can it be completed? 0 unknown, 1 no, 2 yes
  std::vector<Id> expansion_;  // by state; kEmpty: not made yet
  struct Extent {              // sizes when the arena was finalized
    u32 tables = 0, states = 0;
    std::size_t table_bytes = 0;
  } extent_;
};

}  // namespace guiderail
