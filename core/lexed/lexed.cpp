// Lexed texts as a family of expressions: the interface that expr/ calls.
#include <algorithm>
#include <bit>

#include "lexed/lexing.hpp"

namespace guiderail {

Id Lexed::derivative(Id e, u8 byte) {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Terminal: return symbol_sets_[terminal_symbols(n)].has(byte) ? kEpsilon : kEmpty;
    case Kind::Binding: return derive_binding(e, byte);
    case Kind::Lexed: return derive(lexed_start(e), byte);
    case Kind::Scan: return derive_scan(e, byte);
    default: return derive_munch_guard(e, byte);
  }
}

ByteSet Lexed::first_bytes(Id e) {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Terminal: return symbol_sets_[terminal_symbols(n)];
    case Kind::Binding: return seen_from_outside(binding_lexer(n), first(binding_body(n)));
    case Kind::Lexed: return first(lexed_start(e));
    case Kind::Scan: return first_scan(e);
    default: return first(guarded(n));
  }
}

Id Lexed::derivative_by_symbol(Id e, u32 symbol) {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Binding: return derive_identifier(e, symbol);
    case Kind::Lexed: return derive_symbol(lexed_start(e), symbol);
    case Kind::Scan: return derive_scan_symbol(e, symbol);
    case Kind::MunchGuard: return derive_symbol(guarded(n), symbol);
    default: return kEmpty;
  }
}

void Lexed::symbols_at(Id e, std::vector<u32>& out, std::vector<Id>& open) {
  const Node& n = node(e);
  if (n.kind == Kind::Lexed) open.push_back(lexed_start(e));
  if (n.kind == Kind::Scan) scan_symbols(e, out);
  if (n.kind == Kind::MunchGuard) open.push_back(guarded(n));
}

// Joins sets of terminals into one set.
bool Lexed::join(Ids& parts) {
  auto is_terminal = [&](Id e) { return node(e).kind == Kind::Terminal; };
  ByteSet symbols;
  bool textless = true;
  int sets = 0;
  for (Id e : parts) {
    if (!is_terminal(e)) continue;
    symbols |= symbol_sets_[terminal_symbols(node(e))];
    textless = textless && is_textless(node(e));
    ++sets;
  }
  if (sets < 2) return false;
  parts.erase_if(is_terminal);
  parts.push_back(symbols_of(symbols, textless));
  return true;
}

void Lexed::describe(Id e, Description& to) const {
  const Node& n = node(e);
  if (n.kind != Kind::Terminal) return;  // the other kinds contain rules, which have no identity
  for (u64 w : symbol_sets_[terminal_symbols(n)].words) to.word(w);
  to.word(is_textless(n));
}

std::vector<DumpItem> Lexed::dump(Id e) const {
  constexpr std::size_t kShown = 8;
  const Node& n = node(e);
  std::vector<DumpItem> items;
  switch (n.kind) {
    case Kind::Terminal: {
      std::string out = "terminal";
      const ByteSet& set = symbol_sets_[terminal_symbols(n)];
      for (unsigned s = 0; s < 256; ++s)
        if (set.has(static_cast<u8>(s))) out += " " + std::to_string(s);
      items.push_back({std::move(out)});
      break;
    }
    case Kind::Binding: {
      std::string counts = "binding(";
      for (u32 set : domains_.values[binding_domains(n)].list) {
        int count = 0;
        for (u64 word : value_sets_.values[set].bits) count += std::popcount(word);
        counts += std::to_string(count) + "; ";
      }
      items = {{std::move(counts)}, {"", binding_body(n)}, {")"}};
      break;
    }
    case Kind::Lexed: items = {{is_resumed(n) ? "rest(" : "lexed("}, {"", lexed_grammar(n)}, {")"}}; break;
    case Kind::Scan: {
      const LexState& state = states_.values[scan_state(n)];
      items.push_back({state.start ? "scan(|" : "scan("});
      for (std::size_t i = 0; i < std::min(state.entries.size(), kShown); ++i) {
        items.push_back({(i ? ", " : "") + std::to_string(state.entries[i].key >> 2) + ": "});
        items.push_back({"", state.entries[i].text});
      }
      if (state.entries.size() > kShown) items.push_back({", ... " + std::to_string(state.entries.size())});
      items.push_back({"; "});
      items.push_back({"", scan_grammar(n)});
      items.push_back({")"});
      break;
    }
    default: items = {{"munch_guard("}, {"", guard_texts(n)}, {"; "}, {"", guarded(n)}, {")"}}; break;
  }
  return items;
}

