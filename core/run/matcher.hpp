// Program: a compiled constraint. Guide: a program over a vocabulary, shared by any number of threads. Matcher: the
// state of one generation (an id, and the history that rollback needs), for one thread at a time.
//
// A program only grows: each text may leave states behind, and for some constraints (such as the keys written in an
// object) every text has its own states. So a guide replaces a program that has grown too large by a copy of it as it
// was when compiled. New texts start there. Running texts keep the old program, and the last of them frees it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <unordered_set>

#include "base/deep_stack.hpp"
#include "base/thresholds.hpp"
#include "base/work.hpp"
#include "expr/expression.hpp"
#include "mask/mask.hpp"
#include "run/history.hpp"
#include "search/completion_distance.hpp"
#include "vocab/spelling.hpp"
#include "vocab/vocabulary.hpp"

namespace guiderail {

class CanonicalTexts;
class Outlooks;

// What the errors of step_work call a search for an end.
inline constexpr const char* kSearchForEnd =
    "the search for an end of the text, which may take 40 times as much as a mask,";
static_assert(kSearchWork == 40);

// The position of a text: in the constraint, and in its spelling if that must be canonical.
struct Position {
  Id state = kEmpty;
  Spelling::State spelled{};
};

// How much a program may hold before a guide starts new texts on a fresh one.
struct Budget {
  std::size_t bytes = ~std::size_t{0};
  u32 nodes = kInf;
};

// An arena, its root, and the masks stored with its nodes. A state is an id within one program.
// Public functions take the arena's mutex where they need it: callers must not hold it.
class Program : public std::enable_shared_from_this<Program> {
 public:
  Program(std::shared_ptr<Arena> arena, Id root);
  ~Program();

  Arena& arena() { return *arena_; }
  Id root() const { return root_; }
  u64 serial() const { return serial_; }                            // unique in the process
  Id advance(Id state, std::string_view bytes, u32 token = kNone);  // kEmpty: rejected; `token`: has these bytes
  // Follows transitions that are known already. Takes no mutex. Returns the number of bytes read.
  std::size_t advance_known(Id& state, std::string_view bytes) const;
  Id unite(Id a, Id b);
  Id token_end(Id state);                                         // see Arena
  Id advance_symbols(Id state, const std::vector<u32>& symbols);  // by a token that matches several symbols
  bool live(Id state);
  ByteSet first(Id state);       // a superset of the next bytes
  ByteSet next_bytes(Id state);  // exactly those after which a match is possible
  std::vector<u32> next_symbols(Id state);
  std::string forced(Id state, std::size_t limit);
  bool shortest(Id state, std::size_t limit, std::string& out);  // some completion; a shortest one if it is close
  std::string likely(Id state, std::size_t limit);  // a guess at how a completion begins (see likely_text.cpp)
  Id without_text(Id state);  // without the text of the key or item in progress (see abstraction.hpp)
  std::string dump(Id state);
  std::string rules_ahead(Id state);
  bool accepting(Id state) const { return arena_->nullable(state); }
  u64 step_work() const { return arena_->limits().step_work; }
  u64 search_work() const { return kSearchWork * step_work(); }
  // Null: not made yet, or only as the mask of a form, which leaves tokens open.
  const MaskEntry* known_mask(Id state) const {
    const MaskEntry* known = arena_->node(state).mask.load(std::memory_order_acquire);
    return known && !known->is_open() ? known : nullptr;
  }
  // Includes masks. Nobody waits for it: while others work with this program, it is a recent estimate.
  std::size_t memory();
  std::vector<std::pair<const char*, std::size_t>> memory_parts();  // the same by name, exact
  bool outgrown() const { return outgrown_.load(std::memory_order_relaxed); }
  // A copy of the program as it was when compiled, with the same ids, without what was found while reading.
  std::shared_ptr<Program> fresh();

