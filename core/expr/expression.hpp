// The algebra: interned expressions over bytes. A state of a generation is the id of an expression; reading a byte
// gives its derivative (Brzozowski 1964), another id.
//
// One Arena holds the expressions of one compiled constraint. It grows lazily while texts are read, under its mutex;
// nodes never move and are never changed after they are published, except for memo fields, which are atomics or are
// touched under the mutex only. Hence the hot reads (a known transition, a known mask) take no lock.
//
//   Empty              matches nothing
//   Epsilon            the empty string
//   Class              one character of a CharSet
//   ClassTail          the rest of a character of a CharSet after its first byte(s)
//   Bytes              one byte of a ByteSet
//   Switch             deterministic branch: byte range -> expression; may accept (literals, choices, suffix automata)
//   Concat(h, t)       h then t, right-associated: the chain of tails is the push-down stack
//   Union, And, Not    alternatives, intersection, complement (over all byte strings)
//   Repeat(e, m, n)    counted; never unrolled
//   Ref(rule)          a rule of a grammar, expanded when first read
//   Token(symbols)     one token as a unit, a special one or one of a set of any tokens; not made of bytes
//   Counted(e, n)      e within n tokens: their ends are told to the state (token_end)
//   Ahead, Behind      zero-width look-arounds; live inside a Scope only
//   Scope(e)           the text that the look-arounds of e can see begins and ends with e
//   Escaped(e)         the spellings of the texts of e inside a JSON string (escape.cpp)
//   Members, Key       what is left of a JSON object between its braces; a key being read (members.cpp)
//   Distinct, Item     items of a list no two of which are equal JSON values (distinct.cpp)
//   Twice              the same where some two are equal (twice.cpp)
//   Tally              what is left of a list whose items are counted, or told apart by alternatives (tallies.cpp)
//   Decimal            what is left of a number (decimals.cpp)
//   Terminal           a terminal out of a set: a symbol of a grammar over terminals, not of bytes
//   Lexed              the texts whose terminals such a grammar derives (lexing.cpp);
//   Scan, MunchGuard        a place in one; what follows a lexeme that must not have gone on
//   Elided               what was left out of a state: something follows here (lookahead.cpp)
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "base/flat_map.hpp"
#include "base/interned.hpp"
#include "base/list_pool.hpp"
#include "base/pages.hpp"
#include "base/short_vector.hpp"
#include "base/yielding_mutex.hpp"
#include "text/charset.hpp"
#include "text/escape.hpp"

