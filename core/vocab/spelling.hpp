// How a byte-pair tokenizer spells texts, decided token by token: which tokens may follow which.
//
// A token is built by one tree of merges, in any context. Two tokens are adjacent in the canonical spelling of a piece
// if and only if no merge across their boundary is done before the parts that it needs are absorbed:
//
//  a = (w x_1), b = (y_1 z): the merge (x_1 y_1) must come later than (w x_1), or than (y_1 z)
//
// A piece is spelled canonically if each token and each adjacent pair is canonical (proof: Vieira et al. 2025,
// arXiv:2506.07956). A merge (x y) forbids after x only tokens whose left spine contains y. They form a range: of the
// tokens whose tree begins with y, those in which the merge that absorbs y comes later.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/flat_map.hpp"
#include "base/hashing.hpp"
#include "base/lru_cache.hpp"
#include "base/thresholds.hpp"
#include "vocab/pretokens.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

inline void set_bit(Words& words, u32 token) { words[token >> 5] |= 1u << (token & 31); }
inline void clear_bit(Words& words, u32 token) { words[token >> 5] &= ~(1u << (token & 31)); }

// The merges of a byte-pair encoding, by rank. If several have the least rank, the leftmost in the text is done first.
struct Merges {
  std::vector<u32> left, right, made, rank;
  std::vector<std::int64_t> bytes;    // the token of each byte; -1: none
  bool whole = false;                 // a piece that is the text of a token becomes that token, whatever the merges say
  std::vector<std::string> separate;  // texts that are always tokens of their own
  // Merging starts from the characters that are tokens, and from the bytes of all others.
  bool by_character = false;
  std::vector<std::pair<u32, u32>> characters;  // code point, token
  std::vector<u32> added;                       // tokens of separate texts
  bool closed = false;                          // no text follows one of these
};

// Finds texts in bytes that are read one by one. Of overlapping texts, the one that begins first counts, then the
// longest. So after such a text was written as its token, the longer ones that begin with it must not be completed.
class Separate {
 public:
  Separate(const std::vector<std::string>& texts, bool closed);
  static constexpr u32 kFound = 0xFFFFFFFF;
  u32 read(u32 state, std::string_view bytes);  // kFound: one of the texts ends in these bytes
  u32 pass(u32 state, std::string_view text);   // reads a text as its token; kFound: another one counts
  bool ends_next(u32 state) const;              // within one byte
  bool none() const { return nodes_.size() == 1; }

 private:
  struct Node {
    std::map<u8, u32> next;
    bool found = false;
  };
  using Threads = std::vector<u32>;  // nodes, each with another beginning, sorted; the root: no text follows
  static constexpr u32 kUnread = 0xFFFFFFFE;
  u32 intern(Threads threads);
  u32 advance(u32 node, u8 byte, Threads& out) const;
  bool is_closed(u32 state) const { return !states_[state].empty() && states_[state][0] == 0; }
  std::vector<Node> nodes_;
  bool closed_;
  std::vector<Threads> states_;
  std::vector<std::array<u32, 256>> steps_;
  std::map<Threads, u32> known_;
};

class Spelling : public std::enable_shared_from_this<Spelling> {
  struct Masks;

 public:
  // What matters about the tokens so far.
  struct State {
    u32 place = kFresh;  // position in the pieces, and in texts that must not be completed
    int last = -1;       // the previous token; -1: none, or not text
    auto operator<=>(const State&) const = default;
    bool dead() const { return place == kDead; }
  };

  static constexpr u32 kDead = 0, kFresh = 1;  // places

  Spelling(std::shared_ptr<Vocabulary> vocabulary, const Merges& merges, Pretokens pretokens);

