// A vocabulary as a trie of byte strings, and what it caches for all constraints: class masks and masks.
//
// Nodes lie in depth-first order, so that a subtree is a range and a walk that prunes is a scan that jumps:
//
//   tokens  a, an, and, bat        node:   0(root) 1:a* 2:n* 3:d* 4:b 5:a 6:t*       (* ends a token)
//                                  end:    7       4    4    4    7   7   7
//
// 128 k tokens make some 275 k nodes of 16 bytes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/lru_cache.hpp"
#include "base/pages.hpp"
#include "base/thresholds.hpp"
#include "text/charset.hpp"
#include "vocab/character_index.hpp"
#include "vocab/mask_scratch.hpp"
#include "vocab/string_counts.hpp"

namespace guiderail {

struct TrieNode {
  u32 end;     // one past the subtree
  int token;   // -1: none ends here
  u32 fan;     // index into Trie::fans if the node has many children, else kNoFan
  u8 byte;     // on the edge from the parent
  bool whole;  // the path is made of whole UTF-8 characters
  u16 chars;   // bytes of the path that are not continuation bytes
};
static_assert(sizeof(TrieNode) == 16);

constexpr u32 kNoFan = 0xFFFFFFFF;

struct Fan {  // the children of a wide node, as a range of Trie::fan_bytes / fan_nodes
  u32 offset, count;
};

struct Trie {
  PagedVector<TrieNode> nodes;
  PagedVector<u32> parents;
  PagedVector<u16> depths;
  PagedVector<u32> tokens;  // in the order of their nodes
  PagedVector<u32> ranks;   // by node, and one past the last: the tokens before it
  PagedVector<Fan> fans;
  PagedVector<u8> fan_bytes;
  PagedVector<u32> fan_nodes;

  // The tokens that end at a node or below it; at the nodes of a range.
  std::span<const u32> below(u32 node) const { return within(node, nodes[node].end); }
  std::span<const u32> within(u32 first, u32 end) const {
    return {tokens.data() + ranks[first], ranks[end] - ranks[first]};
  }
  // Calls f(child, byte) until it returns false. For a wide node, this does not touch the children themselves.
  template <class F>
  bool each_child(u32 node, F f) const {
    const TrieNode& n = nodes[node];
    if (n.fan == kNoFan) {
      for (u32 c = node + 1; c < n.end; c = nodes[c].end)
        if (!f(c, nodes[c].byte)) return false;
      return true;
    }
    const Fan fan = fans[n.fan];
    for (u32 i = fan.offset; i < fan.offset + fan.count; ++i)
      if (!f(fan_nodes[i], fan_bytes[i])) return false;
    return true;
  }
};

constexpr bool is_bracket(u8 byte) { return byte == '(' || byte == '[' || byte == '{' || byte == '<'; }  // that opens

struct TokenRest {  // at most: what is left of a token
  u32 bytes = 0, brackets = 0;
};

// What is below the nodes of a trie.
class BytesBelow {
 public:
  explicit BytesBelow(const Trie& trie);
  // The bytes on the edges below a node. Null: there are few nodes below.
  const ByteSet* of(u32 node) const { return places_[node] == kNoFan ? nullptr : &sets_[places_[node]]; }
  const ByteSet& all() const { return all_; }              // the bytes of all tokens
  bool each_alone() const { return each_alone_; }          // is each byte of UTF-8 a token, too?
  TokenRest whole() const { return whole_; }               // of any token
  TokenRest after(u8 byte) const { return after_[byte]; }  // of any token, after this byte
  std::size_t memory() const { return places_.capacity() * 4 + sets_.capacity() * sizeof(ByteSet); }

