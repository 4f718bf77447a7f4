// A small pool of native threads for batches of masks, shared by all calls. Threads start when they are needed (again
// in a forked child), and end after some idle time. However many a call requests, there are at most twice as many as
// cores.
#include <chrono>
#include <condition_variable>
#include <exception>
#include <thread>

#include "run/matcher.hpp"
#include "run/per_process.hpp"

namespace guiderail {
namespace {

constexpr auto kIdle = std::chrono::seconds(2);  // after which a thread ends; batches come every few milliseconds

unsigned cores() { return std::max(1u, std::thread::hardware_concurrency()); }

struct Task {
  std::size_t count = 0;
  const std::function<void(std::size_t)>* job = nullptr;
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> finished{0};
  std::atomic<unsigned> helpers{0};  // threads still working
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
      finished.fetch_add(1);
    }
  }
};

class Pool {
 public:
  void begin(Task& task, unsigned helpers) {
    helpers = std::min(helpers, 2 * cores());
    {
      std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), helpers, &task);
      task.helpers = helpers;
      try {
        for (; size_ < helpers; ++size_) std::thread([this] { loop(); }).detach();
      } catch (...) {  // the system has no more threads: the waiting thread does the work
      }
    }
    wake_.notify_all();
  }
  void finish(Task& task) {
    task.work();
    {  // no more helpers need to begin
      std::lock_guard lock(mutex_);
      task.helpers -= static_cast<unsigned>(std::erase(waiting_, &task));
    }
    std::unique_lock lock(task.mutex);
    task.done.wait(lock, [&] { return task.helpers.load() == 0; });
  }

 private:
  void loop() {
    for (;;) {
      Task* task;
      {
        std::unique_lock lock(mutex_);
        if (!wake_.wait_for(lock, kIdle, [this] { return !waiting_.empty(); })) {
          --size_;
          return;
        }
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

Pool& pool() { return of_this_process<Pool>(); }

}  // namespace

void parallel(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& job) {
  if (threads == 0) threads = cores();
  threads = static_cast<unsigned>(std::min<std::size_t>(threads, count));
  Task task;
  task.count = count;
  task.job = &job;
  if (threads > 1) {
    Pool& helpers = pool();
    helpers.begin(task, threads - 1);
    helpers.finish(task);
  } else {
    task.work();
  }
  if (task.error) std::rethrow_exception(task.error);
}

struct Background::Work {
  std::function<void(std::size_t)> job;
  Task task;
  Pool* pool;
  long owner;
  std::atomic<bool> waited{false};  // done() may be asked meanwhile
};

Background::Background(std::size_t count, unsigned threads, std::function<void(std::size_t)> job)
    : work_(std::make_unique<Work>()) {
  if (threads == 0) threads = cores();
  work_->job = std::move(job);
  work_->task.count = count;
  work_->task.job = &work_->job;
  work_->pool = &pool();
  work_->owner = process_id();
  work_->pool->begin(work_->task, static_cast<unsigned>(std::min<std::size_t>(threads, count)));
}

Background::~Background() {
  if (work_->waited) return;
  if (work_->owner == process_id())
    work_->pool->finish(work_->task);
  else
    (void)work_.release();  // after a fork, the threads belong to the parent, and so does what they use
}

void Background::wait() {
  if (work_->waited) return;
  if (work_->owner != process_id()) {
    work_->task.next = 0;  // what the parent's threads had begun stays with them
    work_->task.work();
  } else {
    work_->pool->finish(work_->task);
  }
  work_->waited = true;
  if (work_->task.error) std::rethrow_exception(work_->task.error);
}

bool Background::done() const { return work_->waited || work_->task.finished.load() == work_->task.count; }

}  // namespace guiderail
