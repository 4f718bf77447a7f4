// Can a text that is cut into lexemes be completed?
//
// If the grammar can be completed, so can the text, provided that each terminal has a text that is read as this
// terminal in every context, before some separator or before whatever may follow. That is decided for each context by
// trying a few texts of each terminal. (A context that fails is searched. One that is live only through contexts that
// fail is taken as live.)
#include <algorithm>
#include <queue>
#include <tuple>

#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/outside.hpp"
#include "lexed/lexing.hpp"

namespace guiderail {
namespace {

// A state that a search has not visited yet: nearest to an end first, then first found.
struct Open {
  u32 missing, number;  // least number of characters; order of discovery
  bool operator<(const Open& o) const { return std::tie(o.missing, o.number) < std::tie(missing, number); }
};

}  // namespace

// Can the guard be satisfied? It can if some separator begins none of its texts, or if no byte that may begin a lexeme
// begins one.
bool Lexed::guard_can_hold(u32 lexer_id, Id munch_guard) {
  if (munch_guard == kEmpty) return true;
  const Lexer& lexer = lexers_[lexer_id];
  bool all = true;
  for (unsigned b = 0; b < 256; ++b) {
    const u8 byte = static_cast<u8>(b);
    if (!lexer.begins.has(byte) && !lexer.separators.has(byte)) continue;
    const bool holds = read_text(munch_guard, byte) != kEmpty;
    if (!holds && lexer.separators.has(byte)) return true;
    all = all && !(holds && lexer.begins.has(byte));
  }
  return all;
}

// May a lexeme end here, whatever follows?
bool Lexed::lexeme_ends_at(u32 state) {
  const LexState& at = states_.values[state];
  const Lexer& lexer = lexers_[at.lexer];
  if (at.emitted == kNone) return false;
  if (at.line && (at.munch_guard == kEmpty || read_text(at.munch_guard, '\n') == kEmpty)) return true;
  if (!lexer.indentation || at.emitted != lexer.indentation->newline) return guard_can_hold(at.lexer, at.munch_guard);
  const LexStep more = lex_step(state, '\n');  // if it takes another line break, it may end at any column
  return more.next != kNone && facts_[more.next].lines;
}

// Bytes that continue the lexeme as this terminal, or as any terminal (kNone).
ByteSet Lexed::lexeme_first(u32 state, u32 terminal) {
  ByteSet set;
  for (const auto& entry : states_.values[state].entries)
    if (terminal == kNone || entry.key >> 2 == terminal) set |= first(entry.text);
  return set;
}

// The least number of characters before it may end as this terminal, or as any terminal (kNone).
u32 Lexed::lexeme_missing(u32 state, u32 terminal) const {
  u32 least = kInf;
  for (const auto& entry : states_.values[state].entries)
    if (terminal == kNone || entry.key >> 2 == terminal) least = std::min(least, node(entry.text).shortest);
  return least;
}

// Can the lexeme be completed?
bool Lexed::lexeme_ends(u32 state) {
  if (facts_[state].ends) return facts_[state].ends == kEnds;
  Lexer& lexer = lexers_[states_.values[state].lexer];
  // A lexeme defined by rules can always be completed, and what completes it is not part of a longer lexeme.
  const auto& entries = states_.values[state].entries;
  if (entries.size() == 1 && has(entries[0].text, kHasRef)) {
    facts_[state].ends = kEnds;
    return true;
  }
  // Nearest first: for a long lexeme, a breadth-first search would be hopeless.
  std::priority_queue<Open> work;
  std::vector<u32> found_states;
  std::unordered_map<u32, u32> from;
  auto add = [&](u32 next, u32 before) {
    if (!from.try_emplace(next, before).second) return;
    Work::spend(kStepsPerProbe);
    work.push({lexeme_missing(next, kNone), static_cast<u32>(found_states.size())});
    found_states.push_back(next);
  };
  add(state, state);
  bool never = true;
  // If such searches fail for many states of a large lexeme, search less: what follows the lexeme decides sooner.
  const u32 less = std::min(lexer.fruitless, 31U), most = std::max(kLeastProbed, kMostProbed >> less);
  u32 visits = std::min(kMostProbes >> less, mul_sat(kProbesPerCharacter, work.top().missing));
  for (; !work.empty() && (found_states.size() < most || visits > 0); visits -= visits > 0) {
    const u32 at = found_states[work.top().number];
    work.pop();
    bool found = lexeme_ends_at(at);
    never = never && states_.values[at].emitted == kNone;
    const ByteSet continues = lexeme_first(at, kNone);
    for (u32 c = 0; c < byte_class_count() && !found; ++c) {
      if (!continues.has(representative(c))) continue;
      Work::spend();
      const LexStep step = lex_step(at, representative(c));
      found = step.ended != kNone && !(lexer.indentation && step.ended == lexer.indentation->newline);
      never = never && step.ended == kNone;
      if (step.next == kNone) continue;
      const u8 ends = facts_[step.next].ends;
      found = found || ends == kEnds;
      if (ends != kNeverEnds) add(step.next, at);
    }
    if (!found) continue;
    for (u32 s = at;; s = from[s]) {
      facts_[s].ends = kEnds;
      if (s == state) return true;
    }
  }
  never = never && work.empty() && !facts_[state].tokens;
  if (never) {
    for (u32 one : found_states)
      if (!facts_[one].ends) facts_[one].ends = kNeverEnds;
  } else {
    facts_[state].ends = kEndsNot;
    lexer.fruitless += found_states.size() >= most;
  }
  return false;
}

// A guarded lexeme: can it end without matching one of the guard's texts? Otherwise kEmpty, or unknown() if only what
// follows could decide.
Id Lexed::munch_guard_lives(Id e) {
  const u32 start = scan_state(node(guarded(node(e)))), lexer = states_.values[start].lexer;
  std::vector<std::pair<Id, u32>> work{{guard_texts(node(e)), start}};
  bool doubt = false;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work.size() > kGuardPairs) return unknown();
    const auto [texts, state] = work[i];
    const LexState& at = states_.values[state];
    if (at.emitted != kNone && guard_can_hold(lexer, at.munch_guard == kEmpty ? texts : unite(texts, at.munch_guard)))
      return e;
    const ByteSet continues = lexeme_first(state, kNone);
    for (u32 c = 0; c < byte_class_count(); ++c) {
      const u8 byte = representative(c);
      if (!continues.has(byte)) continue;
      const Id left = read_text(texts, byte);
      if (left != kEmpty && nullable(left)) continue;
      const LexStep step = lex_step(state, byte);
      if (step.next == kNone && step.ended == kNone) continue;
      if (left == kEmpty) {
        if (step.next == kNone || lexeme_ends(step.next)) return e;
        doubt = doubt || facts_[step.next].ends != kNeverEnds;
      } else if (step.next == kNone) {
        if (guard_can_hold(lexer, left)) return e;
        doubt = true;
      } else if (std::pair<Id, u32> pair{left, step.next}; std::find(work.begin(), work.end(), pair) == work.end()) {
        work.push_back(pair);
      }
    }
    doubt = doubt || states_.values[state].emitted != kNone;
  }
  return doubt ? unknown() : kEmpty;
}

