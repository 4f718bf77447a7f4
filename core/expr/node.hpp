// An expression as it is stored, and what is known of it as soon as it is made.
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/hashing.hpp"
#include "base/kind.hpp"
#include "base/short_vector.hpp"
#include "base/support.hpp"

namespace guiderail {

// An expression of an arena, by its place there. It orders expressions and finds them in tables, and no more.
enum class Id : u32 {};
using Ids = ShortVector<Id, 12>;
constexpr u32 index_of(Id e) { return static_cast<u32>(e); }
constexpr Id kEmpty{0}, kEpsilon{1};
constexpr Id kUnknown{0xFFFFFFFF};  // none: not known yet, or nothing of the kind

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
  kCharactersKnown = 2048,  // memo of Characters::read
  kByCharacters = 2097152,
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

constexpr u32 kInherited = kHasRef | kHasLook | kHasBehind | kSearch | kHasToken | kBigRepeat | kBigGroup | kCapHit |
                           kHasScan | kLexemeMayEnd | kCounting | kHasItem | kFiniteItem | kExactKey | kExactStep |
                           kUnknownText;  // by what holds such a part

struct MaskEntry;

// 96 bytes. Lengths count characters: bytes that are not UTF-8 continuation bytes.
struct Node {
  Kind kind = Kind::Empty;
  std::atomic<u32> flags{0};
  u32 depth = 0;                  // nesting of heads; bounds every recursion over structure
  u32 a = 0, b = 0;               // operands, or offset and count in the operand pool
  u32 min = 0, max = 0;           // Repeat (b = 1: capped)
  u32 shortest = 0;               // characters of a shortest match (0 below a Ref: unknown)
  u32 longest = 0;                // saturating; kInf: unbounded or unknown
  Hash hash;                      // under the mutex: see portable_hash; all zero: not computed; all one: none
  std::atomic<Id*> row{nullptr};  // transitions by byte class; kEmpty: dead, kUnknown: not computed
  std::atomic<u64> step{0};       // one remembered transition: (byte class + 1) << 32 | target
  std::atomic<const MaskEntry*> mask{nullptr};
  Id canonical = kUnknown;  // under the mutex
  u32 first = kNone;        // under the mutex: index of the set of first bytes

  // What the algebra's own operators are of; families say what the numbers of theirs mean.
  Id head() const { return Id{a}; }  // of a Concat
  Id tail() const { return Id{b}; }
  Id body() const { return Id{a}; }  // of what has one operand
};

struct Limits {
  u32 max_nodes = 4'000'000;  // expressions in one arena (about 100 bytes each)
  u32 fuel = 200'000;         // states one emptiness test may visit; each pays for 20 operands handled
  u32 max_depth = 1'500;      // nesting of operators
  u64 step_work = 500'000;    // steps of work for one mask or one token (see work.hpp)
};

struct Draft {  // a node before it is interned
  Kind kind;
  u32 a = 0, b = 0, min = 0, max = 0;
  u32 flags = 0;
  u32 depth = 0;
  u32 shortest = 0, longest = 0;
  std::span<const Id> list{};
  bool has_list = false;
};

// Tokens of any kind by their texts or ids, or all but these and those that end a text.
struct TokenSet {
  std::vector<std::variant<std::string, u32>> tokens;
  bool but = false;
  bool operator==(const TokenSet&) const = default;
};

using Symbol = std::variant<std::string, u32, TokenSet>;  // a special token by its text or its id; a set

}  // namespace guiderail
