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
  std::optional<Hash> of(Id e) { return find(e, fold_); }
  std::size_t memory() const;

 private:
  struct Fold {                                          // identities found, given those of the rules
    std::unordered_map<u32, std::optional<Hash>> rules;  // by rule; none: not portable
    bool final = false;                                  // the rules' identities are final: expressions store their own
    std::unordered_map<Id, std::optional<Hash>> nodes;   // otherwise: of expressions that contain rules
    std::unordered_map<u64, std::optional<Hash>> shared;  // of families
  };
  static constexpr u32 kChunkBits = 10;
  static u64 key_of(Kind kind, u32 which) { return u64{static_cast<u8>(kind)} << 32 | which; }
  class Told;
  template <class To>
  void describe(Id e, To& to) const;
  bool known(Id e, const Fold& with, std::optional<Hash>& out) const;
  std::optional<Hash> find(Id e, Fold& with);
  void rules_below(Id e, std::vector<u32>& rules) const;
  std::optional<Hash> of_rule(u32 rule);
  // The identity of e itself; all zeros: not computed; all ones: it has none.
  Hash kept(Id e) const {
    const std::size_t chunk = index_of(e) >> kChunkBits;
    return chunk < kept_.size() && !kept_[chunk].empty() ? kept_[chunk][index_of(e) % (1u << kChunkBits)] : Hash{};
  }
  void keep(Id e, const Hash& hash);

  Arena& arena_;
  Fold fold_;
  std::vector<PagedVector<Hash>> kept_;  // by expression, in chunks; an empty one: none is known
};

}  // namespace guiderail