namespace guiderail {

using Id = u32;
using Ids = ShortVector<Id, 12>;
constexpr Id kEmpty = 0, kEpsilon = 1;
constexpr Id kUnknown = 0xFFFFFFFF;

enum class Kind : u8 {
  Empty,
  Epsilon,
  Class,
  ClassTail,
  Bytes,
  Switch,
  Concat,
  Union,
  And,
  Not,
  Repeat,
  Ref,
  Token,
  Counted,
  Ahead,
  Behind,
  Scope,
  Escaped,
  Members,
  Key,
  Distinct,
  Twice,
  Tally,
  Item,
  Decimal,
  Terminal,
  Lexed,
  Scan,
  MunchGuard,
  Elided
};

enum Flag : u32 {
  kNullable = 1,     // matches the empty string (above a Ref: known only once finalized)
  kHasRef = 2,       // holds a Ref outside its own body
  kHasLook = 4,      // holds a look-around outside any inner Scope
  kHasBehind = 8,    // holds a look-behind that must see every byte read
  kSearch = 16,      // emptiness is not structural: And, Not or Scope inside
  kHasToken = 32,    // holds a Token or a Counted
  kBigRepeat = 64,   // holds a finite bound worth canonicalising
  kLiveKnown = 128,  // emptiness memo (only for kSearch)
  kDead = 256,
  kBigGroup = 512,         // repeats something longer than a character more than a few times
  kCapHit = 1024,          // the cap of a capped Repeat was reached: what lies after it is unknown
  kHasItem = 4096,         // holds an Item outside any inner Distinct or Twice
  kFiniteItem = 16384,     // holds an Item outside any inner Distinct that may have only finitely many values
  kExactStep = 65536,      // bytes of one class may lead to different states: transitions are not kept by class
  kUnknownText = 32768,    // what follows depends on a text that was forgotten (canonical)
  kBarren = 262144,        // over terminals: only leads to what never comes
  kHasScan = 131072,       // holds a Scan: what is left of its grammar is cut short in its canonical form
  kLexemeMayEnd = 524288,  // an open lexeme (see lexing.cpp) that may end here
  kCounting = 1048576,     // holds a Counted that has read a part of a token
  kExactKey = 8192,        // begins with a key or item that remembers its text (see canonical)
};

class Program;
struct MaskEntry;

// 96 bytes. Lengths count characters: bytes that are not UTF-8 continuation bytes.
struct Node {
  Kind kind = Kind::Empty;
  std::atomic<u32> flags{0};
  u32 depth = 0;                   // nesting of heads; bounds every recursion over structure
  u32 a = 0, b = 0;                // operands, or offset and count in the operand pool
  u32 min = 0, max = 0;            // Repeat (b = 1: capped)
  u32 shortest = 0;                // characters of a shortest match (0 below a Ref: unknown)
  u32 longest = 0;                 // saturating; kInf: unbounded or unknown
  Hash hash;                       // under the mutex: see portable_hash; all zero: not computed; all one: none
  std::atomic<u32*> row{nullptr};  // transitions by byte class; 0: dead, kUnknown: not computed
  std::atomic<u64> step{0};        // one remembered transition: (byte class + 1) << 32 | target
  std::atomic<const MaskEntry*> mask{nullptr};
  Id canonical = kUnknown;  // under the mutex
  u32 first = kUnknown;     // under the mutex: index of the set of first bytes
};

struct Limits {
  u32 max_nodes = 4'000'000;  // expressions in one arena (about 100 bytes each)
  u32 fuel = 200'000;         // states one emptiness test may visit; each pays for 20 operands handled
  u32 max_depth = 1'500;      // nesting of operators
  u64 step_work = 5'000'000;  // steps of work for one mask or one token (see work.hpp)
};

struct MemberTable;
struct MemberState;
struct TallyTable;
struct TallyState;
struct Vote;
struct KeyState;
struct JsonParts;
struct KeyApart;
enum class KeyAlong;
struct MemberFacts;
struct MembersDue;
struct Lexer;
struct LexState;
struct LexStep;
struct LexParts;
struct Layout;
struct DecimalTable;
struct DecimalState;
struct DecimalParts;
struct CharacterParts;

// Tokens of any kind by their texts or ids, or all but these and those that end a text.
struct TokenSet {
  std::vector<std::variant<std::string, u32>> tokens;
  bool but = false;
  bool operator==(const TokenSet&) const = default;
};

using Symbol = std::variant<std::string, u32, TokenSet>;  // a special token by its text or its id; a set

class Arena {
 public:
  explicit Arena(Limits limits);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // -- construction (smart constructors: results are in normal form) --
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
  Id behind(Id e, bool negative);  // of what was read up to here, anywhere to its left: pass `any* e`
  Id scope(Id e);
  Id token(const std::vector<Symbol>& symbols);
  Id counted(Id e, u32 most);  // e, of which at most so many tokens hold a byte (see derive.cpp)
  Id escaped(Id e, Escapes mode);
  Id members(MemberTable table);
  std::optional<u32> plain_members(Id e) const;  // the table of an object nothing of which was written
  Id item(Id e, bool infinite, u32 label = 0);
  Id distinct(Id body);
  Id twice(Id body);
  Id tally(TallyTable table);
  static constexpr u32 kItemLabels = 32;
  Id decimals(DecimalTable table);
  u32 lexer(Lexer lexer);
  Id terminal(u32 lexer, u32 index);
  Id never(u32 lexer);           // after a terminal: it competes for lexemes, and then nothing can come
  Id lexed(u32 lexer, Id body);  // the body is over terminals of the lexer
  Id rule(std::string name, bool holds_items = false);
  void define(Id rule_ref, Id body);
  Id any_text();
  bool is_literal(Id e, std::string* out) const;  // a chain of single bytes

  // Checks the rules (defined, productive, not left-recursive), fixes the byte classes. No construction from
  // outside afterwards.
  void finalize(Id root);
  // The arena as it was when it was finalized, with the same ids and no memos: what was found by reading is left
  // behind. Needs the mutex.
  std::shared_ptr<Arena> fresh();

