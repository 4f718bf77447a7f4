// Mutexes of the whole process. The child of a fork has only the thread that forked: a mutex that another thread held
// at that moment would never be released. So fork() waits for the holders of these mutexes, and both processes find
// them free. They are held for moments only, and none of them while another is taken.
#pragma once

#include <mutex>

namespace guiderail {

class ProcessMutex : public std::mutex {
 public:
  ProcessMutex();  // lives as long as the process
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;

 private:
  friend struct AtFork;
  ProcessMutex* next_ = nullptr;
};

}  // namespace guiderail
