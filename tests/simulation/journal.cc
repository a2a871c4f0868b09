#include "tests/simulation/journal.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace idempotency::internal::simulation {

void Journal::Write(const char* format, ...) {
  if (!trace_) return;
  char line[512];
  const Process* const process = scheduler_.process();
  int length = std::snprintf(line, sizeof line, "%12.6f %-10s ",
                             static_cast<double>(scheduler_.now()) / kSecond,
                             process == nullptr ? "" : process->name().c_str());
  va_list arguments;
  va_start(arguments, format);
  length += std::vsnprintf(line + length, sizeof line - length, format, arguments);
  va_end(arguments);
  if (length > static_cast<int>(sizeof line) - 2) length = static_cast<int>(sizeof line) - 2;
  line[length++] = '\n';
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) != length) _exit(3);
}

void Journal::Broken(const std::string& promise) {
  Write("BROKEN: %s", promise.c_str());
  std::snprintf(failure_, failure_bytes_, "at %.6f s: %s",
                static_cast<double>(scheduler_.now()) / kSecond, promise.c_str());
  // The objects of the fibers are not to be destroyed.
  _exit(1);
}

}  // namespace idempotency::internal::simulation
