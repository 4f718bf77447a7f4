// Objects, and lists of distinct values.
#pragma once

#include <deque>

#include "base/interned.hpp"
#include "json/among.hpp"
#include "json/escaped.hpp"
#include "json/members.hpp"

namespace guiderail {

// The meaning of the numbers of the nodes:
inline u32 members_state(const Node& n) { return n.a; }      // of Members
inline u32 key_state(const Node& n) { return n.a; }          // of a Key
inline Id distinct_body(const Node& n) { return n.body(); }  // of a Distinct or Twice
inline u32 distinct_seen(const Node& n) { return n.b; }
inline u32 twice_labels(const Node& n) { return n.min; }  // a bit set
inline Id item_rest(const Node& n) { return n.body(); }   // of an Item: the rest of it
inline u32 item_text(const Node& n) { return n.b; }       // the text read so far; 0: nothing
inline u32 item_facts(const Node& n) { return n.min; }
constexpr u32 kItemDense = 1;    // a string with any text
constexpr u32 kItemLeft = 2;     // a value is certainly left, whatever came before
constexpr u32 kItemEndless = 4;  // it has infinitely many values
constexpr u32 kItemFacts = 3;    // bits, followed by the label

// requires: mutex held, or no other thread knows the arena yet
class Json final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Members, Kind::Key, Kind::Distinct, Kind::Twice, Kind::Item};
  static constexpr u32 kItemLabels = 32;
  explicit Json(Arena& arena) : Family(arena), escaped_(Escaped::of(arena)), among_(Among::of(arena)) {}
  static Json& of(Arena& arena) { return arena.family<Json>(); }
  bool used() const { return used_; }  // there are objects or lists with a memory; needs no mutex
  void use() { used_ = true; }

  // -- construction --
  Id members(MemberTable table);
  // left: 1 if a value is certainly left, whatever came before; 2 if there are infinitely many
  Id item(Id e, u32 left, u32 label = 0);
  Id distinct(Id body);
  Id twice(Id body);
  std::optional<u32> plain_members(Id e) const;  // the table of e, if e is an object without members yet

  // -- states --
  const MemberTable& table(u32 id) const { return tables_[id]; }
  const MemberState& state(u32 id) const { return member_states_.values[id]; }
  const KeyState& key(u32 id) const { return key_states_.values[id]; }
  const SeenState& seen_state(u32 id) const { return seen_states_.values[id]; }
  const std::string& text_of(u32 text);  // of another key written before
  u32 seen_count(const MemberState& state) const { return sets_.size(state.seen); }
  u32 seen_count(const Node& distinct) const { return sets_.size(seen_state(distinct_seen(distinct)).texts); }
  u32 seen_text(const MemberState& state, u32 index) const { return sets_.at(state.seen, index); }
  bool name_allowed(u32 state, u32 field) { return allowed_at(state, field); }
  bool others_allowed_at(u32 state);
  bool feasible(const MemberState& state);
  MemberState with_other(const MemberState& state, u32 key_text, u32 discharges);
  Id members_node(MemberState state);
  Id key_start(u32 state);  // the Key before its opening quote
  MemberFacts& facts_of(u32 state);
  void note_after(u32 state, std::vector<Id> after);
  Id quoted(Id e) { return concat(quote_, e); }

  // -- keys --
  // The characters C (an index of charset()) of a Key that continues with C* and of which nothing else is known but
  // that it differs from all names; otherwise kNone.
  u32 free_key(Id e) const;
  Escapes key_escapes(Id key) const;
  // Is e a key in progress whose text is not stored? `others`: the texts of other keys that it may become.
  bool key_in_progress(Id e, Ids& others) const;
  // What a key lacks of a name, spelled from here to the closing quote.
  // Does what is missing of a name begin inside a character?
  static bool inside_character(const KeyState& key, std::string_view name);
  static std::string spelled_rest(const KeyState& key, std::string_view name);
  // The names and the written keys that the key can still become, each spelled from here to the closing quote. False
  // within a character, and if strings have several spellings.
  bool named_rests(const KeyState& key, bool only_allowed, std::vector<std::string>& rests);
  // The names that the Key can still become, each spelled from here to the closing quote; and the same key without them
  // (kEmpty: only names are keys). False if the key cannot be split so simply.
  bool key_without_names(Id e, Id& free, std::vector<std::string>& rests);
  // Reads at once as many of the bytes as are plain characters of a key with a stored text: nobody else reaches the
  // states in between. Returns their number; 0: e is no such state.
  std::size_t read_key(Id& e, std::string_view bytes);
  bool key_apart(Id key, KeyApart& out);
  struct Writing {     // a text in progress that must differ from others
    bool item;         // of a list of distinct values, a string as it is written; else a key, decoded
    std::string text;  // so far
  };
  // What is in progress, between two characters; nothing if it is no such text, not known, or part of another one.
  std::optional<Writing> writing(Id e) const;
  // Adds the texts that a state knows, written and in progress: of keys or, as they are written, of items.
  void known_texts(Id e, bool items, std::vector<std::string>& to) const;
  KeyAlong others_along(const KeyApart& key, std::string_view rest, std::size_t& read);
  bool any_key_text(Id text) const;
  bool surely_endless(Id text, int depth = 0);
  // Are there surely infinitely many other keys that may come next? Then it does not matter which were written.
  bool others_endless_at(u32 state);
  Id key_without_text(Id e);
  Id key_without_values(Id e);
  static MemberState without_keys(MemberState state);

  // -- lists of distinct values --
  bool free_item(Id e) const;  // like free_key, for an item
  Id item_at(Id e, u32 text, u32 facts);
  Id distinct_node(Id body, u32 seen);
  // Must items come that may have only finitely many values left? Those of an optional repetition need not.
  bool needs_finite(Id body) const;
  void check_repeated_items(Id e) const;
  Id other_than(Id e, u32 seen);  // e without the spellings of the seen values
  u32 without_seen(u32 seen);
  Id twice_node(Id body, u32 seen, u32 labels);

  // -- interface of Family --
  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override;
  Id live_as(Id e) override;
  void describe(Id e, Description& to) const override;
  void describe_shared(u32 table, Description& to) const override;
  bool portable_over_rules(Id e) const override { return node(e).kind == Kind::Members || node(e).kind == Kind::Key; }
  void parts(Id e, Ids& to) const override;
  std::vector<DumpItem> dump(Id e) const override;
  u32 shortest(Id e) override;
  void prepare() override;
  void split_bytes(ByteSet& starts) override;
  void note_extent() override;
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  // The member in progress, if any: one of those due, another one, or, at its very beginning, any one.
  enum class Member { None, Due, Other, Any };
  // objects
  template <class F>
  bool each_text(Id key, F f);
  u32 count_other_texts(const MemberTable& table);
  u32 least_characters(Id value) const;
  void measure(MemberTable& table);
  void list_least(MemberTable& table);
  u32 characters_of(u32 members, const MemberState& state) const;
  std::vector<std::string> few_texts(Id key, const std::vector<std::string>& names);
  MembersDue members_due(const MemberState& state) const;
  u32 shortest_members(const MemberState& state, const MembersDue& due, Member member, u32 written) const;
  bool counts_fit(const MemberState& state, u32 field) const;
  bool allowed(const MemberState& state, u32 field);
  bool others_allowed(const MemberState& state);
  bool allowed_at(u32 state, u32 field);  // the same by id, memoised
  MemberState with_field(const MemberState& state, u32 field, u32 discharges) const;
  Id derive_members(Id e, u8 byte);
  ByteSet first_member(Id e);
  // keys
  bool perhaps_due(const KeyState& key) const;
  Id key_node(KeyState key);
  bool feed_key(KeyState& key, u8 byte);
  Id derive_key(Id e, u8 byte);
  Id close_key(const KeyState& key);
  // votes
  void fail(MemberState& next, u32 effect, u32 name) const;
  void settle(MemberState& state) const;
  bool vote_holds(const MemberState& state) const;
  bool vote_feasible(const MemberState& state);
  bool other_allowed_at(u32 state, u32 kind);
  // lists of distinct values
  bool item_is_dense(Id e) const;
  struct ListState {  // of a Distinct; or of a Twice, where the labels are those of the items seen
    u32 seen, labels = 0;
    bool twice = false;
  };
  Id list_node(Id body, const ListState& of);
  Id derive_list(Id body, const ListState& of, u8 byte);
  Id derive_list(Id first, Id rest, const ListState& of, u8 byte);
  Id derive_item(Id item, Id rest, const ListState& of, u8 byte);
  Id derive_item_twice(Id item, Id rest, const ListState& of, u8 byte);
  u32 with_seen(u32 seen, u32 text);
  bool comes_twice(Id body, u32 labels);
  Id same_as(u32 seen);  // all spellings of the seen values
  u32 values_of(u32 texts);
  Id without_items(Id e);
  template <class F>
  void each_knowing(Id e, F f) const;
  Id equal_values(u32 text);
  Id equal_value(const std::string& text, std::size_t& at, int depth);
  Id equal_number(std::string_view text);
  // identities
  void describe_members(const MemberState& state, Description& to) const;

  Escaped& escaped_;
  Among& among_;
  bool used_ = false, made_ = false;  // see used(); there are objects
  Id quote_ = kUnknown;
  std::deque<MemberFacts> facts_;
  std::size_t facts_bytes_ = 0;  // that they own
  std::deque<MemberTable> tables_;
  std::size_t table_bytes_ = 0;   // that they own
  std::size_t split_tables_ = 0;  // whose names the byte classes take into account
  Interned<MemberState> member_states_;
  Interned<KeyState> key_states_;
  Interned<SeenState> seen_states_;
  mutable Texts texts_;  // caches the texts that it assembles
  TextSets sets_{texts_};
  std::unordered_map<u32, Id> equal_;    // text id -> equal_values
  FlatMap<> values_;                     // set of texts -> the values as a list of Among
  FlatMap<u64> grown_;                   // set of texts -> that without the last one << 32 | the last one
  std::unordered_map<Id, Id> bare_;      // see without_items
  std::unordered_map<u64, bool> twice_;  // body << 32 | labels -> comes_twice
  FlatMap<> endless_memo_;
  struct Extent {  // sizes when the arena was finalized
    u32 tables = 0, members = 0, keys = 0, seen = 0, texts = 1, sets = 1;
    std::size_t table_bytes = 0;
  } extent_;
};

}  // namespace guiderail
