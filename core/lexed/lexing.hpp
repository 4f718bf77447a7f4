// Texts that a contextual lexer cuts into terminals and a grammar of terminals reads (see lexing.cpp). Some terminals
// may be identifiers, which choose the values of variables (see identifiers.cpp).
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "base/bits.hpp"
#include "base/flat_map.hpp"
#include "base/interned.hpp"
#include "expr/kinds.hpp"

namespace guiderail {

constexpr u8 kNever = 254;        // the symbol of never()
constexpr u8 kIdentifiers = 253;  // in sets of first symbols: an identifier may come

struct Terminal {
  Id text = kEmpty;  // kEmpty: no text (an indentation has none)
  // Last: the longest match; First: the shortest match of this terminal; Lazy: its shortest match, which also ends all
  // competing terminals. Nested: a language of its own, not a lexeme (see lexing.cpp).
  enum class Ends : u8 { Last, First, Lazy, Nested } ends = Ends::Last;
  std::vector<u32> keyword_of;  // a keyword: where one of these may come too, they share its text
  u32 guard_of = kNone;         // competes wherever this terminal may come
};

struct Indentation {
  u32 newline = 0, indent = 0, dedent = 0;
  std::vector<u32> opening, closing;
  u32 tab = 8;
  bool strict_tabs = false, final_newline = false;
  u32 brackets_after(u32 terminal, u32 brackets) const {
    auto among = [&](const std::vector<u32>& list) {
      return std::find(list.begin(), list.end(), terminal) != list.end();
    };
    if (among(opening)) return brackets + 1;
    return brackets > 0 && among(closing) ? brackets - 1 : brackets;
  }
};

// A terminal that the grammar does not contain itself. It stands for some values in a relation such as "column of".
struct Identifier {
  u32 relation = 0;
  u32 values = 0;  // index into Lexed::value_sets_
};

// A terminal of the grammar that stands for the identifiers of a relation to any possible value of the variable.
struct Placeholder {
  u32 terminal = 0;
  u32 variable = 0, relation = 0;
};

struct Lexer {
  std::vector<Terminal> terminals;  // in order of preference
  std::vector<u8> ignored;          // by terminal
  std::optional<Indentation> indentation;
  std::string before;                     // read as if it preceded the text
  std::vector<u32> traps;                 // terminals that may precede never()
  std::vector<Identifier> identifiers;    // the last terminals
  std::vector<Placeholder> placeholders;  // terminals without a text
  ByteSet placeholder_symbols;
  std::vector<std::pair<u32, Bits>> named;        // by relation: all values of its identifiers
  std::vector<u32> nested;                        // terminals that are languages of their own
  std::vector<std::vector<std::string>> samples;  // of each terminal, see Lexed::samples
  std::vector<u8> sampled;
  // Computed when the arena is finalized: bytes that are ignored between lexemes, and bytes that may begin a lexeme.
  ByteSet separators, begins;
  ByteSet identifier_begins;  // bytes that may begin an identifier
  u32 fruitless = 0;          // searches for the end of a lexeme that failed, see Lexed::lexeme_ends
  // A terminal is one symbol or, if there are many terminals, two; each symbol is below kNever.
  static constexpr u32 kMostTerminals = u32{kNever} * kNever;
  static u32 terminal_of(u32 high, u32 low) { return high * kNever + low; }
  u32 first_identifier = 0;  // later terminals are identifiers; the grammar's symbols are the earlier ones
  bool wide() const { return first_identifier > kNever; }
  bool is_identifier(u32 terminal) const { return terminal >= first_identifier; }
  u8 first_symbol(u32 terminal) const { return static_cast<u8>(wide() ? terminal / kNever : terminal); }
  static u8 second_symbol(u32 terminal) { return static_cast<u8>(terminal % kNever); }
};

constexpr u32 kAnyDomains = 0;  // instead of the values of variables: unknown

constexpr u32 kAnyColumn = 0xFFFFFFFF;   // instead of columns: unknown
constexpr u32 kPastBlanks = 0x80000000;  // a column that no longer counts: the line has content

constexpr u8 kEndsNot = 1, kEnds = 2, kNeverEnds = 3;  // 0: unknown; kEndsNot: depends on what follows

constexpr u32 kNameOnly = 1;   // it only renames another terminal
constexpr u32 kRivalOnly = 2;  // it competes, and its matches are rejected

// The terminals that the lexeme in progress can still become.
struct LexState {
  struct Entry {
    u32 key;  // terminal << 2 | kNameOnly | kRivalOnly
    Id text;  // its remaining text
    bool operator==(const Entry&) const = default;
  };
  u32 lexer = 0;
  bool start = false;       // between two lexemes
  u32 emitted = kNone;      // it may end here, as this terminal,
  Id munch_guard = kEmpty;  // unless a prefix of what follows is one of these texts: the lexeme would have continued
  bool line = false;        // it is ignored, and a line break may follow it
  std::vector<Entry> entries;
  bool operator==(const LexState&) const = default;
};
inline u64 bucket_hash(const LexState& s) {
  BucketHash hash(u64{s.lexer} << 2 | u64{s.line} << 1 | s.start);
  hash.add(u64{s.emitted} << 32 | index_of(s.munch_guard));
  for (const auto& e : s.entries) hash.add(u64{e.key} << 32 | index_of(e.text));
  return hash.done();
}

inline std::size_t bytes_of(const LexState& of) { return bytes_of(of.entries); }

struct LexStep {
  bool known = false;
  u32 next = kNone;   // the lexeme may continue
  u32 ended = kNone;  // it cannot, and is this terminal
};

struct Layout {  // position in the indentation
  std::vector<u32> columns;
  u32 brackets = 0;
  bool operator==(const Layout&) const = default;
};
inline u64 bucket_hash(const Layout& l) { return BucketHash(l.brackets).add(l.columns).done(); }

inline std::size_t bytes_of(const Layout& of) { return bytes_of(of.columns); }

struct ValueSet {  // values of a variable
  Bits bits;
  bool operator==(const ValueSet&) const = default;
};
inline u64 bucket_hash(const ValueSet& s) {
  BucketHash hash(s.bits.size());
  for (u64 word : s.bits) hash.add(word);
  return hash.done();
}

inline std::size_t bytes_of(const ValueSet& of) { return bytes_of(of.bits); }

struct NumberList {
  std::vector<u32> list;
  bool operator==(const NumberList&) const = default;
};
inline u64 bucket_hash(const NumberList& l) { return BucketHash(1).add(l.list).done(); }

inline std::size_t bytes_of(const NumberList& of) { return bytes_of(of.list); }

// The meaning of the nodes' numbers.
inline u32 terminal_symbols(const Node& n) { return n.a; }  // of a Terminal
inline bool is_textless(const Node& n) { return n.b; }
inline Id binding_body(const Node& n) { return n.body(); }  // of a Binding
inline u32 binding_lexer(const Node& n) { return n.b; }
inline u32 binding_domains(const Node& n) { return n.min; }
inline u32 lexed_lexer(const Node& n) { return n.a; }  // of a Lexed
inline Id lexed_grammar(const Node& n) { return n.tail(); }
inline u32 lexed_layout(const Node& n) { return n.min; }
inline bool is_resumed(const Node& n) { return n.max; }     // inside a text
inline u32 scan_state(const Node& n) { return n.a; }        // of a Scan: the lexeme in progress
inline Id scan_grammar(const Node& n) { return n.tail(); }  // the rest of the grammar
inline u32 scan_layout(const Node& n) { return n.min; }
inline u32 scan_column(const Node& n) { return n.max; }
inline Id guard_texts(const Node& n) { return n.head(); }  // of a MunchGuard
inline Id guarded(const Node& n) { return n.tail(); }

// All functions require that the caller holds the mutex, or that no other thread knows the arena yet.
class Lexed final : public Family {
 public:
  static constexpr std::array kKinds{Kind::Lexed, Kind::Terminal, Kind::Binding, Kind::Scan, Kind::MunchGuard};
  using Family::Family;
  static Lexed& of(Arena& arena) { return arena.family<Lexed>(); }
  bool used() const { return !lexers_.empty(); }  // needs no mutex, once finalized

