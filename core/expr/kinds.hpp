// Kinds of expressions that plug into the algebra.
//
// A Family is one kind, or a few that belong together, in a folder above expr/. It makes the nodes of its kinds, keeps
// what they refer to (tables, states), and answers what the algebra asks about an expression of a foreign kind. The
// family defines what the numbers of such a node mean. The arena makes a family when it is first requested
// (`arena.family<F>()`), so a family has a constructor that takes the arena, and a list `kKinds` of its kinds.
//
// All functions require: mutex held, or no other thread knows the arena yet.
#pragma once

#include "base/memory.hpp"
#include "expr/expression.hpp"
#include "expr/mapped.hpp"

namespace guiderail {

// Receives all that defines an expression, encoded in one way only: words, texts, and parts by what they mean.
class Description {
 public:
  virtual void word(u64 word) = 0;
  virtual void hash(const Hash& hash) = 0;
  virtual void text(std::string_view text) = 0;
  virtual void part(Id e) = 0;
  virtual void unordered(std::span<const Id> parts) = 0;                // parts whose order depends on the arena
  virtual void shared(const Family& family, Kind kind, u32 which) = 0;  // by kind: see describe_shared

 protected:
  ~Description() = default;
};

struct DumpItem {  // text to print, or an expression (if `id` is not kUnknown)
  std::string text;
  Id id = kUnknown;
  bool tight = false;  // needs brackets around anything that is not an atom
};

class Family {
 public:
  explicit Family(Arena& arena) : arena_(arena) {}
  virtual ~Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  // -- reading --
  virtual Id derivative(Id e, u8 byte) = 0;
  virtual ByteSet first_bytes(Id e) = 0;  // a superset of the bytes that e can begin with
  virtual Id derivative_by_symbol(Id, u32) { return kEmpty; }
  // The text that e spells, if each character beyond ASCII represents itself; kUnknown: e spells no text. And the same
  // spelling of another text.
  virtual Id spelled(Id) const { return kUnknown; }
  virtual Id respell(Id e, Id /*text*/) { return e; }
  // Adds the symbols that e can begin with to `out`, and parts of e that are yet to be examined for such to `open`.
  virtual void symbols_at(Id, std::vector<u32>& /*out*/, std::vector<Id>& /*open*/) {}
  // -- emptiness (of expressions with kSearch) --
  // An expression that has a match if and only if e has one. kEpsilon, kEmpty: the answer is known; e: it takes a
  // search.
  virtual Id live_as(Id e) { return e; }
  // False: unknown. Called only after prove_liveness().
  virtual bool surely_live(Id e) { return !has(e, kSearch); }
  // -- normal forms --
  virtual u32 joined_kinds() const { return 0; }       // kinds that join() may merge in a union, as bits
  virtual bool join(Ids& /*parts*/) { return false; }  // merges parts. False: it could not
  // -- identity (see identities.hpp) --
  // Describes nothing if e has no identity outside its arena.
  virtual void describe(Id, Description&) const {}
  virtual void describe_shared(u32, Description&) const {}      // what many expressions share, described once
  virtual bool portable_over_rules(Id) const { return false; }  // has an identity although it contains rules
  virtual void parts(Id, Ids&) const {}                         // of such an e: its parts that may contain rules
  // -- text --
  virtual std::vector<DumpItem> dump(Id e) const = 0;
  // -- the end of construction, in this order --
  // One round of a least fixed point: does e match the empty text, and does it match at all, given what is known of its
  // parts?
  virtual void productive(Id, const std::vector<char>& /*known*/, bool& /*nullable*/, bool& productive) const {
    productive = true;
  }
  virtual Id left_edge(Id) const { return kEmpty; }  // a part that reads the first byte, if it may be a rule
  // A lower bound of the characters of a match, given those of its parts.
  virtual u32 shortest(Id e) { return node(e).shortest; }
  virtual void prepare() {}                         // before the byte classes are fixed
  virtual void split_bytes(ByteSet& /*starts*/) {}  // adds bytes that begin a class and were not added yet
  virtual void finalize() {}                        // makes what copies of the arena need
  virtual void note_extent() {}                     // records the sizes of what only grows
  virtual void survey() {}                          // finds out what holds for all states
  virtual void fresh(Arena& to) const = 0;          // gives a copy of the arena what existed then
  virtual void count(Tally& to) const = 0;

