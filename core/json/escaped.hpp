// The inside of a JSON string (see escaped.cpp).
#pragma once

#include "expr/kinds.hpp"
#include "text/escape.hpp"

namespace guiderail {

// The meaning of the numbers of an Escaped node:
inline Id escaped_text(const Node& n) { return n.body(); }  // the rest of the decoded text
inline EscapeAt escaped_place(const Node& n) { return n.b; }
inline Escapes escapes_of(const Node& n) { return static_cast<Escapes>(n.min); }
inline bool is_escaped(const Node& n) { return n.kind == Kind::Escaped && escaped_place(n) == kBetween; }

class Escaped final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Escaped};
  using Family::Family;
  static Escaped& of(Arena& arena) { return arena.family<Escaped>(); }

  Id escaped(Id text, Escapes mode);
  Id escaped_at(Id text, EscapeAt at, Escapes mode);
  // Can the escape in progress still become a character that the text can begin with? Unknown: it depends on a
  // forgotten text.
  enum class Life : u8 { No, Yes, Unknown };
  Life live_escaped(Id text, EscapeAt at, Escapes mode);
  static void split_spellings(ByteSet& starts);  // separates the bytes that spellings tell apart

  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override;
  Id spelled(Id e) const override { return is_escaped(node(e)) ? escaped_text(node(e)) : kUnknown; }
  Id respell(Id e, Id text) override { return escaped_at(text, kBetween, escapes_of(node(e))); }
  Id live_as(Id e) override;
  u32 joined_kinds() const override { return u32{1} << static_cast<u32>(Kind::Escaped); }
  bool join(Ids& parts) override;
  void describe(Id e, Description& to) const override;
  std::vector<DumpItem> dump(Id e) const override;
  void productive(Id e, const std::vector<char>& known, bool& nullable, bool& productive) const override;
  Id left_edge(Id e) const override { return escaped_text(node(e)); }
  void split_bytes(ByteSet& starts) override {
    if (made_) split_spellings(starts);
  }
  void fresh(Arena& to) const override { to.family<Escaped>().made_ = made_; }
  void count(Tally&) const override {}

 private:
  Id after(Id text, u32 character);

  bool made_ = false;  // some node exists
};

}  // namespace guiderail
