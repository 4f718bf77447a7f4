// Which characters may follow each token of a mask: what canonical spelling needs to know of a constraint.
#pragma once

#include <algorithm>

#include "mask/mask.hpp"
#include "vocab/spelling.hpp"

namespace guiderail {

// All functions require that the caller holds the arena's mutex.
class Outlooks {
 public:
  Outlooks(Arena& arena, Spelling& spelling) : arena_(arena), spelling_(spelling), vocabulary_(spelling.vocabulary()) {}
  struct View {  // the view of a state's form, which states share
    Id form = kEmpty;
    std::vector<u32> apart{};  // sorted tokens of the state that the view does not hold for: they may be part of a name
    MaskBuilder::Forgets forgets{};
    std::shared_ptr<const Spelling::Outlook> outlook;
    bool brief = false;  // counters were cut
    Spelling::Reach reach() const { return brief ? Spelling::Reach::Token : Spelling::Reach::Text; }
    bool holds_for(u32 token) const { return !std::binary_search(apart.begin(), apart.end(), token); }
  };
  View of(MaskBuilder& builder, Id state);
  // Records in a proof which of these tokens a completion follows, where the answer holds for all states of this form.
  void settle(const View& view, const Spelling::State& spelled, const std::vector<u32>& tokens, Spelling::Proof& proof);
  // The tokens of a mask and the states after them, without the texts of keys. Tokens that are units are left out.
  std::vector<std::pair<u32, Id>> outcomes(Id state, const u32* words);
  std::size_t memory() const {
    return leads_.size() * (sizeof(Lead) + 32) + follows_.size() * 48 + rows_.size() * 1088 + ahead_bytes_ +
           judged_.size() * (sizeof(Ask) + sizeof(Judged) + 32) + (own_.size() + endless_.size()) * 48;
  }

 private:
  static constexpr u32 kTwoCharacters = 2;
  using Follow = Spelling::Follow;
  struct Lead {      // the one state that most characters lead to
    Id to = kEmpty;  // kEmpty: there is none
    ByteSet ascii;
    bool beyond = false;  // all non-ASCII characters do
  };
  struct Chain {  // states, by the number of characters of a set
    std::vector<Id> states;
    ByteSet ascii;
    bool beyond = true, loops = false;                  // the last state leads to itself
    Spelling::Follow apart(Spelling& spelling) const {  // of characters that lead along the chain
      Spelling::Follow out = 0;
      for (unsigned b = 0; b < 0x80; ++b)
        if (ascii.has(static_cast<u8>(b))) out |= spelling.apart(static_cast<u8>(b));
      return out;
    }
    Id at(u32 characters) const {
      return characters < states.size() ? states[characters] : loops ? states.back() : kEmpty;
    }
  };

  struct Row {  // steps, by byte
    ByteSet first;
    std::array<Id, 256> to;
    Row(const ByteSet& bytes) : first(bytes) { to.fill(kUnknown); }
  };
  using Answer = Spelling::Answer;
  using Judged = Spelling::Judged;
  using Outcomes = std::shared_ptr<const std::vector<std::pair<u32, Id>>>;  // tokens and the states after them
  struct Ahead {          // what may follow a token that leads to this state and place
    bool always = false;  // a completion follows, whatever the token
    bool unclear = false;
    u32 bytes = 0;
    std::shared_ptr<Spelling::Proof> proof;  // of tokens of a class; null: none
    Outcomes outcomes;                       // null: none;
    std::size_t looked = 0;                  // how many of them were examined:
    std::vector<u32> proved, doubtful;       // within the piece
    struct Open {
      u32 token;
      Id to;
      Spelling::Ways ways;
    };
    std::vector<Open> open;
  };
  struct Ask {
    Id state;
    u32 place;
    bool inside;  // only within the string: what follows its end is unknown
    u32 last = 0;
    bool operator==(const Ask&) const = default;
  };
  struct AskHash {
    std::size_t operator()(const Ask& a) const {
      return mix64((u64{index_of(a.state)} << 32 | a.place) ^ u64{a.last} << 17 ^ (a.inside ? secrets.flat : 0));
    }
  };
  Judged judge(const Ask& ask, u32 depth);
  Judged judge_once(const Ask& ask);
  Id string_alone(Id state);
  Ahead& ahead(const Ask& ask);
  bool begins_by_two(const Ask& ask);
  void look_ahead(const Ask& ask, Ahead& out);
  void take_ahead(const Ask& ask, u32 token, Id to, Ahead& out);
  std::shared_ptr<const Spelling::Outlook> endless(Id state);
  std::shared_ptr<const Spelling::Outlook> endless(const Chain& chain);
  bool each_outcome(Id state, bool inside, std::vector<std::pair<u32, Id>>& out);
  const Outcomes& outcomes_of(Id state, bool inside);
  Id step_inside(Id state, u8 byte);
  bool ends_string(Id state, u8 byte) { return byte == '"' && lead(state).to != kEmpty; }
  // Does it close an object instead of beginning a key? True also within keys of few characters.
  bool closes(Id state, u8 byte) { return byte == '}' && lead(state).to == kEmpty && arena_.first(state).has('"'); }