 protected:
  // -- the algebra, as families see it --
  const Node& node(Id e) const { return std::as_const(arena_).node(e); }
  Node& node(Id e) { return arena_.node(e); }
  bool has(Id e, u32 flag) const { return arena_.has(e, flag); }
  bool nullable(Id e) const { return arena_.nullable(e); }
  std::span<const Id> operands(Id e) const { return arena_.operands(e); }
  Stack unstack(Id e) const { return guiderail::unstack(arena_, e); }
  template <class F>
  Ids mapped(Id e, F f) const {
    return guiderail::mapped(arena_, e, f);
  }
  template <class F>
  Id mapped_parts(Id e, u32 flags, F f) {
    return guiderail::mapped_parts(arena_, e, flags, f);
  }
  const Limits& limits() const { return arena_.limits_; }
  bool finalized() const { return arena_.finalized_; }

  Draft draft(Kind kind) const { return arena_.draft(kind); }
  void absorb(Draft& d, Id operand, bool nests) const { arena_.absorb(d, operand, nests); }
  Id intern(Draft& d) { return arena_.intern(d); }
  Id literal(std::string_view text) { return arena_.literal(text); }
  Id char_class(CharSet::Ptr set) { return arena_.char_class(std::move(set)); }
  Id choice(std::vector<std::string> strings) { return arena_.choice(std::move(strings)); }
  Id any_text() const { return arena_.any_text_; }
  Id concat(Id head, Id tail) { return arena_.concat(head, tail); }
  Id concat_all(std::span<const Id> parts) { return arena_.concat_all(parts); }
  Id unite(std::span<const Id> parts) { return arena_.unite(parts); }
  Id unite(Id a, Id b) { return arena_.unite(a, b); }
  Id union_of(std::span<const Id> sorted) { return arena_.make_list(Kind::Union, sorted); }  // unchanged
  Id intersect(std::span<const Id> parts, bool allow_rules = false) { return arena_.intersect(parts, allow_rules); }
  Id intersect(Id a, Id b) { return arena_.intersect(a, b); }
  Id negate(Id e) { return arena_.negate(e); }
  Id nonempty(Id e) { return arena_.nonempty(e); }
  Id repeat(Id e, u32 min, u32 max) { return arena_.repeat(e, min, max); }
  Id repeat_less(Id e) { return arena_.repeat_less(e); }
  Id capped_repeat(Id e, u32 min, u32 max) { return arena_.capped_repeat(e, min, max); }
  Id unknown() { return arena_.unknown(); }
  void note_literal(std::string_view text) { arena_.note_literal(text); }
  bool is_literal(Id e, std::string* out) const { return arena_.is_literal(e, out); }
  u32 endless_class(Id text) const { return arena_.endless_class(text); }
  const CharSet::Ptr& charset_ptr(u32 index) const { return arena_.charsets_[index]; }
  Id rule_body(u32 rule) const { return arena_.rules_[rule].body; }

  Id derive(Id e, u8 byte) { return arena_.derive(e, byte); }
  Id derive_symbol(Id e, u32 symbol) { return arena_.derive_symbol(e, symbol); }
  Id step_slow(Id e, u8 byte) { return arena_.step_slow(e, byte); }
  Id step_text(Id text, u8 byte) { return arena_.step_text(text, byte); }
  const ByteSet& first(Id e) { return arena_.first(e); }
  u32 first_number(Id e) const { return arena_.node(e).first; }  // the index of the set; call first(e) before
  u32 first_id(const ByteSet& set) { return arena_.first_id(set); }
  const ByteSet& first_set(u32 id) const { return arena_.firsts_[id]; }
  void first_symbols(Id e, std::vector<u32>& out) { arena_.first_symbols(e, out); }
  bool live(Id e) { return arena_.live(e); }
  void prove_liveness() { arena_.proofs_ = true; }
  template <class F>
  void each_byte(Id e, F f) const {
    arena_.each_byte(e, f);
  }
  u8 byte_class(u8 byte) const { return arena_.classes_[byte]; }
  u32 byte_class_count() const { return arena_.class_count_; }
  u8 representative(u32 byte_class) const { return arena_.representatives_[byte_class]; }

  static void alone(ByteSet& starts, u8 byte) {  // see split_bytes: the byte is the only one of its class
    starts.add(byte);
    if (byte < 255) starts.add(byte + 1u);
  }

  Arena& arena_;
};

template <class F>
F& Arena::plug_in() {
  auto made = std::make_unique<F>(*this);
  F& out = *made;
  families_.push_back(std::move(made));
  for (Kind kind : F::kKinds) by_kind_[static_cast<std::size_t>(kind)] = &out;
  joined_kinds_ |= out.joined_kinds();
  return out;
}

}  // namespace guiderail
