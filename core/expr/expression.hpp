// The algebra: interned expressions over bytes. A state of a generation is the id of an expression; reading a byte
// gives its derivative (Brzozowski 1964), another id.
//
// One Arena holds the expressions of one compiled constraint. It grows lazily while texts are read, under its mutex.
// Nodes never move, and never change once they are published, except for memo fields, which are atomic or used under
// the mutex only. Hence the hot reads (a known transition, a known mask) take no lock.
//
// This layer treats the kinds of the algebra by name (see base/kind.hpp); other kinds plug in (see expr/kinds.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/flat_map.hpp"
#include "base/interned.hpp"
#include "base/library.hpp"
#include "base/list_pool.hpp"
#include "base/pages.hpp"
#include "base/thresholds.hpp"
#include "base/yielding_mutex.hpp"
#include "expr/node.hpp"
#include "text/charset.hpp"

namespace guiderail {

class Characters;
class Family;
class Identities;
class Liveness;

class Arena {
 public:
  explicit Arena(Limits limits);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // -- construction (smart constructors return normal forms) --
  // requires: mutex held, or no other thread knows the arena yet
  Id literal(std::string_view bytes);
  Id char_class(CharSet::Ptr set);
  Id bytes(const ByteSet& set);
  Id concat(Id head, Id tail);
  Id concat_all(std::span<const Id> parts);
  Id unite(std::span<const Id> parts);
  Id unite(Id a, Id b) { return unite(std::array{a, b}); }
  Id intersect(std::span<const Id> parts, bool allow_rules = false);
  Id intersect(Id a, Id b) { return intersect(std::array{a, b}); }
  Id negate(Id e);           // over all byte strings
  Id complement_text(Id e);  // over all UTF-8 texts
  Id nonempty(Id e);
  Id repeat(Id e, u32 min, u32 max);
  Id choice(std::vector<std::string> strings);
  Id substring_of(const std::vector<std::string>& texts);
  Id substring_of_chunks(const std::vector<std::string>& chunks);
  Id ahead(Id e, bool negative);
  Id behind(Id e, bool negative);  // all that was read so far matches e: pass `any* e`
  Id scope(Id e);
  Id token(const std::vector<Symbol>& symbols);
  Id counted(Id e, u32 most);  // e within `most` tokens (see derive.cpp)
  Id rule(std::string name, bool holds_items = false);
  void define(Id rule_ref, Id body);
  Id any_text() const { return any_text_; }
  // Checks the rules (defined, productive, not left-recursive) and fixes the byte classes. Afterwards, nobody may
  // construct expressions from outside.
  void finalize(Id root);
  // A copy of the arena as it was when it was finalized: the same ids, no memos, nothing that was found while reading.
  std::shared_ptr<Arena> fresh();

  // -- kinds that plug in --
  // The family of type F. The first call makes it, and requires the same as construction.
  template <class F>
  F& family() {
    Family* known = by_kind_[static_cast<std::size_t>(F::kKinds[0])];
    return known ? static_cast<F&>(*known) : plug_in<F>();
  }
  Family* family_of(Kind kind) const { return by_kind_[static_cast<std::size_t>(kind)]; }  // null: the algebra's own

  // -- reading --
  // requires: mutex held
  Id derive(Id e, u8 byte);            // not memoised, may be dead though not Empty
  Id derive_symbol(Id e, u32 symbol);  // by a token as a symbol (index into symbols())
  Id token_end(Id e);                  // after the last byte of a token
  Id counts_spent(Id e);               // without tokens left to count: what completes the result completes e
  Id step_slow(Id e, u8 byte);         // memoised; kEmpty if nothing can follow
  Id step_text(Id text, u8 byte);      // the same for states that many others contain
  // A superset of the bytes that e can begin with.
  const ByteSet& first(Id e) {
    const u32 known = node(e).first;
    return firsts_[known != kNone ? known : find_first(e)];
  }
  void first_symbols(Id e, std::vector<u32>& out);  // adds them to a list, which it sorts
  bool live(Id e);                                  // does some string match? exact, or Error("fuel")
  Identities& identities();                         // that are the same in every arena (see identities.hpp)
  // Was the cap of a capped Repeat reached? Then nothing found since clear_cap_hit() is valid (see caps.hpp).
  bool clear_cap_hit() { return std::exchange(cap_hit_, false); }
  void note_cap(bool hit) { cap_hit_ = cap_hit_ || hit; }
  bool cap_hit() const { return cap_hit_; }
  Id repeat_less(Id repeat_node);                 // the Repeat after one iteration
  u32 endless_class(Id text) const;               // C (an index of charset()) if the text is C{m,}; else kNone
  Id* ensure_row(Id e);                           // null: see kExactStep
  bool is_literal(Id e, std::string* out) const;  // a chain of single bytes
  Characters& characters();                       // for reading by whole characters (see characters.hpp)
  std::string dump(Id e) const;
  std::string rules_ahead(Id e) const;  // the names of the next few rules, for messages; empty: there are none
  const CharSet::Ptr& charset_ptr(u32 index) const { return charsets_[index]; }
  const ByteSet& byte_set(u32 index) const { return byte_sets_[index]; }
  std::span<const Id> operands(Id e) const {
    const Node& n = node(e);
    return {pool_.at(n.a), n.b};
  }
  Edge edge(const Node& n, u32 i) const {
    const Id* at = pool_.at(n.a) + 2 * i;
    return {static_cast<u8>(index_of(at[0])), static_cast<u8>(index_of(at[0]) >> 8), at[1]};
  }
  static u32 edge_count(const Node& n) { return n.b / 2; }
  Id rule_body(u32 rule) const { return rules_[rule].body; }
  u32 rule_count() const { return static_cast<u32>(rules_.size()); }

