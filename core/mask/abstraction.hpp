// States that a token cannot tell apart get the same form, and so the same mask.
#pragma once

#include <unordered_map>

#include "captures/captures.hpp"
#include "json/json.hpp"
#include "lexed/lexing.hpp"

namespace guiderail {

// All functions require: mutex held.
class Abstraction final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Elided};
  explicit Abstraction(Arena& arena)
      : Family(arena),
        json_(Json::of(arena)),
        escaped_(Escaped::of(arena)),
        lexed_(Lexed::of(arena)),
        captures_(Captures::of(arena)) {}
  static Abstraction& of(Arena& arena) { return arena.family<Abstraction>(); }

  // -- counters and texts (near_form.cpp) --
  Id near_form(Id e, u32 horizon);  // matches the same texts up to `horizon` bytes; its bounds are capped
  // R & C{m,n} without the bound n, where R excludes words; kEmpty: e is none, or the bound is near. A text of at most
  // `horizon` characters can be completed if it can without the bound.
  Id unbounded(Id e, u32 horizon);
  // -- lengths (lengths.cpp) --
  // A text between two characters as another one, of `least` to `most` characters. What can be completed without these
  // lengths can be completed within them, as long as `ending` characters are left.
  struct Uncounted {
    Id text;
    u32 least, most;
    u32 ending;
  };
  bool uncounted(Id e, Uncounted& out);
  // An expression as another one, of which only texts are left that begin with at most `most` characters of a class.
  // What can be completed without this limit can be completed within it, as long as `ending` characters are left.
  struct Run {
    Id text;
    u32 chars;  // an index of charset(); ASCII
    u32 most, ending;
  };
  bool open_run(Id e, Run& out);
  // e with the texts of keys, items and groups in progress forgotten. Then it is unknown whether one is a repetition:
  // what depends on that has the flag kUnknownText.
  Id without_texts(Id e);
  // The same, and all keys and items written before are forgotten, too, anywhere in e: what completes the result
  // completes e. `known` is a memo.
  Id without_values(Id e, std::unordered_map<Id, Id>& known);
  // e with the counters of groups capped at `most`: equal to e as long as no cap is reached. Reading past a cap sets
  // cap_hit() and yields kEmpty; then no result is valid.
  Id cap_groups(Id e, u32 most);

  // -- what a token hardly reaches (elision.cpp) --
  static constexpr u32 kWholeStack = 7, kAfterObject = 6;  // numbers of parts kept
  // Leaves out what follows the first object of a stack, as far as tokens seldom reach it. What depends on it has the
  // flag kUnknownText.
  Id elide_stack(Id e, u32 left = kWholeStack);
  Id list_alone(Id e);  // a list of distinct values without earlier values and later text; kEmpty: e is none
  Id key_as_string(const KeyApart& key, bool longer = false);

  // -- interface of Family, for Elided --
  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override;
  void describe(Id e, Description& to) const override;
  std::vector<DumpItem> dump(Id) const override { return {{"..."}}; }
  void fresh(Arena& to) const override { Abstraction::of(to); }
  void count(Tally& to) const override;

 private:
  static constexpr u32 kBeginning = 2;  // bytes of the next item that a token may read: `{"`
  static constexpr int kMostBeginnings = 4;
  static constexpr std::size_t kMostTold = 1u << 15;  // expressions of words to forbid, some milliseconds
  bool only_characters(Id e);
  struct Excluding {
    Ids members{};
    std::size_t counted = 0;  // which of them is C{m,n}
    Id begun = kEpsilon;      // the rest of a character of C in progress
    Id body = kEmpty;         // C
    u32 min = 0, max = 0;
    bool closed = true;  // texts of R begin with texts of R
  };
  bool excluding(Id e, Excluding& out);
  bool matches_all(Id e, Id text);
  bool extends(Id e, Id text);
  bool ascii_read(Id e, Id text, ByteSet& read);
  ByteSet common_ascii(Id e);
  bool never_ends(std::span<const Id> members, Id text, const ByteSet& free);
  bool never_ends(const Excluding& of);
  Id with_count(const Excluding& of, u32 min);
  bool counted_class(Id e) const;
  template <class Skip, class F>
  bool each_leaf(Id e, Skip skip, F f);
  bool reads_only(Id e, u32 chars);
  struct Span {
    u32 least, most;
  };
  Span lengths_of(Id e);
  u32 any_length_from(Id e);
  u32 any_length_of_all(Id e);
  Uncounted without_lengths(Id e);
  bool hinges_on_text(Id e);
  u32 slack(Id e);            // at most how many characters complete a match from any state reachable from e
  Id elided(u32 begins = 0);  // 0: with anything
  Id elided_before(const ByteSet& begins);
  ByteSet first_elided(u32 begins, u32 set);
  Id elide_key(const MemberState& state, bool others);
  Id elide_members(Id e);
  Id elide_part(Id e);
  Id after_other(const KeyApart& key, u32 which);
  bool begins_endless_string(Id e);
  Id endless_beginning(Id e, u32 most = kBeginning);
  Id elide_items(Id e);
  Id item_alone(Id body, u32 seen);

  Json& json_;
  Escaped& escaped_;
  Lexed& lexed_;
  Captures& captures_;
  std::unordered_map<Id, u32> slack_memo_;
  std::unordered_map<Id, bool> characters_memo_;  // see only_characters()
  std::unordered_map<u64, Id> cap_memo_;
  std::unordered_map<Id, Span> lengths_memo_;
  std::unordered_map<Id, u32> any_length_memo_;
  std::unordered_map<u64, bool> reads_memo_;  // by expression and characters
  FlatMap<Id> elided_memo_, key_memo_, after_memo_;
};

}  // namespace guiderail
