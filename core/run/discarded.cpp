// Guides that nobody uses any more. Their memory has long left the processor's caches, so freeing one takes a tenth of
// the time of compiling one. Starting a thread takes as long: each frees a batch.
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/host.hpp"
#include "base/thresholds.hpp"
#include "run/matcher.hpp"
#include "run/per_process.hpp"

namespace guiderail {
namespace {

class Discarded {
 public:
  using Batch = std::vector<std::shared_ptr<void>>;
  void add(std::shared_ptr<void> what, std::size_t bytes) {
    Batch here;  // freed without the mutex
    std::unique_lock lock(mutex_);
    waiting_.push_back(std::move(what));
    bytes_ += bytes;
    if (!enough(1)) return;
    if (busy_) {  // the thread frees them next, unless they come faster than it can
      if (enough(kDiscardedBatches)) here = take();
      return lock.unlock();
    }
    busy_ = true;
    lock.unlock();
    try {
      std::thread([this] {
        Host::set_absent();
        work();
      }).detach();
    } catch (...) {  // the system has no more threads
      work();
    }
  }
  void free() {
    std::unique_lock lock(mutex_);
    Batch here = take();
    lock.unlock();
    here.clear();
    lock.lock();
    ended_.wait(lock, [this] { return !busy_; });
  }

 private:
  // requires, for both: mutex held
  bool enough(std::size_t batches) const {
    return waiting_.size() >= batches * kDiscardedBatch || bytes_ >= batches * kDiscardedBytes;
  }
  Batch take() {
    bytes_ = 0;
    return std::exchange(waiting_, {});
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (enough(1)) {
      Batch batch = take();
      lock.unlock();
      batch.clear();
      lock.lock();
    }
    busy_ = false;
    ended_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable ended_;
  Batch waiting_;
  std::size_t bytes_ = 0;
  bool busy_ = false;  // a thread frees
};

}  // namespace

void discard(std::shared_ptr<void> what, std::size_t bytes) noexcept {
  static const unsigned cores = std::thread::hardware_concurrency();
  if (cores < 2) return;
  try {
    of_this_process<Discarded>().add(std::move(what), bytes);
  } catch (...) {  // no memory for the list
  }
}

void free_discarded() { of_this_process<Discarded>().free(); }

}  // namespace guiderail
