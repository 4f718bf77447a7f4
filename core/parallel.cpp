// A small pool of native threads for batches of masks. Threads are started at first use and again after a fork.
#ifndef _WIN32
#include <unistd.h>
#endif

#include <condition_variable>
#include <exception>
#include <thread>

#include "matcher.hpp"

namespace guiderail {
namespace {

struct Task {
  std::size_t count = 0;
  const std::function<void(std::size_t)>* job = nullptr;
  std::atomic<std::size_t> next{0};
  std::atomic<unsigned> helpers{0};  // threads still at it
  std::mutex mutex;
  std::condition_variable done;
  std::exception_ptr error;

  void work() {
    for (std::size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        (*job)(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  }
};

class Pool {
 public:
  void run(Task& task, unsigned helpers) {
    {
      std::lock_guard lock(mutex_);
      while (size_ < helpers) {
        std::thread([this] { loop(); }).detach();
        ++size_;
      }
      task.helpers = helpers;
      for (unsigned i = 0; i < helpers; ++i) waiting_.push_back(&task);
    }
    wake_.notify_all();
    task.work();
    std::unique_lock lock(task.mutex);
    task.done.wait(lock, [&] { return task.helpers.load() == 0; });
  }

 private:
  void loop() {
    for (;;) {
      Task* task;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !waiting_.empty(); });
        task = waiting_.back();
        waiting_.pop_back();
      }
      task->work();
      std::lock_guard lock(task->mutex);
      if (task->helpers.fetch_sub(1) == 1) task->done.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Task*> waiting_;
  unsigned size_ = 0;
};

long process() {
#ifdef _WIN32
  return 1;  // no fork there
#else
  return static_cast<long>(getpid());
#endif
}

Pool& pool() {
  static std::mutex mutex;
  static Pool* current = nullptr;
  static long owner = 0;
  std::lock_guard lock(mutex);
  if (!current || owner != process()) {  // threads do not survive a fork; the old pool is abandoned
    current = new Pool;
    owner = process();
  }
  return *current;
}

}  // namespace

void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<std::size_t>(threads, count));
  Task task;
  task.count = count;
  task.job = &job;
  if (threads > 1)
    pool().run(task, threads - 1);
  else
    task.work();
  if (task.error) std::rethrow_exception(task.error);
}

}  // namespace guiderail
