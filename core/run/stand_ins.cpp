// A constraint reads characters by sets. If each set with `<` also contains `J`, a text with `<` remains a text if `J`
// replaces it: sequences, alternatives, repetitions and intersections treat both alike. Complements, keys beside
// patterns, and whatever counts or compares characters, need more: each set with one must contain the other.
//
// A set that tells them apart does no harm where no `|` can follow what it reads: then a text with `<|` was read
// otherwise. So an operator "<" does not stand in the way of replacing the `<` of `<|end|>`.
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

// Characters that stand between the expressions of JSON and of its other notations.
constexpr std::string_view kSeparators = "\"'\\{}[],: \t\n\r";
// Those of escapes and numbers.
constexpr std::string_view kParts = "/bfnrtu0123456789abcdefABCDEF+-.";
bool among(std::string_view set, u8 byte) { return set.find(static_cast<char>(byte)) != std::string_view::npos; }

ByteSet ascii(const CharSet& set) {
  ByteSet out;
  for (const auto& [from, to] : set.ranges())
    for (u32 c = from; c <= to && c < 0x80; ++c) out.add(static_cast<u8>(c));
  return out;
}

template <class F>
void each_name(const Json& json, const Arena& arena, F f) {
  std::unordered_set<u32> seen;
  for (u32 i = 0; i < arena.finalized_count(); ++i) {
    const Node& n = arena.node(Id{i});
    if (n.kind != Kind::Members || !seen.insert(json.state(members_state(n)).table).second) continue;
    for (const std::string& name : json.table(json.state(members_state(n)).table).names) f(name);
  }
}

}  // namespace

StandIns::StandIns(Arena& arena) : arena_(arena) {
  ByteSet all;
  for (unsigned b = 0x20; b < 0x7F; ++b)
    if (b != '"' && b != '\\') all.add(static_cast<u8>(b));
  of_.fill(all);
  Json* json = Json::of(arena).used() ? &Json::of(arena) : nullptr;
  std::unordered_set<u32> sets, raw, edges;
  std::vector<ByteSet> leaves;
  for (u32 i = 0; i < arena.finalized_count(); ++i) {
    const Node& n = std::as_const(arena).node(Id{i});
    both_ways_ = both_ways_ || !only_adds(n.kind);
    switch (n.kind) {
      case Kind::Class:
        if (sets.insert(n.a).second) leaves.push_back(ascii(*arena.charset_ptr(n.a)));
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
      case Kind::Members: both_ways_ = both_ways_ || json->table(json->state(members_state(n)).table).vote; break;
      default: break;
    }
  }
  for (const ByteSet& leaf : leaves) note(leaf, both_ways_);
  if (!json) return;
  const auto alone = [&](std::string_view characters) {
    for (char c : characters) {
      ByteSet one;
      one.add(static_cast<u8>(c));
      note(one, true);
    }
  };
  alone(kParts);
  each_name(*json, arena, [&](const std::string& name) { alone(name); });
}

void StandIns::note(const ByteSet& leaf, bool both_ways) {
  ByteSet others;
  for (int i = 0; i < 4; ++i) others.words[static_cast<std::size_t>(i)] = ~leaf.words[static_cast<std::size_t>(i)];
  for (unsigned c = 0; c < 0x80; ++c)
    if (leaf.has(static_cast<u8>(c)))
      of_[c] &= leaf;
    else if (both_ways)
      of_[c] &= others;
}

bool StandIns::replaces_before(u8 by, u8 byte, u8 next) {
  if (among(kSeparators, next)) return false;
  for (u8 one : {by, byte})
    if (among(kSeparators, one) || among(kParts, one)) return false;
  if (told_apart_before(byte, by, next) || (both_ways_ && told_apart_before(by, byte, next))) return false;
  bool named = false;
  if (Json::of(arena_).used())
    each_name(Json::of(arena_), arena_, [&](const std::string& name) {
      for (u8 one : {by, byte})
        named = named || name.find(std::string{static_cast<char>(one), static_cast<char>(next)}) != std::string::npos;
    });
  return !named;
}

// The same for all bytes of the same classes.
bool StandIns::told_apart_before(u8 byte, u8 by, u8 next) {
  const auto like = [&](u8 b) { return arena_.byte_class(b); };
  const auto [it, fresh] = apart_.try_emplace({like(byte), like(by), like(next)}, false);
  if (fresh) it->second = find_apart(byte, by, next);
  return it->second;
}

// May `next` follow where a set with `byte`, but without `by`, has read a character? A least fixed point over what may
// end in such a character. True also if this is not known.
bool StandIns::find_apart(u8 byte, u8 by, u8 next) const {
  const u32 count = arena_.finalized_count();
  std::vector<char> ends(count, 0);  // may a text of this expression end so?
  const auto apart = [&](const auto& set) { return set.has(byte) && !set.has(by); };
  bool met = false;
  const auto before = [&](Id rest) { met = met || arena_.first(rest).has(next); };
  const auto visit = [&](Id e) -> bool {
    const Node& n = arena_.node(e);
    const auto ending = [&](Id part) { return ends[index_of(part)] != 0; };
    switch (n.kind) {
      case Kind::Empty:
      case Kind::Epsilon:
      case Kind::ClassTail:
      case Kind::Token:
      case Kind::Decimal: return false;
      case Kind::Class: return arena_.charset_ptr(n.a)->contains(byte) && !arena_.charset_ptr(n.a)->contains(by);
      case Kind::Bytes: return apart(arena_.byte_set(n.a));
      case Kind::Switch: {
        bool out = false;
        for (u32 k = 0; k < Arena::edge_count(n); ++k) {
          const Edge edge = arena_.edge(n, k);
          const auto has = [&](u8 b) { return edge.low <= b && b <= edge.high; };
          const bool here = has(byte) && !has(by);
          if (here) before(edge.to);
          out = out || ending(edge.to) || (here && arena_.nullable(edge.to));
        }
        return out;
      }
      case Kind::Concat:
        if (ending(n.head())) before(n.tail());
        return ending(n.tail()) || (arena_.nullable(n.tail()) && ending(n.head()));
      case Kind::Union:
      case Kind::And: {
        const auto parts = arena_.operands(e);
        return std::any_of(parts.begin(), parts.end(), ending);
      }
      case Kind::Repeat:
        if (n.max > 1 && ending(n.body())) before(n.body());
        return ending(n.body());
      case Kind::Counted:
      case Kind::Escaped: return ending(n.body());
      case Kind::Ref: return ending(arena_.rule_body(n.a));
      case Kind::Not:
      case Kind::Members:
      case Kind::Distinct:
      case Kind::Twice:
      case Kind::Tally:
      case Kind::Item: return true;  // perhaps
      default: met = true; return true;
    }
  };
  for (bool changed = true; changed && !met;) {
    changed = false;
    for (u32 i = 0; i < count && !met; ++i)
      if (!ends[i] && visit(Id{i})) ends[i] = changed = true;
  }
  return met;
}

}  // namespace guiderail