 private:
  std::vector<u32> places_;
  std::vector<ByteSet> sets_;
  ByteSet all_;
  bool each_alone_ = true;
  TokenRest whole_;
  std::array<TokenRest, 256> after_{};
};

// What follows the exits of a class by one byte, merged into one trie: the rest of the tokens that begin in the class
// and leave it by that byte. In preorder; node 0 is the byte itself.
struct ExitTrie {
  struct Node {
    u32 end;          // one past the subtree
    u32 first, last;  // tokens[first .. last) end here
    u16 depth;
    u8 byte;
  };
  PagedVector<Node> nodes;
  PagedVector<int> tokens;
  u16 deepest = 0;
  std::size_t memory() const;
};

// A node of the vocabulary's trie, or of another one.
struct TrieAt {
  const ExitTrie* other;  // null: it is the vocabulary's
  u32 node;
  // Calls f(token) for the tokens that end here.
  template <class F>
  void each_token(const Trie& trie, F f) const {
    if (other)
      for (u32 i = other->nodes[node].first; i < other->nodes[node].last; ++i) f(other->tokens[i]);
    else if (const int token = trie.nodes[node].token; token >= 0)
      f(token);
  }
  // Calls f(byte, child).
  template <class F>
  void each_child(const Trie& trie, F f) const {
    auto visit = [&](const auto& nodes) {
      for (u32 c = node + 1; c < nodes[node].end; c = nodes[c].end) f(nodes[c].byte, TrieAt{other, c});
    };
    if (other)
      visit(other->nodes);
    else
      visit(trie.nodes);
  }
};

// Merges what follows these nodes into one trie; `byte` is on the edges to them. `origin`: for each of its tokens, the
// node among these that it is below.
ExitTrie merge_exits(const Trie& trie, std::span<const TrieAt> nodes, u8 byte, std::vector<u32>* origin = nullptr);
ExitTrie merge_exits(const Trie& trie, std::span<const u32> nodes, u8 byte, std::vector<u32>* origin = nullptr);

// The tokens below one trie node that consist of characters of one set (the last may be unfinished), and where the
// others leave the set. Built once for a vocabulary, in one scan that prunes.
struct ClassMask {
  CharSet::Ptr chars;
  u32 root = 0;
  u32 most = 0;                                              // characters of the longest such token
  PagedVector<int> tokens;                                   // by number of characters, including an unfinished one
  std::vector<u32> upto;                                     // upto[n]: how many of them have at most n characters
  std::shared_ptr<const Words> dense;                        // all of them as a bitset; null if there are few
  std::map<u32, std::shared_ptr<const Words>> bounded;       // the same with at most n characters, made on demand
  std::map<u8, std::shared_ptr<const ExitTrie>> exit_tries;  // by exit byte outside the class, made on demand
  PagedVector<u64> alive;  // nodes whose path from the root stays in the set; bit node - root
  // Nodes after one or more whole characters of the set that lead to a token outside it, sorted by their byte:
  // exits[exit_at[b] .. exit_at[b + 1]].
  PagedVector<u32> exits;
  std::array<u32, 257> exit_at{};
  PagedVector<u32> splits;  // nodes that leave the set inside a character

  bool is_alive(u32 node) const { return bit(alive, node - root); }
  std::size_t memory() const;
};

// What a prefix h contributes to the masks of all states h t, whatever t is: the tokens that end within h, and the
// remainders of tokens that continue after it, which t must read.
struct PrefixSummary {
  std::vector<int> tokens;             // that end within h or at its end
  std::shared_ptr<const Words> dense;  // all of them as a bitset; null if there are few
  ExitTrie rest;                       // what follows an end of h (at least one byte into the token)
  bool nullable = false;               // t may also read whole tokens
  std::size_t memory() const;
};

// A compressed mask: a shared base (null: nothing is allowed) and the words in which the mask differs from it.
struct MaskEntry {
  std::shared_ptr<const Words> base;
  std::vector<std::pair<u32, u32>> diff;  // word, value
  std::vector<int> specials;  // tokens that the state can read as units; ~s: all those of the guide's symbol s
  bool full = false;          // all tokens are allowed: nothing to apply
  // Tokens that the shared form of a state leaves undecided: trie nodes with all below them, and single tokens.
  std::vector<u32> open_nodes;
  std::vector<int> open_tokens;
  bool is_open() const { return !open_nodes.empty() || !open_tokens.empty(); }
  bool owns_base = false;  // the base belongs to this mask alone, not to a class
  mutable Charge shared;   // charged to the vocabulary: programs hold the mask, too
  std::size_t memory() const {
    return shared_bytes<MaskEntry>() + bytes_of(diff) + bytes_of(specials) + bytes_of(open_nodes) +
           bytes_of(open_tokens) + (owns_base ? shared_bytes<Words>() + bytes_of(*base) : 0);
  }
};

// Any number of threads may call these functions. Where they need a mutex, they take their own, and never for long, so
// a caller may hold the mutex of an arena.
class Vocabulary : public std::enable_shared_from_this<Vocabulary> {
 public:
  Vocabulary(std::string data, std::vector<u32> offsets, const std::vector<u8>& special, u32 size,
             std::vector<u32> stops);

  u32 size() const { return size_; }
  u32 words() const { return (size_ + 31) / 32; }
  u32 token_count() const { return static_cast<u32>(offsets_.size() - 1); }
  u32 longest() const { return longest_; }
  const std::vector<u32>& stops() const { return stops_; }
  const Words& zeros() const { return zeros_; }  // a bitset without tokens
  const Trie& trie() const { return trie_; }
  bool is_text(u32 token) const { return token < token_count() && bit(texts_, token); }
  std::string_view bytes(u32 token) const {
    return std::string_view(data_).substr(offsets_[token], offsets_[token + 1] - offsets_[token]);
  }
  // Tokens spelled like another token: (the one in the trie, the other).
  const std::vector<std::pair<u32, u32>>& twins() const { return twins_; }
  int find(std::string_view text) const;  // -1: none
  std::vector<u32> with_prefix(std::string_view prefix, std::size_t limit) const;
  u32 find_node(std::string_view text, u32 from = 0) const;  // after this text; kNoFan: no such path

