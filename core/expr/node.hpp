// An expression as it is stored, with what is known of it from the start.
#pragma once

#include <algorithm>
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

// An expression, by its index in an arena. It only serves to order expressions and to look them up.
enum class Id : u32 {};
using Ids = ShortVector<Id, 12>;
constexpr u32 index_of(Id e) { return static_cast<u32>(e); }
constexpr Id kEmpty{0}, kEpsilon{1};
constexpr Id kUnknown{0xFFFFFFFF};  // none: not known yet, or there is no such expression

enum Flag : u32 {
  kNullable = 1,     // matches the empty string (above a Ref: known only once finalized)
  kHasRef = 2,       // contains a Ref outside its own body
  kHasLook = 4,      // contains a look-around outside any inner Scope
  kHasBehind = 8,    // contains a look-behind that must see every byte read
  kSearch = 16,      // emptiness is not structural: And, Not or Scope inside
  kHasToken = 32,    // contains a Token or a Counted
  kBigRepeat = 64,   // contains a finite bound worth cutting
  kLiveKnown = 128,  // emptiness memo (only for kSearch)
  kDead = 256,
  kCharactersKnown = 2048,  // memo of Characters::read
  kByCharacters = 2097152,
  kBigGroup = 512,         // repeats something longer than a character more than a few times
  kCapHit = 1024,          // the cap of a capped Repeat was reached: what lies after it is unknown
  kHasItem = 4096,         // contains an Item outside any inner Distinct or Twice
  kFiniteItem = 16384,     // contains an Item, outside any inner Distinct, that may have only finitely many values
  kExactStep = 65536,      // bytes of one class may lead to different states: transitions are not stored by class
  kUnknownText = 32768,    // what follows depends on a forgotten text (see near_form)
  kBarren = 262144,        // over terminals: leads only to what never comes
  kHasScan = 131072,       // contains a Scan: its near form cuts short the rest of its grammar
  kLexemeMayEnd = 524288,  // an open lexeme (see lexing.cpp) that may end here
  kCounting = 1048576,     // contains a Counted that has read a part of a token
  kListed = 4194304,       // contains alternatives that begin alike and are only listed (see readings.cpp)
  kExactKey = 8192,        // begins with a key or item that remembers its text (see near_form)
  kHasRecall = 8388608,    // contains a Recall outside its Capture
  kHasCapture = 16777216,  // contains a Capture
};

constexpr u32 kInherited = kHasRef | kHasLook | kHasBehind | kSearch | kHasToken | kBigRepeat | kBigGroup | kCapHit |
                           kHasScan | kLexemeMayEnd | kCounting | kHasItem | kFiniteItem | kExactKey | kExactStep |
                           kUnknownText | kListed | kHasRecall | kHasCapture;  // inherited from any part

struct MaskEntry;

// One line of the processor's cache, since almost every step reads nodes that are not in the cache yet. Lengths count
// characters: bytes that are not UTF-8 continuation bytes.
constexpr u32 kMostDepth = (u32{1} << 24) - 1;
struct Node {
  Kind kind : 8 = Kind::Empty;
  u32 depth : 24 = 0;  // nesting of heads; bounds every recursion over structure
  std::atomic<u32> flags{0};
  u32 a = 0, b = 0;               // operands, or offset and count in the operand pool
  u32 min = 0, max = 0;           // Repeat (b = 1: capped); max of a Ref: its rank (see readings.cpp)
  u32 shortest = 0;               // characters of a shortest match (0 below a Ref: unknown)
  u32 longest = 0;                // saturating; kInf: unbounded or unknown
  std::atomic<Id*> row{nullptr};  // transitions by byte class; kEmpty: dead, kUnknown: not computed
  std::atomic<u64> step{0};       // one memoised transition: (byte class + 1) << 32 | target
  std::atomic<const MaskEntry*> mask{nullptr};
  Id near_form = kUnknown;  // under the mutex
  u32 first = kNone;        // under the mutex: index of the set of first bytes

  // Operands of the algebra's own operators; families define what their numbers mean.
  Id head() const { return Id{a}; }  // of a Concat
  Id tail() const { return Id{b}; }
  Id body() const { return Id{a}; }  // of a kind with one operand
};
#ifndef _MSC_VER
static_assert(sizeof(Node) == 64);
#endif

struct Limits {
  u32 max_nodes = 4'000'000;  // expressions in one arena, about 100 bytes each, and lists of operands by memory
  u32 fuel = 200'000;         // states one emptiness test may visit; for each, it may handle 20 operands
  u32 max_depth = 1'500;      // nesting of operators
  u64 step_work = 500'000;    // steps of work for one mask or one token (see work.hpp)
};

struct Edge {  // of a Switch: the bytes from low to high lead to `to`
  u8 low, high;
  Id to;
};

struct Stack {  // an expression as its first part and what follows
  Id head, tail;
};

struct Draft {  // a node before it is interned
  Kind kind;
  u32 a = 0, b = 0, min = 0, max = 0;
  u32 flags = 0;
  u32 depth = 0;
  u32 shortest = 0, longest = 0;
  std::span<const Id> list{};
  bool has_list = false;

  u64 bucket() const {  // in the table of expressions
    BucketHash hash(u64{min} << 32 | (max ^ static_cast<u32>(kind) << 24));
    return (has_list ? hash.add(list) : hash.add(u64{a} << 32 | b)).done();
  }
  void absorb(const Node& operand, bool nests) {  // inherits flags and depth
    flags |= operand.flags.load(std::memory_order_relaxed) & kInherited;
    depth = std::max<u32>(depth, operand.depth + (nests ? 1 : 0));
  }
};

// A set of tokens of any kind, by text or id. With `but`: all tokens except these and the stop tokens.
struct TokenSet {
  std::vector<std::variant<std::string, u32>> tokens;
  bool but = false;
  bool operator==(const TokenSet&) const = default;
};

using Symbol = std::variant<std::string, u32, TokenSet>;  // a special token by its text or id; or a set of tokens

}  // namespace guiderail