  // -- without the mutex, once finalized --
  // The successor, or kUnknown if it was never computed.
  Id known_step(Id e, u32 byte_class) const {
    const Node& n = node(e);
    if (const Id* row = n.row.load(std::memory_order_acquire))
      return load_atomic(row[byte_class], std::memory_order_acquire);
    u64 slot = n.step.load(std::memory_order_acquire);
    return (slot >> 32) == byte_class + 1 ? Id{static_cast<u32>(slot)} : kUnknown;
  }
  bool nullable(Id e) const { return has(e, kNullable); }
  const Node& node(Id e) const {
    return load_atomic(chunks_[index_of(e) >> kChunkBits], std::memory_order_acquire)[index_of(e) & kChunkMask];
  }
  Node& node(Id e) { return const_cast<Node&>(std::as_const(*this).node(e)); }
  bool has(Id e, u32 flag) const { return node(e).flags.load(std::memory_order_relaxed) & flag; }
  u8 byte_class(u8 byte) const { return classes_[byte]; }
  const std::array<u8, 256>& byte_classes() const { return classes_; }
  u32 byte_class_count() const { return class_count_; }
  // Calls f(byte) for representative bytes until f returns false: one byte of each class, or all bytes if e tells apart
  // bytes of one class.
  template <class F>
  void each_byte(Id e, F f) const {
    if (has(e, kExactStep)) {
      for (unsigned b = 0; b < 256; ++b)
        if (!f(static_cast<u8>(b))) return;
    } else {
      for (u32 c = 0; c < class_count_; ++c)
        if (!f(representatives_[c])) return;
    }
  }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  bool has_raw_bytes() const { return raw_bytes_; }  // some literal may not be UTF-8
  u32 node_count() const { return load_atomic(count_, std::memory_order_relaxed); }
  u32 finalized_count() const { return extent_.nodes; }                    // expressions of the description itself
  u32 extent() const { return count_ + pool_.size() / kOperandsPerNode; }  // for max_nodes; requires: mutex held
  const Limits& limits() const { return limits_; }

  // -- sharing with other threads --
  YieldingMutex mutex;
  // Call this in loops that may be long: threads that have waited for it may read and grow the arena here. Every
  // unknown derivative and every union calls it. Afterwards, expressions and memos may have been added, so keep no
  // reference into a growing container across it. Nothing that existed has changed.
  // requires: mutex held
  void make_room() {
    if (mutex.due()) [[unlikely]]
      if (mutex.pause()) let_others_in();
  }
  class Aside;    // what a search keeps with the arena, and others must not find
  class Outside;  // while it lives, the mutex is free (see outside.hpp)
  // requires: mutex held
  std::size_t memory() const;
  void count(Tally& to) const;

 private:
  friend class Characters;
  friend class Family;
  friend class Liveness;
  class Away;
  struct Rule {
    std::string name;
    Id body = kUnknown;
  };
  static constexpr u32 kChunkBits = 10, kChunkMask = (1u << kChunkBits) - 1;
  static constexpr std::size_t kMemoLimit = 1u << 16;                 // entries of 16 to 32 bytes
  static constexpr std::size_t kFirstRows = 1024, kMoreRows = 16384;  // entries of a block
  static constexpr std::size_t kChunkBytes = sizeof(Node) << kChunkBits;

