#include "conformance/lab/error.hpp"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace rdmawire::lab {

tl::unexpected<LabError> system_failure(const std::string& what) {
  const int number = errno;
  return failure(number == ENOSPC || number == EDQUOT ? LabError::Kind::space : LabError::Kind::system,
                 what + ": " + std::strerror(number));
}

bool stopped_within(StopDescriptor stop, std::chrono::milliseconds time) {
  if (stop < 0) {
    if (time.count() > 0) std::this_thread::sleep_for(time);
    return false;
  }
  pollfd waiting{stop, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(time.count())) > 0;
}

}  // namespace rdmawire::lab