  // -- construction --
  u32 lexer(Lexer lexer);
  Id terminal(u32 lexer, u32 index);
  Id never(u32 lexer);           // after a terminal: it competes for lexemes, but nothing can follow it
  Id lexed(u32 lexer, Id body);  // the body is over terminals of the lexer
  // The body, whose placeholders choose the values of variables. `domains`: the possible values of each variable.
  Id binding(u32 lexer, std::vector<Bits> domains, Id body);
  u32 value_set(Bits values);

  // -- lexemes without their grammar (see pieces.cpp) --
  struct Place {  // between two lexemes: the rest of the grammar, and the layout
    Id parse;
    u32 layout;
  };
  struct Lexeme {    // in progress
    Id munch_guard;  // kEmpty: none
    u32 lexer, state, column;
  };
  struct LexemeEnd {
    u32 lexer, terminal, column;
    Id munch_guard;  // no prefix of what follows is one of these texts
    bool whole;      // it ends with the last byte; else before the next one
  };
  enum class After { Nothing, Unknown, Something };
  struct Begins {         // what may begin at a place
    u32 start = 0;        // lexemes of the grammar's own terminals: a LexState
    u32 identifiers = 0;  // a list of LexStates, see identifier_starts
  };
  bool lexed_place(Id e, Lexeme& lexeme, Place& place) const;  // false: not a lexed text in progress
  bool is_open(Id e) const;
  Id lexed_start(Id e);  // the state between lexemes that a Lexed begins with
  Id nested_at(u32 lexer, const Place& place);
  Id munch_guard(Id texts, Id rest);
  Id open_lexeme(const Lexeme& lexeme);  // the lexeme alone, without its grammar
  LexemeEnd lexeme_end(Id open);         // requires kLexemeMayEnd
  bool munch_guard_allows(Id munch_guard, u8 byte);
  // Moves a place past a lexeme. `begins`: the lexemes that may begin there. Unknown: the place is cut too short.
  After after_end(const LexemeEnd& end, Place& place, Begins& begins, bool exact);
  // The same without moving the place, which may be cut; mostly without computing the rest of the grammar there.
  After peek_end(const LexemeEnd& end, const Place& place, Begins& begins);
  // A place without the alternatives that the lexeme cannot begin, and without optional parts in front of the others.
  // What follows the lexeme is the same.
  Place reading_end(const LexemeEnd& end, const Place& place);
  void pass_end(const LexemeEnd& end, Place& place) { pass_lexeme(end.lexer, end.terminal, end.column, place); }
  // The next `kept` parts of the grammar, without the indentation. `shape`: also without the values of variables.
  Place cut_place(u32 lexer, const Place& place, u32 kept, bool shape = false);
  // Which columns may the line that begins after a lexeme have? Any: it begins no line, or it is inside brackets.
  enum class Column { Any, This, None };
  Column column_at(const LexemeEnd& end, const Place& place);
  const Lexer& lexer_of(u32 lexer) const { return lexers_[lexer]; }
  // Can the rest of the grammar read this identifier at only one place? Then it is read there for any values.
  bool read_in_one_way(u32 lexer, Id parse, u32 identifier);
  // The identifiers that may begin between lexemes: a LexState for each variable and relation. kNone: unknown ones.
  const std::vector<u32>& identifier_starts(u32 list) const { return start_lists_.values[list].list; }
  bool place_ends(u32 lexer, const Place& place) { return parse_ends(lexer, place.parse, place.layout); }
  // A Scan without the keywords whose owners it contains. `texts`: the union of their texts. The two states differ only
  // after such a text. kEmpty: there are none.
  Id scan_without_names(Id e, Id& texts);
  Id cut_scan(Id e);