 private:
  // These take the mutex:
  Id advance(Id state, std::string_view bytes, u32 token, std::size_t read);  // from byte `read` on
  Id advance_from(Id state, std::string_view bytes, u32 token, bool whole);
  std::string forced_from(Id state, std::size_t limit);
  bool shortest_from(Id start, std::size_t limit, std::string& out);
  // requires: mutex held
  bool search(Id start, std::size_t limit, Manner manner, std::string& out, bool& left);
  // Calls f(), which reads this state; on a deep stack if the state is nested too deeply for this thread's stack.
  template <class F>
  auto deep(Id state, F f) {
    const u32 most = arena_->limits().max_depth;
    if (!DeepStack::here() && arena_->node(state).depth <= most / 4 * 3) {
      try {
        return f();
      } catch (const Error& error) {
        if (error.code != "depth") throw;
      }
    }
    return DeepStack::run(f);
  }
  friend class Guide;
  friend class CanonicalTexts;
  // Holds the arena's mutex. Before releasing it, updates the size of the program.
  class Lock {
   public:
    explicit Lock(Program& program) : program_(program), lock_(program.arena_->mutex) {}
    ~Lock() { program_.note_growth(Work::spent() - spent_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    // Releases the mutex until done() is true, or for at most some time. True: it is.
    template <class Done>
    void wait(std::condition_variable_any& for_news, Done done) {
      Patience::release();
      for_news.wait(lock_, done);
    }
    template <class Done>
    bool wait_for(std::condition_variable_any& for_news, std::chrono::milliseconds time, Done done) {
      Patience::release();
      return for_news.wait_for(lock_, time, done);
    }

   private:
    Program& program_;
    std::unique_lock<YieldingMutex> lock_;
    const u64 spent_ = Work::spent();
  };
  enum class Making : u32 { Mask, Form, Cost };
  class Maker;
  class Builder;
  struct Made {  // what other threads wait for
    bool done = false;
    std::exception_ptr error;
  };
  struct InProgress {
    u64 key;
    std::shared_ptr<Made> watched;  // null: nobody waits
  };
  Program(const Program& compiled, std::shared_ptr<Arena> arena);
  // requires, from here to the data members: mutex held
  void serve(std::shared_ptr<Vocabulary> vocabulary);
  void keep(std::shared_ptr<const MaskEntry> mask);
  void count(Tally& to) const;
  void note_size();
  void note_growth(u64 work);
  void note_bytes(std::size_t bytes);
  static u64 next_serial();  // without the mutex
  // Work that exceeded the limit is not tried again. So the answer does not depend on what the first attempt stored.
  void check_refused(u64 key, const char* what) const {
    if (!refused_.empty() && refused_.contains(key)) Work::refuse(what, step_work());
  }
  void note_refused(u64 key);
  // Calls f(), and remembers it if this step's limit ends it.
  template <class F>
  auto noting_refusal(const Work::Step& step, u64 key, F f) {
    try {
      return f();
    } catch (const Error& error) {
      if (error.code == "step-work" && step.decides()) note_refused(key);
      throw;
    }
  }

  std::shared_ptr<Arena> arena_;
  Id root_;
  const u64 serial_ = next_serial();
  // The vocabulary of the masks stored with the nodes: a program serves only one.
  std::shared_ptr<Vocabulary> vocabulary_;
  // Makes the masks. While it takes long for one mask, other threads make theirs with builders of their own.
  std::unique_ptr<MaskBuilder> builder_;
  bool builder_taken_ = false;
  u32 builder_awaited_ = 0;           // by how many threads
  u64 builds_ = 0;                    // how often it was taken
  std::vector<MaskBuilder*> spares_;  // in use by other threads
  std::vector<InProgress> in_progress_;
  std::condition_variable_any made_, builder_free_;     // wait with the arena's mutex
  std::deque<std::shared_ptr<const MaskEntry>> masks_;  // moves nothing when it grows
  std::unique_ptr<CompletionDistance> distance_;        // made when first needed for a budget
  std::shared_ptr<CanonicalTexts> canonical_texts_;     // made when first needed for a canonical spelling
  std::unordered_set<Id> short_caps_;                   // capped states whose caps some token reaches
  std::unordered_set<u64> refused_;                     // what took too much work: see Maker
  FlatMap<Id> key_tokens_;                              // (state within a key, token) -> next state; bounded
  std::size_t mask_bytes_ = 0, shared_mask_bytes_ = 0;  // of masks_: its own, the vocabulary's
  Budget budget_;
  std::size_t rest_bytes_ = 0;  // when last counted, without mask_bytes_
  u64 uncounted_work_ = 0;      // since then
  std::atomic<std::size_t> bytes_{0};
  std::atomic<bool> outgrown_{false};
};

struct TokenTable {  // the result of Guide::token_table: rows of states in CSR form
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> token, next;
  std::vector<u8> accepting;
};

// Any number of threads may call these functions. They take the mutex of the program where they need it.
class Guide : public std::enable_shared_from_this<Guide> {
 public:
  // `symbols`: the token of each special token that the program names by its text. In a set of tokens, a name that is
  // no special token is the token with this text. `max_memory`: bytes beyond which new texts start on a fresh program
  // (0: never).
  Guide(std::shared_ptr<Program> program, std::shared_ptr<Vocabulary> vocabulary,
        const std::unordered_map<std::string, u32>& symbols, std::size_t max_memory);
  ~Guide();
  Guide(const Guide&) = delete;
  Guide& operator=(const Guide&) = delete;

