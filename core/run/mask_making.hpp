// Makes masks and token counts once for all threads that want them. Internal to run/.
#pragma once

#include <algorithm>
#include <exception>

#include "run/matcher.hpp"

namespace guiderail {

// While it lives, this thread makes something, such as the mask of a state, and others that want the same wait for it.
// The arena's mutex is held when it begins and when it ends, but not always in between.
class Program::Maker {
 public:
  Maker(Program& program, Making what, Id state)
      : program_(program), key_(u64{index_of(state)} << 2 | static_cast<u64>(what)) {}
  // True: this thread shall make it. False: another thread has made it meanwhile, or tried; look again.
  bool begin(Lock& lock) {
    for (InProgress& other : program_.in_progress_) {
      if (other.key != key_) continue;
      if (!other.watched) other.watched = std::make_shared<Made>();
      const std::shared_ptr<Made> watched = other.watched;
      lock.wait(program_.made_, [&] { return watched->done; });
      if (watched->error) std::rethrow_exception(watched->error);  // this thread would meet the same error
      return false;
    }
    program_.in_progress_.push_back({key_, nullptr});
    begun_ = true;
    return true;
  }
  // Makes it; whoever waits gets the error, except for limits of this thread alone.
  template <class F>
  auto make(F f) {
    try {
      return f();
    } catch (const Error& error) {
      if (error.code != "work" && error.code != "step-work") error_ = std::current_exception();
      throw;
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }
  u64 key() const { return key_; }
  ~Maker() {
    if (!begun_) return;
    auto& list = program_.in_progress_;
    const auto it = std::find_if(list.begin(), list.end(), [&](const InProgress& p) { return p.key == key_; });
    const std::shared_ptr<Made> watched = std::move(it->watched);
    list.erase(it);
    if (!watched) return;
    watched->done = true;
    watched->error = std::move(error_);
    program_.made_.notify_all();
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

 private:
  Program& program_;
  const u64 key_;
  bool begun_ = false;
  std::exception_ptr error_;
};

// The program's mask builder, unless another thread uses it. If that takes long, a new builder for this mask alone. It
// lacks all memos of the first one, so it only helps not to wait.
class Program::Builder {
 public:
  Builder(Program& program, Lock& lock) : program_(program) {
    while (program.builder_taken_) {
      const u64 seen = program.builds_;
      ++program.builder_awaited_;
      const bool free = lock.wait_for(program.builder_free_, kLongMask, [&] { return !program.builder_taken_; });
      --program.builder_awaited_;
      if (free || seen != program.builds_ || program.spares_.size() >= kMostSpares) continue;
      own_ = std::make_unique<MaskBuilder>(program.arena(), *program.vocabulary_);
      program.spares_.push_back(own_.get());
      return;
    }
    program.builder_taken_ = true;
    ++program.builds_;
  }
  ~Builder() {
    if (own_) {
      std::erase(program_.spares_, own_.get());
    } else {
      // After an error, discards the builder, which holds only memos, with whatever is half made.
      if (!done_) program_.builder_.reset();
      program_.builder_taken_ = false;
      if (program_.builder_awaited_ != 0) program_.builder_free_.notify_one();
    }
  }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  void done() { done_ = true; }
  MaskBuilder& operator*() {
    if (own_) return *own_;
    if (!program_.builder_) program_.builder_ = std::make_unique<MaskBuilder>(program_.arena(), *program_.vocabulary_);
    return *program_.builder_;
  }

 private:
  Program& program_;
  std::unique_ptr<MaskBuilder> own_;
  bool done_ = false;
};

}  // namespace guiderail
