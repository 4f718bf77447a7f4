// The kinds of expressions, numbered in one row. A kind is no more than a number here: what it means stands in its own
// layer, and what expr/ must know of one that is not its own it asks the kind's Family (see expr/kinds.hpp).
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
  Counted,    // an expression within n tokens: their ends are told to the state (token_end)
  Ahead,      // zero-width look-arounds; live inside a Scope only
  Behind,
  Scope,  // the text that the look-arounds of an expression can see begins and ends with it
  // json/
  Escaped,   // the spellings of texts inside a JSON string
  Members,   // what is left of a JSON object between its braces
  Key,       // the same, with a key being read
  Distinct,  // items of a list no two of which are equal JSON values
  Twice,     // the same where some two are equal
  Tally,     // what is left of a list whose items are counted, or told apart by alternatives
  Item,      // one of them
  Decimal,   // what is left of a number
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
