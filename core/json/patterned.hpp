// Texts that are read beside patterns: which of these they match decides what follows (see patterned.cpp).
#pragma once

#include <deque>

#include "base/interned.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

struct PatternTable {
  std::vector<std::vector<u32>> next;  // by outcome, by pattern: the outcome of a text that also matches the pattern
  std::vector<Id> values;              // by outcome: what follows; kEmpty: no text may have this outcome
  bool chooses = false;                // does something follow, which depends on the outcome?
  std::vector<u8> hope;                // derived, by outcome: does it, or one that it leads to, have a value?
};

struct PatternState {
  u32 table = 0;
  u32 outcome = 0;              // of the patterns that match whatever follows
  Id text = kEmpty;             // the rest of the text
  ShortVector<Id, 8> patterns;  // the rest of each; kEmpty: it makes no difference any more
  bool operator==(const PatternState&) const = default;
};
inline u64 bucket_hash(const PatternState& s) {
  return BucketHash(u64{s.table} << 32 | s.outcome)
      .add(u64{index_of(s.text)})
      .add(std::span<const Id>(s.patterns.data(), s.patterns.size()))
      .done();
}
inline std::size_t bytes_of(const PatternState& of) { return bytes_of(of.patterns); }

inline u32 pattern_state(const Node& n) { return n.a; }

class Patterned final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Patterned};
  using Family::Family;
  static Patterned& of(Arena& arena) { return arena.family<Patterned>(); }

  // To match some patterns must lead to the same outcome in any order.
  Id patterned(Id text, std::vector<Id> patterns, std::vector<std::vector<u32>> next, std::vector<Id> values);
  bool chooses(Id e) const;  // is it a text that chooses what follows it?
  Id value(Id e) const;      // of such a text that ends here
  // All that may follow a key: by outcome if it chooses, else `value` alone.
  std::span<const Id> values_after(Id key, const Id& value) const;
  // May each of its texts go on to any outcome, and the text itself to any text?
  bool never_fails(Id e) const;
  Id text(Id e) const { return states_.values[pattern_state(node(e))].text; }

  // -- interface of Family --
  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override { return first(text(e)); }
  void describe(Id e, Description& to) const override;  // without the values
  void describe_shared(u32 table, Description& to) const override;
  std::vector<DumpItem> dump(Id e) const override { return {{"patterned("}, {"", text(e)}, {")"}}; }
  void note_extent() override;
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  Id node_of(PatternState state);
  u32 outcome(const PatternState& state) const;

  std::deque<PatternTable> tables_;
  std::size_t table_bytes_ = 0;  // that the tables own
  Interned<PatternState> states_;
  struct Extent {  // sizes when the arena was finalized
    u32 tables = 0, states = 0;
    std::size_t table_bytes = 0;
  } extent_;
};

}  // namespace guiderail
