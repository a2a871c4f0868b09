#include "server/metrics_exposer.h"

#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "core/mutex.h"

namespace idempotency {
namespace {

// civetweb looks whether it is to stop when a connection comes, and otherwise
// every two seconds, which is how long each shutdown would take: it is given
// connections until it has stopped.
class Waker {
 public:
  explicit Waker(NetworkAddress address)
      : address_(std::move(address)), thread_([this] { Loop(); }) {
    pthread_setname_np(thread_.native_handle(), "metrics-waker");
  }
  ~Waker() {
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      stop_.NotifyOne();
    }
    thread_.join();
  }

 private:
  void Loop() {
    MutexLock lock(mutex_);
    while (!stopped_) {
      Connect();
      stop_.WaitUntil(lock, std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
    }
  }

  // Whether it succeeds does not matter: then nobody listens any more.
  void Connect() const {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(address_.host.c_str(), std::to_string(address_.port).c_str(), &hints, &found) !=
        0) {
      return;
    }
    const int connection = socket(found->ai_family, found->ai_socktype | SOCK_NONBLOCK, 0);
    if (connection >= 0) {
      static_cast<void>(connect(connection, found->ai_addr, found->ai_addrlen));
      close(connection);
    }
    freeaddrinfo(found);
  }

  const NetworkAddress address_;
  Mutex mutex_;
  CondVar stop_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const NetworkAddress& address, const std::shared_ptr<prometheus::Registry>& registry) {
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(address.ToString());
  } catch (const std::exception&) {
    // What civetweb throws does not say why.
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(),
                     " for metrics: the port may be in use, or the address not of this machine"));
  }
  exposer->RegisterCollectable(registry);
  NetworkAddress bound = address;
  if (const std::vector<int> ports = exposer->GetListeningPorts(); !ports.empty()) {
    bound.port = static_cast<std::uint16_t>(ports.front());
  }
  return std::unique_ptr<MetricsExposer>(new MetricsExposer(std::move(exposer), std::move(bound)));
}

MetricsExposer::MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer, NetworkAddress address)
    : exposer_(std::move(exposer)), address_(std::move(address)) {}

MetricsExposer::~MetricsExposer() {
  const Waker waker(address_);
  exposer_.reset();
}

}  // namespace idempotency
