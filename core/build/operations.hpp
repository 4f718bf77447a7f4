// The operations that make expressions from outside: one struct for each, which holds its arguments.
//
// This is the only table of operations. Python's Builder, the C interface and program files all construct through it.
// So whatever a program contains can be recorded as the operations that made it, and goes through the same checks
// wherever it comes from.
//
// An operation lists its arguments in `fields`, for visitors that check handles, write or read (see recording.hpp).
// `make` makes the expression in an arena. Arguments may be anything: `make` rejects invalid ones with an Error, except
// for handles, which Builder::add has checked. Codes are stored in files (docs/program_format.md): they never change.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "expr/expression.hpp"

namespace guiderail {

enum class LexerId : u32 {};  // a lexer, by its index in the arena
enum class Nothing : u32 {};  // the result of an operation that makes neither

struct Lexer;  // of lexed/

namespace operations {

using Numbers = std::vector<u32>;
using Strings = std::vector<std::string>;
using Name = std::variant<std::string, u32>;  // of a token: its text or its id
using Names = std::vector<Name>;

struct Literal {
  static constexpr u8 kCode = 1;
  static constexpr const char* kName = "literal";
  std::string text;
  auto fields() { return std::tie(text); }
  Id make(Arena& arena) { return arena.literal(text); }
};

struct CharClass {
  static constexpr u8 kCode = 2;
  static constexpr const char* kName = "char_class";
  CharSet::Ptr set;
  auto fields() { return std::tie(set); }
  Id make(Arena& arena) { return arena.char_class(set); }
};

struct ByteClass {
  static constexpr u8 kCode = 3;
  static constexpr const char* kName = "byte_class";
  ByteSet set;
  auto fields() { return std::tie(set); }
  Id make(Arena& arena) { return arena.bytes(set); }
};

struct Concat {
  static constexpr u8 kCode = 4;
  static constexpr const char* kName = "concat";
  std::vector<Id> parts;
  auto fields() { return std::tie(parts); }
  Id make(Arena& arena) { return arena.concat_all(parts); }
};

struct Union {
  static constexpr u8 kCode = 5;
  static constexpr const char* kName = "union";
  std::vector<Id> parts;
  auto fields() { return std::tie(parts); }
  Id make(Arena& arena);
};

struct Intersection {
  static constexpr u8 kCode = 6;
  static constexpr const char* kName = "intersection";
  std::vector<Id> parts;
  auto fields() { return std::tie(parts); }
  Id make(Arena& arena) { return arena.intersect(parts); }
};

struct Complement {
  static constexpr u8 kCode = 7;
  static constexpr const char* kName = "complement";
  Id of;
  auto fields() { return std::tie(of); }
  Id make(Arena& arena) { return arena.complement_text(of); }
};

struct Repeat {
  static constexpr u8 kCode = 8;
  static constexpr const char* kName = "repeat";
  Id of;
  std::int64_t min, max;  // max < 0: no bound, here and below
  auto fields() { return std::tie(of, min, max); }
  Id make(Arena& arena);
};

struct Choice {
  static constexpr u8 kCode = 9;
  static constexpr const char* kName = "choice";
  Strings texts;
  auto fields() { return std::tie(texts); }
  Id make(Arena& arena);
};

struct SubstringOf {
  static constexpr u8 kCode = 10;
  static constexpr const char* kName = "substring_of";
  Strings texts;
  auto fields() { return std::tie(texts); }
  Id make(Arena& arena);
};

struct SubstringOfChunks {
  static constexpr u8 kCode = 11;
  static constexpr const char* kName = "substring_of_chunks";
  Strings chunks;
  auto fields() { return std::tie(chunks); }
  Id make(Arena& arena) { return arena.substring_of_chunks(chunks); }
};

struct LookAhead {
  static constexpr u8 kCode = 12;
  static constexpr const char* kName = "look_ahead";
  Id of;
  bool negative;
  auto fields() { return std::tie(of, negative); }
  Id make(Arena& arena) { return arena.ahead(of, negative); }
};

struct LookBehind {
  static constexpr u8 kCode = 13;
  static constexpr const char* kName = "look_behind";
  Id of;
  bool negative;
  auto fields() { return std::tie(of, negative); }
  Id make(Arena& arena) { return arena.behind(arena.concat(arena.any_text(), of), negative); }
};

struct Scope {
  static constexpr u8 kCode = 14;
  static constexpr const char* kName = "scope";
  Id of;
  auto fields() { return std::tie(of); }
  Id make(Arena& arena) { return arena.scope(of); }
};

struct OneToken {
  static constexpr u8 kCode = 15;
  static constexpr const char* kName = "token";
  Names names;
  auto fields() { return std::tie(names); }
  Id make(Arena& arena);
};

struct TokenOf {
  static constexpr u8 kCode = 16;
  static constexpr const char* kName = "token_set";
  Names tokens;
  bool but;
  auto fields() { return std::tie(tokens, but); }
  Id make(Arena& arena) { return arena.token({TokenSet{tokens, but}}); }
};

struct Counted {
  static constexpr u8 kCode = 17;
  static constexpr const char* kName = "counted";
  Id of;
  u32 most;
  auto fields() { return std::tie(of, most); }
  Id make(Arena& arena) { return arena.counted(of, most); }
};

struct Rule {
  static constexpr u8 kCode = 18;
  static constexpr const char* kName = "rule";
  std::string name;
  bool holds_items;
  auto fields() { return std::tie(name, holds_items); }
  Id make(Arena& arena) { return arena.rule(name, holds_items); }
};

struct Define {
  static constexpr u8 kCode = 19;
  static constexpr const char* kName = "define";
  Id rule, body;
  auto fields() { return std::tie(rule, body); }
  Nothing make(Arena& arena) { return arena.define(rule, body), Nothing{}; }
};

struct Escaped {
  static constexpr u8 kCode = 20;
  static constexpr const char* kName = "escaped";
  Id of;
  u32 mode;
  auto fields() { return std::tie(of, mode); }
  Id make(Arena& arena);
};

// The common part of objects and votes.
struct Table {
  struct Value {
    Id value;
    u32 discharges;
    auto fields() { return std::tie(value, discharges); }
  };
  struct Others {
    Id key, value;
    bool dense;
    u32 discharges;
    auto fields() { return std::tie(key, value, dense, discharges); }
  };
  Strings names;
  std::vector<std::vector<Value>> values;  // by name
  std::vector<bool> required;              // by name
  std::vector<Others> others;
  Id comma, colon;
  bool ordered;
  u32 escapes;
  auto fields() { return std::tie(names, values, required, others, comma, colon, ordered, escapes); }
};

struct Members {
  static constexpr u8 kCode = 21;
  static constexpr const char* kName = "members";
  Table table;
  std::int64_t min, max;
  u32 pending;
  auto fields() { return std::tie(table, min, max, pending); }
  Id make(Arena& arena);
};

struct Part {  // of a formula over cells: see json/formula.hpp
  u32 op;
  Numbers of;
  auto fields() { return std::tie(op, of); }
};

struct Vote {
  static constexpr u8 kCode = 22;
  static constexpr const char* kName = "vote";
  struct Cell {
    Numbers needed;
    u32 min;
    std::int64_t max;
    auto fields() { return std::tie(needed, min, max); }
  };
  struct Settled {
    Numbers cells;
    Id start;
    auto fields() { return std::tie(cells, start); }
  };
  struct Whole {
    Numbers values;
    Id value;
    auto fields() { return std::tie(values, value); }
  };
  Table table;
  std::vector<Cell> cells;
  std::vector<Part> parts;
  std::vector<Numbers> effects;
  std::vector<Settled> settled;
  std::vector<std::vector<Whole>> wholes;  // by name
  auto fields() { return std::tie(table, cells, parts, effects, settled, wholes); }
  Id make(Arena& arena);
};

struct Item {
  static constexpr u8 kCode = 23;
  static constexpr const char* kName = "item";
  Id of;
  u32 left;
  u32 label;
  auto fields() { return std::tie(of, left, label); }
  Id make(Arena& arena);
};

struct Distinct {
  static constexpr u8 kCode = 24;
  static constexpr const char* kName = "distinct";
  Id body;
  auto fields() { return std::tie(body); }
  Id make(Arena& arena);
};

struct Tally {
  static constexpr u8 kCode = 25;
  static constexpr const char* kName = "tally";
  struct Items {
    Id value;
    Numbers fails, counts;
    auto fields() { return std::tie(value, fails, counts); }
  };
  struct Cell {
    u32 min;
    std::int64_t max;
    auto fields() { return std::tie(min, max); }
  };
  struct Counter {
    u32 cell, min;
    std::int64_t max;
    auto fields() { return std::tie(cell, min, max); }
  };
  std::vector<std::vector<Items>> places;
  Id comma;
  std::vector<Cell> cells;
  std::vector<Part> parts;
  std::vector<Counter> counters;
  auto fields() { return std::tie(places, comma, cells, parts, counters); }
  Id make(Arena& arena);
};

struct Twice {
  static constexpr u8 kCode = 26;
  static constexpr const char* kName = "twice";
  Id body;
  auto fields() { return std::tie(body); }
  Id make(Arena& arena);
};

struct Decimals {
  static constexpr u8 kCode = 27;
  static constexpr const char* kName = "decimals";
  struct Cut {
    std::string whole, fraction;
    u32 at, above;
    std::string gap;
    auto fields() { return std::tie(whole, fraction, at, above, gap); }
  };
  struct Multiples {
    std::string step;
    Strings gaps;
    auto fields() { return std::tie(step, gaps); }
  };
  struct Label {
    bool dotted;
    std::vector<Multiples> parts;
    auto fields() { return std::tie(dotted, parts); }
  };
  std::vector<Cut> cuts;
  std::vector<Label> labels;
  Strings moduli;
  u32 scale;
  std::int64_t room;
  auto fields() { return std::tie(cuts, labels, moduli, scale, room); }
  Id make(Arena& arena);
};

struct Lexer {
  static constexpr u8 kCode = 28;
  static constexpr const char* kName = "lexer";
  struct Terminal {
    Id text;
    u32 ends;
    Numbers keyword_of;
    std::optional<u32> guard_of;
    auto fields() { return std::tie(text, ends, keyword_of, guard_of); }
  };
  struct Lines {
    u32 newline, indent, dedent;
    Numbers opening, closing;
    u32 tab;
    bool strict_tabs, final_newline;
    auto fields() { return std::tie(newline, indent, dedent, opening, closing, tab, strict_tabs, final_newline); }
  };
  std::vector<Terminal> terminals;
  Numbers ignore;
  std::optional<Lines> indentation;
  std::string before;
  Numbers traps;
  auto fields() { return std::tie(terminals, ignore, indentation, before, traps); }
  guiderail::Lexer checked(const Arena& arena) const;
  LexerId make(Arena& arena);
};

struct Terminal {
  static constexpr u8 kCode = 29;
  static constexpr const char* kName = "terminal";
  LexerId lexer;
  u32 index;
  auto fields() { return std::tie(lexer, index); }
  Id make(Arena& arena);
};

struct Never {
  static constexpr u8 kCode = 30;
  static constexpr const char* kName = "never";
  LexerId lexer;
  auto fields() { return std::tie(lexer); }
  Id make(Arena& arena);
};

struct Lexed {
  static constexpr u8 kCode = 31;
  static constexpr const char* kName = "lexed";
  LexerId lexer;
  Id body;
  auto fields() { return std::tie(lexer, body); }
  Id make(Arena& arena);
};

struct IdentifierLexer {  // the last terminals are identifiers
  static constexpr u8 kCode = 32;
  static constexpr const char* kName = "identifier_lexer";
  struct Identifier {
    u32 relation;
    Numbers values;
    auto fields() { return std::tie(relation, values); }
  };
  struct Placeholder {
    u32 terminal, variable, relation;
    auto fields() { return std::tie(terminal, variable, relation); }
  };
  Lexer lexer;
  std::vector<Identifier> identifiers;
  std::vector<Placeholder> placeholders;
  auto fields() { return std::tie(lexer, identifiers, placeholders); }
  LexerId make(Arena& arena);
};

struct Binding {
  static constexpr u8 kCode = 33;
  static constexpr const char* kName = "binding";
  LexerId lexer;
  std::vector<Numbers> domains;
  Id body;
  auto fields() { return std::tie(lexer, domains, body); }
  Id make(Arena& arena);
};

// Patterns that a text is read beside, the outcomes that they lead to, and what may follow each: see
// json/patterned.cpp.
struct Patterned {
  static constexpr u8 kCode = 34;
  static constexpr const char* kName = "patterned";
  Id text;
  std::vector<Id> patterns;
  std::vector<Numbers> next;  // by outcome, by pattern
  std::vector<Id> values;     // by outcome
  auto fields() { return std::tie(text, patterns, next, values); }
  Id make(Arena& arena);
};

// What a group with this label has matched; it may stand only in what follows that group: see captures/captures.cpp.
struct Recall {
  static constexpr u8 kCode = 35;
  static constexpr const char* kName = "recall";
  u32 label;
  auto fields() { return std::tie(label); }
  Id make(Arena& arena);
};

struct Capture {
  static constexpr u8 kCode = 36;
  static constexpr const char* kName = "capture";
  u32 label;
  Id group, rest;
  auto fields() { return std::tie(label, group, rest); }
  Id make(Arena& arena);
};

}  // namespace operations

using Operation =
    std::variant<operations::Literal, operations::CharClass, operations::ByteClass, operations::Concat,
                 operations::Union, operations::Intersection, operations::Complement, operations::Repeat,
                 operations::Choice, operations::SubstringOf, operations::SubstringOfChunks, operations::LookAhead,
                 operations::LookBehind, operations::Scope, operations::OneToken, operations::TokenOf,
                 operations::Counted, operations::Rule, operations::Define, operations::Escaped, operations::Members,
                 operations::Vote, operations::Item, operations::Distinct, operations::Tally, operations::Twice,
                 operations::Decimals, operations::Lexer, operations::Terminal, operations::Never, operations::Lexed,
                 operations::IdentifierLexer, operations::Binding, operations::Patterned, operations::Recall,
                 operations::Capture>;

// The result of an operation: an Id, a LexerId or Nothing.
template <class Op>
using Given = decltype(std::declval<Op&>().make(std::declval<Arena&>()));

}  // namespace guiderail
