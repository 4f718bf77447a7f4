// The data of objects and lists of distinct values (see members.cpp, votes.cpp, distinct.cpp).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "base/bits.hpp"
#include "base/memory.hpp"
#include "base/thresholds.hpp"
#include "expr/node.hpp"
#include "json/texts.hpp"
#include "text/escape.hpp"

namespace guiderail {

struct Alternative {
  Id value;
  u32 discharges;  // obligations that this choice meets; in a vote: index of its effect
};

struct OtherKeys {
  Id key;  // matches the decoded text
  Id value;
  bool dense;  // every prefix of such a key has infinitely many continuations
  u32 discharges;
  std::vector<std::string> few;  // in a vote: all texts, if they are few
};

// Alternatives read in parallel (see votes.cpp): a formula over cells, each of which is a conjunction of conditions.
struct Vote {
  struct Cell {
    Bits required;  // by name
    u32 min = 0, max = kInf;
  };
  enum class Op : u8 { Cell, All, Any, One, Not };
  struct Part {
    Op op;
    std::vector<u32> of;  // Cell: its index; else earlier parts
  };
  struct Settled {
    Bits cells;  // if exactly these must hold,
    Id start;    // this is equivalent: Members of a plain table
    u32 table = 0;
  };
  std::vector<Cell> cells;
  std::vector<Part> parts;    // the last one is the whole formula
  std::vector<Bits> effects;  // cells that a member makes fail
  std::vector<Settled> settled;
  struct Whole {
    std::vector<u32> values;  // indices, ascending
    Id value;                 // matches what these match together
  };
  std::vector<std::vector<Whole>> wholes;  // by name
  u32 counted = 1;                         // members are counted up to this number
};

// Where the parts of a vote are used: for its search.
struct VoteUses {
  std::vector<std::vector<u32>> parts;  // by part: those that are made of it
  std::vector<std::vector<u32>> cells;  // by cell: the parts that are this cell
  std::vector<Bits> failing;            // by cell: names with a value that makes it fail
  Bits failing_others;                  // cells that other keys make fail
};

struct MemberTable {
  std::vector<std::string> names;                   // decoded, distinct
  std::vector<ShortVector<Alternative, 1>> values;  // empty: the name is forbidden
  std::vector<u8> required;                         // by name
  std::vector<OtherKeys> others;                    // keys that are none of the names
  u32 other_texts = kInf;                           // how many such keys exist, if there may be too few of them
  Id comma = kEmpty, colon = kEmpty;
  bool ordered = false;
  u32 min = 0, max = kInf;  // number of members
  Escapes escapes = Escapes::Canonical;
  u32 pending = 0;  // obligations to meet; 1 for a vote
  std::shared_ptr<const Vote> vote;
  // Derived:
  std::shared_ptr<const VoteUses> uses;  // of a vote
  std::vector<u32> order;                // names sorted
  Bits needed;                           // bits of `required`
  Bits possible;                         // bits of the names that are allowed
  std::vector<u32> cost;                 // by name: characters of the member at least; kInf if forbidden
  u32 least = kInf;                      // characters of any member at least: a key in quotes, a colon, a value
  // If a number of members is due: only some members have that few characters, as keys differ.
  bool few_least = false;                // the following lists them
  Bits least_names;                      // the names among them
  std::vector<std::string> least_texts;  // the other keys among them, sorted
  u32 next_least = kInf;                 // characters of all other members at least
  u32 around = 0;                        // of its quotes and its colon
  u32 name_value = kInf;                 // of the value of any name at least
  bool dense = false;                    // all kinds of other keys are dense
  u32 flags = 0;
};

struct MemberState {
  u32 table = 0;
  Bits gone;          // names that may not come any more: written, or (ordered) skipped
  u32 seen = 0;       // other keys written: a set of texts
  bool some = false;  // and at least one forgotten key
  u32 count = 0;      // members written, as far as the number matters
  u32 pending = 0;
  Bits failed;  // in a vote: cells that do not hold, or no longer matter
  bool operator==(const MemberState&) const = default;
};
inline u64 bucket_hash(const MemberState& s) {
  BucketHash hash(u64{s.table} << 32 | s.count);
  for (u64 w : s.gone) hash.add(w);
  for (u64 w : s.failed) hash.add(w);
  return hash.add(s.seen).add(u64{s.pending} << 1 | s.some).done();
}

struct KeyState {
  u32 members = 0;      // id of the MemberState before this member
  bool quoted = false;  // past the opening quote
  EscapeAt at = kBetween;
  u32 depth = 0;                 // bytes of decoded text read
  u32 lo = 0, hi = 0;            // names with that prefix: a range of MemberTable::order
  u32 seen_lo = 0, seen_hi = 0;  // other keys written with that prefix: a range of MemberState::seen
  u32 text = 0;                  // id of the decoded text so far, or kSomeText
  ShortVector<Id, 2> others;     // the rest of each kind of other keys
  bool remembers() const { return text != 0 && text != kSomeText; }
  bool operator==(const KeyState&) const = default;
};
inline u64 bucket_hash(const KeyState& k) {
  BucketHash hash(u64{k.members} << 32 | k.text);
  hash.add(u64{k.depth} << 32 | u64{k.at} << 1 | k.quoted).add(u64{k.lo} << 32 | k.hi);
  return hash.add(u64{k.seen_lo} << 32 | k.seen_hi).add(std::span<const Id>(k.others.data(), k.others.size())).done();
}

struct KeyApart {  // a Key between two characters, its text forgotten
  const KeyState* key;
  const MemberState* state;
  const MemberTable* table;
  u32 table_id;
  bool closed;  // only names can still complete the key
  bool any;     // any text may follow as another key
  bool few_seen;
};

enum class KeyAlong { Endless, Dies, Unclear };  // at every position; up to a position where none is left

struct SeenState {    // items of a Distinct
  u32 texts = 0;      // a set
  bool some = false;  // and at least one forgotten item
  bool operator==(const SeenState&) const = default;
};
inline u64 bucket_hash(const SeenState& s) { return BucketHash(u64{s.texts} << 1 | s.some).done(); }

// The heap memory that the values own.
std::size_t bytes_of(const Vote& of);
std::size_t bytes_of(const MemberTable& of);
inline std::size_t bytes_of(const MemberState& of) { return bytes_of(of.gone) + bytes_of(of.failed); }
inline std::size_t bytes_of(const KeyState& of) { return bytes_of(of.others); }
inline std::size_t bytes_of(const SeenState&) { return 0; }

struct MembersDue {  // of a MemberState: how many members must come, with how many characters at least
  u32 count = 0, characters = 0;
};

constexpr u32 kOther = kInf - 1;  // in place of a name: another key

struct MemberFacts {  // memos of a MemberState, by its id. Allowed? 0 unknown, 1 no, 2 yes
  std::vector<u8> fields;
  u8 others = 0;
  u8 feasible = 0;             // for a vote
  std::vector<u8> each_other;  // for a vote: by kind of other keys
  Id start = kEmpty;           // the Key before its opening quote; kEmpty: not made yet
  Id elided = kEmpty;          // what a token can see of it; kEmpty: not made yet
  std::vector<Id> after;       // for each kind of other keys: the quote, a value, and what a token sees after it
  std::optional<MembersDue> due;
};

}  // namespace guiderail
