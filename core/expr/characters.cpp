// Derivatives by whole characters. A byte inside a character leads to a state of its own, and an intersection of many
// conditions has as many such states as there are beginnings of characters. Read as one, a character beyond ASCII costs
// one derivative, and all characters of an atom cost one together. Each condition remembers its own: those of RFC 5892
// are forty, with a few states each, while their product has thousands.
//
// derive_char(e, c) is derive() by the bytes of c, one after the other: for Booleans by their laws; for a
// concatenation because nothing is split inside a character where its tail cannot begin there. Where that is not
// known, the bytes are read one by one.
#include "base/work.hpp"
#include "expr/expression.hpp"
#include "text/character_atoms.hpp"

namespace guiderail {
namespace {
constexpr int kMostParts = 256;  // that are looked at

// Are all matches, or what they begin with, whole characters? `left`: parts that may still be looked at.
bool reads_text(const Arena& arena, Id e, int& left) {
  for (;;) {
    if (--left < 0) return false;
    const Node& n = arena.node(e);
    switch (n.kind) {
      case Kind::Empty:
      case Kind::Epsilon:
      case Kind::Class:
      case Kind::ClassTail:
      case Kind::Switch: return true;
      case Kind::Repeat: e = n.a; continue;
      case Kind::Concat:
        if (arena.nullable(n.a) && !reads_text(arena, n.b, left)) return false;
        e = n.a;
        continue;
      case Kind::Escaped:
        if (n.b != kBetween) return false;
        e = n.a;
        continue;
      case Kind::Union: {
        for (Id m : arena.operands(e))
          if (!reads_text(arena, m, left)) return false;
        return true;
      }
      case Kind::And: {
        for (Id m : arena.operands(e))
          if (reads_text(arena, m, left)) return true;
        return false;
      }
      default: return false;
    }
  }
}

// Is what is read next an intersection?
bool meets_conditions(const Arena& arena, Id e, int& left) {
  for (;;) {
    if (--left < 0 || !arena.has(e, kSearch)) return false;
    const Node& n = arena.node(e);
    switch (n.kind) {
      case Kind::And: return true;
      case Kind::Repeat: e = n.a; continue;
      case Kind::Concat:
        if (meets_conditions(arena, n.a, left)) return true;
        if (!arena.nullable(n.a)) return false;
        e = n.b;
        continue;
      case Kind::Escaped:
        if (n.b != kBetween) return false;
        e = n.a;
        continue;
      case Kind::Union: {
        for (Id m : arena.operands(e))
          if (meets_conditions(arena, m, left)) return true;
        return false;
      }
      default: return false;
    }
  }
}
}  // namespace

struct CharacterParts {
  CharacterAtoms atoms;
  AgingMap derived, steps;  // expression, atom -> derivative; the same of a state, kEmpty where that is dead
  AgingMap fit;             // states -> whether they are read so
};

void Arena::CharacterPartsDelete::operator()(CharacterParts* parts) const { delete parts; }

CharacterParts& Arena::characters() {
  if (!characters_)
    characters_.reset(
        new CharacterParts{CharacterAtoms({charsets_.data(), finalized_sets_}, literal_chars_), {}, {}, {}});
  return *characters_;
}

std::size_t Arena::characters_memory() const {
  return characters_ ? sizeof(CharacterParts) + characters_->atoms.memory() + characters_->derived.memory() +
                           characters_->steps.memory() + characters_->fit.memory()
                     : 0;
}

const std::vector<CharSet::Ptr>& Arena::atoms() {
  constexpr std::size_t kMostRanges = 20'000, kMostAtoms = 64;
  if (atoms_) return *atoms_;
  const CharacterAtoms& all = characters().atoms;
  const bool few = all.usable() && all.edges() < kMostRanges && all.single() < kMostAtoms && all.count() <= kMostAtoms;
  return atoms_.emplace(few ? all.sets() : std::vector<CharSet::Ptr>());
}

bool Arena::reads_characters(Id e) {
  if (raw_bytes_ || !finalized_ || lex_ || !has(e, kSearch)) return false;
  if (has(e, kExactStep | kExactKey | kUnknownText | kHasLook | kCapHit | kCounting)) return false;
  CharacterParts& parts = characters();
  if (!parts.atoms.usable()) return false;
  if (const u32* known = parts.fit.find(e)) return *known;
  int left = kMostParts;
  const bool fits = meets_conditions(*this, e, left) && reads_text(*this, e, left);
  parts.fit.set(e, fits, memo_limit());
  return fits;
}

Id Arena::derive_bytes(Id e, std::string_view bytes) {
  for (char b : bytes)
    if (e != kEmpty) e = derive(e, static_cast<u8>(b));
  return e;
}

Id Arena::derive_char(Id e, u32 atom, std::string_view bytes) {
  const Node& n = node(e);
  if (n.first != kUnknown && !firsts_[n.first].has(static_cast<u8>(bytes[0]))) return kEmpty;
  if (n.kind == Kind::Class) {  // all characters of an atom are of the set, or none
    Work::spend();
    return charsets_[n.a]->contains(characters_->atoms.sample(atom)) ? kEpsilon : kEmpty;
  }
  if (n.kind == Kind::Repeat) return derive_char_fresh(e, atom, bytes);
  const u64 key = u64{e} << 16 | atom;
  if (const u32* known = characters_->derived.find(key)) {
    Work::spend();
    return *known;
  }
  make_room();
  const Id out = derive_char_fresh(e, atom, bytes);
  characters_->derived.set(key, out, memo_limit());
  return out;
}

Id Arena::derive_char_fresh(Id e, u32 atom, std::string_view bytes) {
  Work::spend();
  const Node& n = node(e);
  auto splits = [&](Id after) { return (first(after).words[2]) != 0; };  // 0x80 to 0xBF: inside a character
  switch (n.kind) {
    case Kind::Union: {
      Ids members(operands(e)), parts;
      for (Id m : members)
        if (const Id d = derive_char(m, atom, bytes); d != kEmpty) parts.push_back(d);
      return parts.size() == 1 ? parts[0] : unite(parts);
    }
    case Kind::And: {
      bool grouped = false;
      Ids members = conditions(e, grouped);
      for (Id& m : members)
        if ((m = derive_char(m, atom, bytes)) == kEmpty) return kEmpty;
      return grouped ? intersect_memoised(members) : intersect(members, has(e, kHasRef | kHasToken));
    }
    case Kind::Not: return negate(derive_char(n.a, atom, bytes));
    case Kind::Concat: {
      const Id head = n.a, tail = n.b;
      if (splits(tail)) break;
      const Id read = derive_char(head, atom, bytes);
      const Id here = read == kEmpty ? kEmpty : concat(read, tail);
      if (!nullable(head)) return here;
      const Id past = derive_char(tail, atom, bytes);
      return past == kEmpty ? here : here == kEmpty ? past : unite(here, past);
    }
    case Kind::Repeat: {
      if (n.max == 0 || splits(n.a)) break;
      const Id read = derive_char(n.a, atom, bytes);
      return read == kEmpty ? kEmpty : concat(read, repeat_less(e));
    }
    case Kind::Escaped: {  // a character beyond ASCII is written as it is
      if (n.b != kBetween) break;
      const Escapes mode = static_cast<Escapes>(n.min);
      const Id inner = derive_char(n.a, atom, bytes);
      return inner == kEmpty ? kEmpty : escaped_at(inner, kBetween, mode);
    }
    default: break;
  }
  return derive_bytes(e, bytes);
}

// The state after a character beyond ASCII, kEmpty if it is dead; of states that reads_characters() says yes to.
Id Arena::step_char(Id e, u32 character) { return step_atom(e, characters_->atoms.of(character)); }

Id Arena::step_atom(Id e, u32 atom) {
  const u64 key = u64{e} << 16 | atom;
  if (const u32* known = characters_->steps.find(key)) return *known;
  make_room();
  const std::string bytes = utf8(characters_->atoms.sample(atom));
  const Id next = settle_step(derive_char(e, atom, bytes));
  if (next == kUnknown) return kEmpty;
  characters_->steps.set(key, next, memo_limit());
  return next;
}

// May one of these characters follow?
bool Arena::may_follow(Id e, u32 low, u32 high) {
  const std::vector<u32>& atoms = characters_->atoms.within(low, high);  // stays, whoever asks meanwhile
  for (u32 atom : atoms)
    if (step_atom(e, atom) != kEmpty) return true;
  return false;
}

}  // namespace guiderail
