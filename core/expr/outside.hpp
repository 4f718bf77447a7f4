// Letting others use the arena in the middle of a search.
#pragma once

#include <utility>

#include "expr/expression.hpp"

namespace guiderail {

// What a search keeps with the arena, and others must not find: it is taken away while they are let in.
class Arena::Aside {
 public:
  explicit Aside(Arena& arena) : arena_(arena), outer_(std::exchange(arena.asides_, this)) {}
  virtual ~Aside() { arena_.asides_ = outer_; }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  virtual void leave() = 0;
  virtual void enter() = 0;

 private:
  friend class Arena;
  Arena& arena_;
  Aside* const outer_;
};

// Keeps the state of the holder of the mutex while others hold it.
class Arena::Away {
 public:
  explicit Away(Arena& arena)
      : arena_(arena), asides_(std::exchange(arena.asides_, nullptr)), work_(arena.work_), cap_hit_(arena.cap_hit_) {
    for (Aside* a = asides_; a; a = a->outer_) a->leave();
  }
  ~Away() {
    arena_.asides_ = asides_;
    arena_.work_ = work_;
    arena_.cap_hit_ = cap_hit_;
    for (Aside* a = asides_; a; a = a->outer_) a->enter();
  }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

 private:
  Arena& arena_;
  Aside* const asides_;
  const u64 work_;
  const bool cap_hit_;
};

// While it lives, the mutex is free, for long work that does not use the arena.
// requires: mutex held
class Arena::Outside {
 public:
  explicit Outside(Arena& arena) : away_(arena), arena_(arena) { arena_.mutex.unlock(); }
  ~Outside() { arena_.mutex.lock(); }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  Away away_;  // destroyed when the mutex is held again
  Arena& arena_;
};

}  // namespace guiderail
