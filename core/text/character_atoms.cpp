#include "text/character_atoms.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/memory.hpp"

namespace guiderail {
namespace {
constexpr u32 kFirst = 0x80, kEnd = 0x110000, kSurrogates = 0xD800, kAfterSurrogates = 0xE000;
}  // namespace

CharacterAtoms::CharacterAtoms(std::span<const CharSet::Ptr> sets, std::vector<u32> single) {
  struct Edge {
    u32 at;
    Hash flip;  // the XOR of all flips up to a character identifies its atom
  };
  std::vector<Edge> edges{{kFirst, {}}, {kSurrogates, {}}, {kAfterSurrogates, {}}};
  // XORs of random numbers: whoever chooses the sets does not know which of them cancel out.
  auto flip = [](u64 what) { return Identity(Of::Atom).add(what).done(); };
  for (std::size_t i = 0; i < sets.size() && edges.size() < kMostEdges; ++i)
    for (const Hash own = flip(i); auto [lo, hi] : sets[i]->ranges()) {
      if (hi < kFirst) continue;
      edges.push_back({std::max(lo, kFirst), own});
      edges.push_back({hi + 1, own});
    }
  sort_unique(single);
  single_ = single.size();
  for (u32 c : single) {
    edges.push_back({c, flip(~u64{c})});
    edges.push_back({c + 1, flip(~u64{c})});
  }
  edges_ = edges.size();
  if (edges_ >= kMostEdges) return;
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::unordered_map<Hash, u32, HashHasher> by_sum;
  Hash sum;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    sum.lo ^= edges[i].flip.lo;
    sum.hi ^= edges[i].flip.hi;
    const u32 end = i + 1 < edges.size() ? edges[i + 1].at : kEnd;
    if (edges[i].at >= end || edges[i].at == kSurrogates) continue;
    const u32 atom = by_sum.try_emplace(sum, count()).first->second;
    if (atom == count()) samples_.push_back(edges[i].at);
    runs_.push_back({edges[i].at, atom});
  }
  if (count() > kMostAtoms)
    runs_.clear();
  else
    runs_.push_back({kEnd, 0});
}

std::vector<CharacterAtoms::Run>::const_iterator CharacterAtoms::run_of(u32 character) const {
  const auto next =
      std::upper_bound(runs_.begin(), runs_.end(), character, [](u32 c, const Run& r) { return c < r.from; });
  return next - 1;
}

u32 CharacterAtoms::of(u32 character) const { return run_of(character)->atom; }

const std::vector<u32>& CharacterAtoms::within(u32 low, u32 high) {
  if (auto it = within_.find({low, high}); it != within_.end()) return it->second;
  std::vector<u32> found;
  for (auto run = run_of(low); run->from <= high && run->from != kEnd; ++run) found.push_back(run->atom);
  sort_unique(found);
  bytes_ += bytes_of(found);
  return within_.try_emplace({low, high}, std::move(found)).first->second;
}

std::vector<CharSet::Ptr> CharacterAtoms::sets() const {
  std::vector<std::vector<CharSet::Range>> ranges(count());
  for (std::size_t i = 0; i + 1 < runs_.size(); ++i)
    ranges[runs_[i].atom].push_back({runs_[i].from, runs_[i + 1].from - 1});
  std::vector<CharSet::Ptr> out;
  for (auto& of : ranges) out.push_back(CharSet::make(std::move(of)));
  return out;
}

std::size_t CharacterAtoms::memory() const { return bytes_of(runs_) + bytes_of(samples_) + bytes_of(within_) + bytes_; }

}  // namespace guiderail