  // -- reading --
  // All but the lock-free ones need the mutex.
  Id derive(Id e, u8 byte);            // not memoised, may be dead though not Empty
  Id derive_symbol(Id e, u32 symbol);  // by a token that is a symbol (index into symbols())
  Id token_end(Id e);                  // after the last byte of a token
  struct Likely {                      // a guess at how a match begins (see likely_text.cpp)
    std::size_t limit;                 // bytes; the last part may go beyond
    std::size_t work;                  // expressions that may still be looked at
    std::string text{};
  };
  bool likely_text(Id e, Likely& to, int depth = 0);
  Id counts_spent(Id e);        // where no more tokens are counted: what completes the result completes e
  Id step_slow(Id e, u8 byte);  // memoised; kEmpty if nothing can follow
  // -- by whole characters beyond ASCII (characters.cpp) --
  bool reads_characters(Id e);  // whether that is right and worthwhile, of a state between two characters
  Id step_char(Id e, u32 character);
  bool may_follow(Id e, u32 low, u32 high);
  // A superset of the bytes e can begin with.
  const ByteSet& first(Id e) {
    const u32 known = node(e).first;
    return firsts_[known != kUnknown ? known : find_first(e)];
  }
  void first_symbols(Id e, std::vector<u32>& out);
  bool live(Id e);                  // some string matches: exact, or Error("fuel")
  Id canonical(Id e, u32 horizon);  // an expression with the same texts up to `horizon` bytes, bounds capped
  // An identity (see hashing.hpp) that is the same in every arena, rules taken for what they stand for; none where they
  // are too many, or where e is made of what is this arena's own, as with kHasToken and kExactKey.
  std::optional<Hash> portable_hash(Id e);
  // e with the texts of keys and items being read forgotten. Whether one is repeated is then unknown: what depends on
  // it has the flag kUnknownText.
  Id without_texts(Id e);
  // The same, and without what other keys and items were written before, anywhere in e: what completes the result
  // completes e. `known` keeps what was found.
  Id without_values(Id e, std::unordered_map<Id, Id>& known);
  // e with the counters of groups cut to `most`: equal to e for as long as no cap is reached. Reading past one sets
  // cap_hit() and yields kEmpty, and then nothing that was found counts.
  Id cap_groups(Id e, u32 most);
  void clear_cap_hit() { cap_hit_ = false; }
  void note_cap(Id e) { cap_hit_ = cap_hit_ || has(e, kCapHit); }
  bool cap_hit() const { return cap_hit_; }
  Id repeat_less(Id repeat_node);  // the Repeat after one iteration
  // The characters C (an index of charset()) of a Key of which nothing is known but that it differs from all names and
  // goes on with C*; kUnknown if it is none.
  u32 free_key(Id e) const;
  Escapes key_escapes(Id key) const;
  // A key in progress of which nothing is remembered, and the texts of the other keys that it may be.
  bool key_in_progress(Id e, Ids& others) const;
  u32 endless_class(Id text) const;  // C, if the text is C{m,}; else kUnknown
  bool free_item(Id e) const;        // the same of an item of a Distinct
  // The names that the Key could still become, spelled from here on to the closing quote, and the same key without
  // them (kEmpty: only names are keys). False where the difference is not that simple.
  bool key_without_names(Id e, Id& free, std::vector<std::string>& rests);
  // -- states without what a token does not reach (lookahead.cpp) --
  static constexpr u32 kWholeStack = 7, kBehindObject = 6;  // parts that are kept
  // What is after the first object of a stack is left out as far as tokens seldom reach it; what then depends on it
  // has the flag kUnknownText.
  Id elide_stack(Id e, u32 left = kWholeStack);
  Id elide_members(Id e);
  Id elide_part(Id e);
  Id list_alone(Id e);  // a list of distinct values without the values before and the text after; kEmpty: it is none
  Id key_start(u32 members);
  Id step_text(Id text, u8 byte);  // a derivative, or kEmpty where nothing can follow
  // Reads as many of these bytes at once as are plain characters of a key whose text is remembered, for no one else
  // comes to the states between them. How many that were; 0: it is no such state.
  std::size_t read_key(Id& e, std::string_view bytes);
  bool key_apart(Id key, KeyApart& out);
  Id key_as_string(const KeyApart& key, bool longer = false);
  Id quoted(Id e) { return concat(quote_, e); }
  KeyAlong others_along(const KeyApart& key, std::string_view rest);
  const std::string& text_of(u32 text);  // of another key that was written
  bool name_allowed(u32 members, u32 field) { return allowed_at(members, field); }
  // A place in a lexed text without the lexemes that only have another name in the grammar, and their texts (united):
  // the two differ in nothing but what follows such a text. kEmpty: there are none.
  Id scan_without_names(Id e, Id& texts);
  u32* ensure_row(Id e);  // null: see kExactStep
  std::string dump(Id e) const;
  std::string rules_ahead(Id e) const;  // the names of the next few rules, for messages; empty: there are none