  std::shared_ptr<const Spelling::Outlook> make(Id form);
  bool beside_names(MaskBuilder& builder, Id state, View& out);
  bool returns(Id from, Id to);
  const Lead& lead(Id state);
  Chain chain(Id state);
  std::shared_ptr<ClassMask> class_of(const Chain& chain);
  bool by_chain(Id state);
  void take_class(const Chain& chain, ClassMask& mask);
  void take_exits(const Chain& chain, ClassMask& mask);
  void take(Id state, u32 node);
  void take_below(Id state, u32 node);
  void take_trie(const ExitTrie& trie, Id state);
  void emit(int token, Id state);
  void gather();
  Follow follow(Id state);
  Row& row(Id state);
  Id step(Id state, u8 byte);
  // Walks the trie below a node. f(from, node, byte) returns the state after that node, kEmpty to pass over what is
  // below it, or kUnknown to end the walk; then walk() returns false.
  template <class F>
  bool walk(Id state, u32 node, F f) {
    const Trie& trie = vocabulary_.trie();
    if (trie.nodes[node].fan != kNoFan) {
      const ByteSet first = row(state).first;
      const auto take = [&](u32 n, u8 byte) {
        const Id next = first.has(byte) ? f(state, n, byte) : kEmpty;
        return next == kEmpty || (next != kUnknown && walk<F&>(next, n, f));
      };
      if (first.count() != 1) return trie.each_child(node, take);
      const u8 byte = first.least();
      const u32 n = vocabulary_.child(node, byte);
      return n == kNoFan || take(n, byte);
    }
    std::vector<Id> states{state};
    const u32 base = trie.depths[node];
    for (u32 n = node + 1; n < trie.nodes[node].end;) {
      states.resize(trie.depths[n] - base);
      const Id next = f(states.back(), n, trie.nodes[n].byte);
      if (next == kUnknown) return false;
      const bool wide = next != kEmpty && trie.nodes[n].fan != kNoFan;
      if (wide && !walk<F&>(next, n, f)) return false;
      if (next != kEmpty) states.push_back(next);
      n = next == kEmpty || wide ? trie.nodes[n].end : n + 1;
    }
    return true;
  }
  bool known(Id state) const { return state != kEmpty && !arena_.has(state, kUnknownText); }

  Arena& arena_;
  Spelling& spelling_;
  Vocabulary& vocabulary_;
  void make_room();
  std::unordered_map<Id, Row> rows_;
  Row* row_ = nullptr;                // the last row used,
  Id at_ = kUnknown;                  // which belongs to this state
  Id followed_ = kUnknown;            // the last state that follow() was called with,
  Follow follow_ = 0;                 // and its result
  Spelling::Outlook* out_ = nullptr;  // the one under construction
  struct Ends {
    const u32* of;  // the words of a mask
    std::vector<std::pair<u32, Id>> tokens;
  };
  Ends* ends_ = nullptr;  // while outcomes() runs
  std::unordered_map<Id, Lead> leads_;
  std::unordered_map<Id, Follow> follows_;
  std::unordered_map<Id, std::shared_ptr<const Spelling::Outlook>> own_;  // outlooks of this arena only
  std::unordered_map<Id, std::shared_ptr<const Spelling::Outlook>> endless_;
  std::unordered_map<Ask, Ahead, AskHash> ahead_;
  std::unordered_map<Ask, Outcomes, AskHash> outcomes_;  // by state, at any place
  std::size_t ahead_bytes_ = 0;                          // memory of ahead_ and outcomes_
  std::unordered_map<Ask, Judged, AskHash> judged_;
  u32 fuel_ = 0;  // of the search in progress
};

}  // namespace guiderail