// The start of a lexeme: does each terminal that may come have a text that is read as this terminal? A terminal that
// only the end may follow (a comment) does not count, if there are others.
bool Lexed::context_holds(u32 start) {
  if (facts_[start].ends) return facts_[start].ends == kEnds;
  const LexState& state = states_.values[start];
  const Lexer& lexer = lexers_[state.lexer];
  bool all = true, any = false, some = false;
  for (const auto& entry : state.entries) {
    const u32 t = entry.key >> 2;
    if (lexer.ignored[t] || (entry.key & kRivalOnly)) continue;
    some = true;
    const bool line = lexer.indentation && t == lexer.indentation->newline;
    bool found = has(entry.text, kHasRef | kHasToken), last = false;
    for (const std::string& text : samples(state.lexer, t)) {
      if (found) break;
      LexStep at{true, start, kNone};
      for (char c : text) at = at.next == kNone ? LexStep{} : lex_step(at.next, static_cast<u8>(c));
      const bool emits = at.next != kNone && states_.values[at.next].emitted == t;
      found = at.ended == t || (emits && (line || guard_can_hold(state.lexer, states_.values[at.next].munch_guard)));
      last = last || emits;
    }
    any = any || found;
    if (!found && !last) {
      all = false;
      break;
    }
  }
  const bool holds = all && (any || !some);
  facts_[start].ends = holds ? kEnds : kEndsNot;
  return holds;
}