  // Removes from a mask the tokens that cannot come next. Tokens that are not text stay.
  void restrict(const State& state, u32* words);
  State next(const State& state, u32 token);
  bool may_end(const State& state);
  // What may come next in a constraint: atoms of characters, and bit Pretokens::kEnd if the text may end.
  using Follow = u64;
  Follow follow(u8 ascii) const { return u64{1} << pretokens_.atom(ascii); }
  // The same for a character that is a token and occurs in no separate text; else 0.
  Follow apart(u8 ascii) const { return spells(ascii) && !separate_bytes_.has(ascii) ? follow(ascii) : 0; }
  // Tokens that a state of a constraint allows, by what may follow them. The state may allow others, too.
  struct Outlook {
    std::shared_ptr<const Words> all;  // null: none
    Follow after_all = 0;
    Follow then_two = 0;  // atoms of characters any two of which may follow a token of `all` (see apart())
    std::vector<std::pair<u32, Follow>> others;  // not in `all`
    u64 number = 0;                              // unique
    std::size_t memory() const { return sizeof(*this) + 4096 + others.capacity() * sizeof(others[0]); }
  };
  // The tokens of a mask, decided by a proof: those that may come after any token, those that must follow within the
  // piece, and those that are not decided.
  struct Decided {
    std::shared_ptr<const Words> of;  // the mask; null: none
    const void* last = nullptr;       // the last mask that was decided without this,
    u32 times = 0;                    // how often
    Words always, within;
    std::vector<u32> open, open_within;  // unless they are proved within the piece; if they follow
  };
  // Which tokens of an outlook a completion follows, as far as known: `begins` for tokens that begin a piece, `inside`
  // for tokens within one. `settled`: all is known of them. `unclear`: tokens without one answer for all states.
  // Guarded by mutex_.
  struct Proof {
    Words begins, inside;
    const Masks* may = nullptr;          // the tokens that may come at this place
    Words settled, unclear;              // empty until there are some
    bool ranked = false;                 // whether the next two are known:
    u32 shortest = kInf;                 // least length of a token of `begins`, in bytes
    std::vector<u32> shortest_inside{};  // the shortest tokens of `inside`
    Decided decided{};
  };
  enum class Answer : u8 { No, Yes, Unclear };
  // How far an outlook holds: any text, no more than the longest token, or a token and the next character.
  enum class Reach : u8 { Text, Token, Next };
  std::shared_ptr<Proof> proof(const State& state, const Outlook& outlook, Reach reach);
  void note(Proof& proof, u32 token, Answer begins, Answer inside);
  // The tokens about which the proof has no note.
  std::vector<u32> unnoted(const Proof& proof, const std::vector<u32>& tokens);
  // The places after a token that begins a piece, and after a token within one, whatever the token before it. kDead:
  // none. `beside`: ignores that the token may have begun a separate text.
  struct Ways {
    u32 begins = kDead, inside = kDead;
    bool beside = false;
    bool none() const { return begins == kDead && inside == kDead; }
  };
  Ways ways(u32 place, u32 token);
  // The first of these tokens that may follow within a piece; kNoToken: none.
  u32 first_after(u32 last, const std::vector<u32>& tokens);
  bool follows(u32 last, u32 token);
  bool meets(int last, Proof& proof, u32& bytes);  // does a proved token follow? `bytes`: the length of a short one
  std::shared_ptr<const Outlook> known_outlook(const Hash& of);
  void keep_outlook(const Hash& of, std::shared_ptr<const Outlook> outlook);
  // Does a completion follow a token, in a state of a constraint and at a place?
  struct Judged {
    Answer answer = Answer::Unclear;
    u32 bytes = 0;  // of the completion, until the next piece begins
    u32 steps = 0;  // of work that it took
  };
  std::optional<Judged> known_judgement(const Hash& of);
  void keep_judgement(const Hash& of, const Judged& judged);
  u64 new_number() { return ++numbers_; }
  // Keeps the proved tokens of a mask. `left`: tokens that may come and are not proved. `strict`: tokens that leave a
  // separate text unfinished are not proved either.
  void decide(const State& state, const Proof& proof, bool strict, u32* words, std::vector<u32>& left);
  // The same for the mask of an entry, in less time if this mask was decided before. False: it was not.
  bool decide_again(const State& state, Proof& proof, const MaskEntry& entry, bool strict, u32* words,
                    std::vector<u32>& left);
  // Is this token, which may come, proved? A token that begins a separate text is not.
  bool proves(const State& state, const Proof& proof, u32 token);
  // Characters that may begin the next piece, whichever readable characters follow.
  Follow cuts(u32 place);
  bool begins(u32 place, u8 ascii, bool strict);  // the same for one character
  // Characters that may begin the next piece, if the right ones follow; and whether one of these makes one of the
  // former do so, whichever follow then. For characters of no separate text: see apart().
  Follow cuts_with_next(u32 place);
  bool cuts_by_two(u32 place, Follow firsts, Follow seconds);
  u64 readable();
  bool spells(u8 byte) const { return bytes_.has(byte); }  // is the byte a token?
  // An equivalent place for tokens that begin a piece.
  u32 settled(u32 place);
  u32 atom(u32 code_point) const { return pretokens_.atom(code_point); }
  u32 atoms() const { return pretokens_.atom_count(); }
  // Separate texts that no text can contain: their tokens are not text.
  const std::vector<std::string>& separate_texts() const { return separate_texts_; }
  bool writes_separate() const { return writes_separate_; }  // are there separate texts whose tokens are text?
  // Of tokens with the same text, the first stands for the one that the tokenizer produces. Maps the latter to the
  // first; kNoToken: the tokenizer never produces this token.
  static constexpr u32 kNoToken = 0xFFFFFFFF;
  u32 inward(u32 token) const {
    const auto it = inward_.find(token);
    return it == inward_.end() ? token : it->second;
  }
  void outward(u32* words) const;  // the inverse, for a mask
  // May the two be adjacent in a piece?
  bool pair(u32 a, u32 b) const;
  // Is it part of a piece? Otherwise it separates two texts.
  bool is_piece(u32 token) const { return vocabulary_->is_text(token) && !separate_tokens_.contains(token); }
  Vocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<u32>& odd() const { return odd_; }
  std::size_t memory();