  std::shared_ptr<ClassMask> class_mask(const CharSet::Ptr& chars, u32 root);
  std::shared_ptr<ClassMask> known_class_mask(const CharSet::Ptr& chars, u32 root);  // null: not made yet
  // Makes the class masks of a set now: at the start of a token, and after one space, where words begin.
  void warm(const CharSet::Ptr& chars);
  // The bitset of the tokens of `mask` with at most `chars` characters, if it is worth having; else null.
  std::shared_ptr<const Words> bounded(ClassMask& mask, u32 chars);
  // The merged exits of `mask` by a byte that is on no path of the class.
  std::shared_ptr<const ExitTrie> exit_trie(ClassMask& mask, u8 byte);
  std::shared_ptr<const ExitTrie> known_exit_trie(ClassMask& mask, u8 byte);  // null: not made yet
  // The tokens of a class without its class mask. Null if the mask already exists, or the class is of another kind.
  std::shared_ptr<const SpelledClass> spelled_class(const CharSet::Ptr& chars);
  CharacterIndex& character_index() { return character_index_; }
  // The tokens that stay in a string and read at most this many characters (null: none), and those that leave it.
  std::shared_ptr<const Words> string_of(u32 most, Escapes mode);
  std::span<const StringCounts::Count> strings_longer(u32 than, Escapes mode);
  const std::vector<StringCounts::Count>& leaving_strings(Escapes mode);
  const BytesBelow& bytes_below();  // made on first use
  // Does a quote follow this byte in some token?
  bool quote_after(u8 byte) const { return before_quote_.has(byte); }
  u32 child(u32 node, u8 byte) const;              // kNoFan: none
  int longest_token(std::string_view text) const;  // the longest that the text begins with; -1: none

  // A scratch of the right size; return it with give_back().
  std::unique_ptr<MaskScratch> take_scratch();
  void give_back(std::unique_ptr<MaskScratch> scratch);

  std::shared_ptr<const MaskEntry> cached_mask(const Hash& key);
  void cache_mask(const Hash& key, std::shared_ptr<const MaskEntry> entry);
  // Null: there is none; `asked`: how often it was requested.
  std::shared_ptr<const PrefixSummary> cached_summary(const Hash& key, u32& asked);
  void cache_summary(const Hash& key, std::shared_ptr<const PrefixSummary> head);
  void clear_cache();
  std::size_t memory() const;
  std::size_t cache_memory() const;
  std::size_t string_memory() const;

 private:
  void build_trie();
  void warm_common();
  StringCounts& string_counts(Escapes mode);
  std::shared_ptr<ClassMask> scan_class(const CharSet::Ptr& chars, u32 root) const;
  std::shared_ptr<ClassMask> cut_class(const CharSet::Ptr& chars, u32 root);
  void find_exits(ClassMask& out, const PagedVector<u32>& boundary) const;

  std::string data_;
  PagedVector<u32> offsets_;
  std::vector<u64> texts_;  // one bit a token: it is text
  u32 size_, longest_ = 0, text_tokens_ = 0;
  std::vector<u32> stops_;
  Words zeros_;
  std::vector<std::pair<u32, u32>> twins_;
  Trie trie_;
  std::array<u32, 256> roots_{};  // the children of the root
  ByteSet before_quote_;
  CharacterIndex character_index_;
  std::mutex making_bytes_below_;  // held while bytes_below_ is made
  std::unique_ptr<const BytesBelow> bytes_below_;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<MaskScratch>> scratches_;  // that are not in use
  struct Cached {                                        // either of the two
    std::shared_ptr<ClassMask> classes;
    std::shared_ptr<const MaskEntry> mask;
    Charge cached;  // of the mask
  };
  static Hash class_key(const CharSet* chars, u32 root);
  LruCache<Cached> cache_;
  // Bytes of the cached masks that are still alive, and of those that are still cached.
  Charge::Account shared_masks_ = std::make_shared<std::atomic<std::size_t>>(0);
  Charge::Account cached_masks_ = std::make_shared<std::atomic<std::size_t>>(0);
  LruCache<std::shared_ptr<const PrefixSummary>> summaries_;
  struct Asked {  // for a prefix; another prefix in the same slot starts over
    u64 head = 0;
    u32 times = 0;
  };
  PagedVector<Asked> asked_;
  std::array<std::unique_ptr<StringCounts>, 2> string_counts_;  // by kind of escapes
};

}  // namespace guiderail
