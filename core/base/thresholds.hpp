// All numbers that decide how much, how far or which way. None of them changes what a mask contains.
//
// There are two kinds. A *limit* bounds time or memory where nothing else does: loosening it costs memory or a slower
// worst case, tightening it costs masks that are not found in time. A *crossover* is the value at which another way
// becomes cheaper. Both were chosen on a vocabulary of 128 k tokens. Before and after changing one, compare
//
//   masks      python benchmarks/ablation.py --data DATA; python benchmarks/schemas.py --data DATA --engines guiderail
//   lexed      python benchmarks/grammar.py --no-rivals
//   distances  python benchmarks/overhead.py
//   memory     python benchmarks/memory.py
#pragma once

#include <chrono>

#include "base/support.hpp"

namespace guiderail {

// -- expressions (masks; schemas.py --engines guiderail for compiling) --
inline constexpr u16 kSharedDepth = 4;        // crossover: nesting at which memoising derivatives pays
inline constexpr u32 kManyOperands = 8;       // crossover: alternatives or conditions worth memoising together
inline constexpr u32 kFewGroups = 3;          // crossover: repetitions of a group that masks need not cut short
inline constexpr int kCharacterParts = 2048;  // limit: parts examined to decide whether whole characters can be read
inline constexpr u32 kAtomRanges = 20'000;    // limit: ranges of atoms of characters, for masks by whole characters
inline constexpr u32 kFewAtoms = 64;          // limit: the atoms themselves
inline constexpr u64 kDeepUnionWork = 256;    // crossover: operands of unions, then alternatives are only listed
inline constexpr u32 kDeepHead = 64;          // crossover: nesting of a head above which its alternatives get the tail
inline constexpr std::size_t kPortableRules = 6;  // limit: rules that reach each other and have identities

// -- emptiness (masks; schemas.py --engines guiderail for compiling) --
inline constexpr u64 kWorkPerFuel = 20;            // limit: operands handled that one state's fuel pays for
inline constexpr u32 kLiveWait = 16;               // crossover: characters by which a state's other bytes are delayed
inline constexpr u32 kLiveAlone = 32;              // crossover: states for each condition, then two orders take turns
inline constexpr u32 kLiveConditions = 6;          // crossover: conditions at once from which the thorough one begins
inline constexpr std::size_t kLiveLengths = 1024;  // limit: states of a search for the length of some match
inline constexpr std::size_t kLiveFew = 128;       // crossover: states met before a shortest match is looked for
inline constexpr u32 kLiveEager = 2;     // crossover: weight of what is left beside what was read, in a thorough search
inline constexpr u32 kLiveParts = 256;   // limit: expressions examined for an estimate of the rest
inline constexpr u32 kLetterDepth = 64;  // limit: nesting below which letters are not looked for
inline constexpr u32 kFewEscaped = 64;   // crossover: characters that an escape may become, tried one by one
inline constexpr u32 kLiveDoubt = 64;    // limit: states of a search that depends on a forgotten text

// -- objects (masks) --
inline constexpr u32 kFewNames = 64;                   // limit: names that a key may become, examined one by one
inline constexpr int kMostObligations = 10;            // limit: of an object; its states are sets of them
inline constexpr std::size_t kLongestCountedKey = 64;  // limit: bytes of other keys that are counted
inline constexpr std::size_t kFewKeys = 64;            // limit: other keys of a vote that text distinguishes
inline constexpr int kObjectParts = 6;                 // limit: parts of a string's text searched for an object
inline constexpr int kObjectUnions = 2;                // limit: unions among them, one in the other
inline constexpr u32 kFewAmong = 16;                   // crossover: distinct values that are excluded as a plain union

// -- masks: crossovers (masks) --
inline constexpr u32 kHeavy = 1500;         // trie nodes: larger subtrees have their own class masks
inline constexpr u32 kWorthClass = 64;      // trie nodes: the same inside strings, whose classes all constraints share
inline constexpr u32 kWorthSharing = 16;    // trie nodes of a piece that is worth sharing with other pieces
inline constexpr unsigned kSmallLoop = 16;  // ASCII characters that make a self loop worth a class mask
inline constexpr u32 kShortLoop = 12;       // characters: inside the trie a walk is cheaper for a shorter loop
inline constexpr std::size_t kFewLonger = 1000;   // tokens past a count that are cleared one by one
inline constexpr std::size_t kDenseSummary = 64;  // tokens above which a summary is a bitset
inline constexpr u32 kSmallWalk = 4096;           // trie nodes that a summary requested twice is worth
inline constexpr int kFewFirstBytes = 40;         // first bytes of a summary; with more, the walk is not small
inline constexpr std::size_t kMostAnew = 4;       // large subtrees to walk again where two states differ
inline constexpr u16 kLeastObjectDepth = 1;       // nesting below which an expression contains no object

// -- masks: limits (masks) --
inline constexpr std::size_t kMostLoops = 12;      // alternatives of a state that are examined one by one
inline constexpr int kMostLoopNesting = 12;        // of an expression searched for a loop
inline constexpr int kMostTextNesting = 8;         // of an examined text
inline constexpr std::size_t kMostTexts = 24;      // states of a text, including those inside characters
inline constexpr std::size_t kMostKeyNames = 64;   // names that correct the mask of a key as a string
inline constexpr std::size_t kMostStrings = 6;     // alternatives of a string that is compared with another
inline constexpr u32 kMostPairs = 3000;            // trie nodes compared below one first byte of two states
inline constexpr std::size_t kMostPartsTold = 64;  // limit: parts around a count, alternatives with counts
inline constexpr u32 kShortRun = 8;                // characters of a class that end at once: its loop is read anew
inline constexpr std::size_t kMostLast = 3000;     // limit: tokens that reach the greatest length of a string
inline constexpr u32 kMostPairsInAll = 12'000;     // the same, below all of them
inline constexpr std::size_t kMostApart = 16;      // masks derived from each other, nested
inline constexpr u32 kMostSummaryParts = 8;        // parts of a concatenation that a summary may have
inline constexpr std::size_t kMostSummaryRest = 1u << 15;  // trie nodes after the ends of a summary
inline constexpr int kEndlessProbes = 2;                   // characters read to find an endless text
inline constexpr std::size_t kMostLeastSteps = 256;        // limit: bytes read to list the shortest other keys
inline constexpr std::size_t kFewSeen = 16;                // other keys already written; more need too many texts

// -- lexed texts (lexed) --
inline constexpr std::size_t kMostPieceBytes = 64u << 20;  // limit: of pieces and outcomes; then all are dropped
inline constexpr u32 kNearParts = 2;                       // crossover: parts of the grammar that are tried first
inline constexpr std::size_t kFewPieceWords = 32;          // crossover: words of a piece stored with its continuation
inline constexpr std::size_t kDensePiece = 2000;           // crossover: words set; more become a bitset
inline constexpr u32 kMasksBetweenCounts = 16;             // crossover: masks between two counts of all pieces
inline constexpr u32 kMostNewPieces = 2'500;               // limit: pieces of one mask; with more, it is walked
inline constexpr u32 kMostProbed = 5'000;        // limit: lexer states that a search for the end of one lexeme finds,
inline constexpr u32 kLeastProbed = 64;          // halved down to this whenever a search of the same lexer gives up;
inline constexpr u32 kProbesPerCharacter = 2;    // or visits, for each character that this end is away at least,
inline constexpr u32 kMostProbes = 1'000'000;    // up to this many, halved likewise
inline constexpr u32 kStepsPerProbe = 4;         // steps of work that a state found costs
inline constexpr u32 kMostSampled = 80;          // limit: lexer states that a search for samples of all terminals finds
inline constexpr std::size_t kGuardPairs = 256;  // limit: places where a guard and a lexeme are followed together
inline constexpr u32 kPartsOfPlace = 2;          // crossover: parts of the grammar that a place keeps within its mask

// -- vocabularies: crossovers (masks) --
inline constexpr std::size_t kFewTokensOfSet = 384;     // tokens set bit by bit; with more a bitset is cheaper
inline constexpr std::size_t kWorthDenseClass = 1500;   // tokens of a class that is kept as a bitset
inline constexpr u32 kWorthCutting = 1500;              // trie nodes: a class mask is cut from a larger one
inline constexpr std::size_t kMostCutShare = 8;         // at most one trie node in this many may begin what is cut
inline constexpr std::size_t kWorthWarming = 20'000;    // trie nodes: class masks and summaries are made when loading
inline constexpr u32 kWideNode = 12;                    // children above which a node has a table of them
inline constexpr u32 kWorthBytesBelow = 16;             // trie nodes below a node above which its bytes are recorded
inline constexpr std::size_t kManyIndexExits = 12'000;  // exits by one byte: with more a scan is cheaper

// -- vocabularies: limits (memory) --
inline constexpr u32 kLongestToken = 4096;                 // bytes; a longer token is never allowed as text
inline constexpr std::size_t kCacheLimit = 80u << 20;      // bytes of class masks and masks together
inline constexpr std::size_t kSummaryLimit = 16u << 20;    // bytes of summaries: rarely used, each worth many masks
inline constexpr std::size_t kMostScratches = 16;          // unused ones to keep
inline constexpr std::size_t kMostClasses = 256;           // classes found through the character index
inline constexpr std::size_t kAsked = 1u << 15;            // summaries whose requests are counted
inline constexpr std::size_t kTokenBytes = 64;             // bytes that the smaller arrays take per token, about
inline constexpr std::size_t kVocabularyPages = 4u << 20;  // bytes reserved for the first masks and arenas

// -- searches for an end: limits (distances) --
inline constexpr std::size_t kMostSearchStates = 20'000;  // states that one search for a short completion visits
inline constexpr std::size_t kFewSearchStates = 2'000;    // the same, tried first where it sufficed before
inline constexpr std::size_t kFewestSearchStates = 200;   // the same, tried first in any case
inline constexpr std::size_t kMostSearchWork = 100'000;   // states that all searches for one state visit
inline constexpr std::size_t kMaskSearchWork = 12'000;    // states that all searches for one mask visit
inline constexpr std::size_t kSearchShare = 2'000;        // states that one of these visits
inline constexpr std::size_t kFewParts = 32;              // parts of a union that are examined one by one
inline constexpr std::size_t kMostByTokens = 400;         // states whose tokens are examined, breadth first
inline constexpr std::size_t kFewByTokens = 40;           // the same, if there may be many searches
inline constexpr std::size_t kMostSteps = 4'000'000;      // tokens read for these states, and for one refinement
inline constexpr std::size_t kFewSteps = 1'000;           // the same, for one mask
inline constexpr std::size_t kFewShared = 64;             // tokens that are read one by one rather than together
inline constexpr std::size_t kSharedTries = 16;   // of these that are read to find one without a text in the way
inline constexpr std::size_t kNodesPerWork = 16;  // expressions that cost as much as a state that is visited
inline constexpr std::size_t kStatesPerWork = 8;  // states of a known completion that cost as much as one found
inline constexpr std::size_t kFewLost = 1'000;    // tokens read again with their texts, for one mask
inline constexpr std::size_t kLostWork = 1'000;   // states that searches for these visit
inline constexpr u32 kNodesShare = 16;            // a search may have at most one in this many of the arena's nodes
inline constexpr u32 kFewNodes = 1'000;           // nodes that any call may add
inline constexpr std::size_t kMostProfiles = 1 << 22;  // tokens stored with what is needed after them
inline constexpr std::size_t kPartsWork = 10'000;      // parts looked at for one mask
inline constexpr std::size_t kMostParts = 1 << 18;     // parts of which something is stored
inline constexpr u32 kPartsDepth = 500;                // nesting of parts, rules included
inline constexpr u32 kLongestParts = 1 << 16;          // tokens of a completion composed of parts
inline constexpr std::size_t kMostPartNames = 1'000;   // names of an object, and keys that one may have to differ from
inline constexpr std::size_t kBoundStates = 512;       // states of a part, examined for its bound
inline constexpr u32 kBoundBytes = 200;                // bytes of a part that are looked ahead
inline constexpr int kMostRounds = 4;                  // refinements of a distance
inline constexpr int kMostSearchDepth = 16;            // nesting of searches for parts
inline constexpr u32 kDistanceHaste = 8;               // weight of missing characters against those read, in haste
inline constexpr u32 kShortestHaste = 32;              // the same, for any completion at all
inline constexpr int kMostRuleDepth = 64;              // nesting of rules in a likely text
inline constexpr std::size_t kLikelyWork = 64;         // expressions per byte of a likely text
inline constexpr std::size_t kBytesOfMask = 32;        // bytes of a likely text per mask prepared

// -- programs and guides: limits (memory) --
inline constexpr u32 kOperandsPerNode = 25;  // operands in lists that max_nodes counts as an expression: 100 bytes
inline constexpr std::size_t kMostKeyTokens = 1u << 16;  // remembered steps by whole tokens within keys
inline constexpr std::size_t kMostRefused = 1u << 14;    // masks known to take too much work
inline constexpr std::size_t kProgramPages = 1u << 20;   // bytes reserved for the first texts of a program
inline constexpr u64 kWorkToCount =
    2'000;  // steps of work after which a program's memory is counted again: 2 of 200 µs
inline constexpr std::size_t kBytesOfStep = 16;  // bytes of text that may take the work of one step: a long token
inline constexpr u64 kSearchWork = 40;           // a search for an end may take this many times a mask's work
inline constexpr std::chrono::milliseconds kLongMask{20};    // then other threads use builders of their own
inline constexpr std::size_t kDiscardedLeast = 32 << 10;     // crossover: bytes of a program that is not freed at once
inline constexpr std::size_t kDiscardedBatch = 16;           // crossover: programs that are worth a thread
inline constexpr std::size_t kDiscardedBytes = 8 << 20;      // limit: of programs that wait without one
inline constexpr std::size_t kDiscardedBatches = 4;          // limit: batches that wait for the thread
inline constexpr std::size_t kMostSpares = 6;                // number of such builders in use at once
inline constexpr std::size_t kLargeProgramBytes = 1u << 20;  // crossover: freed without the host's lock; 1 ms

// -- everywhere --
inline constexpr u32 kNodesBetweenBreaks =
    256;  // nodes of a walk (of the trie, or of an arena), until others may be let in: some 25 µs
inline constexpr u32 kNodesPerStep = 16;  // trie nodes that count as one step of work when only examined

// -- canonical spelling: limits (python benchmarks/canonical.py --data DATA; memory: the last line of its output) --
inline constexpr std::size_t kMostCanonical = 1u << 18;   // places with a known completion; then all are dropped
inline constexpr std::size_t kCanonicalBytes = 1u << 16;  // bytes of a completion to spell
inline constexpr std::size_t kCanonicalPlaces = 256;      // bytes of it whose rest is stored
inline constexpr u32 kCanonicalFuel = 4096;               // tokens examined by one search for a completion
inline constexpr u32 kFewCanonical = 64;                  // the same before a text is searched and spelled
inline constexpr std::size_t kCanonicalTexts = 64;        // texts spelled after tokens of such a search
inline constexpr std::size_t kCanonicalDepth = 512;       // tokens of a completion found by search
inline constexpr std::size_t kKeptMaskBytes = 4u << 20;   // bytes of costly masks that a program caches, 16 KB each
inline constexpr std::size_t kMostRows = 1024;            // tokens with cached rows of pairs, 16 KB each
inline constexpr std::size_t kMostWays = 1u << 16;        // cached next places of a place and a token, 40 bytes each
inline constexpr std::size_t kKnownPairs = 1u << 16;      // cached pairs of tokens, 20 bytes each
inline constexpr std::size_t kOutlookBytes = 16u << 20;   // bytes of what may follow the tokens of forms
inline constexpr std::size_t kProofBytes = 64u << 20;     // bytes of sets of proved tokens, 80 KB each
inline constexpr std::size_t kJudgedBytes = 1u << 19;     // bytes of answers that constraints share, 12 each
inline constexpr std::size_t kExtentBytes = 8u << 20;     // bytes of the same for whole vocabularies, 32 KB each
inline constexpr std::size_t kMostCanonicalSteps = 2048;  // states with cached steps, 1 KB each
inline constexpr std::size_t kMostFollows = 1u << 17;     // states for which it is known what may follow
inline constexpr std::size_t kMostAhead = 1u << 16;       // states and places for which it is known
inline constexpr std::size_t kMostAnswers = 1u << 18;     // the same after one token
inline constexpr u32 kAheadNodes = 16'384;                // trie nodes examined to find what may follow in a place
inline constexpr std::size_t kAheadTokens = 4096;         // tokens that may follow there
inline constexpr u32 kAheadDepth = 12;                    // tokens of a completion searched for a form
inline constexpr std::size_t kMostApartTokens = 1024;     // tokens that may be part of a name, and are decided alone
inline constexpr std::size_t kUnlikePairs = 2;            // pairs of characters of a text that are examined in context
inline constexpr std::size_t kMostOfCharacter = 64;       // places inside non-ASCII characters
inline constexpr std::size_t kMostReadable = 4096;        // states of a pre-tokenizer examined for what it can read

// -- canonical spelling: crossovers (python benchmarks/canonical.py --data DATA) --
inline constexpr u32 kLeadCharacters = 16;        // ASCII characters that lead to one state
inline constexpr std::size_t kManyOthers = 4096;  // tokens with the same continuations that are worth a set
inline constexpr std::size_t kManyOpen = 512;     // tokens whose completions within a budget are not searched
inline constexpr std::size_t kFewPairs = 16;      // tokens tried one by one before a row of pairs is made
inline constexpr u32 kTokensOfFew = 1024;         // tokens of a vocabulary for each of a mask that is decided by itself
inline constexpr u32 kTimesDecided = 4;           // times that a mask is decided before its sets are kept, 32 KB
inline constexpr u32 kFewWitnesses = 64;          // short tokens tried one by one

}  // namespace guiderail
