// Which characters may follow each token of a mask: what canonical spelling asks of a constraint.
#pragma once

#include "mask/mask.hpp"
#include "vocab/spelling.hpp"

namespace guiderail {

// All functions require: the arena's mutex held.
class Outlooks {
  static constexpr u32 kLeadCharacters = 16;             // crossover: characters of ASCII that lead to one state
  static constexpr std::size_t kManyOthers = 4096;       // crossover: tokens of one kind that are worth a set
  static constexpr std::size_t kMostSteps = 2048;        // limit: states whose steps are kept, 1 kB each
  static constexpr std::size_t kMostFollows = 1u << 17;  // limit: states of which it is known what follows

 public:
  Outlooks(Arena& arena, Spelling& spelling) : arena_(arena), spelling_(spelling), vocabulary_(spelling.vocabulary()) {}
  std::shared_ptr<const Spelling::Outlook> of(MaskBuilder& builder, Id state);
  // Tokens of a mask with the states they lead to, which have forgotten the texts of keys; not those that are units.
  std::vector<std::pair<u32, Id>> outcomes(Id state, const u32* words);
  std::size_t memory() const { return leads_.size() * (sizeof(Lead) + 32) + follows_.size() * 48 + rows_.size() * 1056; }

 private:
  using Follow = Spelling::Follow;
  struct Lead {      // most characters lead from a state to one other
    Id to = kEmpty;  // kEmpty: they do not
    ByteSet ascii;
    bool beyond = false;  // so do all that are not ASCII
  };
  struct Chain {  // of states, character by character of a set
    std::vector<Id> states;
    ByteSet ascii;
    bool beyond = true, loops = false;  // the last state leads to itself
    Id at(u32 characters) const {
      return characters < states.size() ? states[characters] : loops ? states.back() : kEmpty;
    }
  };

  std::shared_ptr<const Spelling::Outlook> make(Id form);
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
  Id step(Id state, u8 byte);
  bool known(Id state) const { return state != kEmpty && !arena_.has(state, kUnknownText); }

  Arena& arena_;
  Spelling& spelling_;
  Vocabulary& vocabulary_;
  void make_room();
  std::unordered_map<Id, std::array<Id, 256>> rows_;  // steps, by byte
  std::array<Id, 256>* row_ = nullptr;                // the last of them,
  Id at_ = kUnknown;                                  // of this state
  Id followed_ = kUnknown;                            // the state that was asked last what may follow,
  Follow follow_ = 0;                                 // and the answer
  Spelling::Outlook* out_ = nullptr;  // while one is made
  struct Ends {
    const u32* of;  // the mask
    std::vector<std::pair<u32, Id>> tokens;
  };
  Ends* ends_ = nullptr;  // while outcomes are found
  std::unordered_map<Id, Lead> leads_;
  std::unordered_map<Id, Follow> follows_;
  std::unordered_map<Id, std::shared_ptr<const Spelling::Outlook>> own_;  // that other arenas do not know
};

}  // namespace guiderail
