// The data of objects and lists of distinct values (see members.cpp, votes.cpp, distinct.cpp).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/bits.hpp"
#include "base/flat_map.hpp"
#include "base/memory.hpp"
#include "base/thresholds.hpp"
#include "expr/node.hpp"
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
  u32 counted = 1;  // members are counted up to this number
};

struct MemberTable {
  std::vector<std::string> names;                // decoded, distinct
  std::vector<std::vector<Alternative>> values;  // empty: the name is forbidden
  std::vector<u8> required;                      // by name
  std::vector<OtherKeys> others;                 // keys that are none of the names
  u32 other_texts = kInf;                        // how many such keys exist, if there may be too few of them
  Id comma = kEmpty, colon = kEmpty;
  bool ordered = false;
  u32 min = 0, max = kInf;  // number of members
  Escapes escapes = Escapes::Canonical;
  u32 pending = 0;  // obligations to meet; 1 for a vote
  std::shared_ptr<const Vote> vote;
  // Derived:
  std::vector<u32> order;     // names sorted
  std::vector<u64> needed;    // bits of `required`
  std::vector<u64> possible;  // bits of the names that are allowed
  std::vector<u32> cost;      // by name: characters of the member at least; kInf if forbidden
  u32 least = kInf;           // characters of any member at least: a key in quotes, a colon, a value
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

// A key or item text that is forgotten: masks need only know that there is some text (see Abstraction::canonical).
constexpr u32 kSomeText = 0xFFFFFFFF;

struct MemberState {
  u32 table = 0;
  Bits gone;              // names that may not come any more: written, or (ordered) skipped
  std::vector<u32> seen;  // other keys written: text ids, sorted by text
  bool some = false;      // and at least one forgotten key
  u32 count = 0;          // members written, as far as the number matters
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
  bool few_seen() const { return state->seen.size() <= kFewSeen; }
};

enum class KeyAlong { Endless, Dies, Unclear };  // at every position; up to a position where none is left

struct SeenState {         // items of a Distinct
  std::vector<u32> texts;  // sorted ids
  bool some = false;
  bool operator==(const SeenState&) const = default;
};
inline u64 bucket_hash(const SeenState& s) { return BucketHash(s.some).add(s.texts).done(); }

// The heap memory that the values own.
std::size_t bytes_of(const Vote& of);
std::size_t bytes_of(const MemberTable& of);
inline std::size_t bytes_of(const MemberState& of) {
  return bytes_of(of.gone) + bytes_of(of.seen) + bytes_of(of.failed);
}
inline std::size_t bytes_of(const KeyState& of) { return bytes_of(of.others); }
inline std::size_t bytes_of(const SeenState& of) { return bytes_of(of.texts); }

// Byte strings that grow by single bytes, by id (0: the empty one): a trie in which each links to its prefix.
class Texts {
 public:
  Texts() { links_.push_back({0, 0}); }
  u32 grow(u32 text, u8 byte) {
    const u64 key = u64{text} << 8 | byte;
    if (const u32* known = children_.find(key)) return *known;
    const u32 id = static_cast<u32>(links_.size());
    links_.push_back({text, byte});
    try {
      children_.set(key, id);
    } catch (...) {
      links_.pop_back();
      throw;
    }
    return id;
  }
  const std::string& whole(u32 text) {  // for complete texts; cached
    if (auto it = whole_.find(text); it != whole_.end()) return it->second;
    std::string out;
    for (u32 t = text; t != 0; t = links_[t].first) out.push_back(static_cast<char>(links_[t].second));
    std::reverse(out.begin(), out.end());
    const std::string& kept = whole_.emplace(text, std::move(out)).first->second;
    whole_bytes_ += bytes_of(kept);
    return kept;
  }
  u32 count() const { return static_cast<u32>(links_.size()); }
  Texts first(u32 count) const {
    Texts out;
    for (u32 t = 1; t < count; ++t) out.grow(links_[t].first, links_[t].second);
    return out;
  }
  std::size_t memory() const { return bytes_of(links_) + children_.memory() + bytes_of(whole_) + whole_bytes_; }

 private:
  std::vector<std::pair<u32, u8>> links_;
  FlatMap<> children_;
  std::unordered_map<u32, std::string> whole_;
  std::size_t whole_bytes_ = 0;  // of the texts in whole_
};

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
