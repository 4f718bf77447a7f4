// Formulas over cells (Vote): what is known of their parts once some cells have failed.
#pragma once

#include "expr/kinds.hpp"
#include "json/members.hpp"

namespace guiderail {

void describe(const Vote& vote, Description& to);
VoteUses vote_uses(const MemberTable& table);
// Can members follow, so that the formula holds? `available`: how many more keys of each kind there are.
bool completable(const MemberTable& table, const MemberState& state, u64 fuel, const std::vector<u32>& available);

inline bool meet(const Bits& a, const Bits& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] & b[i]) return true;
  return false;
}

enum Truth : u8 { False, True, Open };

// The truth of a part, given how many of its parts hold and do not.
inline Truth truth_of(const Vote::Part& part, u32 yes, u32 no) {
  const std::size_t all = part.of.size();
  switch (part.op) {
    case Vote::Op::All: return no > 0 ? False : yes == all ? True : Open;
    case Vote::Op::Any: return yes > 0 ? True : no == all ? False : Open;
    case Vote::Op::Not: return no > 0 ? True : yes > 0 ? False : Open;
    case Vote::Op::One: return yes > 1 ? False : yes + no < all ? Open : yes == 1 ? True : False;
    case Vote::Op::Cell: break;
  }
  return Open;
}

// The truth of each part, given that of the cells.
template <class Cell>
std::vector<u8> truths(const Vote& vote, Cell cell) {
  std::vector<u8> out(vote.parts.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Vote::Part& part = vote.parts[i];
    u32 yes = 0, no = 0;
    if (part.op == Vote::Op::Cell) {
      out[i] = cell(part.of[0]);
      continue;
    }
    for (u32 p : part.of) {
      yes += out[p] == True;
      no += out[p] == False;
    }
    out[i] = truth_of(part, yes, no);
  }
  return out;
}

// Marks the cells that an open formula still depends on. True: the formula simply requires all of them.
inline bool mark(const Vote& vote, const std::vector<u8>& known, Bits& cells) {
  bool plain = true;
  std::vector<std::pair<u32, bool>> stack{{static_cast<u32>(vote.parts.size() - 1), true}};
  std::vector<u8> seen(vote.parts.size());
  while (!stack.empty()) {
    const auto [at, sure] = stack.back();  // sure: this part must hold
    stack.pop_back();
    if (seen[at] & (sure ? 2 : 1)) continue;
    seen[at] |= sure ? 2 : 1;
    const Vote::Part& part = vote.parts[at];
    if (part.op == Vote::Op::Cell) {
      set_bit(cells, part.of[0]);
      plain = plain && sure;
      continue;
    }
    u32 open = 0, yes = 0;
    for (u32 p : part.of) {
      open += known[p] == Open;
      yes += known[p] == True;
    }
    const bool same = part.op == Vote::Op::All || (part.op == Vote::Op::Any && open == 1) ||
                      (part.op == Vote::Op::One && open == 1 && yes == 0);
    for (u32 p : part.of)
      if (known[p] == Open) stack.push_back({p, sure && same});
  }
  return plain;
}

}  // namespace guiderail
