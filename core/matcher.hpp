// Program: a compiled constraint. Guide: a program over a vocabulary, shared by any number of threads. Matcher: the
// state of one generation, an id and the history that rollback needs; for one thread at a time.
#pragma once

#include <functional>
#include <unordered_set>

#include "expression.hpp"
#include "mask.hpp"
#include "vocabulary.hpp"

namespace guiderail {

class Program : public std::enable_shared_from_this<Program> {
 public:
  Program(std::shared_ptr<Arena> arena, Id root);

  Arena& arena() { return *arena_; }
  Id root() const { return root_; }
  Id advance(Id state, std::string_view bytes);                   // kEmpty: refused
  Id advance_symbols(Id state, const std::vector<u32>& symbols);  // by a token that goes by several names
  bool live(Id state);
  ByteSet next_bytes(Id state);  // exactly those that keep a match possible
  std::vector<u32> next_symbols(Id state);
  std::string forced(Id state, std::size_t limit);
  bool shortest(Id state, std::size_t limit, std::string& out);  // a shortest completion, if one is that short
  std::string dump(Id state);

 private:
  friend class Guide;
  std::shared_ptr<Arena> arena_;
  Id root_;
  // The vocabulary whose masks hang on the nodes; one program serves one vocabulary.
  std::shared_ptr<Vocabulary> vocabulary_;
  std::unique_ptr<MaskBuilder> builder_;
  std::vector<std::shared_ptr<const MaskEntry>> masks_;
  std::unordered_set<Id> short_caps_;  // capped states whose caps some token reaches
};

struct TokenTable {  // Guide::token_table: rows of states in CSR form
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> token, next;
  std::vector<u8> accepting;
};

class Guide : public std::enable_shared_from_this<Guide> {
 public:
  // `symbols`: the token of each special token that the program names, by its text.
  Guide(std::shared_ptr<Program> program, std::shared_ptr<Vocabulary> vocabulary,
        const std::unordered_map<std::string, u32>& symbols);

  Program& program() { return *program_; }
  Vocabulary& vocabulary() { return *vocabulary_; }
  const std::shared_ptr<Vocabulary>& vocabulary_ptr() const { return vocabulary_; }
  Id root() const { return program_->root(); }
  const MaskEntry* known_mask(Id state) const {
    return program_->arena_->node(state).mask.load(std::memory_order_acquire);
  }
  const MaskEntry* mask(Id state);
  bool accepting(Id state) const { return program_->arena_->nullable(state); }
  // Writes vocabulary().words() words; true if some token is not allowed.
  bool fill(Id state, const std::vector<u32>& stops, u32* out);
  Id advance(Id state, u32 token);  // kEmpty: refused; stop tokens are the matcher's business
  TokenTable token_table(std::size_t max_states);
  std::size_t memory() const;

 private:
  std::shared_ptr<const MaskEntry> build(Id state, Id exact);

  std::shared_ptr<Program> program_;
  std::shared_ptr<Vocabulary> vocabulary_;
  std::unordered_map<u32, std::vector<u32>> symbols_of_token_;
  std::vector<u32> token_of_symbol_;
};

class Matcher {
 public:
  Matcher(std::shared_ptr<Guide> guide, std::vector<u32> stops);

  bool accept_token(std::int64_t token);
  bool accept_string(std::string_view bytes);
  bool fill(u32* out);
  bool ready() const { return !terminated_ && guide_->known_mask(state_) != nullptr; }
  void rollback(std::int64_t count);
  void reset();
  std::string forced(std::size_t limit);
  bool accepting() const { return !terminated_ && guide_->accepting(state_); }
  bool complete();  // accepting, and nothing but a stop token can follow
  bool terminated() const { return terminated_; }
  Id state() const { return state_; }
  const Guide& guide() const { return *guide_; }
  const std::shared_ptr<Guide>& guide_ptr() const { return guide_; }
  const std::vector<u32>& stops() const { return stops_; }
  std::vector<std::int64_t> history() const;

 private:
  struct Step {
    Id before;
    std::int32_t token;  // -1: a string
  };
  void check_running(const char* what) const;

  std::shared_ptr<Guide> guide_;
  std::vector<u32> stops_;
  Id state_;
  bool terminated_ = false;
  std::vector<Step> steps_;
};

// Runs job(0..count-1) on native threads (0: as many as there are cores) and waits; the first exception is rethrown.
void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job);

}  // namespace guiderail