bool Lexed::surely_live(Id e) {
  const Node& n = node(e);
  switch (n.kind) {
    case Kind::Scan:
      if (is_open(e)) return true;
      return states_.values[scan_state(n)].start ? context_holds(scan_state(n)) : lexeme_ends(scan_state(n));
    case Kind::MunchGuard: {
      const Id rest = guarded(n);
      if (node(rest).kind != Kind::Scan) return false;
      if (is_open(rest)) return true;
      const LexState& state = states_.values[scan_state(node(rest))];
      return state.start && guard_can_hold(state.lexer, guard_texts(n)) && context_holds(scan_state(node(rest)));
    }
    case Kind::Lexed: {  // nothing is guarded after a nested terminal: as good as a context that holds
      const u32 lexer = lexed_lexer(n);
      const Place place{lexed_grammar(n), lexed_layout(n)};
      const u32 start = lex_start_of(lexer, place.parse, layouts_.values[place.layout].brackets != 0);
      if (!states_.values[start].entries.empty() && context_holds(start) &&
          identifiers_hold(lexer, identifiers_at(place.parse)))
        return true;
      const ByteSet symbols = first(place.parse);
      for (u32 t : lexers_[lexer].nested)
        if (symbols.has(lexers_[lexer].first_symbol(t)) && advance(lexer, place.parse, t) != kEmpty &&
            live(lexers_[lexer].terminals[t].text))
          return true;
      return false;
    }
    default: return !has(e, kSearch);
  }
}

// While it exists, this thread alone searches samples of a terminal.
class Lexed::Sampling : public Arena::Aside {
 public:
  Sampling(Lexed& lexed, u64 key) : Aside(lexed.arena_), list_(lexed.sampling_), key_(key) { enter(); }
  ~Sampling() override { leave(); }
  void enter() override { list_.push_back(key_); }
  void leave() override { list_.erase(std::find(list_.begin(), list_.end(), key_)); }

 private:
  std::vector<u64>& list_;
  const u64 key_;
};

