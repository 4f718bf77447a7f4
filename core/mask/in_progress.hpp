// Which strings, keys and items a state is in the middle of. All strategies that know about strings ask here.
#pragma once

#include <algorithm>

#include "json/json.hpp"

namespace guiderail {

struct InProgress {
  enum class What : u8 { String, Key, Item } what;
  Id e;  // the Escaped, the Key, or the Distinct that contains the item

  // C (an index of charset()) if it continues with C* and nothing else is known of it; else kNone.
  u32 endless(Arena& arena) const {
    switch (what) {
      case What::String: return arena.endless_class(escaped_text(arena.node(e)));
      case What::Key: return Json::of(arena).free_key(e);
      case What::Item: return Json::of(arena).free_item(e) ? arena.endless_class(arena.any_text()) : kNone;
    }
    return kNone;
  }
  // Of an endless one:
  Escapes escapes(Arena& arena) const {
    switch (what) {
      case What::String: return escapes_of(arena.node(e));
      case What::Key: return Json::of(arena).key_escapes(e);
      case What::Item: {
        const Id item = unstack(arena, distinct_body(arena.node(e))).head;
        return escapes_of(arena.node(arena.node(item_rest(arena.node(item))).head()));
      }
    }
    return Escapes::Canonical;
  }
};

// If a string may end here, can only its quote follow?
inline bool leaves_by_quote(Arena& arena, Id head, Id tail) {
  if (!arena.nullable(head)) return true;
  const ByteSet& first = arena.first(tail);
  return first.has('"') && first.count() == 1;
}

// Calls f for each of them until f returns false. Also false if e may be in the middle of anything else, or if a string
// may end without its quote.
// requires: mutex held
template <class F>
bool each_in_progress(Arena& arena, Id e, F&& f) {
  const Node& n = arena.node(e);
  switch (n.kind) {
    case Kind::Concat: {
      const Id head = n.head(), tail = n.tail();
      return each_in_progress(arena, head, f) && leaves_by_quote(arena, head, tail);
    }
    case Kind::Union: {
      const Ids members(arena.operands(e));
      return std::all_of(members.begin(), members.end(), [&](Id m) { return each_in_progress(arena, m, f); });
    }
    case Kind::Escaped: return is_escaped(n) && f(InProgress{InProgress::What::String, e});
    case Kind::Key: return f(InProgress{InProgress::What::Key, e});
    case Kind::Distinct: return f(InProgress{InProgress::What::Item, e});
    default: return false;
  }
}

}  // namespace guiderail