 private:
  static constexpr u32 kNone = 0xFFFFFFFF;
  struct Tree {
    u32 left = kNone, right = kNone, rank = kNone;  // kNone: a byte
    bool made = false;
    bool orderly = true;  // each merge comes after the merges of its parts
  };
  struct Step {  // one merge of a token: its rank, and the first and the last part before it
    u32 rank, first, last;
  };
  struct Open {  // tokens that complete a separate text, leave one unfinished, or leave one a byte short
    std::vector<u32> whole, begun, nearly;
  };
  struct Group {              // of kinds, by the state after them
    Pretokens::State next;    // kDead: inside a character
    Follow after;             // what may begin the next piece
    std::vector<u32> tokens;  // if they are few,
    Words words;              // else as a set
  };
  struct Side {  // tokens that may come
    Words may;
    std::vector<u32> group_of;  // by kind; group 0: not known to go on
    std::vector<Group> groups;
    Follow after(u32 kind) const { return groups[group_of[kind]].after; }
  };
  struct Masks {  // tokens that may begin a piece, or come within one
    Side begins, inside;
    std::size_t memory() const;
  };
  struct Broken {  // a token that does not consist of whole characters
    u32 token;
    std::string atoms;         // of the characters before the unfinished one
    u64 possible, finish = 0;  // atoms of the characters that it may begin; those that other tokens can finish
    bool plain;                // characters, then the beginning of one
    bool comes = true;         // at least one token may follow it
  };
  struct Shape {  // tokens whose characters no pre-tokenizer distinguishes
    std::string atoms;
    std::vector<u32> tokens;
  };

  Merges inward(Merges merges);
  std::vector<u32> parts_of(const Merges& merges, std::string_view text) const;
  void plant(const Merges& merges);
  void sort_disorderly();
  void order();
  void sort_shapes();
  void hold_odd();
  const std::vector<u32>& ends_below(u32 node);
  u32 walk_odd(u32 tag, std::string_view text) const;
  std::vector<Step> steps(u32 token) const;
  bool played(const std::vector<Step>& left, const std::vector<Step>& right) const;
  void correct(u32 token, Words& out);
  bool known_pair(u32 a, u32 b);
  void forbid_after(u32 part, u32 absorbed, Words& out) const;
  const Words& row(u32 token);
  Pretokens::State untagged(Pretokens::State state);
  Pretokens::State all_plain(Pretokens::State state);
  Pretokens::State numbered(Pretokens::State state, u32 token);
  u32 place(Pretokens::State pieces, u32 separate);
  const Open& opened(u32 separate);
  const Masks& masks(Pretokens::State state);
  template <class F>
  void each_shape(Pretokens::State state, bool cut, F f);
  void sort_broken();
  void find_finishes();
  void take_broken(Pretokens::State state, bool cut, Side& to);
  void join(Side& to, u32 kind, const std::vector<u32>& tokens, u32 group) const;
  void take_shapes(Pretokens::State state, bool cut, Side& to);
  bool lasts(Pretokens::State state, Follow then_two);
  Follow cuts_after(Pretokens::State state);
  void rank(Proof& proof) const;
  bool sort_mask(Proof& proof, const std::shared_ptr<const Words>& mask) const;
  void set_apart(const State& state, bool strict, u32* words, std::vector<u32>& left);
  Ways make_ways(u32 place, u32 token);
  const Proof& extent(u32 pieces, Follow after, Follow then_two);
  Pretokens::State as_asked(Pretokens::State state);
  Pretokens::State read(Pretokens::State state, u32 token, bool cut);

