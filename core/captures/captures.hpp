// Groups whose text is needed again (see captures.cpp).
#pragma once

#include <deque>

#include "base/flat_map.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

class Captures final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Capture, Kind::Recall};
  using Family::Family;
  static Captures& of(Arena& arena) { return arena.family<Captures>(); }

  Id recall(u32 label);
  Id capture(u32 label, Id group, Id rest);
  // A Capture or Recall without its text, for which `unknown` stands.
  Id without_text(Id e, Id unknown);

  bool used() const { return made_; }

  // -- interface of Family --
  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override;
  void describe(Id e, Description& to) const override;
  std::vector<DumpItem> dump(Id e) const override;
  void split_bytes(ByteSet& starts) override;
  void note_extent() override { extent_ = static_cast<u32>(texts_.size()); }
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  struct Text {  // by its number; 0: the empty text
    u32 before = 0;
    u32 characters = 0;
    u8 first = 0, last = 0;
  };
  u32 with(u32 text, u8 byte);
  std::string spelled_out(u32 text) const;
  Id recalled(u32 text);
  Id captured(u32 label, Id group, u32 text, Id rest);
  Id filled(Id e, u32 label, Id text);
  u32 shortest_with(Id e, u32 label, u32 characters) const;
  bool open(Id e, std::vector<u32>& bound) const;

  std::deque<Text> texts_{Text{}};
  FlatMap<> known_;  // text << 8 | byte -> the text with it
  u32 extent_ = 1;   // texts when the arena was finalized
  bool made_ = false;
};

}  // namespace guiderail
