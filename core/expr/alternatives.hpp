// The alternatives of one union, and the derivative of the alternatives of a grammar.
#pragma once

#include <algorithm>
#include <utility>

#include "base/thresholds.hpp"
#include "expr/expression.hpp"

namespace guiderail {

// The alternatives of one union, while they are joined.
class Arena::Alternatives {
 public:
  // What is made of alternatives with rules ahead. Deep: what follows common heads is united in the same way, down to
  // the bottom. Top: it is only listed. Listed: so are they themselves.
  enum class Form { Deep, Top, Listed };
  Alternatives(Arena& arena, std::span<const Id> list, Form form);
  Id unite();
  // Unites them in the form Listed, if there are rules ahead. Found again by its operands.
  static Id listed(Arena& arena, Ids& parts);

  // An attempt to make deep unions. Once it has spent its work, alternatives are only listed.
  class Attempt;
  class Pause;
  // The derivative of what may be read in several ways (see readings.cpp).
  static bool has_readings(const Arena& arena, Id e);
  static Id derive_readings(Arena& arena, Id e, u8 byte);
  // head tail, where the head is a derivative. If it is deep, each of its alternatives gets the tail.
  static Id append(Arena& arena, Id head, Id tail);
  static void rank_rules(Arena& arena);

 private:
  class Readings;
  const Node& node(Id e) const { return std::as_const(arena_).node(e); }
  bool plain_repeat(Id e) const { return node(e).kind == Kind::Repeat && !node(e).b && !arena_.has(e, kHasLook); }
  bool listed_only(Id e, bool heads) const;
  void take(Ids input);
  u64 kinds() const;  // of the parts, as bits
  bool any_text() const;
  bool begin_alike() const;
  bool join_kinds();
  void keep_most_tokens();
  bool join_repeats();
  bool join_repeats_of(Id body, bool several, bool bare);
  bool factor(bool heads);

  Arena& arena_;
  const Form form_;
  Ids parts_;
  bool epsilon_ = false;  // the empty text is one, too
};

class Arena::Alternatives::Attempt {
 public:
  explicit Attempt(Arena& arena) : arena_(arena), outer_(std::exchange(current, this)), began_(arena.work_) {}
  ~Attempt() { current = outer_; }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  bool failed() const { return arena_.work_ > began_ + std::max<u64>(kDeepUnionWork, 2 * u64{arena_.rule_count()}); }
  static bool in(const Arena& arena) { return current && &current->arena_ == &arena; }
  static bool failed_in(const Arena& arena) { return in(arena) && current->failed(); }

 private:
  friend class Pause;
  static thread_local Attempt* current;
  Arena& arena_;
  Attempt* const outer_;
  const u64 began_;
};

class Arena::Alternatives::Pause {  // no attempt is under way
 public:
  Pause() : outer_(std::exchange(Attempt::current, nullptr)) {}
  ~Pause() { Attempt::current = outer_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  Attempt* const outer_;
};

}  // namespace guiderail
