#include "tests/support/held_port.h"

#include <arpa/inet.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "server/files/file_descriptor.h"
#include "server/process/listening_sockets.h"

namespace idempotency::internal::testing {
namespace {

// Since Linux 6.3: the ports among which the system chooses for this socket.
constexpr int kLocalPortRange = 51;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// A socket for which the system may choose this port and no other. Invalid if the kernel is older.
FileDescriptor SocketForOnly(int port, bool reuse) {
  FileDescriptor made(socket(AF_INET, SOCK_STREAM, 0));
  const std::uint32_t range =
      static_cast<std::uint32_t>(port) << 16 | static_cast<std::uint32_t>(port);
  const int on = reuse ? 1 : 0;
  if (setsockopt(made.get(), IPPROTO_IP, kLocalPortRange, &range, sizeof(range)) != 0 ||
      setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return FileDescriptor(-1);
  }
  return made;
}

// The errno of an attempt, or 0.
int Connect(const FileDescriptor& from, int port) {
  const sockaddr_in to = Loopback(port);
  return connect(from.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 ? 0 : errno;
}

TEST(HeldPortTest, TheSystemGivesItToNoOtherSocketSinceLinux63) {
  const HeldPort held;
  const auto elsewhere = ListeningSockets::Bind(*NetworkAddress::Parse("127.0.0.1:0")).value();
  for (const bool reuse : {false, true}) {
    const FileDescriptor listener = SocketForOnly(held.number(), reuse);
    if (!listener.valid()) GTEST_SKIP() << "this kernel cannot be made to choose a port";
    const sockaddr_in any = Loopback(0);
    EXPECT_NE(bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)), 0);
    EXPECT_EQ(errno, EADDRINUSE);
    EXPECT_EQ(Connect(SocketForOnly(held.number(), reuse), elsewhere.address().port),
              EADDRNOTAVAIL);
  }
}

TEST(HeldPortTest, WhileNoServerListensConnectionsAreRefused) {
  const HeldPort held;
  EXPECT_EQ(Connect(FileDescriptor(socket(AF_INET, SOCK_STREAM, 0)), held.number()), ECONNREFUSED);
}

TEST(HeldPortTest, OurServerGetsItEachTime) {
  const HeldPort held;
  for (int start = 0; start < 3; ++start) {
    const auto sockets = ListeningSockets::Bind(*NetworkAddress::Parse(held.address()));
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    // With a connection, which outlives the listener.
    EXPECT_EQ(Connect(FileDescriptor(socket(AF_INET, SOCK_STREAM, 0)), held.number()), 0);
  }
}

TEST(HeldPortTest, AServerOfGrpcsGetsItEachTime) {
  const HeldPort held;
  for (const int reuse_port : {0, 1, 0}) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, reuse_port);
    builder.AddListeningPort(held.address(), grpc::InsecureServerCredentials());
    grpc::AsyncGenericService service;
    builder.RegisterAsyncGenericService(&service);
    const auto queue = builder.AddCompletionQueue();
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    ASSERT_NE(server, nullptr) << reuse_port;
    EXPECT_EQ(Connect(FileDescriptor(socket(AF_INET, SOCK_STREAM, 0)), held.number()), 0);
    server->Shutdown();
    queue->Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue->Next(&tag, &ok);) {
    }
  }
}

TEST(HeldPortTest, TwoAreDifferent) {
  const HeldPort one;
  const HeldPort other;
  EXPECT_NE(one.number(), other.number());
}

}  // namespace
}  // namespace idempotency::internal::testing
