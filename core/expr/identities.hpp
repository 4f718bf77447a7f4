// Identities that mean the same in every arena (see portable.cpp).
#pragma once

#include <optional>
#include <unordered_map>

#include "expr/kinds.hpp"

namespace guiderail {

// requires: mutex held
class Identities {
 public:
  explicit Identities(Arena& arena);
  // For a copy of the arena's first `nodes` expressions: what is known of them is kept.
  Identities(Arena& copy, const Identities& of, u32 nodes);
  // Rules count as what they unfold to. None if these are too many, or if e contains something local to this arena
  // (kHasToken, kExactKey).
  std::optional<Hash> of(Id e);
  // Finds those of all expressions that exist, except the ones that contain rules, tokens or scans: together they cost
  // less.
  void all();
  std::size_t memory() const;

 private:
  struct Rule {
    bool decided = false;
    std::optional<Hash> identity;
  };
  // Rules that reach each other, all unfolded equally often; and what expressions that contain them look like then.
  struct Round {
    std::unordered_map<u32, Hash> rules;
    std::unordered_map<Id, std::optional<Hash>> nodes;
    std::unordered_map<u64, std::optional<Hash>> shared;
  };
  enum class Known : u8 { No, InRound, Finally };
  static constexpr u32 kChunkBits = 8;
  static u64 key_of(Kind kind, u32 which) { return u64{static_cast<u8>(kind)} << 32 | which; }
  class Told;
  template <class To>
  void describe(Id e, To& to) const;
  Known known(Id e, std::optional<Hash>& out) const;
  std::optional<Hash> find(Id e);
  void rules_below(Id e, std::vector<u32>& rules) const;
  void decide(u32 rule);
  void decide_together(const std::vector<u32>& rules);
  // The identity of e itself; all zeros: not computed; all ones: it has none.
  Hash kept(Id e) const {
    const std::size_t chunk = index_of(e) >> kChunkBits;
    return chunk < kept_.size() && !kept_[chunk].empty() ? kept_[chunk][index_of(e) % (1u << kChunkBits)] : Hash{};
  }
  void keep(Id e, const Hash& hash);

  Arena& arena_;
  std::vector<Rule> rules_;
  std::unordered_map<u64, std::optional<Hash>> shared_;  // of families
  std::vector<PagedVector<Hash>> kept_;                  // by expression, in chunks; an empty one: none is known
  Round* round_ = nullptr;                               // while rules are being decided
};

}  // namespace guiderail