  // The program for texts that start now. States are ids of one program: whoever keeps a state keeps its program, too.
  std::shared_ptr<Program> program() const;
  // The same, for a text that actually starts: a fresh program if the current one has outgrown its budget.
  std::shared_ptr<Program> start();
  // Would start() make a fresh program?
  bool outgrown() const { return program()->outgrown(); }
  Vocabulary& vocabulary() const { return *vocabulary_; }
  Id root() const { return root_; }  // the same in every program
  // Allows only texts in canonical spelling from now on. Called before any matcher is made. Throws if there is none.
  void require(std::shared_ptr<Spelling> spelling);
  const std::shared_ptr<Spelling>& spelling() const { return spelling_; }  // null: any spelling
  // For JSON, makes up to this many masks, of the first states of a likely text: almost every text reaches these.
  void prepare(u32 masks) const;
  const MaskEntry* mask(Program& program, Id state) const;
  // Writes vocabulary().words() words; true if some token is not allowed.
  bool fill(Program& program, Id state, const std::vector<u32>& stops, u32* out) const;
  // The same, without the tokens after which more than `budget - 1` others are needed (see completion_distance.hpp).
  // Throws budget-too-small if the state itself needs more than `budget`, budget-unknown if no completion was found.
  bool fill_within(Program& program, Id state, const std::vector<u32>& stops, u32 budget, u32* out) const;
  // The number of tokens that complete the text, without stop tokens: the fewest found; kInf: no completion was found.
  u32 needed(Program& program, Id state, bool thorough) const;
  // See CompletionDistance::suffices.
  bool suffices(Program& program, Id before, u32 token, Id after, u32 left) const;
  // kEmpty: rejected; the matcher handles stop tokens.
  Id advance(Program& program, Id state, u32 token) const;
  // The same for texts whose spelling may matter:
  bool fill(Program& program, const Position& at, const std::vector<u32>& stops, u32* out) const;
  bool fill_within(Program& program, const Position& at, const std::vector<u32>& stops, u32 budget, u32* out) const;
  u32 needed(Program& program, const Position& at, bool thorough) const;
  Position advance(Program& program, const Position& at, u32 token) const;
  bool may_end(Program& program, const Position& at) const;
  // The next state for each token of each state.
  TokenTable token_table(std::size_t max_states) const;
  std::size_t memory() const;  // of all living programs

 private:
  // These take the program's mutex:
  Id advance_either(Program& program, Id state, u32 token) const;
  const MaskEntry* new_mask(Program& program, Id state) const;
  template <class Found, class F>
  auto search(Program& program, Id state, Found found, F f) const;
  bool within(Program& program, Id state, u32 budget, u32* out) const;
  static void check_budget(u32 needed, u32 budget);  // throws budget-unknown or budget-too-small
  // requires: the program's mutex held; functions with a lock release it while they wait
  std::vector<int> specials(Program& program, Id state) const;
  const MaskEntry* make_mask(Program& program, MaskBuilder& builder, Program::Lock& lock, Id state) const;
  const MaskEntry* form_mask(Program& program, MaskBuilder& builder, Program::Lock& lock, Id form) const;
  std::shared_ptr<const MaskEntry> build(Program& program, MaskBuilder& builder, Id state) const;
  // These take no mutex of a program:
  std::shared_ptr<const Words> resolve(const TokenSet& set, const std::unordered_map<std::string, u32>& specials) const;
  CanonicalTexts& canonical_texts(Program& program) const;  // takes mutex_

  std::shared_ptr<Vocabulary> vocabulary_;
  std::shared_ptr<Spelling> spelling_;
  std::shared_ptr<Symbols> symbols_ = std::make_shared<Symbols>();  // complete once the guide is made
  Id root_;
  Budget budget_;
  std::size_t own_bytes_ = 0;  // of the members above

  std::mutex renewal_;        // held while a fresh program is made
  mutable std::mutex mutex_;  // for what follows; never held for long
  std::shared_ptr<Program> program_;
  std::vector<std::weak_ptr<Program>> earlier_;  // that matchers still use
};

// For one thread at a time (see Changing, Reading). The functions take the program's mutex through the guide.
class Matcher {
 public:
  Matcher(std::shared_ptr<Guide> guide, std::vector<u32> stops);

