// Derivatives by whole characters (see characters.cpp).
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "expr/expression.hpp"
#include "text/character_atoms.hpp"
#include "text/escape.hpp"

namespace guiderail {

// requires: mutex held; the arena is finalized
class Characters {
 public:
  explicit Characters(Arena& arena) : arena_(arena) {}
  bool read(Id e) {  // is this correct and worthwhile? Not where e begins inside a character
    const u32 flags = arena_.node(e).flags.load(std::memory_order_relaxed);
    if (!(flags & kSearch) || arena_.raw_bytes_ || !arena_.finalized_ || arena_.proofs_) return false;
    return flags & kCharactersKnown ? (flags & kByCharacters) != 0 : find_read(e);
  }
  Id step(Id e, u32 character);   // beyond ASCII; kEmpty: nothing can follow. Only if read(e)
  Id after(Id e, u32 character);  // the same without asking whether anything can follow
  // Calls f(after) for the characters beyond ASCII, one of each kind, from the kind numbered `from` on, until it
  // returns false. Only if read(e).
  template <class F>
  void each(Id e, u32 from, F f) {
    for (u32 atom = from; atom < atoms_->count(); ++atom)
      if (!f(derive(e, atom, utf8(atoms_->sample(atom))))) return;
  }
  bool may_follow(Id e, u32 low, u32 high);
  // The characters beyond ASCII, in sets whose characters every expression treats alike. Empty: there are too many
  // sets.
  const std::vector<CharSet::Ptr>& atoms();
  std::size_t memory() const;

 private:
  struct Text {  // whether a union begins with whole characters, and how many of its parts were examined
    int parts;
    bool reads;
  };
  bool find_read(Id e);
  bool begins_inside(Id e) { return arena_.first(e).words[2] != 0; }  // a character: with a byte from 0x80 to 0xBF
  CharacterAtoms& all();
  bool reads_text(Id e, int& left);
  bool meets_conditions(Id e, int& left) const;
  Id derive_bytes(Id e, std::string_view bytes);
  Id derive(Id e, u32 atom, std::string_view bytes);
  Id derive_fresh(Id e, u32 atom, std::string_view bytes);
  Id step_atom(Id e, u32 atom);

  Arena& arena_;
  std::optional<CharacterAtoms> atoms_;
  std::optional<std::vector<CharSet::Ptr>> sets_;  // see atoms()
  std::unordered_map<Id, Text> texts_;
  AgingMap<Id> derived_, steps_;  // (expression, atom) -> derivative; the same for states: kEmpty if dead
};

}  // namespace guiderail
