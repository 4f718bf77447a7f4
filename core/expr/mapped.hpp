// Expressions taken apart, and with their parts replaced.
#pragma once

#include "expr/expression.hpp"

namespace guiderail {

// A Concat as its head and tail; anything else as a head before an empty tail.
inline Stack unstack(const Arena& arena, Id e) {
  const Node& n = arena.node(e);
  return n.kind == Kind::Concat ? Stack{n.head(), n.tail()} : Stack{e, kEpsilon};
}

// Applies f to each operand of a Union or And.
template <class F>
Ids mapped(const Arena& arena, Id e, F f) {
  Ids out(arena.operands(e));
  for (Id& m : out) m = f(m);
  return out;
}

// A Concat with f applied to each of its parts, from the last one on. It does not recurse along the tails, which are as
// many as the nesting is deep. A suffix without any of `flags` stays as it is.
template <class F>
Id mapped_parts(Arena& arena, Id e, u32 flags, F f) {
  const auto node = [&](Id part) -> const Node& { return std::as_const(arena).node(part); };
  Ids heads;
  for (; node(e).kind == Kind::Concat && arena.has(e, flags); e = node(e).tail()) heads.push_back(node(e).head());
  Id out = arena.has(e, flags) ? f(e) : e;
  for (std::size_t i = heads.size(); i-- > 0;) out = arena.concat(f(heads[i]), out);
  return out;
}

}  // namespace guiderail