// From the start of a lexeme, finds at most one text for each terminal, or for the wanted one.
void Lexed::sample(u32 start, u32 most, u32 wanted) {
  Lexer& lexer = lexers_[states_.values[start].lexer];
  struct At {
    u32 state, before;  // index into the list
    char read;
  };
  std::vector<At> list{{start, 0, 0}};
  auto text_to = [&](u32 at) {
    std::string text;
    for (; at != 0; at = list[at].before) text.push_back(list[at].read);
    std::reverse(text.begin(), text.end());
    return text;
  };
  std::priority_queue<Open> work;
  auto add = [&](u32 number) {
    Work::spend(kStepsPerProbe);
    work.push({wanted == kNone ? 0 : lexeme_missing(list[number].state, wanted), number});
  };
  add(0);
  std::unordered_map<u32, char> known{{start, 1}};
  std::vector<char> found(lexer.terminals.size(), 0);
  std::size_t missing = wanted == kNone ? found.size() : 1;
  std::vector<std::pair<u32, std::string>> texts;
  u32 visits = std::min(kMostProbes, mul_sat(kProbesPerCharacter, work.top().missing));
  for (; !work.empty() && missing && (list.size() < most || visits > 0); visits -= visits > 0) {
    const u32 number = work.top().number, at = list[number].state;
    work.pop();
    const ByteSet continues = lexeme_first(at, wanted);
    for (u32 c = 0; c < byte_class_count() && missing; ++c) {
      if (!continues.has(representative(c))) continue;
      Work::spend();
      const LexStep step = lex_step(at, representative(c));
      const u32 t = step.next == kNone ? step.ended : states_.values[step.next].emitted;
      if (t == kNone && step.next == kNone) continue;
      const char read = static_cast<char>(representative(c));
      if (t != kNone && !found[t] && (wanted == kNone || t == wanted)) {
        found[t] = 1;
        --missing;
        texts.emplace_back(t, text_to(number) + read);
      }
      if (step.next == kNone || !known.try_emplace(step.next, 1).second) continue;
      list.push_back({step.next, number, read});
      add(static_cast<u32>(list.size() - 1));
    }
  }
  if (wanted != kNone && lexer.sampled[wanted]) return;  // an inner search was first, and its samples are in use
  for (auto& [t, text] : texts) lexer.samples[t].push_back(std::move(text));
  if (wanted != kNone) lexer.sampled[wanted] = 1;
}

// A few texts of a terminal: its shortest, and perhaps one that is read as this terminal if all terminals compete.
const std::vector<std::string>& Lexed::samples(u32 id, u32 terminal) {
  Lexer& lexer = lexers_[id];
  const u64 key = u64{id} << 32 | terminal;
  if (lexer.sampled[terminal] || std::find(sampling_.begin(), sampling_.end(), key) != sampling_.end())
    return lexer.samples[terminal];
  const Sampling within(*this, key);
  const Bits none((lexer.terminals.size() + 63) / 64);
  Bits alone = none;
  for (u32 t = 0; t < lexer.terminals.size(); ++t)
    if (lexer.ignored[t] || t == terminal) set_bit(alone, t);
  sample(lex_start(id, alone, none), kMostProbed, terminal);
  return lexer.samples[terminal];
}

// Computes what holds for all contexts of a lexer.
void Lexed::survey() {
  for (u32 id = 0; id < lexers_.size(); ++id) {
    Lexer& lexer = lexers_[id];
    const u32 count = static_cast<u32>(lexer.terminals.size());
    const Bits none((count + 63) / 64);
    Bits all = none, ignored = none;
    lexer.samples.assign(count, {});
    lexer.sampled.assign(count, 0);
    for (u32 t = 0; t < count; ++t) {
      set_bit(all, t);
      if (lexer.ignored[t]) set_bit(ignored, t);
      if (!lexer.ignored[t] && lexer.terminals[t].guard_of == kNone) lexer.begins |= first(lexer.terminals[t].text);
      if (lexer.is_identifier(t)) lexer.identifier_begins |= first(lexer.terminals[t].text);
      const Terminal& terminal = lexer.terminals[t];
      if (terminal.text == kEmpty || has(terminal.text, kHasRef) || terminal.ends == Terminal::Ends::Nested)
        lexer.sampled[t] = 1;
    }
    const u32 gaps = lex_start(id, ignored, none);
    for (unsigned b = 0; b < 256; ++b) {
      if (lexer.indentation && (b == '\n' || b == '\r')) continue;
      const LexStep gap = lex_step(gaps, static_cast<u8>(b));
      if (gap.ended != kNone || (gap.next != kNone && states_.values[gap.next].emitted != kNone))
        lexer.separators.add(static_cast<u8>(b));
    }
    sample(lex_start(id, all, none), kMostSampled, kNone);
  }
}

}  // namespace guiderail
