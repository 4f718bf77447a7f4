// Derivatives by whole characters. A byte inside a character leads to a state of its own, and an intersection of many
// conditions has as many such states as there are prefixes of characters. Read as a whole, a character beyond ASCII
// costs one derivative, and all characters of an atom share it. Each condition memoises its own derivatives: RFC 5892
// has forty conditions with a few states each, while their product has thousands.
//
// derive(e, atom) equals Arena::derive by the bytes of a character, one after the other. For Booleans, this follows
// from their laws. For a concatenation, it holds if the tail cannot begin inside a character, so that no match is split
// there. Where that is unknown, the bytes are read one by one.
#include "expr/characters.hpp"

#include <algorithm>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/caps.hpp"
#include "expr/kinds.hpp"

namespace guiderail {
namespace {
constexpr u32 kOwn = kExactStep | kExactKey | kUnknownText | kHasLook | kCapHit | kCounting;
}  // namespace

Characters& Arena::characters() {
  if (!characters_) characters_ = std::make_unique<Characters>(*this);
  return *characters_;
}

CharacterAtoms& Characters::all() {
  if (!atoms_) atoms_.emplace(std::span(arena_.charsets_.data(), arena_.finalized_sets_), arena_.literal_chars_);
  return *atoms_;
}

std::size_t Characters::memory() const {
  return sizeof *this + (atoms_ ? atoms_->memory() : 0) + (sets_ ? bytes_of(*sets_) : 0) + derived_.memory() +
         steps_.memory() + bytes_of(texts_);
}

const std::vector<CharSet::Ptr>& Characters::atoms() {
  if (sets_) return *sets_;
  const CharacterAtoms& atoms = all();
  const bool few =
      atoms.usable() && atoms.edges() < kAtomRanges && atoms.single() < kFewAtoms && atoms.count() <= kFewAtoms;
  return sets_.emplace(few ? atoms.sets() : std::vector<CharSet::Ptr>());
}

// Do all matches, at least at their beginning, consist of whole characters? `left`: how many parts may still be
// examined.
bool Characters::reads_text(Id e, int& left) {
  for (;;) {
    if (--left < 0) return false;
    const Node& n = arena_.node(e);
    switch (n.kind) {
      case Kind::Empty:
      case Kind::Epsilon:
      case Kind::Class:
      case Kind::ClassTail:
      case Kind::Switch: return true;
      case Kind::Repeat: e = n.body(); continue;
      case Kind::Concat:
        if (arena_.nullable(n.head()) && !reads_text(n.tail(), left)) return false;
        e = n.head();
        continue;
      case Kind::Union: {  // many states share one
        auto known = texts_.find(e);
        if (known == texts_.end()) {
          int rest = left;
          const Ids members(arena_.operands(e));
          const bool reads = std::ranges::all_of(members, [&](Id m) { return reads_text(m, rest); });
          if (rest < 0) {  // unknown
            left = -1;
            return false;
          }
          known = texts_.emplace(e, Text{left - rest, reads}).first;
        }
        left -= known->second.parts;
        return left >= 0 && known->second.reads;
      }
      case Kind::And: {
        for (Id m : arena_.operands(e))
          if (reads_text(m, left)) return true;
        return false;
      }
      default: {
        const Family* family = arena_.family_of(n.kind);
        if (!family || (e = family->spelled(e)) == kUnknown) return false;
      }
    }
  }
}

// Is an intersection read next?
bool Characters::meets_conditions(Id e, int& left) const {
  for (;;) {
    if (--left < 0 || !arena_.has(e, kSearch)) return false;
    const Node& n = arena_.node(e);
    switch (n.kind) {
      case Kind::And: return true;
      case Kind::Repeat: e = n.body(); continue;
      case Kind::Concat:
        if (meets_conditions(n.head(), left)) return true;
        if (!arena_.nullable(n.head())) return false;
        e = n.tail();
        continue;
      case Kind::Union: {
        for (Id m : arena_.operands(e))
          if (meets_conditions(m, left)) return true;
        return false;
      }
      default: {
        const Family* family = arena_.family_of(n.kind);
        if (!family || (e = family->spelled(e)) == kUnknown) return false;
      }
    }
  }
}

bool Characters::find_read(Id e) {
  int left = kCharacterParts;
  const bool fits =
      !arena_.has(e, kOwn) && all().usable() && meets_conditions(e, left) && reads_text(e, left) && !begins_inside(e);
  arena_.node(e).flags.fetch_or(kCharactersKnown | (fits ? u32{kByCharacters} : 0u), std::memory_order_relaxed);
  return fits;
}

Id Characters::derive_bytes(Id e, std::string_view bytes) {
  for (char b : bytes)
    if (e != kEmpty) e = arena_.derive(e, static_cast<u8>(b));
  return e;
}

Id Characters::derive(Id e, u32 atom, std::string_view bytes) {
  const Node& n = arena_.node(e);
  if (n.first != kNone && !arena_.firsts_[n.first].has(static_cast<u8>(bytes[0]))) return kEmpty;
  if (n.kind == Kind::Class) {  // an atom lies within the set, or outside it
    Work::spend();
    return arena_.charset_ptr(n.a)->contains(atoms_->sample(atom)) ? kEpsilon : kEmpty;
  }
  if (n.kind == Kind::Repeat) return derive_fresh(e, atom, bytes);
  const u64 key = u64{index_of(e)} << 16 | atom;
  if (const Id* known = derived_.find(key)) {
    Work::spend();
    return *known;
  }
  arena_.make_room();
  const Id out = derive_fresh(e, atom, bytes);
  derived_.set(key, out, arena_.memo_limit());
  return out;
}

Id Characters::derive_fresh(Id e, u32 atom, std::string_view bytes) {
  Work::spend();
  const Node& n = arena_.node(e);
  switch (n.kind) {
    case Kind::Union: {
      Ids members(arena_.operands(e)), parts;
      for (Id m : members)
        if (const Id d = derive(m, atom, bytes); d != kEmpty) parts.push_back(d);
      return parts.size() == 1 ? parts[0] : arena_.unite(parts);
    }
    case Kind::And: {
      bool grouped = false;
      Ids members = arena_.conditions(e, grouped);
      for (Id& m : members)
        if ((m = derive(m, atom, bytes)) == kEmpty) return kEmpty;
      return grouped ? arena_.memoised(Kind::And, members)
                     : arena_.intersect(members, arena_.has(e, kHasRef | kHasToken));
    }
    case Kind::Not: return arena_.negate(derive(n.body(), atom, bytes));
    case Kind::Concat: {
      const Id head = n.head(), tail = n.tail();
      if (begins_inside(tail)) break;
      const Id read = derive(head, atom, bytes);
      const Id here = read == kEmpty ? kEmpty : arena_.concat(read, tail);
      if (!arena_.nullable(head)) return here;
      const Id past = derive(tail, atom, bytes);
      return past == kEmpty ? here : here == kEmpty ? past : arena_.unite(here, past);
    }
    case Kind::Repeat: {
      if (n.max == 0 || begins_inside(n.body())) break;
      const Id read = derive(n.body(), atom, bytes);
      return read == kEmpty ? kEmpty : arena_.concat(read, arena_.repeat_less(e));
    }
    default: {
      Family* family = arena_.family_of(n.kind);
      const Id text = family ? family->spelled(e) : kUnknown;
      if (text == kUnknown) break;
      const Id read = derive(text, atom, bytes);
      return read == kEmpty ? kEmpty : family->respell(e, read);
    }
  }
  return derive_bytes(e, bytes);
}

Id Characters::step(Id e, u32 character) { return step_atom(e, atoms_->of(character)); }

Id Characters::after(Id e, u32 character) {
  const u32 atom = atoms_->of(character);
  return derive(e, atom, utf8(atoms_->sample(atom)));
}

Id Characters::step_atom(Id e, u32 atom) {
  const u64 key = u64{index_of(e)} << 16 | atom;
  if (const Id* known = steps_.find(key)) return *known;
  arena_.make_room();
  const std::string bytes = utf8(atoms_->sample(atom));
  const CapWatch watch(arena_);
  const Id next = arena_.settle_step(derive(e, atom, bytes));
  if (watch.hit()) return kEmpty;
  steps_.set(key, next, arena_.memo_limit());
  return next;
}

// May one of these characters follow?
bool Characters::may_follow(Id e, u32 low, u32 high) {
  const std::vector<u32>& atoms = atoms_->within(low, high);  // stays valid during other calls
  for (u32 atom : atoms)
    if (step_atom(e, atom) != kEmpty) return true;
  return false;
}

}  // namespace guiderail
