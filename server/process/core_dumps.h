#ifndef IDEMPOTENCY_SERVER_PROCESS_CORE_DUMPS_H_
#define IDEMPOTENCY_SERVER_PROCESS_CORE_DUMPS_H_

namespace idempotency::internal {

// Sets the soft limit of core dumps of this process (RLIMIT_CORE) to zero: a dump contains callers'
// keys and replies, tokens and the key ring. Handlers of dumps that the kernel starts
// (systemd-coredump, apport) respect the limit. The hard limit stays, so that a debugger can raise
// it with prlimit.
void DisableCoreDumps();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_CORE_DUMPS_H_
