// Texts cut into terminals by a contextual lexer, and read by a grammar of terminals (see lexing.cpp).
#pragma once

#include <deque>
#include <optional>

#include "json/members.hpp"

namespace guiderail {

constexpr u32 kNone = 0xFFFFFFFF;
constexpr u8 kNever = 254;  // the symbol of never()

struct Terminal {
  Id text = kEmpty;  // kEmpty: it has none (an indentation is no text)
  // Ends where it matches last, or first; Lazy: first, and so does the lexeme, whatever others could still become.
  // Nested: a language of its own, no lexeme (see lexing.cpp).
  enum class Ends : u8 { Last, First, Lazy, Nested } ends = Ends::Last;
  std::vector<u32> keyword_of;  // where one of these may come too, it is only another name of it
  u32 guard_of = kNone;         // competes wherever that one may come
};

struct Indentation {
  u32 newline = 0, indent = 0, dedent = 0;
  std::vector<u32> opening, closing;
  u32 tab = 8;
  bool strict_tabs = false, final_newline = false;
};

struct Lexer {
  std::vector<Terminal> terminals;  // first come those that are preferred
  std::vector<u8> ignored;          // by terminal
  std::optional<Indentation> indentation;
  std::string before;                             // read as if it stood before the text
  std::vector<u32> traps;                         // what may stand in front of never()
  std::vector<u32> nested;                        // terminals that are languages of their own
  std::vector<std::vector<std::string>> samples;  // of each terminal, see Arena::samples
  std::vector<u8> sampled;
  // Found when the arena is finalized: bytes that are ignored between lexemes; bytes at which one may begin.
  ByteSet separators, begins;
  bool wide() const { return terminals.size() > 254; }  // symbols of two bytes
};

constexpr u32 kAnyColumn = 0xFFFFFFFF;     // instead of columns: not known
constexpr u32 kBehindBlanks = 0x80000000;  // a column that no longer counts: something stands in the line

constexpr u8 kEndsNot = 1, kEnds = 2, kNeverEnds = 3;  // 0: not known; 1: only what follows could tell

constexpr u32 kNameOnly = 1;   // it is only another name of another one
constexpr u32 kRivalOnly = 2;  // it competes, and a text that it takes is refused

// What the lexeme being read can still become.
struct LexState {
  struct Entry {
    u32 key;  // terminal << 2 | kNameOnly | kRivalOnly
    Id text;  // what is left of it
    bool operator==(const Entry&) const = default;
  };
  u32 lexer = 0;
  bool start = false;       // between two lexemes
  u32 emitted = kNone;      // it may end here, as this terminal,
  Id munch_guard = kEmpty;  // if no beginning of what follows is one of these texts: it would have gone on
  bool line = false;        // it is ignored, and a line break may stand after it
  std::vector<Entry> entries;
  bool operator==(const LexState&) const = default;
};
inline u64 bucket_hash(const LexState& s) {
  BucketHash hash(u64{s.lexer} << 2 | u64{s.line} << 1 | s.start);
  hash.add(u64{s.emitted} << 32 | s.munch_guard);
  for (const auto& e : s.entries) hash.add(u64{e.key} << 32 | e.text);
  return hash.done();
}

inline std::size_t bytes_of(const LexState& of) { return bytes_of(of.entries); }

struct LexStep {
  bool known = false;
  u32 next = kNone;   // the lexeme may go on
  u32 ended = kNone;  // it cannot: it is this terminal
};

struct Layout {  // where in the indentation
  std::vector<u32> columns;
  u32 brackets = 0;
  bool operator==(const Layout&) const = default;
};
inline u64 bucket_hash(const Layout& l) { return BucketHash(l.brackets).add(l.columns).done(); }

inline std::size_t bytes_of(const Layout& of) { return bytes_of(of.columns); }

struct LexParts {
  std::deque<Lexer> lexers;
  Interned<LexState> states;
  Interned<Layout> layouts;
  std::vector<ByteSet> symbol_sets;
  IdTable symbol_set_ids;
  struct Facts {
    bool lines = false;          // a line break is being read: columns count
    bool tokens = false;         // special tokens
    ByteSet beyond;              // bytes that may follow its end here
    u8 ends = 0;                 // see Arena::lexeme_ends, Arena::context_holds
    std::vector<LexStep> steps;  // by byte class
  };
  std::deque<Facts> facts;  // of states
  FlatMap starts;           // (lexer, first symbols of what is left of the grammar, in brackets) -> LexState
  FlatMap wide_starts;      // (lexer, what is left of the grammar, in brackets) -> LexState
  FlatMap advances;         // (rest of the grammar, terminal) -> the rest after it
  FlatMap kept;             // see Arena::first_kept
  FlatMap ahead;            // (part of a grammar, terminal) -> peeks
  std::vector<Arena::Peek> peeks;
  FlatMap cuts;                  // see Arena::cut_grammar
  std::vector<u32> cut_layouts;  // layouts without columns
  Id hole = kEmpty;              // see Arena::hole
  std::size_t bytes = 0;         // of the steps
  std::size_t lexer_bytes = 0;   // of the lexers, when finalized
  struct Extent {
    u32 states = 0, layouts = 0, symbol_sets = 0;
  } extent;  // see Arena::fresh
  void note_extent();
  std::unique_ptr<LexParts> fresh() const;
  std::size_t memory() const;
};

}  // namespace guiderail