  // -- the interface of Family --
  Id derivative(Id e, u8 byte) override;
  ByteSet first_bytes(Id e) override;
  Id derivative_by_symbol(Id e, u32 symbol) override;
  void symbols_at(Id e, std::vector<u32>& out, std::vector<Id>& open) override;
  Id live_as(Id e) override { return node(e).kind == Kind::Lexed ? lexed_start(e) : e; }
  bool surely_live(Id e) override;
  u32 joined_kinds() const override { return u32{1} << static_cast<u32>(Kind::Terminal); }
  bool join(Ids& parts) override;
  void describe(Id e, Description& to) const override;
  std::vector<DumpItem> dump(Id e) const override;
  void productive(Id e, const std::vector<char>& known, bool& nullable, bool& productive) const override;
  Id left_edge(Id e) const override;
  void split_bytes(ByteSet& starts) override;
  void finalize() override;
  void note_extent() override;
  void survey() override;
  void fresh(Arena& to) const override;
  void count(Tally& to) const override;

 private:
  static constexpr u8 kCut = 255;  // the symbol for everything that was cut off (near_form)
  struct Facts {                   // of a LexState
    bool lines = false;            // a line break is being read: columns count
    bool tokens = false;           // it has special tokens
    ByteSet beyond;                // bytes that may follow if it ends here
    u8 ends = 0;                   // see lexeme_ends, context_holds
    std::vector<LexStep> steps;    // by byte class
  };
  struct Peek {           // after a terminal
    ByteSet first, kept;  // like those of the rest of the grammar there
    u32 identifiers = 0;  // a list, as in Begins
    bool live = false;    // something can still follow, or the text can end
    bool nullable = false;
    bool operator==(const Peek&) const = default;
    friend u64 bucket_hash(const Peek& p) {
      BucketHash hash(u64{p.identifiers} << 2 | u64{p.live} << 1 | u64{p.nullable});
      for (const ByteSet* set : {&p.first, &p.kept})
        for (u64 word : set->words) hash.add(word);
      return hash.done();
    }
    friend std::size_t bytes_of(const Peek&) { return 0; }
  };
  class Sampling;

