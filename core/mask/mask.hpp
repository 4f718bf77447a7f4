// Which tokens may come next: from an expression and a vocabulary to a bitset.
//
// A token is allowed if and only if the expression, derived by its bytes, can still match. Four ideas find them:
//   abstraction     a state is replaced by one that a token cannot tell apart from it (shared_form)
//   prefix summary  of h t, what stays within h, and where tokens leave it, found once; then t from there
//   composition     the mask of another state, and where the two differ
//   walk            depth-first over the trie with memoised derivatives, never below a byte that nothing can follow
// The first three are strategies in an ordered table (strategies.cpp); the walk does the rest.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <unordered_set>

#include "base/flat_map.hpp"
#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "mask/abstraction.hpp"
#include "mask/strategies.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

// A character beyond ASCII.
constexpr bool begins_character(u8 byte) { return byte >= 0xC2 && byte < 0xF5; }

class MaskBuilder {
 public:
  MaskBuilder(Arena& arena, Vocabulary& vocabulary);
  ~MaskBuilder();
  static void warm(Vocabulary& vocabulary);
  static bool allows_all(const u32* mask, u32 size);  // all ids below `size`

  // requires, here and below: mutex of the arena held
  // The mask of a shared form. Tokens that depend on what the form forgets stay open.
  std::shared_ptr<const MaskEntry> build(Id state);
  // The mask of a lexed text in progress; null: the state is no such text. `fresh`: no earlier state had this mask.
  std::shared_ptr<const MaskEntry> lexed(Id state, const std::vector<int>& specials, bool& fresh);
  // The mask of a state, from that of its shared form: decides the open tokens. Null: none of them is allowed.
  std::shared_ptr<const MaskEntry> settle(const MaskEntry& shared, Id state);
  // A state with the same mask, except for open tokens, that many positions reach. `nested`: texts inside strings have
  // forms, too.
  Id shared_form(Id e, bool nested = true);
  // Does the shared form forget names? NamesOfAny: of keys that may otherwise be any text; Names: of other keys.
  enum class Forgets : u8 { Nothing, NamesOfAny, Names };
  Forgets forgets(Id e);
  // The state with the counts of its groups capped at `most`.
  Id capped(Id state, u32 most);
  // A key with its names: hardly any other program reaches it.
  bool own_key(Id e) {
    KeyParts parts;
    return Json::of(arena_).used() && key_parts(e, parts);
  }
  // Are these keys that may be anything, or one of some names? `free`: the same without the names; kEmpty: nothing is
  // left. `rests`: what completes a name.
  bool without_names(Id e, Id& free, std::vector<std::string>& rests);
  void count(Tally& to) const;

 private:
  struct Suffixes;
  struct Begin;
  struct Group;
  struct Piece;
  struct Sum;
  struct Position {  // a place, with its number
    Lexed::Place place;
    u32 number;
    bool shape = false;  // whatever the values of variables
  };
  struct Within {  // a part of a state: head outer or, in a string, escaped(head inner) outer
    Id head = kEmpty, inner = kEpsilon, outer = kEpsilon;
    bool string = false;
    Escapes mode = Escapes::Canonical;
  };
  struct Loop {  // one alternative C{min,max} tail
    CharSet::Ptr chars;
    u32 min, max;
    Id tail;             // its own first bytes leave the loop
    Id whole;            // the alternative itself
    ByteSet other;       // bytes by which the alternative leaves C without entering the tail: a quote, an escape
    Id inside = kEmpty;  // the alternative after characters of C, if that is always one state
    Id unit = kEmpty;    // of a loop in a string, unit{min,max}: C are its raw characters
    Within in{};         // of such a loop
  };
  struct SelfLoop {  // every character of `chars` leads from the state to `inside`, and from there back to it
    CharSet::Ptr chars;
    Id inside = kEmpty;
  };

