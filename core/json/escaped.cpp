// Escaped(e, at): the inside of a JSON string whose decoded text matches e. Constraints apply to decoded texts: only
// this file knows that a line feed is spelled \n.
#include "json/escaped.hpp"

#include "base/thresholds.hpp"

namespace guiderail {

// -- the expression --
Id Escaped::escaped(Id e, Escapes mode) {
  if (has(e, kHasToken)) throw Error("not-regular", "the text of a string cannot hold special tokens");
  if (has(e, kHasLook)) throw Error("look-outside-scope", "a look-around must stand inside a scope within the string");
  return escaped_at(e, kBetween, mode);
}

Id Escaped::escaped_at(Id e, EscapeAt at, Escapes mode) {
  if (e == kEmpty || (e == kEpsilon && at == kBetween)) return e;
  const Node& n = node(e);
  Draft d = draft(Kind::Escaped);
  d.a = index_of(e);
  d.b = at;
  d.min = static_cast<u32>(mode);
  absorb(d, e, true);
  if (at != kBetween) d.flags |= kSearch;
  if (at == kBetween && has(e, kNullable)) d.flags |= kNullable;
  d.shortest = at == kBetween ? n.shortest : add_sat(n.shortest, escape_left(at)) - (n.shortest > 0 ? 1 : 0);
  d.longest = at == kBetween ? mul_sat(n.longest, 12) : kInf;
  made_ = true;
  Id out = intern(d);
  return has(out, kDead) ? kEmpty : out;
}

Id Escaped::derivative(Id e, u8 byte) {
  const Id inner = escaped_text(node(e));
  const Escapes mode = escapes_of(node(e));
  const Unescaped read = unescape(escaped_place(node(e)), byte, mode);
  switch (read.what) {
    case Unescaped::Refused: return has(inner, kUnknownText) && byte == '"' ? unknown() : kEmpty;  // may it end here?
    case Unescaped::Inside: return escaped_at(inner, read.at, mode);
    case Unescaped::Raw: return escaped_at(step_text(inner, byte), kBetween, mode);
    case Unescaped::Character: break;
  }
  return escaped_at(after(inner, read.character), kBetween, mode);
}

Id Escaped::after(Id text, u32 character) {
  for (char c : utf8(character)) text = text == kEmpty ? kEmpty : derive(text, static_cast<u8>(c));
  return text;
}

Escaped::Life Escaped::live_escaped(Id e, EscapeAt at, Escapes mode) {
  const auto life = [this](Id of) {
    return of == kEmpty || !live(of) ? Life::No : has(of, kUnknownText) ? Life::Unknown : Life::Yes;
  };
  if (at == kBetween || !live(e)) return life(e);
  ByteSet middle;  // bytes that continue a character: an escape cannot begin within one
  middle.add_range(0x80, 0xBF);
  ByteSet both = first(e);
  const int all = both.count();
  both &= middle;
  if (both.count() == all) return Life::No;
  const CharSet::Ptr range = escape_range(at, mode);
  if (range->size() > kFewEscaped) {
    const Id begin = concat(char_class(range), any_text());
    return life(intersect(std::array{e, begin}, has(e, kHasRef)));
  }
  // One by one: what each leads to is needed anyway once it is read, and an intersection would be found out anew.
  Life out = Life::No;
  for (auto it = range->ranges().rbegin(); it != range->ranges().rend(); ++it)
    for (u32 c = it->second + 1; c-- > it->first;) {
      const Life next = life(after(e, c));
      if (next == Life::Yes) return next;
      if (next == Life::Unknown) out = next;
    }
  return out;
}

ByteSet Escaped::first_bytes(Id e) {
  const Node& n = node(e);
  ByteSet out = first_escaped(first(escaped_text(n)), escaped_place(n), escapes_of(n));
  if (has(escaped_text(n), kUnknownText)) out.add('"');
  return out;
}

Id Escaped::live_as(Id e) {
  const Node& n = node(e);
  const Life life = live_escaped(escaped_text(n), escaped_place(n), escapes_of(n));
  const u32 found = life == Life::No ? u32{kDead} : life == Life::Unknown ? u32{kUnknownText} : 0u;
  node(e).flags.fetch_or(kLiveKnown | found, std::memory_order_relaxed);
  return life == Life::No ? kEmpty : kEpsilon;
}

// spellings of X | spellings of Y = spellings of X | Y
bool Escaped::join(Ids& parts) {
  bool joined = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Node& n = node(parts[i]);
    if (n.kind != Kind::Escaped) continue;
    Ids inner{escaped_text(n)};
    const EscapeAt at = escaped_place(n);
    const Escapes mode = escapes_of(n);
    for (std::size_t k = parts.size(); --k > i;) {
      const Node& o = node(parts[k]);
      if (o.kind != Kind::Escaped || escaped_place(o) != at || escapes_of(o) != mode) continue;
      inner.push_back(escaped_text(o));
      parts.erase(k);
    }
    if (inner.size() == 1) continue;
    parts[i] = escaped_at(unite(inner), at, mode);
    joined = true;
  }
  return joined;
}

void Escaped::describe(Id e, Description& to) const {
  const Node& n = node(e);
  to.word(u64{escaped_place(n)} << 32 | static_cast<u32>(escapes_of(n)));
  to.part(escaped_text(n));
}

std::vector<DumpItem> Escaped::dump(Id e) const {
  const Node& n = node(e);
  return {{is_escaped(n) ? "escaped(" : "escaped(\\...: "}, {"", escaped_text(n)}, {")"}};
}

void Escaped::productive(Id e, const std::vector<char>& known, bool& nullable, bool& productive) const {
  const Node& n = node(e);
  if (!is_escaped(n)) {  // inside an escape: made by a search, not by users
    productive = true;
    return;
  }
  nullable = nullable || has(escaped_text(n), kNullable);
  productive = known[index_of(escaped_text(n))];
}

void Escaped::split_spellings(ByteSet& starts) {
  for (char c : std::string_view("\"\\/bfnrtu0123456789abcdefABCDEF")) alone(starts, static_cast<u8>(c));
  for (char c : std::string_view("0A_a")) starts.add(static_cast<u8>(c));  // ends of words: see elision.cpp
  for (char c : std::string_view("9Z_z")) starts.add(static_cast<u8>(c + 1));
  starts.add(0x20);
  starts.add(0x80);
}

}  // namespace guiderail
