#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SINGLE_POLLING_THREAD_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SINGLE_POLLING_THREAD_H_

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "absl/time/time.h"

namespace idempotency::internal {

// While it exists, one thread of gRPC's callback API runs every reaction of this process.
//
// gRPC 1.51 has a thread for every two cores, from 2 to 16, and no setting. All wait for the same
// queue: a thread that leaves it to run a reaction wakes another one that waits in its place. This
// occupies all but one, by callbacks that do not return before it is destroyed.
//
// Thread-safe. Must not be destroyed on a thread of gRPC's.
class SinglePollingThread {
 public:
  // How long gRPC's threads may take to run a callback; longer if reactions of the application
  // block, and for ever in a version of gRPC that has fewer threads.
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  // The one of the process, which its holders share. nullptr if gRPC's threads did not run the
  // callbacks within `patience`; then they are as before.
  static std::shared_ptr<SinglePollingThread> Share(absl::Duration patience = kPatience);

  ~SinglePollingThread();
  SinglePollingThread(const SinglePollingThread&) = delete;
  SinglePollingThread& operator=(const SinglePollingThread&) = delete;

  // gRPC's threads on a machine of so many cores.
  static int ThreadsOf(unsigned int cores);

 private:
  class Occupied;

  SinglePollingThread();
  bool Occupy(absl::Duration patience);

  // Each of its calls fails at once.
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  const std::shared_ptr<Occupied> occupied_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_THREADS_SINGLE_POLLING_THREAD_H_
