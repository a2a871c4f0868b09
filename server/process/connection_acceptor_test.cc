#include "server/process/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"

namespace idempotency::internal {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

class CountingRefusals final : public Observer {
 public:
  void ConnectionRefused(ConnectionRefusal refusal) override {
    ++counts_[static_cast<std::size_t>(refusal)];
  }
  int Of(ConnectionRefusal refusal) const { return counts_[static_cast<std::size_t>(refusal)]; }

 private:
  std::atomic<int> counts_[std::size(kAllConnectionRefusals)] = {};
};

// Keeps the connections that were passed on.
class Taken {
 public:
  void Add(int socket, int listening_socket) {
    MutexLock lock(mutex_);
    sockets_.emplace_back(socket);
    listening_socket_ = listening_socket;
    changed_.NotifyAll();
  }
  void Fail(const absl::Status& why) {
    MutexLock lock(mutex_);
    failure_ = why;
    changed_.NotifyAll();
  }
  bool Await(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    while (sockets_.size() < count && changed_.WaitUntil(lock, deadline)) {
    }
    return sockets_.size() >= count;
  }
  std::optional<absl::Status> AwaitFailure() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    while (!failure_.has_value() && changed_.WaitUntil(lock, deadline)) {
    }
    return failure_;
  }
  void Close() {
    MutexLock lock(mutex_);
    sockets_.clear();
  }
  std::size_t size() const {
    MutexLock lock(mutex_);
    return sockets_.size();
  }
  int listening_socket() const {
    MutexLock lock(mutex_);
    return listening_socket_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<FileDescriptor> sockets_ ABSL_GUARDED_BY(mutex_);
  int listening_socket_ ABSL_GUARDED_BY(mutex_) = -1;
  std::optional<absl::Status> failure_ ABSL_GUARDED_BY(mutex_);
};

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  void Start(const ConnectionTable::Limits& limits) {
    auto address = NetworkAddress::Parse("127.0.0.1:0");
    auto sockets = ListeningSockets::Bind(*address);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    acceptor_.emplace(*std::move(sockets), limits,
                      ConnectionAcceptor::Callbacks{
                          [this](int socket, int listener) { taken_.Add(socket, listener); },
                          [this](const absl::Status& why) { taken_.Fail(why); }},
                      refused_);
  }

  // Not connected yet, from an address of this machine.
  static FileDescriptor MakeSocket(const char* from = "127.0.0.1") {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in source{};
    source.sin_family = AF_INET;
    inet_pton(AF_INET, from, &source.sin_addr);
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&source), sizeof(source)), 0);
    return socket;
  }
  void Connect(const FileDescriptor& socket) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(acceptor_->address().port);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  FileDescriptor Connected(const char* from = "127.0.0.1") const {
    FileDescriptor socket = MakeSocket(from);
    Connect(socket);
    return socket;
  }
  // Waits for the other side's end of it.
  static bool IsClosed(const FileDescriptor& socket) {
    const timeval limit{30, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    char byte = 0;
    const ssize_t got = recv(socket.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  CountingRefusals refused_;
  Taken taken_;
  std::optional<ConnectionAcceptor> acceptor_;
};

TEST_F(ConnectionAcceptorTest, PassesConnectionsOn) {
  Start({100, 100});
  const FileDescriptor first = Connected();
  const FileDescriptor second = Connected();
  EXPECT_TRUE(taken_.Await(2));
  EXPECT_EQ(acceptor_->accepted(), 2);
}

TEST_F(ConnectionAcceptorTest, ContinuesAfterTheDescriptorsRanOut) {
  // UndefinedBehaviorSanitizer opens a pipe when it first meets the observer's type.
  Start({0, 0});
  ASSERT_TRUE(IsClosed(Connected()));
  Start({1000, 1000});
  std::vector<FileDescriptor> burst;
  for (int i = 0; i < 50; ++i) burst.push_back(MakeSocket());
  const FileDescriptor later = MakeSocket();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  // Numbers are assigned from the lowest: five connections fit.
  const rlimit few{static_cast<rlim_t>(later.get() + 6), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  for (const FileDescriptor& socket : burst) Connect(socket);
  EXPECT_TRUE(IsClosed(burst.back()));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_GE(refused_.Of(ConnectionRefusal::kNoDescriptor), 1);
  EXPECT_EQ(acceptor_->accepted(), burst.size()) << "the port is not deaf";
  const std::size_t had = taken_.size();
  Connect(later);
  EXPECT_TRUE(taken_.Await(had + 1));
}

TEST_F(ConnectionAcceptorTest, ClosesConnectionsOverTheLimit) {
  Start({3, 3});
  std::vector<FileDescriptor> connected;
  for (int i = 0; i < 3; ++i) connected.push_back(Connected());
  ASSERT_TRUE(taken_.Await(3));
  EXPECT_TRUE(IsClosed(Connected()));
  EXPECT_EQ(refused_.Of(ConnectionRefusal::kLimit), 1);

  // The acceptor gets no notification that these were closed.
  taken_.Close();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (taken_.size() == 0 && std::chrono::steady_clock::now() < deadline) {
    connected.push_back(Connected());
  }
  EXPECT_GE(taken_.size(), 1);
}

TEST_F(ConnectionAcceptorTest, OneAddressDoesNotTakeThePlacesOfOthers) {
  Start({10, 2});
  const FileDescriptor first = Connected("127.0.0.1");
  const FileDescriptor second = Connected("127.0.0.1");
  ASSERT_TRUE(taken_.Await(2));
  EXPECT_TRUE(IsClosed(Connected("127.0.0.1")));
  EXPECT_EQ(refused_.Of(ConnectionRefusal::kPeerLimit), 1);
  const FileDescriptor other = Connected("127.0.0.2");
  EXPECT_TRUE(taken_.Await(3));
}

TEST_F(ConnectionAcceptorTest, ClosesTheConnectionOfARemoteEnd) {
  Start({3, 3});
  const FileDescriptor closed = Connected();
  const FileDescriptor other = Connected();
  ASSERT_TRUE(taken_.Await(2));
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  ASSERT_EQ(getsockname(closed.get(), reinterpret_cast<sockaddr*>(&local), &size), 0);
  RemoteAddress remote = RemoteAddressOf(local).value();
  acceptor_->CloseForStreams(remote);
  EXPECT_TRUE(IsClosed(closed));
  EXPECT_EQ(refused_.Of(ConnectionRefusal::kStreams), 1);

  // The number of its descriptor is another file's by now.
  taken_.Close();
  const FileDescriptor file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  acceptor_->CloseForStreams(remote);
  remote.second = 1;
  acceptor_->CloseForStreams(remote);
  EXPECT_EQ(refused_.Of(ConnectionRefusal::kStreams), 1);
}

TEST_F(ConnectionAcceptorTest, ReportsASocketThatCannotBeUsedAnyMore) {
  Start({10, 10});
  const FileDescriptor first = Connected();
  ASSERT_TRUE(taken_.Await(1));
  shutdown(taken_.listening_socket(), SHUT_RDWR);
  const auto why = taken_.AwaitFailure();
  ASSERT_TRUE(why.has_value());
  EXPECT_NE(why->message().find("cannot accept connections on 127.0.0.1:"), std::string::npos)
      << *why;
}

}  // namespace
}  // namespace idempotency::internal
