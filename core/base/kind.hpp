// The kinds of expressions of all layers, in one enumeration. Here a kind is only a number: its own layer says what it
// means, and where expr/ must know more of a foreign kind, it asks that kind's Family (see expr/kinds.hpp).
#pragma once

#include "base/support.hpp"

namespace guiderail {

enum class Kind : u8 {
  // expr/
  Empty,      // matches nothing
  Epsilon,    // the empty string
  Class,      // one character of a CharSet
  ClassTail,  // the rest of a character of a CharSet after its first byte(s)
  Bytes,      // one byte of a ByteSet
  Switch,     // deterministic branch: byte range -> expression; may accept (literals, choices, suffix automata)
  Concat,     // head, then tail; right-associated: the chain of tails is the push-down stack
  Union,      // alternatives
  And,        // intersection
  Not,        // complement over all byte strings
  Repeat,     // counted; never unrolled
  Ref,        // a rule of a grammar, expanded when it is first read
  Token,      // one token as a unit, a special one or one of a set of any tokens; not made of bytes
  Counted,    // an expression within n tokens; token_end tells the state where a token ends
  Ahead,      // zero-width look-arounds; live inside a Scope only
  Behind,
  Scope,  // confines look-arounds: the text they can see begins and ends with the Scope
  // captures/
  Capture,  // a group whose text is needed again, and what follows it up to there
  Recall,   // what such a group has matched
  // json/
  Escaped,    // the spellings of texts inside a JSON string
  Members,    // the rest of a JSON object between its braces
  Key,        // the same, while a key is being read
  Patterned,  // a text read beside patterns, which decide what follows it
  Distinct,   // items of a list no two of which are equal JSON values
  Twice,      // the same where at least two are equal
  Tally,      // the rest of a list whose items are counted, or tell alternatives apart
  Item,       // one item of such a list
  Among,      // one of many texts: a union that grows by one alternative at a time
  Decimal,    // the rest of a number
  // lexed/
  Terminal,    // a terminal out of a set: a symbol of a grammar over terminals, not of bytes
  Binding,     // a grammar over terminals with variables, and the values that each may still have
  Lexed,       // the texts whose terminals such a grammar derives
  Scan,        // a place in one
  MunchGuard,  // what follows a lexeme that must not have continued
  // mask/
  Elided  // what was left out of a state: something follows here
};
constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::Elided) + 1;

}  // namespace guiderail
