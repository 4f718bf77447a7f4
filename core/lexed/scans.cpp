// Places in lexed texts: the lexeme in progress, the rest of the grammar, and the indentation.
#include <algorithm>

#include "lexed/lexing.hpp"

namespace guiderail {
namespace {

u32 column_after(u32 column, u8 byte, const Indentation& lines, bool& counting) {
  // low half: with tab stops; high half: a tab counts as one (strict tabs only)
  u32 wide = column & 0xFFFF, narrow = column >> 16;
  if (byte == '\n') {
    counting = true;
    return 0;
  }
  if (!counting) return column;
  if (byte == ' ') {
    ++wide;
    ++narrow;
  } else if (byte == '\t') {
    wide = lines.strict_tabs ? (wide / lines.tab + 1) * lines.tab : wide + lines.tab;
    ++narrow;
  } else if (byte == '\f') {
    wide = narrow = 0;
  } else {
    counting = false;
  }
  wide = std::min<u32>(wide, 0x3FFF);
  narrow = std::min<u32>(narrow, 0x3FFF);
  return wide | (lines.strict_tabs ? narrow << 16 : 0);
}

}  // namespace

Id Lexed::advance(u32 lexer_id, Id parse, u32 terminal) {
  if (parse == kEmpty) return kEmpty;
  const u64 key = u64{index_of(parse)} << 16 | terminal;
  if (const Id* known = advances_.find(key)) return *known;
  const Lexer& lexer = lexers_[lexer_id];
  const bool identifier = lexer.is_identifier(terminal);
  Id out = identifier ? derive_symbol(parse, terminal) : derive(parse, lexer.first_symbol(terminal));
  if (lexer.wide()) out = derive(out, Lexer::second_symbol(terminal));
  if (has(out, kBarren)) out = kEmpty;
  if (finalized()) advances_.set(key, out);
  return out;
}

// May the text end here, between two lexemes?
bool Lexed::parse_ends(u32 lexer_id, Id parse, u32 layout) {
  const auto& lines = lexers_[lexer_id].indentation;
  if (!lines) return nullable(parse);
  const auto& columns = layouts_.values[layout].columns;
  if (!columns.empty() && columns[0] == kAnyColumn) return false;  // never asked for a near form
  const std::size_t levels = columns.size();
  auto closes = [&](Id rest) {
    for (std::size_t i = 0; i < levels && rest != kEmpty; ++i) rest = advance(lexer_id, rest, lines->dedent);
    return rest != kEmpty && nullable(rest);
  };
  return closes(parse) || (lines->final_newline && layouts_.values[layout].brackets == 0 &&
                           closes(advance(lexer_id, parse, lines->newline)));
}

// Maps columns with the same effect to one: in a line with only a comment, which has no indentation, and right of all
// columns that the grammar allows.
u32 Lexed::equivalent_column(u32 lexer_id, Id parse, const Layout& at, u32 column) {
  const Indentation& lines = *lexers_[lexer_id].indentation;
  if (at.brackets > 0) return 0;
  const u32 now = at.columns.empty() ? 0 : at.columns.back();
  if (column & kPastBlanks) return now | kPastBlanks;
  if ((column & 0xFFFF) <= (now & 0xFFFF)) return column;
  const Id line = advance(lexer_id, parse, lines.newline);
  if (line == kEmpty || beyond_cut(line) || advance(lexer_id, line, lines.indent) != kEmpty) return column;
  return now + (lines.strict_tabs ? 0x10001 : 1);
}

Id Lexed::scan(u32 state, Id parse, u32 layout, u32 column) {
  const LexState& lexeme = states_.values[state];
  const Facts& facts = facts_[state];
  if (facts.lines) {
    const Layout& at = layouts_.values[layout];
    if (at.brackets == 0 && !at.columns.empty() && at.columns[0] == kAnyColumn) return unknown();
    column = equivalent_column(lexeme.lexer, parse, at, column);
  }
  if (!lexeme.start) {  // one terminal only: what else the grammar could have read here does not matter
    const u32 only = lexeme.entries[0].key >> 2;
    const Lexer& lexer = lexers_[lexeme.lexer];
    const bool lines = facts.lines && layouts_.values[layout].brackets > 0;
    if (lexeme.entries.size() == 1 && !(lexeme.entries[0].key & kRivalOnly) &&
        (lexeme.emitted == kNone || lexeme.emitted == only) && !lexer.ignored[only] && !lines &&
        !lexer.is_identifier(only))
      parse = concat(terminal(lexeme.lexer, only), advance(lexeme.lexer, parse, only));
  }
  bool ends = lexeme.start && parse_ends(lexeme.lexer, parse, layout);
  if (lexeme.entries.empty()) return ends ? kEpsilon : kEmpty;
  if (lexeme.emitted != kNone) {
    Place at{parse, layout};
    ends = pass_lexeme(lexeme.lexer, lexeme.emitted, column, at) && parse_ends(lexeme.lexer, at.parse, at.layout);
  }
  Draft d = draft(Kind::Scan);
  d.a = state;
  d.b = index_of(parse);
  d.min = layout;
  d.max = facts.lines ? column : 0;
  d.flags = kHasRef | kSearch | kHasScan | (facts.tokens ? kHasToken : 0u) | (ends ? kNullable : 0u);
  const u32 shortest = node(parse).shortest;
  d.shortest = ends ? 0 : lexeme.start ? shortest : shortest - (shortest > 0);
  d.longest = kInf;
  return intern(d);
}

Id Lexed::scan_start(u32 lexer_id, Id parse, u32 layout) {
  if (parse == kEmpty) return kEmpty;
  if (beyond_cut(parse)) return unknown();
  const bool brackets = layouts_.values[layout].brackets != 0;
  Id cut = scan(lex_start_of(lexer_id, parse, brackets), parse, layout, 0);
  for (u32 start : identifier_starts(identifiers_at(parse))) cut = unite(cut, scan(start, parse, layout, 0));
  const Id nested = nested_at(lexer_id, {parse, layout});
  return nested == kEmpty ? cut : unite(cut, nested);
}

Id Lexed::lexed_start(Id e) {
  Id state = scan_start(lexed_lexer(node(e)), lexed_grammar(node(e)), lexed_layout(node(e)));
  if (is_resumed(node(e))) return state;
  for (char c : lexers_[lexed_lexer(node(e))].before) state = derive(state, static_cast<u8>(c));
  return state;
}

Id Lexed::munch_guard(Id texts, Id rest) {
  if (rest == kEmpty || rest == kEpsilon || texts == kEmpty) return rest;
  if (node(rest).kind == Kind::Union) {
    Ids members(operands(rest));
    for (Id& m : members) m = munch_guard(texts, m);
    return unite(members);
  }
  if (node(rest).kind == Kind::MunchGuard) {
    texts = unite(texts, guard_texts(node(rest)));
    rest = guarded(node(rest));
  }
  ByteSet both = first(texts);
  both &= first(rest);
  if (!both.any() && !has(texts, kHasToken)) return rest;  // the next byte satisfies the guard
  Draft d = draft(Kind::MunchGuard);
  d.a = index_of(texts);
  d.b = index_of(rest);
  absorb(d, rest, true);
  d.flags |= kSearch | kHasRef;
  if (nullable(rest)) d.flags |= kNullable;
  d.shortest = node(rest).shortest;
  d.longest = node(rest).longest;
  return intern(d);
}

// Moves a place past a lexeme: the grammar and the layout after it. False: the lexeme cannot stand here.
bool Lexed::pass_lexeme(u32 lexer_id, u32 terminal, u32 column, Place& place) {
  const Lexer& lexer = lexers_[lexer_id];
  if (lexer.ignored[terminal]) return true;
  auto read = [&](u32 t) {
    if (beyond_cut(place.parse)) {
      place.parse = unknown();
      return false;
    }
    place.parse = advance(lexer_id, place.parse, t);
    return place.parse != kEmpty;
  };
  if (!lexer.indentation) return read(terminal);
  const Indentation& lines = *lexer.indentation;
  if (terminal != lines.newline) {
    const Layout& before = layouts_.values[place.layout];
    if (const u32 brackets = lines.brackets_after(terminal, before.brackets); brackets != before.brackets)
      place.layout = layout_id({before.columns, brackets});
    return read(terminal);
  }
  Layout at = layouts_.values[place.layout];
  if (at.brackets > 0) return true;
  if (!at.columns.empty() && at.columns[0] == kAnyColumn) {
    place.parse = unknown();
    return false;
  }
  if (!read(terminal)) return false;
  auto wide = [](u32 c) { return c & 0xFFFF; };
  auto narrow = [](u32 c) { return c >> 16 & 0x7FFF; };
  column &= ~kPastBlanks;
  const u32 now = at.columns.empty() ? 0 : at.columns.back();
  if (wide(column) > wide(now)) {
    if (lines.strict_tabs && narrow(column) <= narrow(now)) return false;
    if (!read(lines.indent)) return false;
    at.columns.push_back(column);
  } else {
    while (!at.columns.empty() && wide(column) < wide(at.columns.back())) {
      if (!read(lines.dedent)) return false;
      at.columns.pop_back();
    }
    const u32 outer = at.columns.empty() ? 0 : at.columns.back();
    if (wide(column) != wide(outer) || (lines.strict_tabs && narrow(column) != narrow(outer))) {
      place.parse = kEmpty;
      return false;
    }
  }
  place.layout = layout_id(std::move(at));
  return true;
}

Id Lexed::scan_after(u32 lexer_id, u32 terminal, Id parse, u32 layout, u32 column) {
  Place at{parse, layout};
  if (pass_lexeme(lexer_id, terminal, column, at)) return scan_start(lexer_id, at.parse, at.layout);
  return at.parse != kEmpty && has(at.parse, kUnknownText) ? at.parse : kEmpty;
}

u32 Lexed::layout_id(Layout layout) { return layouts_.id(std::move(layout)); }

Id Lexed::after_step(Id e, const LexStep& step, u32 column) {
  const Node& n = node(e);
  if (step.next != kNone) {
    if (finalized() && !lexeme_ends(step.next) && facts_[step.next].ends == kNeverEnds) return kEmpty;
    return scan(step.next, scan_grammar(n), scan_layout(n), column);
  }
  if (step.ended == kNone) return kEmpty;
  return scan_after(states_.values[scan_state(n)].lexer, step.ended, scan_grammar(n), scan_layout(n), column);
}

u32 Lexed::next_column(Id e, const LexStep& step, u8 byte) const {
  const Node& n = node(e);
  const auto& lines = lexers_[states_.values[scan_state(n)].lexer].indentation;
  if (!lines || !(step.ended == lines->newline || (step.next != kNone && facts_[step.next].lines))) return 0;
  bool counting = !(scan_column(n) & kPastBlanks);
  const u32 column = column_after(scan_column(n) & ~kPastBlanks, byte, *lines, counting);
  return counting ? column : column | kPastBlanks;
}

Id Lexed::derive_scan(Id e, u8 byte) {
  const Node& n = node(e);
  const LexStep step = lex_step(scan_state(n), byte);
  const u32 lexer = states_.values[scan_state(n)].lexer, emitted = states_.values[scan_state(n)].emitted;
  const u32 column = next_column(e, step, byte);
  if (scan_grammar(n) == hole_) {
    if (step.next != kNone) {
      if (lexeme_ends(step.next)) return open_scan(step.next, column);
      return facts_[step.next].ends == kNeverEnds ? kEmpty : unknown();
    }
    if (step.ended == kNone) return kEmpty;
    return open_scan(lex_state({lexer, false, step.ended, kEmpty, false, {}}), column);
  }
  const Id on = after_step(e, step, column);
  if (emitted == kNone || !facts_[scan_state(n)].beyond.has(byte)) return on;
  const Id after = scan_after(lexer, emitted, scan_grammar(n), scan_layout(n), scan_column(n));
  if (after == kEmpty || !first(after).has(byte)) {
    if (after == kEmpty || !has(after, kUnknownText)) return on;
    return on == kEmpty ? after : unite(on, after);
  }
  const Id ended = munch_guard(read_text(states_.values[scan_state(n)].munch_guard, byte), derive(after, byte));
  return ended == kEmpty ? on : on == kEmpty ? ended : unite(on, ended);
}

Id Lexed::derive_scan_symbol(Id e, u32 symbol) {
  const Node& n = node(e);
  const Id on = after_step(e, lex_step_symbol(scan_state(n), symbol), 0);
  const LexState& state = states_.values[scan_state(n)];
  if (state.emitted == kNone) return on;
  const Id after = scan_after(state.lexer, state.emitted, scan_grammar(n), scan_layout(n), scan_column(n));
  return unite(on, after == kEmpty ? kEmpty : derive_symbol(after, symbol));
}

void Lexed::scan_symbols(Id e, std::vector<u32>& out) {
  const Node& n = node(e);
  const LexState& state = states_.values[scan_state(n)];
  for (const auto& entry : state.entries) first_symbols(entry.text, out);
  if (state.emitted == kNone) return;
  if (const Id after = scan_after(state.lexer, state.emitted, scan_grammar(n), scan_layout(n), scan_column(n));
      after != kEmpty)
    first_symbols(after, out);
}

Id Lexed::scan_without_names(Id e, Id& texts) {
  const Node& n = node(e);
  LexState plain = states_.values[scan_state(n)];
  std::vector<Id> names;
  const auto& entries = states_.values[scan_state(n)].entries;
  const Lexer& lexer = lexers_[plain.lexer];
  auto named = [&](const LexState::Entry& entry) {  // by another entry that counts
    const auto& owners = lexer.terminals[entry.key >> 2].keyword_of;
    return (entry.key & kNameOnly) && std::any_of(entries.begin(), entries.end(), [&](const LexState::Entry& other) {
             const bool leads_on = !(other.key & (kNameOnly | kRivalOnly));
             return leads_on && std::find(owners.begin(), owners.end(), other.key >> 2) != owners.end();
           });
  };
  std::erase_if(plain.entries, [&](const LexState::Entry& entry) {
    if (!named(entry)) return false;
    names.push_back(entry.text);
    return true;
  });
  if (names.empty()) return kEmpty;
  // does the lexeme end here as one of those names?
  if (plain.emitted != kNone && std::none_of(entries.begin(), entries.end(), [&](const auto& entry) {
        return !(entry.key & kNameOnly) && entry.key >> 2 == plain.emitted;
      }))
    return kEmpty;
  texts = unite(std::move(names));
  if (is_open(e)) return open_scan(lex_state(std::move(plain)), scan_column(n));
  return scan(lex_state(std::move(plain)), scan_grammar(n), scan_layout(n), scan_column(n));
}

Id Lexed::derive_munch_guard(Id e, u8 byte) {
  const Node& n = node(e);
  const Id texts = read_text(guard_texts(n), byte);
  if (texts != kEmpty && nullable(texts)) return kEmpty;
  const Id rest = derive(guarded(n), byte);
  const Id out = munch_guard(texts, rest);
  const bool open = out != kEmpty && node(out).kind == Kind::MunchGuard && is_open(rest);
  return open && !states_.values[scan_state(node(rest))].entries.empty() ? munch_guard_lives(out) : out;
}

ByteSet Lexed::first_scan(Id e) {
  ByteSet set;
  for (const auto& entry : states_.values[scan_state(node(e))].entries) set |= first(entry.text);
  set |= facts_[scan_state(node(e))].beyond;  // a superset: the derivative decides
  return set;
}

}  // namespace guiderail