  const Lexer& lexer_at(u32 lexer) const;
  Id symbols_of(const ByteSet& set, bool textless);
  // bindings
  void check_identifiers(Lexer& lexer) const;
  Id bind(u32 lexer, u32 domains, Id body);
  Id derive_binding(Id e, u8 symbol);
  Id derive_identifier(Id e, u32 terminal);
  ByteSet seen_from_outside(u32 lexer, ByteSet symbols) const;
  u32 identifier_start(u32 lexer, u32 values, u32 relation);
  void add_identifier_starts(Id binding, const ByteSet& symbols, std::vector<u32>& out);
  template <class F>
  bool each_binding(Id parse, F f);
  void find_identifiers(Id parse, std::vector<u32>& out);
  u32 identifiers_at(Id parse);
  u32 start_list(std::vector<u32> starts);
  bool identifiers_hold(u32 lexer, u32 list);
  // lexemes
  u32 lex_state(LexState state);
  u32 lex_start(u32 lexer, const Bits& context, const Bits& rivals);
  template <class LeadsOn>
  u32 lex_start_in(u32 lexer, Bits context, bool brackets, LeadsOn leads_on);
  u32 lex_start_by(u32 lexer, u32 symbols, u32 kept, bool brackets);
  u32 lex_start_of(u32 lexer, Id parse, bool brackets);
  template <class Read>
  LexStep lex_step_by(u32 state, Read read);
  LexStep lex_step(u32 state, u8 byte);
  LexStep lex_step_symbol(u32 state, u32 symbol);
  Id read_text(Id text, u8 byte);
  bool all_ignored(const LexState& state) const;
  u32 first_kept(Id parse);
  // places
  Id advance(u32 lexer, Id parse, u32 terminal);
  bool parse_ends(u32 lexer, Id parse, u32 layout);
  u32 equivalent_column(u32 lexer, Id parse, const Layout& at, u32 column);
  u32 next_column(Id e, const LexStep& step, u8 byte) const;
  bool pass_lexeme(u32 lexer, u32 terminal, u32 column, Place& place);
  u32 layout_id(Layout layout);
  Id scan(u32 state, Id parse, u32 layout, u32 column);
  Id scan_start(u32 lexer, Id parse, u32 layout);
  Id scan_after(u32 lexer, u32 terminal, Id parse, u32 layout, u32 column);
  Id lexed_rest(u32 lexer, Id parse, u32 layout);
  Id after_step(Id e, const LexStep& step, u32 column);
  Id derive_scan(Id e, u8 byte);
  Id derive_scan_symbol(Id e, u32 symbol);
  Id derive_munch_guard(Id e, u8 byte);
  ByteSet first_scan(Id e);
  void scan_symbols(Id e, std::vector<u32>& out);
  // open lexemes, and cut places
  Id hole();
  Id open_scan(u32 state, u32 column);
  bool beyond_cut(Id parse) { return first(parse).has(kCut); }
  Id cut_grammar(u32 lexer, Id parse, u32 kept, bool shape = false);
  bool peek(Id parse, u8 symbol, Peek& to);
  bool peek_fresh(Id parse, u8 symbol, Peek& to);
  void peek_past(const Peek& head, Id tail, Peek& to);
  bool peek_binding(Id binding, u8 symbol, Peek& to);
  Id reading(Id parse, u8 symbol);
  // emptiness
  bool guard_can_hold(u32 lexer, Id munch_guard);
  bool lexeme_ends_at(u32 state);
  bool lexeme_ends(u32 state);
  u32 lexeme_missing(u32 state, u32 terminal) const;
  ByteSet lexeme_first(u32 state, u32 terminal);
  Id munch_guard_lives(Id e);
  bool context_holds(u32 start);
  void sample(u32 start, u32 most, u32 wanted);
  const std::vector<std::string>& samples(u32 id, u32 terminal);

