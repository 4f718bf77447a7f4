// Escaped(e, at): the inside of a JSON string whose decoded text matches e. Texts are constrained as decoded; that a
// line feed is spelled \n is this file's business and nobody else's.
#include "expr/expression.hpp"

namespace guiderail {

// -- the expression --
Id Arena::escaped(Id e, Escapes mode) {
  if (has(e, kHasToken)) throw Error("not-regular", "the text of a string cannot hold special tokens");
  if (has(e, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope within the string");
  return escaped_at(e, kBetween, mode);
}

Id Arena::escaped_at(Id e, EscapeAt at, Escapes mode) {
  if (e == kEmpty || (e == kEpsilon && at == kBetween)) return e;
  const Node& n = node(e);
  Draft d = draft(Kind::Escaped);
  d.a = e;
  d.b = at;
  d.min = static_cast<u32>(mode);
  absorb(d, e, true);
  if (at != kBetween) d.flags |= kSearch;
  if (at == kBetween && has(e, kNullable)) d.flags |= kNullable;
  d.shortest = at == kBetween ? n.shortest : 1;
  d.longest = at == kBetween ? mul_sat(n.longest, 12) : kInf;
  Id out = intern(d);
  return has(out, kDead) ? kEmpty : out;
}

Id Arena::derive_escaped(Id e, u8 byte) {
  const Id inner = node(e).a;
  const Escapes mode = static_cast<Escapes>(node(e).min);
  const Unescaped read = unescape(node(e).b, byte, mode);
  switch (read.what) {
    case Unescaped::Refused: return kEmpty;
    case Unescaped::Inside: return escaped_at(inner, read.at, mode);
    case Unescaped::Raw: return escaped_at(step_text(inner, byte), kBetween, mode);
    case Unescaped::Character: break;
  }
  Id next = inner;
  for (char c : utf8(read.character)) next = next == kEmpty ? kEmpty : derive(next, static_cast<u8>(c));
  return escaped_at(next, kBetween, mode);
}

// Can the escape that was begun still become a character that e can begin with?
bool Arena::live_escaped(Id e, EscapeAt at, Escapes mode) {
  if (at == kBetween) return live(e);
  if (!live(e)) return false;
  ByteSet middle;  // a byte that continues a character: an escape would split it
  middle.add_range(0x80, 0xBF);
  ByteSet both = first(e);
  const int all = both.count();
  both &= middle;
  if (both.count() == all) return false;
  const Id begin = concat(char_class(escape_range(at, mode)), any_text_);
  return live(intersect(std::array{e, begin}, has(e, kHasRef)));
}

}  // namespace guiderail
