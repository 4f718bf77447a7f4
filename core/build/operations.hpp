// The operations by which expressions are made from outside: one struct each, with what it is given.
//
// This is the one table of them. Python's Builder, the C interface and program files all construct by these, so
// whatever a program holds can be written down as the operations that made it, and is checked alike wherever it comes
// from.
//
// An operation lists its arguments in `fields`, for visitors that check handles, write and read (see recipe.cpp), and
// `make` makes the expression in an arena. Arguments may be anything: `make` refuses with an Error what makes no sense,
// all but handles, which Builder::add has checked. Codes stand in files (docs/program_format.md): they never change.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "expr/expression.hpp"

namespace guiderail {

enum class Gives { Expression, Lexer, Nothing };

namespace operations {

using Numbers = std::vector<u32>;
using Strings = std::vector<std::string>;
using Names = std::vector<std::variant<std::string, u32>>;  // tokens, by text or id

struct Literal {
  static constexpr u8 kCode = 1;
  static constexpr const char* kName = "literal";
  std::string text;
  template <class V>
  void fields(V& v) {
    v.text(text);
  }
  Id make(Arena& arena) { return arena.literal(text); }
};

struct CharClass {
  static constexpr u8 kCode = 2;
  static constexpr const char* kName = "char_class";
  CharSet::Ptr set;
  template <class V>
  void fields(V& v) {
    v.characters(set);
  }
  Id make(Arena& arena) { return arena.char_class(set); }
};

struct ByteClass {
  static constexpr u8 kCode = 3;
  static constexpr const char* kName = "byte_class";
  ByteSet set;
  template <class V>
  void fields(V& v) {
    v.bytes(set);
  }
  Id make(Arena& arena) { return arena.bytes(set); }
};

struct Concat {
  static constexpr u8 kCode = 4;
  static constexpr const char* kName = "concat";
  std::vector<Id> parts;
  template <class V>
  void fields(V& v) {
    v.expressions(parts);
  }
  Id make(Arena& arena) { return arena.concat_all(parts); }
};

struct Union {
  static constexpr u8 kCode = 5;
  static constexpr const char* kName = "union";
  std::vector<Id> parts;
  template <class V>
  void fields(V& v) {
    v.expressions(parts);
  }
  Id make(Arena& arena);
};

struct Intersection {
  static constexpr u8 kCode = 6;
  static constexpr const char* kName = "intersection";
  std::vector<Id> parts;
  template <class V>
  void fields(V& v) {
    v.expressions(parts);
  }
  Id make(Arena& arena) { return arena.intersect(parts); }
};

struct Complement {
  static constexpr u8 kCode = 7;
  static constexpr const char* kName = "complement";
  Id of;
  template <class V>
  void fields(V& v) {
    v.expression(of);
  }
  Id make(Arena& arena) { return arena.complement_text(of); }
};

struct Repeat {
  static constexpr u8 kCode = 8;
  static constexpr const char* kName = "repeat";
  Id of;
  std::int64_t min, max;  // max < 0: no bound, here as everywhere below
  template <class V>
  void fields(V& v) {
    v.expression(of), v.integer(min), v.integer(max);
  }
  Id make(Arena& arena);
};

struct Choice {
  static constexpr u8 kCode = 9;
  static constexpr const char* kName = "choice";
  Strings texts;
  template <class V>
  void fields(V& v) {
    v.texts(texts);
  }
  Id make(Arena& arena);
};

struct SubstringOf {
  static constexpr u8 kCode = 10;
  static constexpr const char* kName = "substring_of";
  Strings texts;
  template <class V>
  void fields(V& v) {
    v.texts(texts);
  }
  Id make(Arena& arena);
};

struct SubstringOfChunks {
  static constexpr u8 kCode = 11;
  static constexpr const char* kName = "substring_of_chunks";
  Strings chunks;
  template <class V>
  void fields(V& v) {
    v.texts(chunks);
  }
  Id make(Arena& arena) { return arena.substring_of_chunks(chunks); }
};

struct LookAhead {
  static constexpr u8 kCode = 12;
  static constexpr const char* kName = "look_ahead";
  Id of;
  bool negative;
  template <class V>
  void fields(V& v) {
    v.expression(of), v.flag(negative);
  }
  Id make(Arena& arena) { return arena.ahead(of, negative); }
};

struct LookBehind {
  static constexpr u8 kCode = 13;
  static constexpr const char* kName = "look_behind";
  Id of;
  bool negative;
  template <class V>
  void fields(V& v) {
    v.expression(of), v.flag(negative);
  }
  Id make(Arena& arena) { return arena.behind(arena.concat(arena.any_text(), of), negative); }
};

struct Scope {
  static constexpr u8 kCode = 14;
  static constexpr const char* kName = "scope";
  Id of;
  template <class V>
  void fields(V& v) {
    v.expression(of);
  }
  Id make(Arena& arena) { return arena.scope(of); }
};

struct OneToken {
  static constexpr u8 kCode = 15;
  static constexpr const char* kName = "token";
  Names names;
  template <class V>
  void fields(V& v) {
    v.names(names);
  }
  Id make(Arena& arena);
};

struct TokenOf {
  static constexpr u8 kCode = 16;
  static constexpr const char* kName = "token_set";
  Names tokens;
  bool but;
  template <class V>
  void fields(V& v) {
    v.names(tokens), v.flag(but);
  }
  Id make(Arena& arena) { return arena.token({TokenSet{tokens, but}}); }
};

struct Counted {
  static constexpr u8 kCode = 17;
  static constexpr const char* kName = "counted";
  Id of;
  u32 most;
  template <class V>
  void fields(V& v) {
    v.expression(of), v.number(most);
  }
  Id make(Arena& arena) { return arena.counted(of, most); }
};

struct Rule {
  static constexpr u8 kCode = 18;
  static constexpr const char* kName = "rule";
  std::string name;
  bool holds_items;
  template <class V>
  void fields(V& v) {
    v.text(name), v.flag(holds_items);
  }
  Id make(Arena& arena) { return arena.rule(name, holds_items); }
};

struct Define {
  static constexpr u8 kCode = 19;
  static constexpr const char* kName = "define";
  static constexpr Gives kGives = Gives::Nothing;
  Id rule, body;
  template <class V>
  void fields(V& v) {
    v.expression(rule), v.expression(body);
  }
  u32 make(Arena& arena) { return arena.define(rule, body), 0; }
};

struct Escaped {
  static constexpr u8 kCode = 20;
  static constexpr const char* kName = "escaped";
  Id of;
  u32 mode;
  template <class V>
  void fields(V& v) {
    v.expression(of), v.number(mode);
  }
  Id make(Arena& arena);
};

// What objects and votes have in common.
struct Table {
  struct Value {
    Id value;
    u32 discharges;
  };
  struct Others {
    Id key, value;
    bool dense;
    u32 discharges;
  };
  Strings names;
  std::vector<std::vector<Value>> values;  // by name
  std::vector<bool> required;              // by name
  std::vector<Others> others;
  Id comma, colon;
  bool ordered;
  u32 escapes;
  template <class V>
  void fields(V& v) {
    v.texts(names);
    v.list(values,
           [&](auto& list) { v.list(list, [&](Value& one) { v.expression(one.value), v.number(one.discharges); }); });
    v.flags(required);
    v.list(others, [&](Others& one) {
      v.expression(one.key), v.expression(one.value), v.flag(one.dense), v.number(one.discharges);
    });
    v.expression(comma), v.expression(colon), v.flag(ordered), v.number(escapes);
  }
};

struct Members {
  static constexpr u8 kCode = 21;
  static constexpr const char* kName = "members";
  Table table;
  std::int64_t min, max;
  u32 pending;
  template <class V>
  void fields(V& v) {
    table.fields(v), v.integer(min), v.integer(max), v.number(pending);
  }
  Id make(Arena& arena);
};

struct Part {  // of a formula over cells, see json/formula.hpp
  u32 op;
  Numbers of;
  template <class V>
  static void list(V& v, std::vector<Part>& parts) {
    v.list(parts, [&](Part& part) { v.number(part.op), v.numbers(part.of); });
  }
};

struct Vote {
  static constexpr u8 kCode = 22;
  static constexpr const char* kName = "vote";
  struct Cell {
    Numbers needed;
    u32 min;
    std::int64_t max;
  };
  struct Settled {
    Numbers cells;
    Id start;
  };
  Table table;
  std::vector<Cell> cells;
  std::vector<Part> parts;
  std::vector<Numbers> effects;
  std::vector<Settled> settled;
  template <class V>
  void fields(V& v) {
    table.fields(v);
    v.list(cells, [&](Cell& cell) { v.numbers(cell.needed), v.number(cell.min), v.integer(cell.max); });
    Part::list(v, parts);
    v.list(effects, [&](Numbers& effect) { v.numbers(effect); });
    v.list(settled, [&](Settled& one) { v.numbers(one.cells), v.expression(one.start); });
  }
  Id make(Arena& arena);
};

struct Item {
  static constexpr u8 kCode = 23;
  static constexpr const char* kName = "item";
  Id of;
  bool infinite;
  u32 label;
  template <class V>
  void fields(V& v) {
    v.expression(of), v.flag(infinite), v.number(label);
  }
  Id make(Arena& arena);
};

struct Distinct {
  static constexpr u8 kCode = 24;
  static constexpr const char* kName = "distinct";
  Id body;
  template <class V>
  void fields(V& v) {
    v.expression(body);
  }
  Id make(Arena& arena);
};

struct Tally {
  static constexpr u8 kCode = 25;
  static constexpr const char* kName = "tally";
  struct Items {
    Id value;
    Numbers fails, counts;
  };
  struct Cell {
    u32 min;
    std::int64_t max;
  };
  struct Counter {
    u32 cell, min;
    std::int64_t max;
  };
  std::vector<std::vector<Items>> places;
  Id comma;
  std::vector<Cell> cells;
  std::vector<Part> parts;
  std::vector<Counter> counters;
  template <class V>
  void fields(V& v) {
    v.list(places, [&](auto& place) {
      v.list(place, [&](Items& items) { v.expression(items.value), v.numbers(items.fails), v.numbers(items.counts); });
    });
    v.expression(comma);
    v.list(cells, [&](Cell& cell) { v.number(cell.min), v.integer(cell.max); });
    Part::list(v, parts);
    v.list(counters, [&](Counter& one) { v.number(one.cell), v.number(one.min), v.integer(one.max); });
  }
  Id make(Arena& arena);
};

struct Twice {
  static constexpr u8 kCode = 26;
  static constexpr const char* kName = "twice";
  Id body;
  template <class V>
  void fields(V& v) {
    v.expression(body);
  }
  Id make(Arena& arena);
};

struct Decimals {
  static constexpr u8 kCode = 27;
  static constexpr const char* kName = "decimals";
  struct Cut {
    std::string whole, fraction;
    u32 at, above;
    std::string gap;
  };
  struct Multiples {
    std::string step;
    Strings gaps;
  };
  struct Label {
    bool dotted;
    std::vector<Multiples> parts;
  };
  std::vector<Cut> cuts;
  std::vector<Label> labels;
  Strings moduli;
  u32 scale;
  std::int64_t room;
  template <class V>
  void fields(V& v) {
    v.list(cuts, [&](Cut& cut) {
      v.text(cut.whole), v.text(cut.fraction), v.number(cut.at), v.number(cut.above), v.text(cut.gap);
    });
    v.list(labels, [&](Label& label) {
      v.flag(label.dotted);
      v.list(label.parts, [&](Multiples& part) { v.text(part.step), v.texts(part.gaps); });
    });
    v.texts(moduli), v.number(scale), v.integer(room);
  }
  Id make(Arena& arena);
};

struct Lexer {
  static constexpr u8 kCode = 28;
  static constexpr const char* kName = "lexer";
  static constexpr Gives kGives = Gives::Lexer;
  struct Terminal {
    Id text;
    u32 ends;
    Numbers keyword_of;
    std::optional<u32> guard_of;
  };
  struct Lines {
    u32 newline, indent, dedent;
    Numbers opening, closing;
    u32 tab;
    bool strict_tabs, final_newline;
  };
  std::vector<Terminal> terminals;
  Numbers ignore;
  std::optional<Lines> indentation;
  std::string before;
  Numbers traps;
  template <class V>
  void fields(V& v) {
    v.list(terminals, [&](Terminal& one) {
      v.expression(one.text), v.number(one.ends), v.numbers(one.keyword_of);
      v.perhaps(one.guard_of, [&](u32& guard) { v.number(guard); });
    });
    v.numbers(ignore);
    v.perhaps(indentation, [&](Lines& lines) {
      v.number(lines.newline), v.number(lines.indent), v.number(lines.dedent);
      v.numbers(lines.opening), v.numbers(lines.closing);
      v.number(lines.tab), v.flag(lines.strict_tabs), v.flag(lines.final_newline);
    });
    v.text(before), v.numbers(traps);
  }
  u32 make(Arena& arena);
};

struct Terminal {
  static constexpr u8 kCode = 29;
  static constexpr const char* kName = "terminal";
  u32 lexer, index;
  template <class V>
  void fields(V& v) {
    v.lexer(lexer), v.number(index);
  }
  Id make(Arena& arena);
};

struct Never {
  static constexpr u8 kCode = 30;
  static constexpr const char* kName = "never";
  u32 lexer;
  template <class V>
  void fields(V& v) {
    v.lexer(lexer);
  }
  Id make(Arena& arena);
};

struct Lexed {
  static constexpr u8 kCode = 31;
  static constexpr const char* kName = "lexed";
  u32 lexer;
  Id body;
  template <class V>
  void fields(V& v) {
    v.lexer(lexer), v.expression(body);
  }
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
                 operations::Decimals, operations::Lexer, operations::Terminal, operations::Never, operations::Lexed>;

template <class Op>
constexpr Gives gives() {
  if constexpr (requires { Op::kGives; })
    return Op::kGives;
  else
    return Gives::Expression;
}

}  // namespace guiderail
