#ifndef IDEMPOTENCY_SERVER_PROCESS_CORE_DUMPS_H_
#define IDEMPOTENCY_SERVER_PROCESS_CORE_DUMPS_H_

namespace idempotency::internal {

// Keeps this process's memory out of core dumps: it contains callers' keys and replies, tokens and
// the key ring. The soft limit of their size (RLIMIT_CORE) is zero, and since the kernel does not
// enforce it for dumps that it pipes to a program (core(5)), no kind of memory is part of them
// either (/proc/self/coredump_filter). The hard limit stays, so that a debugger can raise the soft
// one with prlimit, and write the filter. Not PR_SET_DUMPABLE: `idempotencyd health` reads the
// command line and the folder of the process.
void DisableCoreDumps();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_CORE_DUMPS_H_
