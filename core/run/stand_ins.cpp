// A constraint reads characters by sets. If each set with `<` also contains `J`, a text with `<` remains a text if `J`
// replaces it: sequences, alternatives, repetitions and intersections treat both alike. Complements, and whatever
// counts or compares characters, need more: each set with one must contain the other.
#include "run/stand_ins.hpp"

#include <unordered_set>

#include "json/json.hpp"

namespace guiderail {
namespace {

bool only_adds(Kind kind) {  // does it match no less if its parts match more?
  switch (kind) {
    case Kind::Empty:
    case Kind::Epsilon:
    case Kind::Class:
    case Kind::ClassTail:
    case Kind::Bytes:
    case Kind::Switch:
    case Kind::Concat:
    case Kind::Union:
    case Kind::And:
    case Kind::Repeat:
    case Kind::Ref:
    case Kind::Token:
    case Kind::Counted:
    case Kind::Escaped:
    case Kind::Members:
    case Kind::Key:
    case Kind::Decimal:
    case Kind::Elided: return true;
    default: return false;
  }
}

}  // namespace

StandIns::StandIns(Arena& arena) {
  ByteSet all;
  for (unsigned b = 0x20; b < 0x7F; ++b)
    if (b != '"' && b != '\\') all.add(static_cast<u8>(b));
  of.fill(all);
  bool both = false;
  Json* json = Json::of(arena).used() ? &Json::of(arena) : nullptr;
  std::unordered_set<u32> sets, raw, edges;
  std::vector<ByteSet> leaves;
  for (u32 i = 0; i < arena.node_count(); ++i) {
    const Node& n = std::as_const(arena).node(Id{i});
    both = both || !only_adds(n.kind);
    ByteSet leaf;
    switch (n.kind) {
      case Kind::Class:
        if (!sets.insert(n.a).second) continue;
        for (const auto& [from, to] : arena.charset(n.a).ranges())
          for (u32 c = from; c <= to && c < 0x80; ++c) leaf.add(static_cast<u8>(c));
        leaves.push_back(leaf);
        break;
      case Kind::Bytes:
        if (raw.insert(n.a).second) leaves.push_back(arena.byte_set(n.a));
        break;
      case Kind::Switch:
        for (u32 k = 0; k < Arena::edge_count(n); ++k) {
          const Edge edge = arena.edge(n, k);
          if (!edges.insert(u32{edge.low} << 8 | edge.high).second) continue;
          ByteSet one;
          one.add_range(edge.low, edge.high);
          leaves.push_back(one);
        }
        break;
      case Kind::Members: both = both || json->table(json->state(members_state(n)).table).vote; break;
      default: break;
    }
  }
  for (const ByteSet& leaf : leaves) note(leaf, both);
  if (!json) return;
  ByteSet starts;  // characters of names represent only themselves
  json->split_bytes(starts);
  for (unsigned b = 0; b < 0x7F; ++b)
    if (starts.has(static_cast<u8>(b)) || starts.has(static_cast<u8>(b + 1))) {
      ByteSet one;
      one.add(static_cast<u8>(b));
      note(one, true);
    }
}

void StandIns::note(const ByteSet& leaf, bool both_ways) {
  ByteSet others;
  for (int i = 0; i < 4; ++i) others.words[static_cast<std::size_t>(i)] = ~leaf.words[static_cast<std::size_t>(i)];
  for (unsigned c = 0; c < 0x80; ++c)
    if (leaf.has(static_cast<u8>(c)))
      of[c] &= leaf;
    else if (both_ways)
      of[c] &= others;
}

}  // namespace guiderail