  // While it lives, one thread changes the matcher, or several threads read it. Throws matcher-shared if that conflicts
  // with another use.
  class Changing {
   public:
    explicit Changing(Matcher& of) : of_(of) {
      int nobody = 0;
      if (!of.users_.count.compare_exchange_strong(nobody, -1, std::memory_order_acquire)) of.refuse_user();
    }
    ~Changing() { of_.users_.count.store(0, std::memory_order_release); }
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;

   private:
    Matcher& of_;
  };
  class Reading {
   public:
    explicit Reading(const Matcher& of) : of_(of) {
      int others = of.users_.count.load(std::memory_order_relaxed);
      do
        if (others < 0) of.refuse_user();
      while (!of.users_.count.compare_exchange_weak(others, others + 1, std::memory_order_acquire));
    }
    ~Reading() { of_.users_.count.fetch_sub(1, std::memory_order_release); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    const Matcher& of_;
  };
  // For something that is read at once.
  const Matcher& check_unchanging() const {
    if (users_.count.load(std::memory_order_acquire) < 0) refuse_user();
    return *this;
  }

  bool accept_token(std::int64_t token);
  // The same, but also false if more than `budget - 1` tokens would then be needed (see completion_distance.hpp).
  bool accept_within(std::int64_t token, std::int64_t budget);
  bool accept_string(std::string_view bytes);
  // How many of these tokens could be accepted, one after the other. The matcher does not change.
  std::size_t validate(const std::vector<std::int64_t>& draft) const;
  // The masks for a draft; the matcher does not change. rows[0] is for now; rows[i + 1] is for after draft[i], which
  // follows draft[parents[i]] (-1: what was accepted so far). Returns which tokens of the draft can be accepted. After
  // a rejected token or a stop token, the mask allows everything.
  std::vector<bool> fill_draft(const std::vector<std::int64_t>& draft, const std::vector<std::int64_t>& parents,
                               const std::vector<u32*>& rows) const;
  bool fill(u32* out) const;
  bool fill(u32* out, std::int64_t budget) const;
  u32 needed(bool thorough) const;
  bool ready() const { return !terminated_ && !guide_->spelling() && program_->known_mask(at_.state) != nullptr; }
  void rollback(std::int64_t count);
  void reset();
  std::string forced(std::size_t limit) const;
  bool accepting() const { return !terminated_ && guide_->may_end(*program_, at_); }
  bool complete() const;  // accepting, and only a stop token can follow
  bool terminated() const { return terminated_; }
  Id state() const { return at_.state; }
  const Guide& guide() const { return *guide_; }
  // The program that state() belongs to: the same until the next reset, and in all forks.
  const std::shared_ptr<Program>& program() const { return program_; }
  const std::vector<u32>& stops() const { return stops_; }
  std::size_t step_count() const { return steps_.size(); }
  // The tokens of the last steps, -1 for a string; of all steps if there are fewer.
  std::vector<std::int64_t> history(std::size_t last) const { return steps_.last(last); }

 private:
  void check_running(const char* what) const;
  template <class F>
  auto placed(F f) const;  // f(), with errors that name the position in the text
  [[noreturn]] void place(const Error& error) const;
  [[noreturn]] void refuse_user() const;
  struct Users {
    std::atomic<int> count{0};  // number of readers; -1: one thread changes it
    Users() = default;
    Users(const Users&) {}  // a copy has its own users
  };

  mutable Users users_;
  std::shared_ptr<Guide> guide_;
  std::shared_ptr<Program> program_;
  std::vector<u32> stops_;
  Position at_;
  bool terminated_ = false;
  History steps_;
};

// Known masks are copied in microseconds: waking threads for fewer takes longer.
inline constexpr std::size_t kFewCopies = 64;

// Runs job(0..count-1) on native threads (0: one per core) and waits; rethrows the first exception.
void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job);

// The same without waiting: begins when constructed, and waits when destroyed.
class Background {
 public:
  Background(std::size_t count, unsigned threads, std::function<void(std::size_t)> job);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Does what no thread has begun; rethrows the first exception, once. For one thread at a time.
  void wait();
  bool done() const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

// Frees something of this size soon, without the caller having to wait.
void discard(std::shared_ptr<void> what, std::size_t bytes) noexcept;
// Frees all of that now.
void free_discarded();

}  // namespace guiderail
