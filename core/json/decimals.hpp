// The rest of a plain decimal between cuts on the number line, with multiples (see decimals.cpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/interned.hpp"
#include "base/short_vector.hpp"
#include "base/support.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

__extension__ typedef unsigned __int128 u128;

// Sizes are counted in units of 10^-scale.
struct DecimalPart {  // multiples of `step` that are multiples of none of `gaps`
  u128 step = 0;      // 0: all decimals
  u32 modulus = 0;    // index of a modulus that the step and the unit divide
  std::vector<u128> gaps;
  std::vector<u32> gap_moduli;
  // [e]: the step of those that are also multiples of 10^e units; 0: there are none
  std::vector<u128> coarse{};
};

struct DecimalLabel {
  bool dotted = false;  // may be written with a point
  std::vector<DecimalPart> parts{};
  bool possible = false, every = false;  // it is not empty; some part has no step
  bool all = false;                      // it contains every number
};

struct DecimalCut {
  std::string whole, fraction;  // digits; no trailing zeros after the point
  u32 at = 0, above = 0;        // label of the cut; of the numbers between it and the next
  u128 gap = 0;                 // units up to the next cut, both rounded down; at most kHuge
};

struct DecimalTable {
  static constexpr u128 kHuge = u128{1'000'000'000'000'000'000} * 1'000'000'000'000'000'000;  // 10^36
  std::vector<DecimalLabel> labels;                                                           // [0]: the empty one
  std::vector<DecimalCut> cuts;                                                               // ascending, from 0
  std::vector<u128> moduli;
  u32 scale = 0, room = kInf;  // room: how many digits may follow the point
  // Derived from the above.
  struct Size {  // cuts whose integer parts have the same length
    u32 digits, low, high;
  };
  std::vector<Size> sizes;                // ascending
  std::vector<std::vector<u128>> places;  // [i]: 10^i modulo each modulus
  std::vector<std::vector<u128>> values;  // of each cut, rounded down, modulo each modulus
  std::string told;                       // the complete description
  void derive();
};

struct DecimalState {
  enum Phase : u8 { Start, Whole, Apart, Zero, Tight, Loose };
  static constexpr u32 kPast = 0xFFFFFFFF;
  u32 table = 0;
  Phase phase = Start;
  bool fresh = false;  // just after the point
  u32 count = 0;       // digits of the integer part; Tight: after the point; Loose: the label
  u32 place = 0;       // digits after the point, at most scale; kPast: a multiple of nothing
  u32 room = 0;
  // Whole: an index into `sizes`; then, for each entry from there on, the cuts that begin like the text. Apart: runs
  // (count, label) by final length; the last label holds for all longer ones. Zero, Tight: the cuts that begin like the
  // text.
  ShortVector<u32, 6> list;
  ShortVector<u128, 2> value;  // of the text read, modulo each modulus
  bool operator==(const DecimalState&) const = default;
};
u64 bucket_hash(const DecimalState& s);
inline std::size_t bytes_of(const DecimalState& of) { return bytes_of(of.list) + bytes_of(of.value); }

// Reads one state with the help of its table.
class DecimalReader {
 public:
  explicit DecimalReader(const DecimalTable& table) : t_(table) {}
  bool accepts(const DecimalState& s) const;
  bool next(const DecimalState& s, u8 byte, DecimalState& out) const;
  // At least how many characters complete the state; kInf: none do. Exact unless a cut has more decimals than the
  // divisors.
  u32 least(const DecimalState& s) const;

 private:
  using Value = ShortVector<u128, 2>;
  struct Range {
    u32 low, high;
  };
  struct Offset {  // from the first number of a block to a cut
    u128 units;    // rounded down; at most kHuge
    bool exact, zero;
  };
  struct Block {         // numbers that begin with certain digits, for one length of the integer part
    const Value* value;  // the first number
    u128 size;           // in units; at most kHuge; 0: no multiple lies in it
    u32 whole;           // digits of the integer part read
    u32 fraction;        // digits after the point read
    bool dotted;         // past the point
    u32 known;           // digits after the point that the units include
    u32 most, need;      // digits that may, and that must, still follow the point
  };
  u32 label_of_whole(Range here) const;
  bool has(u32 label, u32 place, const Value& value) const;
  Range split(Range rows, bool whole, u32 place, u8 digit) const;
  Range here(const DecimalState& s) const;
  void grow(Value& value, u32 digit) const;
  bool number(DecimalState& s, u32 from, std::span<const Range> ranges) const;
  void forget(DecimalState& s) const;
  bool past_point(DecimalState& s, Range here, u32 read) const;
  bool loosen(DecimalState& s, u32 label) const;
  void add_digit(DecimalState& s, u32 digit) const;
  bool exists(const DecimalLabel& label, const Value& base, u32 e, u128 lo, u128 hi) const;
  u32 least_in(u32 label, const Block& b, const Value& base, u128 lo, u128 hi, bool some) const;
  u32 least_of(const Block& b, Range cuts) const;
  Offset offset(u32 cut, const Block& b) const;
  u128 rest(u32 cut, const Block& b) const;
  const DecimalTable& t_;
};

inline u32 decimal_state(const Node& n) { return n.a; }

class Decimals final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Decimal};
  using Family::Family;
  static Decimals& of(Arena& arena) { return arena.family<Decimals>(); }

  Id decimals(DecimalTable table);

  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override;
  void describe(Id e, Description& to) const override;
  std::vector<DumpItem> dump(Id e) const override;
  void note_extent() override;
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  Id decimal_node(DecimalState state, u32 least);

  std::vector<std::shared_ptr<const DecimalTable>> tables_;
  Interned<DecimalState> states_;
  std::size_t table_bytes_ = 0;
  u32 extent_tables_ = 0, extent_states_ = 0;
};

}  // namespace guiderail
