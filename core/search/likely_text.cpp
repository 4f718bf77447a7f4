// A text as one would begin to write it, read off an expression: what is declared, in order, as briefly as possible.
#include "search/likely_text.hpp"

#include "base/thresholds.hpp"
#include "json/json.hpp"

namespace guiderail {
namespace {

// The ASCII character that one would write; 0: none.
u8 plain_of(const ByteSet& set) {
  for (auto [from, to] : {std::pair{'a', 'z'}, {'0', '9'}, {'A', 'Z'}, {' ', '~'}})
    for (int c = from; c <= to; ++c)
      if (set.has(static_cast<u8>(c))) return static_cast<u8>(c);
  return 0;
}
// Does it begin a part of a number: a sign, a fraction, an exponent?
bool of_number(const ByteSet& first) {
  static const ByteSet beginnings = [] {
    ByteSet set;
    for (const char c : std::string_view("+-.eE")) set.add(static_cast<u8>(c));
    return set;
  }();
  return beginnings.contains(first);
}
}  // namespace

// Appends to `to.text`. This is a guess, made in one pass over the structure, without a search: the reader must stop
// where it cannot continue. False: what comes next is unknown, or the text is long enough.
bool likely_text(Arena& arena, Id e, Likely& to, int depth) {
  if (to.text.size() >= to.limit || to.work == 0 || depth > kMostRuleDepth) return false;
  --to.work;
  const Node& n = arena.node(e);
  switch (n.kind) {
    case Kind::Epsilon:
    case Kind::Ahead:
    case Kind::Behind: return true;
    case Kind::Class:
    case Kind::Bytes: {
      const u8 c = plain_of(arena.first(e));
      if (c) to.text.push_back(static_cast<char>(c));
      return c != 0;
    }
    case Kind::Switch:
      for (; arena.node(e).kind == Kind::Switch && to.text.size() < to.limit; e = arena.edge(arena.node(e), 0).to)
        to.text.push_back(static_cast<char>(arena.edge(arena.node(e), 0).low));
      return likely_text(arena, e, to, depth);
    case Kind::Concat:
      for (; arena.node(e).kind == Kind::Concat; e = arena.node(e).tail())
        if (!likely_text(arena, arena.node(e).head(), to, depth)) return false;
      return likely_text(arena, e, to, depth);
    case Kind::Union:
    case Kind::And: {
      Id some = kEmpty;
      for (Id part : arena.operands(e))
        if (some == kEmpty && part != kEpsilon) some = part;
      return likely_text(arena, some, to, depth + 1);
    }
    case Kind::Repeat: {  // writes optional parts, except in numbers; does not continue lists
      const u32 count = n.max == 1 && !of_number(arena.first(n.body())) ? 1 : n.min;
      for (u32 i = 0; i < count; ++i)
        if (!likely_text(arena, n.body(), to, depth + 1)) return false;
      return true;
    }
    case Kind::Ref: return likely_text(arena, arena.rule_body(n.a), to, depth + 1);
    case Kind::Scope:
    case Kind::Counted:
    case Kind::Distinct:
    case Kind::Item: return likely_text(arena, n.body(), to, depth + 1);
    case Kind::Escaped: {
      Likely inner{to.limit - to.text.size(), to.work};
      const bool whole = likely_text(arena, escaped_text(n), inner, depth + 1);
      to.text += json_spelling(inner.text);
      to.work = inner.work;
      return whole;
    }
    case Kind::Members: {
      Json& json = Json::of(arena);
      const u32 state = members_state(n);
      const MemberTable& table = json.table(json.state(state).table);
      bool more = false;
      for (u32 i = 0; i < table.names.size(); ++i) {
        if (!json.name_allowed(state, i)) continue;
        if (std::exchange(more, true) && !likely_text(arena, table.comma, to, depth)) return false;
        to.text += '"' + json_spelling(table.names[i]) + '"';
        if (!likely_text(arena, table.colon, to, depth) ||
            !likely_text(arena, table.values[i].front().value, to, depth + 1))
          return false;
      }
      return more || arena.nullable(e);
    }
    default: return false;
  }
}

}  // namespace guiderail
