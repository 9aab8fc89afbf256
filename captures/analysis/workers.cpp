#include "captures/analysis/workers.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace rdmawire::captures::analysis {

void work_together(std::size_t count, const std::function<void()>& work) {
  std::mutex guard;
  std::exception_ptr thrown;
  const auto caught = [&] {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(guard);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;  // the destructor joins the threads on every exit
    count = std::min(count, most_workers);
    threads.reserve(count);
    try {
      while (threads.size() + 1 < count) threads.emplace_back(caught);
    } catch (const std::system_error&) {
      // Continue with the threads that were started.
    }
    caught();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace rdmawire::captures::analysis