// -- the end of construction, copies, memory --
void Lexed::productive(Id e, const std::vector<char>& known, bool& nullable, bool& productive) const {
  const Node& n = node(e);
  if (n.kind == Kind::Binding) {
    nullable = nullable || has(binding_body(n), kNullable);
    productive = known[index_of(binding_body(n))];
    return;
  }
  if (n.kind != Kind::Lexed) {
    productive = true;
    return;
  }
  nullable = nullable || (!is_resumed(n) && has(lexed_grammar(n), kNullable));
  productive = known[index_of(lexed_grammar(n))];
}

Id Lexed::left_edge(Id e) const { return node(e).kind == Kind::Binding ? binding_body(node(e)) : kEmpty; }

void Lexed::split_bytes(ByteSet& starts) {
  for (const Lexer& lexer : lexers_)
    if (lexer.indentation)
      for (char c : std::string_view(" \t\n\f")) alone(starts, static_cast<u8>(c));
}

void Lexed::finalize() {
  for (Lexer& lexer : lexers_) {
    for (u32 t : lexer.nested) {  // an empty nested text is optional in the grammar
      Id& text = lexer.terminals[t].text;
      const bool rules = has(text, kHasRef);  // other texts were checked by terminal()
      text = nonempty(text);
      if (rules && text == kEmpty)
        throw Error("empty-terminal", "a nested terminal matches nothing but the empty text");
    }
  }
}

void Lexed::note_extent() {
  extent_.states = static_cast<u32>(states_.values.size());
  extent_.layouts = static_cast<u32>(layouts_.values.size());
  extent_.symbol_sets = static_cast<u32>(symbol_sets_.size());
  extent_.value_sets = static_cast<u32>(value_sets_.values.size());
  extent_.domains = static_cast<u32>(domains_.values.size());
  lexer_bytes_ = bytes_of(lexers_);
  for (const Lexer& lexer : lexers_) {
    lexer_bytes_ += bytes_of(lexer.terminals) + bytes_of(lexer.ignored) + bytes_of(lexer.before) +
                    bytes_of(lexer.traps) + bytes_of(lexer.samples) + bytes_of(lexer.sampled) +
                    bytes_of(lexer.identifiers) + bytes_of(lexer.placeholders);
    for (const Terminal& terminal : lexer.terminals) lexer_bytes_ += bytes_of(terminal.keyword_of);
    for (const auto& list : lexer.samples) {
      lexer_bytes_ += bytes_of(list);
      for (const std::string& text : list) lexer_bytes_ += bytes_of(text);
    }
  }
}

void Lexed::fresh(Arena& arena) const {
  Lexed& to = Lexed::of(arena);
  to.lexers_ = lexers_;
  to.states_ = states_.first(extent_.states);
  to.layouts_ = layouts_.first(extent_.layouts);
  to.value_sets_ = value_sets_.first(extent_.value_sets);
  to.domains_ = domains_.first(extent_.domains);
  to.start_lists_ = start_lists_.first(used() ? 1 : 0);
  to.symbol_sets_.assign(symbol_sets_.begin(), symbol_sets_.begin() + extent_.symbol_sets);
  to.symbol_set_ids_ = ids_of(to.symbol_sets_);
  for (u32 i = 0; i < extent_.states; ++i) {
    Facts of;
    of.lines = facts_[i].lines;
    of.tokens = facts_[i].tokens;
    to.facts_.push_back(std::move(of));
  }
  to.lexer_bytes_ = lexer_bytes_;
  to.extent_ = extent_;
}

void Lexed::count(Tally& to) const {
  if (used())
    to.add("lexemes", sizeof(*this) + step_bytes_ + lexer_bytes_ + states_.memory() + layouts_.memory() +
                          bytes_of(facts_) + bytes_of(symbol_sets_) + symbol_set_ids_.memory() + starts_.memory() +
                          value_sets_.memory() + domains_.memory() + start_lists_.memory() +
                          identifier_starts_.memory() + identifiers_at_.memory() + wide_starts_.memory() +
                          advances_.memory() + kept_.memory() + ahead_.memory() + peeks_.memory() + cuts_.memory() +
                          bytes_of(cut_layouts_));
}

}  // namespace guiderail