  std::shared_ptr<Vocabulary> vocabulary_;
  Pretokens pretokens_;
  bool whole_;
  std::vector<Tree> trees_;
  FlatMap<> made_of_;                       // (left, right) -> token
  std::vector<std::vector<u32>> began_by_;  // tokens whose tree has this one at its left, by rank
  std::vector<u32> begin_, end_, ordered_;  // by token: its range in ordered_
  std::vector<u32> disorderly_;
  std::unordered_map<u32, std::vector<u32>> disorderly_after_;  // by token: those that a merge may bind to it
  std::unordered_map<u32, std::vector<u32>> disorderly_of_;     // by token: those whose tree has it at its left
  std::vector<u32> odd_;                                        // tokens that can only be whole pieces
  std::vector<std::map<u8, u32>> odd_trie_;                     // of their texts; empty: no such texts
  Separate separate_;
  std::unordered_set<u32> separate_tokens_;
  std::vector<Shape> shapes_;
  std::vector<u32> alike_;  // by shape: length of the common prefix with the previous one
  std::vector<Broken> broken_;
  std::vector<u32> shape_of_, kind_of_;  // kind: a shape, or the number of shapes plus an index into broken_
  ByteSet bytes_;                        // bytes that are tokens
  ByteSet separate_bytes_;               // bytes of separate texts
  std::vector<std::string> separate_texts_;
  bool writes_separate_ = false;
  std::vector<u32> apart_;  // tokens of separate texts that are not prefixes of longer ones
  std::unordered_map<u32, u32> inward_;
  std::vector<std::pair<u32, u32>> outward_;
  std::unordered_map<u32, u32> characters_;   // code point -> token
  Words own_;                                 // tokens that merges produce
  std::vector<u32> longest_;                  // tokens that with two characters more are longer than any token
  std::vector<std::pair<u32, u32>> no_text_;  // tokens that are not text: words of a mask that have some

  std::mutex mutex_;  // guards the following
  std::vector<std::shared_ptr<const Words>> rows_;
  std::deque<u32> kept_rows_;
  std::vector<std::unique_ptr<Masks>> masks_;
  std::unordered_map<u32, Pretokens::State> untagged_, all_plain_;
  struct Place {
    Pretokens::State pieces;
    u32 separate;
  };
  std::vector<Place> places_;
  std::map<std::pair<u32, u32>, u32> place_of_;
  std::unordered_map<u32, Open> open_;  // by the state of `separate_`
  static constexpr Follow kNotAsked = ~Follow{0};
  std::vector<Follow> cuts_after_;  // by state of the pre-tokenizer
  std::map<std::pair<Pretokens::State, Follow>, bool> lasts_;
  AgingMap<Ways> ways_;                                   // by place and token
  std::unordered_map<u32, std::vector<u32>> ends_below_;  // by node of odd_trie_
  AgingMap<u8> pairs_;                                    // two tokens -> whether the second may follow the first
  std::unordered_map<u32, std::vector<Step>> steps_of_;   // of disorderly tokens
  bool finishes_known_ = false;
  LruCache<std::shared_ptr<const Outlook>> outlooks_;
  LruCache<Judged> judgements_;
  std::atomic<u64> numbers_{0};
  LruCache<std::shared_ptr<Proof>> proofs_, extents_;
};

}  // namespace guiderail