  // Lock-free: the successor, or kUnknown where it was never computed.
  Id known_step(Id e, u32 byte_class) const {
    const Node& n = node(e);
    if (const u32* row = n.row.load(std::memory_order_acquire))
      return std::atomic_ref<const u32>(row[byte_class]).load(std::memory_order_acquire);
    u64 slot = n.step.load(std::memory_order_acquire);
    return (slot >> 32) == byte_class + 1 ? static_cast<Id>(slot) : kUnknown;
  }
  bool nullable(Id e) const {
    const Node& n = node(e);
    return n.flags.load(std::memory_order_relaxed) & kNullable;
  }
  const Node& node(Id id) const { return chunks_[id >> kChunkBits].load(std::memory_order_acquire)[id & kChunkMask]; }
  Node& node(Id id) { return chunks_[id >> kChunkBits].load(std::memory_order_acquire)[id & kChunkMask]; }
  bool has(Id e, u32 flag) const { return node(e).flags.load(std::memory_order_relaxed) & flag; }
  std::span<const u32> operands(Id e) const {
    const Node& n = node(e);
    return {pool_.at(n.a), n.b};
  }
  const CharSet& charset(u32 index) const { return *charsets_[index]; }
  const CharSet::Ptr& charset_ptr(u32 index) const { return charsets_[index]; }
  u8 byte_class(u8 byte) const { return classes_[byte]; }
  const std::array<u8, 256>& byte_classes() const { return classes_; }
  // Calls f(byte) for bytes that stand for all: one of each class, or every one where that is not enough; until f says
  // false.
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
  u32 byte_class_count() const { return class_count_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  // The characters beyond ASCII in sets within which every expression treats all alike. Empty: too many to be of use.
  const std::vector<CharSet::Ptr>& atoms();
  bool has_json() const { return json_ != nullptr; }
  bool has_lexers() const { return lex_ != nullptr; }
  bool has_raw_bytes() const { return raw_bytes_; }  // something may not be UTF-8
  Id rule_body(u32 rule) const { return rules_[rule].body; }
  u32 node_count() const { return std::atomic_ref<const u32>(count_).load(std::memory_order_relaxed); }
  std::size_t memory() const;
  void count(Tally& to) const;
  const Limits& limits() const { return limits_; }

  // -- lexemes without their grammar (see pieces.cpp) --
  struct Place {  // between two lexemes: what is left of the grammar, and the layout
    Id parse;
    u32 layout;
  };
  struct Lexeme {    // being read
    Id munch_guard;  // kEmpty: none
    u32 lexer, state, column;
  };
  struct LexemeEnd {
    u32 lexer, terminal, column;
    Id munch_guard;  // no beginning of what follows is one of these texts
    bool whole;      // with the last byte; else before the next one
  };
  enum class Behind { Nothing, Unknown, Something };
  bool lexed_place(Id e, Lexeme& lexeme, Place& place) const;  // false: it is no lexed text in progress
  bool is_open(Id e) const;
  Id lexed_start(Id e);  // a Lexed as the state between lexemes that it is
  Id nested_at(u32 lexer, const Place& place);
  Id munch_guard(Id texts, Id rest);
  Id open_lexeme(const Lexeme& lexeme);  // the lexeme alone, whatever the grammar
  LexemeEnd lexeme_end(Id open);         // of one with kLexemeMayEnd
  bool munch_guard_allows(Id munch_guard, u8 byte);
  // Moves a place after a lexeme. `start`: the lexemes that may come there. Unknown: the place was cut short.
  Behind behind_end(const LexemeEnd& end, Place& place, u32& start, bool exact);
  // The same of one that was cut short and stays where it is: mostly without what is left of the grammar there.
  Behind peek_end(const LexemeEnd& end, const Place& place, u32& start);
  // A place without the alternatives that do not go on with the lexeme's end, nor what may be left out in front of
  // those that do: what is after it is the same.
  Place reading_end(const LexemeEnd& end, const Place& place);
  void pass_end(const LexemeEnd& end, Place& place) { behind_lexeme(end.lexer, end.terminal, end.column, place); }
  // As far as the next `kept` parts of the grammar, whatever the indentation.
  Place cut_place(u32 lexer, const Place& place, u32 kept);
  // Which columns may the line have that begins after a lexeme? Any: it begins none, or within brackets.
  enum class Column { Any, This, None };
  Column column_at(const LexemeEnd& end, const Place& place);
  bool place_ends(u32 lexer, const Place& place) { return parse_ends(lexer, place.parse, place.layout); }

  // -- beside others --
  YieldingMutex mutex;
  // For loops that may be long: others may read and grow the arena here, if they have waited for it. Every derivative
  // that is not known and every union calls it. Afterwards expressions and memos may have been added, so no reference
  // into what grows is kept across it; nothing that was there has changed.
  void make_room() {
    if (mutex.due()) [[unlikely]]
      if (mutex.pause()) let_others_in();
  }
  // What a search keeps in the arena's company and others must not find: taken away while they are let in.
  class Aside {
   public:
    explicit Aside(Arena& arena) : arena_(arena), outer_(std::exchange(arena.asides_, this)) {}
    virtual ~Aside() { arena_.asides_ = outer_; }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    virtual void leave() = 0;
    virtual void enter() = 0;

   private:
    friend class Arena;
    Arena& arena_;
    Aside* const outer_;
  };
  // While it lives, the mutex is free; for long work that has nothing to do with the arena.
  class Outside;

 private:
  void give_all_pages();
  class Away;  // what belongs to the holder is kept while others hold the mutex
  void let_others_in();
  static constexpr u8 kCut = 255;  // the symbol that stands for all that was cut off (canonical)
  static constexpr u32 kChunkBits = 10, kChunkMask = (1u << kChunkBits) - 1;
  struct Rule {
    std::string name;
    Id body = kUnknown;
    bool nullable = false, productive = false;
  };
  struct Draft {  // a node before it is interned
    Kind kind;
    u32 a = 0, b = 0, min = 0, max = 0;
    u32 flags = 0;
    u32 depth = 0;
    u32 shortest = 0, longest = 0;
    std::span<const u32> list{};
    bool has_list = false;
  };

  static constexpr std::size_t kMemoLimit = 1u << 16;                 // entries of 16 to 32 bytes
  static constexpr std::size_t kFirstRows = 1024, kMoreRows = 16384;  // entries of a block
  static constexpr std::size_t kChunkBytes = sizeof(Node) << kChunkBits;
  static u64 bucket_of(const Draft& d) {
    BucketHash hash(u64{d.min} << 32 | (d.max ^ static_cast<u32>(d.kind) << 24));
    return (d.has_list ? hash.add(d.list) : hash.add(u64{d.a} << 32 | d.b)).done();
  }
  Id intern(Draft& draft);
  Draft draft(Kind kind) const;
  void absorb(Draft& d, Id operand, bool nests) const;  // inherits flags and depth
  Id make_list(Kind kind, std::span<const Id> sorted);
  Id make_switch(std::vector<std::pair<u32, Id>> edges, bool accept);
  Id raw_concat(Id head, Id tail);
  Id capped_repeat(Id e, u32 min, u32 max);
  Id class_tail(u32 set, u16 state);
  u32 charset_index(const CharSet::Ptr& set, bool composed = false);
  enum class SetOperation { Both, Either };
  u32 compose(SetOperation operation, u32 a, u32 b);
  Id class_of(u32 set);
  Id plain_parts(Id e);
  Ids conditions(Id e, bool& grouped);
  Id intersect_memoised(Ids& parts);
  u32 path_of(u32 root, const Ids& parts);
  CharacterParts& characters();
  std::size_t characters_memory() const;
  Id derive_bytes(Id e, std::string_view bytes);
  Id derive_char(Id e, u32 atom, std::string_view bytes);
  Id derive_char_fresh(Id e, u32 atom, std::string_view bytes);
  Id step_atom(Id e, u32 atom);
  bool merge_repeat(Id head, Id tail, Id& out);
  bool merge_any(Id head, Id tail, Id& out);
  bool is_text(Id e, int depth = 0) const;
  bool factor(Ids& parts);
  Id unite_memoised(Ids& parts);
  Id narrow(Id e, u32 set);
  bool join_escaped(Ids& parts);
  Id look(Kind kind, Id e, bool negative);
  Id counted_at(Id e, u32 most, bool begun);
  Id escaped_at(Id e, u32 at, Escapes mode);
  Id derive_escaped(Id e, u8 byte);
  bool live_escaped(Id e, u32 at, Escapes mode);
  Id members_node(MemberState state);
  MembersDue members_due(const MemberState& state) const;
  enum class Writing { Nothing, Due, Other };  // a member now: one that must come, or another
  u32 shortest_members(const MemberState& state, const MembersDue& due, Writing writing, u32 written) const;
  bool perhaps_due(const KeyState& key) const;
  Id key_node(KeyState key);
  Id derive_members(Id e, u8 byte);
  Id derive_key(Id e, u8 byte);
  Id close_key(const KeyState& key);
  ByteSet first_member(Id e);
  bool feed_key(KeyState& key, u8 byte);
  bool allowed(const MemberState& state, u32 field);
  bool others_allowed(const MemberState& state);
  bool allowed_at(u32 state, u32 field);  // the same by id, remembered
  bool others_allowed_at(u32 state);
  MemberFacts& facts_of(u32 state);
  u32 count_other_texts(const MemberTable& table);
  bool counts_fit(const MemberState& state, u32 field) const;
  bool feasible(const MemberState& state);
  void fail(MemberState& next, u32 effect, u32 name) const;  // of votes, see votes.cpp
  void settle(MemberState& state) const;
  std::vector<std::string> few_texts(Id key, const std::vector<std::string>& names);
  bool vote_holds(const MemberState& state) const;
  bool vote_feasible(const MemberState& state);
  bool other_allowed_at(u32 state, u32 kind);
  MemberState with_field(const MemberState& state, u32 field, u32 discharges) const;
  MemberState with_other(const MemberState& state, u32 key_text, u32 discharges);
  Id item_at(Id e, u32 text, u32 facts);
  Id distinct_node(Id body, u32 seen);
  Id derive_distinct(Id body, u32 seen, u8 byte);
  Id other_than(Id e, u32 seen);
  Id tally_node(u32 state);
  Id expand_tally(u32 state);
  bool tally_holds(const TallyState& state) const;
  bool tally_possible(u32 state);
  void settle_tally(TallyState& state) const;
  TallyState with_item(const TallyState& state, u32 which) const;
  u64 tally_distance(const TallyState& state) const;
  Id twice_node(Id body, u32 seen, u32 labels);
  Id derive_twice(Id body, u32 seen, u32 labels, u8 byte);
  bool comes_twice(Id body, u32 labels);
  Id same_as(u32 seen);
  Id without_items(Id e);
  Id equal_values(u32 text);
  Id equal_value(const std::string& text, std::size_t& at, int depth);
  Id equal_number(std::string_view text);
  u32 with_seen(u32 seen, u32 text);
  bool item_is_dense(Id e) const;
  Id key_without_text(Id e);
  Id key_without_values(Id e);
  static MemberState without_keys(MemberState state);
  u32 without_seen(u32 seen);
  struct Fold;  // see portable.cpp
  struct Told;
  template <class To>
  void describe(Id e, To& to) const;
  template <class To>
  void describe_members(const MemberState& state, To& to) const;
  template <class To>
  void describe_table(const MemberTable& table, To& to) const;
  template <class To>
  void describe_tallies(const TallyTable& table, To& to) const;
  template <class To>
  void describe_vote(const Vote& vote, To& to) const;
  bool known_identity(Id e, const Fold& with, std::optional<Hash>& out) const;
  std::optional<Hash> identity(Id e, Fold& with);
  void rules_below(Id e, std::vector<u32>& rules) const;
  std::optional<Hash> rule_hash(u32 rule);
  std::size_t fold_memory() const;
  Id unknown();
  Id decimal_node(DecimalState state, u32 least);
  Id derive_decimal(Id e, u8 byte);
  ByteSet first_decimal(Id e) const;
  Id elided(u32 begins);
  Id elided_before(const ByteSet& begins);
  ByteSet first_elided(u32 begins, u32 set);
  bool begins_endless_string(Id e);
  Id elide_items(Id e);
  Id item_alone(Id body, u32 seen);
  Id elide_key(const MemberState& state, bool others);
  Id derive_elided(Id e, u8 byte);
  bool surely_endless(Id text, int depth = 0);
  bool any_key_text(Id text) const;
  void absorb_members(Ids& sorted, Kind inner) const;
  const Lexer& lexer_at(u32 lexer) const;
  void note_literal(std::string_view text);
  Id symbols_of(const ByteSet& set, bool textless);
  bool beyond_cut(Id parse) { return first(parse).has(kCut); }
  Id cut_grammar(u32 lexer, Id parse, u32 kept);
  Id cut_scan(Id e);
  u32 lex_state(LexState state);
  u32 lex_start(u32 lexer, const std::vector<u64>& context, const std::vector<u64>& rivals);
  template <class LeadsOn>
  u32 lex_start_in(u32 lexer, std::vector<u64> context, bool brackets, LeadsOn leads_on);
  u32 lex_start_by(u32 lexer, u32 symbols, u32 kept, bool brackets);
  u32 lex_start_of(u32 lexer, Id parse, bool brackets);
  struct Peek {           // after a terminal
    ByteSet first, kept;  // as of what is left of the grammar there
    bool live = false;    // something can still come, or the end
    bool nullable = false;
  };
  friend struct LexParts;
  bool peek(Id parse, u8 symbol, Peek& to);
  void peek_past(const Peek& head, Id tail, Peek& to);
  template <class Read>
  LexStep lex_step_by(u32 state, Read read);
  LexStep lex_step(u32 state, u8 byte);
  Id read_text(Id text, u8 byte);
  Id advance(u32 lexer, Id parse, u32 terminal);
  bool parse_ends(u32 lexer, Id parse, u32 layout);
  u32 equivalent_column(u32 lexer, Id parse, const Layout& at, u32 column);
  Id scan(u32 state, Id parse, u32 layout, u32 column);
  Id scan_start(u32 lexer, Id parse, u32 layout);
  Id lexed_rest(u32 lexer, Id parse, u32 layout);
  Id hole();
  Id open_scan(u32 state, u32 column);
  u32 column_behind(Id e, const LexStep& step, u8 byte) const;
  bool behind_lexeme(u32 lexer, u32 terminal, u32 column, Place& place);
  Id scan_behind(u32 lexer, u32 terminal, Id parse, u32 layout, u32 column);
  void scan_symbols(Id e, std::vector<u32>& out);
  u32 layout_id(Layout layout);
  Id after_step(Id e, const LexStep& step, u32 column);
  Id derive_scan(Id e, u8 byte);
  Id derive_scan_symbol(Id e, u32 symbol);
  Id derive_munch_guard(Id e, u8 byte);
  ByteSet first_scan(Id e);
  bool lexeme_ends_at(u32 state);
  bool lexeme_ends(u32 state);
  u32 lexeme_missing(u32 state, u32 terminal) const;
  Id munch_guard_lives(Id e);
  ByteSet lexeme_first(u32 state, u32 terminal);
  u32 first_kept(Id parse);
  u32 find_first(Id e);
  u32 first_id(const ByteSet& set);
  bool all_ignored(const LexState& state) const;
  bool surely_live(Id e);
  bool falls(u32 lexer, Id munch_guard);
  bool context_holds(u32 start);
  void survey_lexers();
  void sample(u32 start, u32 most, u32 wanted);
  const std::vector<std::string>& samples(u32 id, u32 terminal);
  Id derive_fresh(Id e, u8 byte);
  Id settle_step(Id next);
  Id derive_in_scope_fresh(Id e, u8 byte, u32 depth);
  bool char_repeat(Id e, u32& set, u32& min, u32& max) const;
  Id derive_in_scope(Id e, u8 byte, u32 depth);
  Id shift(Id e, u8 byte);  // tells the look-behinds of an unread part about a byte
  bool live_search(Id e);
  struct Reach {
    u32 shortest;
    bool longer;
  };
  Reach reach(Id e);
  u32 some_length(Id e);
  std::optional<bool> live_by_length(Id e);
  u32 slack(Id e);  // characters that complete a match from any state reachable from e, an upper bound
  void ensure_classes();
  void check_rules();
  void left_edges(Id e, std::vector<u32>& rules) const;

  Limits limits_;
  std::unique_ptr<std::atomic<Node*>[]> chunks_;
  u32 chunk_limit_ = 0;
  u32 count_ = 0;
  IdTable table_;
  ListPool pool_;  // operand lists; read lock-free by nobody
  std::vector<CharSet::Ptr> charsets_;
  std::unordered_map<const CharSet*, u32> charset_ids_;
  std::unordered_set<u32> odd_sets_;  // made while reading, of characters that the byte classes do not tell apart
  FlatMap composed_sets_;             // set, set, operation -> set; once frozen
  std::vector<ByteSet> byte_sets_;
  IdTable byte_set_ids_;
  std::vector<ByteSet> firsts_;
  IdTable first_ids_;
  std::vector<Symbol> symbols_;
  std::vector<Rule> rules_;
  std::size_t rule_bytes_ = 0;    // of their names
  std::vector<u32*> row_blocks_;  // the first is small
  std::size_t row_used_ = 0, row_cap_ = 0, row_bytes_ = 0;
  std::unordered_map<Id, u32> slack_memo_;
  std::array<u8, 256> classes_{};
  std::array<u8, 256> representatives_{};
  u32 class_count_ = 0;
  std::size_t classes_built_for_ = 0;
  std::unordered_map<Id, Reach> reach_memo_;
  AgingMap derive_memo_;  // of what shares parts; bounded
  FlatMap elided_memo_, endless_memo_, key_memo_;
  FlatMap plain_parts_;                 // And -> its parts that do not count, as one
  AgingMap union_paths_, union_memo_;   // lists of operands as paths; what they unite to; bounded
  u32 union_path_ = 0, union_era_ = 0;  // the last path; how often they were begun anew
  // As many as there are expressions: every byte looks up the deep parts of its state.
  std::size_t memo_limit() const { return std::max<std::size_t>(kMemoLimit, count_); }
  FlatMap exact_memo_;    // transitions of states with kExactStep; bounded
  FlatMap some_lengths_;  // of matches, by what they are of
  std::unordered_map<u64, Id> cap_memo_, narrow_memo_;
  std::unique_ptr<Fold> fold_;
  bool cap_hit_ = false, raw_bytes_ = false;
  // of the holder of the mutex
  Aside* asides_ = nullptr;
  std::vector<u64> sampling_;  // lexer << 32 | terminal: samples of which are being looked for
  u64 work_ = 0;               // operands of unions and intersections handled so far: what a search pays with
  bool finalized_ = false;
  u32 finalized_sets_ = 0;  // character sets that the byte classes know
  struct Extent {           // how much there was of what only grows
    u32 nodes = 0, pool = 0, byte_sets = 0;
    bool raw_bytes = false;
  } extent_;  // when finalized
  Id any_text_ = kUnknown;
  Id quote_ = kUnknown;             // where there are objects
  std::vector<u32> literal_chars_;  // beyond ASCII, of all literals
  std::optional<std::vector<CharSet::Ptr>> atoms_;
  std::unique_ptr<JsonParts> json_;  // tables and states of Members, Key and Distinct
  std::unique_ptr<DecimalParts> decimals_;
  struct CharacterPartsDelete {
    void operator()(CharacterParts* parts) const;
  };
  std::unique_ptr<CharacterParts, CharacterPartsDelete> characters_;
  std::unique_ptr<LexParts> lex_;  // lexers and what is left of lexemes
};

class Arena::Away {
 public:
  explicit Away(Arena& arena)
      : arena_(arena),
        asides_(std::exchange(arena.asides_, nullptr)),
        sampling_(std::move(arena.sampling_)),
        work_(arena.work_),
        cap_hit_(arena.cap_hit_) {
    arena.sampling_.clear();
    for (Aside* a = asides_; a; a = a->outer_) a->leave();
  }
  ~Away() {
    arena_.asides_ = asides_;
    arena_.sampling_ = std::move(sampling_);
    arena_.work_ = work_;
    arena_.cap_hit_ = cap_hit_;
    for (Aside* a = asides_; a; a = a->outer_) a->enter();
  }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  Arena& arena_;
  Aside* const asides_;
  std::vector<u64> sampling_;
  const u64 work_;
  const bool cap_hit_;
};

class Arena::Outside {
 public:
  explicit Outside(Arena& arena) : away_(arena), arena_(arena) { arena_.mutex.unlock(); }
  ~Outside() { arena_.mutex.lock(); }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  Away away_;  // destroyed when the mutex is held again
  Arena& arena_;
};

}  // namespace guiderail
