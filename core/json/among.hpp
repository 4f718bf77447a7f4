// One of many texts: a union that grows by one alternative at a time (see among.cpp).
#pragma once

#include <deque>

#include "base/flat_map.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

class Among final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Among};
  using Family::Family;
  static Among& of(Arena& arena) { return arena.family<Among>(); }

  // A list of alternatives, by its number (0: none), with one more. `own` identifies the alternative in every arena.
  u32 with(u32 list, Id alternative, const Hash& own);
  Id any_of(u32 list);  // a plain union, if they are few

  // -- interface of Family --
  Id derivative(Id e, u8 byte) override { return any_of(derived(node(e).a, byte)); }
  ByteSet first_bytes(Id e) override { return lists_[node(e).a].first; }
  void describe(Id e, Description& to) const override { to.hash(lists_[node(e).a].identity); }
  std::vector<DumpItem> dump(Id e) const override;
  void note_extent() override { extent_ = static_cast<u32>(lists_.size()); }
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  struct List {
    u32 before = 0;  // the list without its last alternative
    Id last = kEmpty;
    u32 size = 0;
    u32 flags = 0, depth = 0, shortest = kInf, longest = 0;  // of the union
    ByteSet first;
    Hash own{}, identity{};  // of the last alternative; of all
    Id whole = kUnknown;     // see any_of()
  };
  u32 derived(u32 list, u8 byte);

  std::deque<List> lists_{List{}};
  FlatMap<> known_;    // list << 32 | alternative -> the list with it
  FlatMap<> derived_;  // list << 8 | byte -> the derivative
  u32 extent_ = 1;     // lists when the arena was finalized
};

}  // namespace guiderail