  // Everything from here on requires: mutex held, or no other thread knows the arena yet.
  template <class F>
  F& plug_in();
  void let_others_in();
  void give_all_pages();
  // -- interning --
  Id intern(Draft& draft);
  Id add_node(const Draft& d, u64 bucket);
  void ensure_chunk(Id next);
  [[noreturn]] void refuse_depth() const;
  static Draft draft(Kind kind) { return {.kind = kind}; }
  void absorb(Draft& d, Id operand, bool nests) const { d.absorb(node(operand), nests); }
  u32 charset_index(const CharSet::Ptr& set, bool composed = false);
  enum class SetOperation { Both, Either };
  u32 compose(SetOperation operation, u32 a, u32 b);
  u32 first_id(const ByteSet& set);
  void note_literal(std::string_view text);
  // -- construction --
  Id make_list(Kind kind, std::span<const Id> sorted, u32 flags = 0);
  Id make_switch(std::span<std::pair<u32, Id>> edges, bool accept);  // changes the edges
  Id raw_concat(Id head, Id tail);
  Id capped_repeat(Id e, u32 min, u32 max);
  Id class_of(u32 set);
  Id class_tail(u32 set, u16 state);
  Id unknown();  // a forgotten text decides whether anything follows here
  bool merge_repeat(Id head, Id tail, Id& out);
  bool merge_endless(Id head, Id tail, Id& out);
  bool is_text(Id e, const CharSet& of, int depth = 0) const;
  class Alternatives;
  u32 path_of(u32 root, const Ids& parts);
  Id memoised(Kind kind, Ids& parts);
  Id plain_parts(Id e);
  Ids conditions(Id e, bool& grouped);
  void absorb_members(Ids& sorted, Kind inner) const;
  Id narrow(Id e, u32 set);
  bool char_repeat(Id e, u32& set, u32& min, u32& max) const;
  Id look(Kind kind, Id e, bool negative);
  Id counted_at(Id e, u32 most, bool begun);
  // -- reading --
  Id derive_shared(Id e, u8 byte);
  Id derive_state(Id e, u8 byte);
  Id derive_fresh(Id e, u8 byte);
  Id derive_composed(Id e, u8 byte);
  Id derive_in_scope(Id e, u8 byte, u32 depth);
  Id derive_in_scope_fresh(Id e, u8 byte, u32 depth);
  Id shift(Id e, u8 byte);  // feeds a byte to the look-behinds of an unread part
  Id settle_step(Id next);
  u32 find_first(Id e);
  // -- finalizing --
  void ensure_classes();
  void check_rules();
  void check_left_recursion() const;
  void measure_rules();
  void left_edges(Id e, std::vector<u32>& rules) const;

  Limits limits_;
  std::unique_ptr<Node*[]> chunks_;  // not cleared: max_nodes decides its size
  u32 chunk_count_ = 0, count_ = 0;
  IdTable table_;
  // Lists of operands. A Switch stores pairs: a range of bytes (low | high << 8) and a target.
  ListPool<Id> pool_;  // nobody reads it without the mutex
  std::vector<CharSet::Ptr> charsets_;
  FlatMap<> charset_ids_;             // by address
  std::unordered_set<u32> odd_sets_;  // made while reading: the byte classes may not separate their characters
  FlatMap<> composed_sets_;           // (set, set, operation) -> set; once finalized
  std::vector<ByteSet> byte_sets_, firsts_;
  IdTable byte_set_ids_, first_ids_;
  std::vector<Symbol> symbols_;
  std::vector<Rule> rules_;
  std::size_t rule_bytes_ = 0;   // of their names
  std::vector<Id*> row_blocks_;  // the first is small
  std::size_t row_used_ = 0, row_cap_ = 0, row_bytes_ = 0;
  std::array<u8, 256> classes_{};
  std::array<u8, 256> representatives_{};
  u32 class_count_ = 0;
  std::array<u32, 3> split_{2, 0, 0};  // expressions, character sets and byte sets that the classes take into account
  ByteSet starts_;                     // bytes at which some literal range begins: a boundary between classes
  std::vector<std::unique_ptr<Family>> families_;
  std::array<Family*, kKinds> by_kind_{};
  u32 joined_kinds_ = 0;  // of all families
  bool proofs_ = false;   // some family has proofs of liveness
  // At least one entry for each expression: every byte looks up the deep parts of its state.
  std::size_t memo_limit() const { return std::max<std::size_t>(kMemoLimit, count_); }
  AgingMap<Id> derive_memo_;  // for expressions that share parts; bounded
  AgingMap<> union_paths_;
  AgingMap<Id> union_memo_;             // path of a list of operands -> union or intersection; bounded
  u32 union_path_ = 0, union_era_ = 0;  // the last path; how often numbering started over
  FlatMap<Id> exact_memo_;              // transitions of expressions with kExactStep; bounded
  FlatMap<Id> plain_parts_;             // And -> its operands without counts, as one And
  std::unordered_map<u64, Id> narrow_memo_;
  std::unique_ptr<Identities> identities_;
  std::unique_ptr<Liveness> liveness_;
  std::unique_ptr<Characters> characters_;
  bool cap_hit_ = false, raw_bytes_ = false;
  // Of the holder of the mutex:
  Aside* asides_ = nullptr;
  u64 work_ = 0;  // operands of unions and intersections handled so far: the cost of a search
  bool finalized_ = false;
  u32 finalized_sets_ = 0;  // character sets that the byte classes separate
  struct Extent {           // sizes of what only grows
    u32 nodes = 0, pool = 0, byte_sets = 0;
    bool raw_bytes = false;
  } extent_;  // when finalized
  Id any_text_ = kUnknown;
  std::vector<u32> literal_chars_;  // characters beyond ASCII in any literal
};

}  // namespace guiderail