  // One way to make a mask: it makes the mask of all tokens below a node, or returns false and has done nothing.
  enum class Reach : u8 { Root, Large, Strings };  // the whole vocabulary; large subtrees; in strings, also small ones
  struct Row {
    Strategy strategy;
    Reach reach;
    bool (MaskBuilder::*make)(Id e, u32 node);
  };
  static const std::array<Row, kMakers> kOrder;
  bool by_strategy(Id e, u32 node, Reach least, Strategy first = {});
  template <class Make>
  bool attempt(Strategy strategy, Make make) {
    if (!StrategySwitches::on(strategy)) return false;
    const u64 before = Work::spent();
    const bool made = make();
    counts_.note(strategy, made, Work::spent() - before);
    return made;
  }
  bool several_keys(Id e, u32 node);
  bool draw_without_names(Id e, std::vector<std::string>& rests);
  bool keywords(Id e, u32 node);
  bool bounded_strings(Id e, u32 node);
  bool bounded_string(Id e);
  bool bounded_text(Id e);
  bool bounded_run(Id e);
  bool without_longer(Id e, Id free, const ClassMask& mask, u32 most, u32 ending);
  struct LongRun {
    u32 chars, node;
  };
  const std::vector<LongRun>& long_runs(const ClassMask& mask);
  bool cut_strings(Id e, Id tail, const Abstraction::Uncounted& of, Escapes mode);
  bool composed_strings(Id e, u32 node);
  bool alternative_strings(Id e);
  bool prefix_summaries(Id e, u32 node);
  bool string_differences(Id e, u32 node);
  bool counted_intersections(Id e, u32 node);
  bool absorbing_strings(Id e, u32 node);
  bool class_loops(Id e, u32 node);
  bool excluded_texts(Id e, u32 node);
  bool state_differences(Id e, u32 node);
  bool self_loops(Id e, u32 node);
  void visit(Id e, u32 node);
  void walk(Id e, u32 node);
  void enter(Id e, u32 node);
  void scan(Id e, u32 node);
  void follow_character(Id e, u32 node);
  void inside_character(Id e, u32 node, u32 all, u32 due, u32 value);
  template <class Make>
  std::shared_ptr<const PrefixSummary> summary_mask(const Hash& key, Id loop, Make make);
  bool summary_part(Id part) const;
  bool ends_value(Id part) const;
  bool classify(Id head, Id loop, u32 most, PrefixSummary& out);
  bool endless_string(Id e, Escapes& mode);
  u32 opens_string(Id e, Escapes& mode, Id& loop);
  bool in_string(Id e) const;
  CharSet::Ptr free_class(Id e) const;
  bool uniform_text(Id text, int depth) const;
  bool takes_any(Id text, int depth);
  bool never_dies(Id text);
  bool reads_any(Id e, bool& all);
  bool free_loop(Id e, std::vector<Loop>& loops);
  Within within(Id e) const;
  Id joined(const Within& in, Id first, Id after);  // `first` and `after` in place of head and inner
  bool split(Id e, std::vector<Loop>& loops, Ids& rest);
  bool starts_with_loop(Id e, int depth) const;
  Id after(const Loop& loop, u32 chars);
  struct KeyParts {
    Id before, key, tail;
    char blank;  // that may precede the key; 0: none
  };
  struct KeyHits {  // of a name, by the number of its missing bytes
    u64 known = 0;
    u64 hit = 0;   // a token can complete it, or other keys along it are too complex
    u64 dies = 0;  // no other key shares its beginning
  };
  bool optional_blank(Id e, char& blank) const;
  bool key_parts(Id e, KeyParts& out);
  bool on_path(u32 node, std::string_view text) const { return vocabulary_.find_node(text, node) != kNoFan; }
  bool reaches(std::string_view text, bool whole) const;
  bool touches(KeyHits* known, const KeyApart& key, const std::string& name, const KeyParts& parts, bool allowed);
  bool names_matter(const KeyApart& key, const KeyParts& parts, bool& complete);
  void copy(const MaskEntry& entry);
  std::shared_ptr<const MaskEntry> entry_of(Id e);
  bool may_draw_apart(Id e) const;
  struct Difference {
    u32 node;
    Id state;     // for the tokens below the node
    bool clears;  // removes the tokens of the other state
  };
  bool split_excluded(Id e, Id& others, ByteSet& begins);
  ByteSet telling_bytes(Id e, Id b);
  bool differences(Id e, Id b, u32 node, u32& budget, std::vector<Difference>& out);
  void apply(const std::vector<Difference>& found);
  bool differential(Id e, Id b, Id form);
  struct Strings {
    Ids texts;                       // what is left of each
    std::vector<std::string> names;  // of a key: the rests of the names, spelled up to the closing quote
    bool key = false;
  };
  struct TextDifference {
    u32 node;
    bool alive;  // some token below it may be allowed
  };
  bool key_of(Id e, Strings& out);
  bool strings_of(Id e, Strings& out);
  bool free_beside(Id e, Id b);
  using TextPair = std::pair<Id, Id>;  // of the state, and of the one that it is compared with
  using TextPairs = std::span<const TextPair>;
  bool text_differences(TextPairs pairs, bool key, u32 node, u32& budget, std::vector<TextDifference>& out);
  struct Leaving {  // a token that leaves a string
    u32 chars;      // how many of its characters belong to the string
    int token;
    bool open;
  };
  const std::vector<Leaving>* leaving_of(Id e, const MaskEntry& entry, Escapes mode);
  Id key_form(Id e, const KeyParts& parts);
  Id key_spelled(const KeyParts& parts, const KeyApart& apart, bool longer);
  bool holds_object(Id text, int unions = 0) const;
  Id nested_form(Id e);
  struct NamePaths {  // of the names that begin with the same bytes, from one node of the trie
    struct Path {
      u32 name;     // a place in MemberTable::order
      u32 until;    // its tokens end here in `tokens`
      u32 end;      // where the whole name with its quote leads; kNoFan: no token contains it
      bool blanks;  // after a blank
    };
    std::vector<Path> paths;
    std::vector<int> tokens;  // that are beginnings of the name
  };
  const NamePaths& name_paths(const KeyApart& key, char blank, u32 node);
  bool closed_names(Id e, u32 node);
  void correct(Id texts, Id e, u32 node, std::vector<int>* without);
  void clear(u32 node);
  // From the vocabulary. If this takes a scan, others may use the arena meanwhile.
  std::shared_ptr<ClassMask> class_mask(const CharSet::Ptr& chars, u32 node);
  std::shared_ptr<const ExitTrie> exit_trie(ClassMask& mask, u8 byte);
  void leave(ClassMask& mask, u8 byte, Id next);
  bool postpone_exits(const ExitTrie& trie, Id e, u32 node);
  struct Spelled {  // the tokens of an exit trie after these characters only, within these bounds
    const std::vector<Letters>& before;
    Letters letters;
    u32 min = 0, max = kInf;
    bool has(u32 i) const { return before[i].within(letters) && before[i].chars >= min && before[i].chars <= max; }
  };
  void walk_exits(const ExitTrie& trie, Id state, const Spelled* only = nullptr, bool top = false);
  using Ways = std::vector<std::pair<u8, Id>>;  // out of a class: the byte, and the next state
  bool leave_all(const SpelledClass& of, const Ways& ways);
  bool semantic_spelled(const SelfLoop& loop, Id e);
  bool run_spelled(const Loop& loop);
  bool run_loops(u32 node, const std::vector<Loop>& loops, Ids& rest);
  bool run_rest(std::span<const Id> rest, u32 node);
  bool continues_in_tail(const Loop& loop, const ClassMask& mask);
  bool unbounded(const Loop& loop, const ClassMask& mask) const;
  void run_loop(const Loop& loop, ClassMask& mask, u32 node);
  void enter_outside(const ClassMask& mask, Id e, u32 node);
  template <class State>
  void enter_splits(const ClassMask& mask, u32 node, State state);
  void enter_unfinished(const ClassMask& mask, Id e, u32 read);
  const SelfLoop& self_loop(Id e);
  SelfLoop find_self_loop(Id e);
  Id step(Id e, u8 byte) {
    u32 c = arena_.byte_class(byte);
    Id next = arena_.known_step(e, c);
    return forget(next != kUnknown ? next : arena_.step_slow(e, byte));
  }
  // The same along the row of e (null: see kExactStep), without forget().
  Id step_along(Id e, const Id* row, u8 byte) {
    const Id next = row ? row[arena_.byte_class(byte)] : kUnknown;
    return next != kUnknown ? next : arena_.step_slow(e, byte);
  }
  Id read(Id e, std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size() && e != kEmpty; ++i) e = step(e, static_cast<u8>(bytes[i]));
    return e;
  }
  Id forget(Id e) { return !exact_ && arena_.has(e, kExactKey | kHasScan | kHasCapture) ? near_form(e) : e; }
  Id near_form(Id e) {
    return StrategySwitches::on(Strategy::Counters) ? Abstraction::of(arena_).near_form(e, vocabulary_.longest()) : e;
  }
  // Does it depend on a forgotten text which tokens below `node` are allowed, if e leads there? Then the node stays
  // open. What the text of a group does not decide is left in e.
  bool postponed(Id& e, u32 node) {
    if (!arena_.has(e, kUnknownText)) return false;
    postponed_.push_back(node);
    return !captures_.used() || (e = known_part(e)) == kEmpty;
  }
  Id known_part(Id e);               // the alternatives that do not depend on a forgotten text
  void set_after(Id e, int token) {  // if this state after the token allows it
    if (e == kEmpty) return;
    if (arena_.has(e, kUnknownText))
      postponed_tokens_.push_back(token);
    else
      set(token);
  }
  void check_again(Id e, int token);
  void note_open(MaskEntry& entry);
  std::string path_to(u32 node) const;
  std::shared_ptr<const MaskEntry> draw(Id state);
  void finish(MaskEntry& entry);
  // lexed texts
  bool shareable(Id e, u32 node) const;
  bool ends_lexeme(Id e, u32 node, const ExitTrie* trie);
  bool may_end(Id e, u32 node, const ExitTrie* trie) {  // true: it ended, and nothing else continues here
    return arena_.has(e, kLexemeMayEnd) && ends_lexeme(e, node, trie);
  }
  void begin_piece(bool share);
  std::shared_ptr<Piece> end_piece();
  class GroupMaker;
  void trim_withouts();
  void note_endings(Piece& piece);
  std::shared_ptr<Piece> piece_of(Id open);
  std::shared_ptr<Piece> piece_at(Id state, u32 node);
  std::shared_ptr<Piece> piece_below(Id state, u32 node);
  std::shared_ptr<Piece> piece_after(Begin& begin, Id state);
  std::shared_ptr<Piece> piece_after(Id state, const std::shared_ptr<const ExitTrie>& exits);
  void bundle(Piece& piece);
  u32 continuation(u32 bundle, u32 start, Id after, Id nested);
  u32 intern_outcome(std::span<const u32> of);
  Position position(const Lexed::Place& place, u32 how);
  Position near_position(u32 lexer, const Lexed::Place& place, bool shape);
  struct Transition {  // from the end of a lexeme on, at a place that was cut short
    Lexed::After how{};
    Lexed::Begins begins{};
    bool passed = false;  // `place` is after it and not in front
    Lexed::Place place{};
    Position next{};
  };
  u32 transition_at(u32 bundle, const Position& at);
  u32 near_outcome(u32 bundle, const Position& at);
  u32 near_outcome_of(u32 continuation, const Transition& after);
  std::vector<u32> identifier_continuations(u32 bundle, u32 identifiers);
  bool continues_with_identifiers(u32 bundle);
  u32 shape_outcome(u32 bundle, const Position& shape, const Position& near);
  void outcomes(const std::vector<u32>& bundles, const Lexed::Place& place, Id after, u32* out);
  u32 exact_outcome(u32 bundle, const Position& at, Id after, u32 near);
  void begin_taking();
  void take(Piece& piece, Sum& to);
  void take(u32 outcome, Sum& to);
  bool lexed_parts(Id e, std::vector<std::pair<Id, Id>>& parts, std::vector<Id>& rest);
  Id begun(Id e);
  void forget_pieces();
  std::shared_ptr<const Words> common_base(std::vector<std::shared_ptr<const Words>>& dense);
  void resolve(const MaskEntry& open, Id state);
  void set(int token) { scratch_->set(token); }
  void unset(int token) { scratch_->clear(token); }
  void add(ClassMask& mask, u32 most);
  // May the mask of another state be copied? Not into a piece, which needs the places where lexemes end.
  bool blank() const { return !pieces_only_ && !scratch_->touched(); }

  struct Drawing {  // while it lives, there is a scratch: for a mask or, one after the other, for pieces of masks
    explicit Drawing(MaskBuilder& b, bool pieces = false) : builder(b) {
      b.scratch_ = b.vocabulary_.take_scratch();
      b.pieces_only_ = pieces;
    }
    ~Drawing() {
      builder.vocabulary_.give_back(std::move(builder.scratch_));
      builder.pieces_only_ = false;
    }
    MaskBuilder& builder;
  };

  StrategyCounts counts_;
  Arena& arena_;
  const Captures& captures_;
  Vocabulary& vocabulary_;
  const Trie& trie_;
  std::unique_ptr<MaskScratch> scratch_;
  bool pieces_only_ = false;
  bool shared_ = false;  // several alternatives of one state share the same subtrees
  struct Shared {        // while it lives
    explicit Shared(MaskBuilder& b) : builder(b), before(b.shared_) { b.shared_ = true; }
    ~Shared() { builder.shared_ = before; }
    MaskBuilder& builder;
    bool before;
  };
  struct Apart {  // while it lives, another mask is drawn in the middle of this one
    Apart(MaskBuilder& b, Id e) : builder(b) {
      b.drawing_.push_back(e);
      swap();
      builder.shared_ = false;
    }
    ~Apart() {
      swap();
      builder.shared_ = shared;
      builder.drawing_.pop_back();
    }
    void swap() {
      postponed.swap(builder.postponed_);
      tokens.swap(builder.postponed_tokens_);
      scratch.swap(builder.scratch_);
    }
    MaskBuilder& builder;
    bool shared = builder.shared_;
    std::vector<u32> postponed{};
    std::vector<int> tokens{};
    std::unique_ptr<MaskScratch> scratch{};
  };
  std::vector<Id> drawing_;     // states whose masks are being drawn
  bool exact_ = false;          // states keep their exact form
  std::vector<u32> postponed_;  // nodes
  std::vector<int> postponed_tokens_;
  std::vector<Id> states_;  // by depth in the trie
  struct Along {
    Id state;
    const Id* row;
  };
  std::vector<Along> exit_states_;
  std::vector<const Id*> rows_;
  std::vector<u8> by_characters_;  // by depth: does the state read whole characters?
  std::unordered_map<Id, SelfLoop> self_loops_;
  // Of the piece in progress:
  struct Ending {
    Id state;
    u32 node;
    const ExitTrie* trie;
    u32 without;
  };
  struct ClassEnding {  // after any characters of a class
    Id state;
    std::shared_ptr<ClassMask> mask;
    u32 without;
  };
  std::vector<Ending> endings_;
  std::vector<ClassEnding> class_endings_;
  std::vector<std::shared_ptr<const ExitTrie>> tries_;  // that are being walked
  std::vector<std::shared_ptr<std::vector<int>>> withouts_;
  u32 without_ = 0;
  bool share_ = false;  // subtrees may be pieces of their own
  std::vector<std::pair<Id, u32>> wanted_;
  std::vector<std::pair<Id, std::shared_ptr<const ExitTrie>>> wanted_exits_;
  u32 names_root_ = 0;
  ByteSet names_first_;
  std::unordered_map<Id, std::shared_ptr<Piece>> pieces_;
  std::unordered_map<u64, std::shared_ptr<Piece>> parts_, below_;  // by node and state: including the node; below it
  std::map<std::pair<std::shared_ptr<const ExitTrie>, Id>, std::shared_ptr<Piece>> exit_parts_;
  std::map<std::vector<std::shared_ptr<const Words>>, std::shared_ptr<const Words>> bases_;
  std::size_t piece_bytes_ = 0;
  u32 new_pieces_ = 0;                // that the mask being drawn has made
  std::unordered_set<Id> splinters_;  // lexemes in progress whose masks take too many pieces
  bool splinters();
  // What masks are composed of (see outcomes.cpp):
  struct KeyHash {
    std::size_t operator()(const std::array<u32, 3>& of) const {
      return static_cast<std::size_t>(BucketHash(u64{of[0]} << 32 | of[1]).add(of[2]).done());
    }
    template <class T>
    std::size_t operator()(const std::vector<T>& of) const {
      return static_cast<std::size_t>(BucketHash(0).add(std::span<const T>(of)).done());
    }
  };
  using Masks = std::unordered_map<std::vector<u32>, std::shared_ptr<const MaskEntry>, KeyHash>;
  // Groups of one piece whose lexemes end as the same terminal.
  struct Bundle {
    Lexed::LexemeEnd end;  // its guard is that of the first
    u32 ending;            // number of how it ends
    u32 shape;             // the same for all identifiers of a relation
    std::vector<Group*> groups;
    std::vector<int> whole;  // tokens that end with them
  };
  // What the tokens of a bundle continue with, where certain lexemes may begin.
  struct Continuation {
    std::vector<std::shared_ptr<Piece>> pieces;
    std::vector<std::pair<u32, u32>> words;  // of pieces that hold little else, which `pieces` leaves out
    std::vector<u32> bundles;                // of all pieces, those in `words` included
    const Bundle* of;
    u32 number;
    u32 alone;  // its outcome where it has no bundles
    // What follows without a lexeme may begin as the lexeme continues: groups do not know such tokens.
    bool blurred = false;
  };
  std::deque<Bundle> bundles_;
  std::deque<Continuation> continuations_;
  FlatMap<> continuation_ids_;                                          // bundle, start -> continuation
  std::unordered_map<std::vector<u32>, u32, KeyHash> continuation_of_;  // bundle, pieces -> continuation
  std::map<std::array<u32, 3>, u32> ends_;                              // (start, after, nested) -> number
  // Outcomes, one after the other; the first is nothing.
  std::vector<u32> outcome_words_, outcome_ends_{0};
  IdTable outcome_ids_;
  std::span<const u32> outcome(u32 id) const {
    const u32 from = id ? outcome_ends_[id - 1] : 0;
    return {outcome_words_.data() + from, outcome_ends_[id] - from};
  }
  std::vector<u32> pending_;                                     // outcomes that are being made
  std::vector<u8> open_{0};                                      // outcomes with places of which more must be known
  FlatMap<> positions_;                                          // parse, layout -> number
  FlatMap<> exact_positions_;                                    // position, how -> number, of exact_outcomes_ alone
  std::map<std::tuple<u32, u32, u32>, std::size_t> endings_of_;  // lexer, terminal, column -> number
  std::deque<Transition> transitions_;
  FlatMap<> transition_ids_;                  // ending, position -> transition
  FlatMap<> near_outcomes_, exact_outcomes_;  // bundle, transition or position -> outcome
  Masks known_masks_;                         // by lexeme and outcomes
  std::size_t outcome_bytes_ = 0;
  std::vector<u32> taken_;  // by outcome: the last mask that it was added to
  u32 taking_ = 0;
  u32 lexed_masks_ = 0;
  std::vector<std::vector<KeyHits>> key_hits_;          // by table
  std::map<std::array<u32, 5>, NamePaths> name_paths_;  // by table, first name, bytes read, blank and node
  std::unordered_map<u32, KeyHits> text_hits_;
  std::unordered_map<Id, std::shared_ptr<const MaskEntry>> kept_;  // of states that differ little from others
  std::unordered_map<Id, bool> never_dies_;                        // by text
  std::map<CharSet::Ptr, std::vector<LongRun>> long_runs_;
  std::unordered_map<Id, std::vector<Leaving>> leaving_;  // by string of any text, with what follows it
  std::unordered_map<std::vector<Id>, std::vector<TextDifference>, KeyHash> text_differences_;  // by pairs of texts
  std::array<std::size_t, kStrategies> owned_{};  // bytes that the elements of these maps own
  std::size_t& owned(Strategy s) { return owned_[static_cast<std::size_t>(s)]; }
  std::size_t memory(Strategy s) const;
  std::size_t lexed_memory() const;
  FlatMap<Id> shared_forms_;   // of unions
  u32 around_ = 0;             // strings around the text whose form is being made, innermost last: see InString
  FlatMap<Id> stacked_forms_;  // for keys as strings: by the string and what follows the key
};

}  // namespace guiderail
