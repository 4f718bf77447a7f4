// Atoms: classes of characters that no set and no single character of a constraint tells apart. What holds for one
// character of an atom holds for all. Only characters beyond ASCII; those of ASCII are single bytes.
#pragma once

#include <map>
#include <span>

#include "text/charset.hpp"

namespace guiderail {

class CharacterAtoms {
 public:
  static constexpr std::size_t kMostEdges = 100'000;  // of sorted ranges: some 10 ms
  static constexpr u32 kMostAtoms = 1u << 12;

  CharacterAtoms(std::span<const CharSet::Ptr> sets, std::vector<u32> single);
  bool usable() const { return !runs_.empty(); }  // false: there are too many atoms
  u32 count() const { return static_cast<u32>(samples_.size()); }
  std::size_t edges() const { return edges_; }
  std::size_t single() const { return single_; }
  u32 of(u32 character) const;
  u32 sample(u32 atom) const { return samples_[atom]; }
  // The atoms with characters from `low` to `high`.
  const std::vector<u32>& within(u32 low, u32 high);
  std::vector<CharSet::Ptr> sets() const;  // one for each atom, in the order of their first characters
  std::size_t memory() const;

 private:
  struct Run {
    u32 from, atom;  // up to the next run
  };
  std::vector<Run>::const_iterator run_of(u32 character) const;

  std::vector<Run> runs_;  // the last one is the end
  std::vector<u32> samples_;
  std::map<std::pair<u32, u32>, std::vector<u32>> within_;
  std::size_t edges_ = 0, single_ = 0, bytes_ = 0;
};

}  // namespace guiderail