  std::deque<Lexer> lexers_;
  Interned<LexState> states_;
  Interned<Layout> layouts_;
  std::vector<ByteSet> symbol_sets_;
  IdTable symbol_set_ids_;
  std::deque<Facts> facts_;  // by state
  Interned<ValueSet> value_sets_;
  Interned<NumberList> domains_;      // value sets, by variable; the first (kAnyDomains): unknown
  Interned<NumberList> start_lists_;  // the first is empty
  FlatMap<> identifier_starts_;       // (lexer, values, relation) -> LexState
  FlatMap<> identifiers_at_;          // rest of the grammar -> list of starts
  FlatMap<> starts_;                  // (lexer, first symbols of the rest of the grammar, in brackets) -> LexState
  FlatMap<> wide_starts_;             // (lexer, rest of the grammar, in brackets) -> LexState
  FlatMap<Id> advances_;              // (rest of the grammar, terminal) -> the rest after it
  FlatMap<> kept_;                    // see first_kept
  FlatMap<> ahead_;                   // (part of a grammar, terminal) -> peeks; kNone: only the rest could tell
  Interned<Peek> peeks_;
  FlatMap<Id> cuts_;              // see cut_grammar
  std::vector<u32> cut_layouts_;  // layouts without columns
  Id hole_ = kEmpty;              // see hole
  std::size_t step_bytes_ = 0;    // of the steps
  std::size_t lexer_bytes_ = 0;   // of the lexers, when finalized
  std::vector<u64> sampling_;     // lexer << 32 | terminal: whose samples are being searched
  struct Extent {                 // at finalization
    u32 states = 0, layouts = 0, symbol_sets = 0, value_sets = 0, domains = 0;
  } extent_;
};

}  // namespace guiderail
