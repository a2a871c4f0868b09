#ifndef IDEMPOTENCY_SERVER_PROCESS_SERVING_PROCESS_H_
#define IDEMPOTENCY_SERVER_PROCESS_SERVING_PROCESS_H_

#include <string>

#include "absl/status/statusor.h"

#include "server/process/command_line.h"

namespace idempotency::internal {

// How the one `idempotencyd serve` of this machine, or of this container, was started:
// its command line from `proc`, the process file system, with the paths of files as this
// process can open them.
//
// NOT_FOUND if there is none, FAILED_PRECONDITION if there are several or its port is
// not known from its command line; both advise to set the address.
absl::StatusOr<ServeOptions> FindServingProcess(const std::string& proc = "/proc");

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_SERVING_PROCESS_H_
