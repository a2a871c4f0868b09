// The effects of one client's connections on a real idempotencyd and its other clients.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "envoy/service/ext_proc/v3/external_processor.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/integration/session_cycles.h"
#include "tests/support/daemon_process.h"
#include "tests/support/health_watch.h"
#include "tests/support/held_port.h"
#include "tests/support/metrics_page.h"
#include "tests/support/raw_connection.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kDescriptors = 160;
constexpr int kBurst = 500;
constexpr char kProcessorConfig[] =
    "external_processor { namespace: \"shop\" scope { shared: \"all\" }\n"
    "on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY\n"
    "grpc_methods { name: \"shop.v1.Orders/Place\" } }\n";

// The SHA-256 of "other".
constexpr char kDigestOfOther[] =
    "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

// A Session stream that its caller opens, and sends nothing on.
class OpenSession {
 public:
  explicit OpenSession(v1::IdempotencyService::Stub& stub) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    stream_ = stub.Session(&context_);
  }
  ~OpenSession() {
    context_.TryCancel();
    if (!ended_) stream_->Finish();
  }
  OpenSession(const OpenSession&) = delete;
  OpenSession& operator=(const OpenSession&) = delete;

  // Whether the server has accepted it.
  bool HasLimits() {
    v1::SessionResponse frame;
    return stream_->Read(&frame) && frame.has_limits();
  }
  grpc::Status End() {
    ended_ = true;
    return stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream_;
  bool ended_ = false;
};

class DaemonConnectionsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  std::string Store() const { return absl::StrCat("sqlite:", folder_.File("records.db")); }

  // Whether a new client is answered within 30 s.
  static bool Serves(const DaemonProcess& daemon) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < deadline) {
      if (ServiceClient(daemon.address()).Call(SomeReserve("order")).ok()) return true;
    }
    return false;
  }

  static double Refused(const DaemonProcess& daemon, const std::string& reason) {
    return MetricsPage::Fetch(daemon.metrics_address())
        .Value(absl::StrCat("idempotency_connections_refused_total{reason=\"", reason, "\"}"));
  }

  static double RefusedCalls(const DaemonProcess& daemon, const std::string& reason) {
    return MetricsPage::Fetch(daemon.metrics_address())
        .Value(absl::StrCat("idempotency_calls_refused_total{reason=\"", reason, "\"}"));
  }

  static int ThreadsOf(DaemonProcess& daemon) {
    std::ifstream status(absl::StrCat("/proc/", daemon.process().pid(), "/status"));
    std::string word;
    int threads = 0;
    while (status >> word && word != "Threads:") {
    }
    status >> threads;
    return threads;
  }

  TempFolder folder_;
};

TEST_F(DaemonConnectionsTest, ABurstOverTheDescriptorsDoesNotEndTheListening) {
  DaemonProcess daemon(Store(), {}, kDescriptors);
  const ServiceClient before(daemon.address());
  ASSERT_TRUE(before.Call(SomeReserve("order")).ok());
  {
    std::vector<RawConnection> burst;
    for (int i = 0; i < kBurst; ++i) {
      // From as many addresses as it takes to be over every limit.
      burst.emplace_back(daemon.address(), absl::StrCat("127.0.1.", 1 + i % 50));
    }
    EXPECT_TRUE(burst.back().AwaitClose());
    EXPECT_TRUE(before.Call(SomeGet("order")).ok()) << "a connection that is there goes on";
    EXPECT_GT(Refused(daemon, "limit"), 0);
  }
  EXPECT_TRUE(Serves(daemon));
  EXPECT_EQ(daemon.Terminate().code, 0);
}

TEST_F(DaemonConnectionsTest, ABurstFromOneAddressLeavesRoomForTheOthers) {
  DaemonProcess daemon(Store(), {}, kDescriptors);
  std::vector<RawConnection> burst;
  for (int i = 0; i < kBurst; ++i) burst.emplace_back(daemon.address(), "127.0.0.2");
  EXPECT_TRUE(burst.back().AwaitClose());
  EXPECT_GT(Refused(daemon, "peer_limit"), 0);
  EXPECT_EQ(Refused(daemon, "limit"), 0);
  EXPECT_TRUE(RawConnection(daemon.address(), "127.0.0.3").BeginHttp2());
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("order")).ok());
}

TEST_F(DaemonConnectionsTest, ASilentConnectionEnds) {
  DaemonProcess daemon(Store(), {"--handshake_timeout=300ms"});
  RawConnection silent(daemon.address());
  EXPECT_TRUE(silent.AwaitClose());
}

TEST_F(DaemonConnectionsTest, AConnectionEndsByItsAge) {
  DaemonProcess daemon(Store(), {"--max_connection_age=200ms", "--connection_grace=10s"});
  RawConnection connection(daemon.address());
  ASSERT_TRUE(connection.BeginHttp2());
  EXPECT_TRUE(connection.AwaitClose());
}

TEST_F(DaemonConnectionsTest, SessionsMoveFromOldConnectionsWithoutAFailedOperation) {
  DaemonProcess daemon(Store(), {"--max_connection_age=300ms", "--connection_grace=10s"});
  EXPECT_THAT(daemon.process().Stderr(),
              ::testing::HasSubstr("calls that wait for a running attempt may be cut"));
  ConnectionOptions options;
  options.session.streams = 2;
  const auto connection =
      MakeConnection(grpc::CreateCustomChannel(daemon.address(), grpc::InsecureChannelCredentials(),
                                               IdempotencydChannelArguments()),
                     options);
  SessionCycles cycles(*connection);
  // Some ages of a connection, and two moves at half of the grace.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(12);
  while (std::chrono::steady_clock::now() < end) ASSERT_TRUE(cycles.AwaitMore(10));
  EXPECT_EQ(cycles.failed(), 0);
}

TEST_F(DaemonConnectionsTest, AClientThatPingsTooOftenIsDisconnected) {
  DaemonProcess daemon(Store());
  RawConnection connection(daemon.address());
  ASSERT_TRUE(connection.BeginHttp2());
  const std::string ping("\0\0\10\6\0\0\0\0\0whatever", 17);
  for (int i = 0; i < 20; ++i) connection.Send(ping);
  EXPECT_TRUE(connection.AwaitClose());
}

TEST_F(DaemonConnectionsTest, SettingsBoundTheCallsOfAConnection) {
  DaemonProcess daemon(Store(), {"--max_streams=77"});
  RawConnection connection(daemon.address());
  ASSERT_TRUE(connection.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  const std::string header = connection.Receive(9);
  ASSERT_EQ(header.size(), 9);
  const std::string settings = connection.Receive(static_cast<unsigned char>(header[2]));
  // SETTINGS_MAX_CONCURRENT_STREAMS is number 3.
  EXPECT_NE(settings.find(std::string("\0\3\0\0\0\115", 6)), std::string::npos);
}

TEST_F(DaemonConnectionsTest, MessagesThatAreNeverFinishedAreBounded) {
  DaemonProcess daemon(Store(), {"--transport_mib=32"});
  // Three times the number that the daemon may hold.
  std::vector<RawConnection> connections;
  bool ended = false;
  for (int i = 0; i < 12; ++i) {
    connections.emplace_back(daemon.address());
    ended = !connections.back().SendUnfinishedMessage("/idempotency.v1.IdempotencyService/Complete",
                                                      8 * 1024 * 1024) ||
            ended;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!ended && std::chrono::steady_clock::now() < deadline) {
    for (RawConnection& connection : connections) ended = connection.CallHasEnded() || ended;
  }
  EXPECT_TRUE(ended);
  EXPECT_TRUE(Serves(daemon));
}

// gRPC delivers a unary call of a generated service with its message: it would not be counted until
// then.
TEST_F(DaemonConnectionsTest, CallsWithoutAMessageAreBounded) {
  DaemonProcess daemon(Store(), {"--max_calls=20"});
  std::vector<RawConnection> connections;
  for (const char* const path : {"/idempotency.v1.IdempotencyService/Complete",
                                 "/idempotency.v1.IdempotencyAdminService/List"}) {
    for (int i = 0; i < 15; ++i) {
      connections.emplace_back(daemon.address(), "127.0.0.2");
      ASSERT_TRUE(connections.back().SendUnfinishedMessage(path, 10));
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (RefusedCalls(daemon, "peer_limit") < 20 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(RefusedCalls(daemon, "peer_limit"), 20);
  EXPECT_EQ(RefusedCalls(daemon, "limit"), 0);
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("order")).ok());
  EXPECT_TRUE(absl::StrContains(daemon.process().Stderr(), "call refused"))
      << daemon.process().Stderr();
}

// gRPC enforces its limit on the streams of a connection only once the client has acknowledged it.
TEST_F(DaemonConnectionsTest, AClientThatIgnoresTheLimitOnStreamsIsDisconnected) {
  DaemonProcess daemon(Store());
  for (const auto& [path, from] :
       {std::pair("/idempotency.v1.IdempotencyService/Complete", "127.0.0.2"),
        std::pair("/no.Service/No", "127.0.0.3")}) {
    RawConnection connection(daemon.address(), from);
    connection.KeepFewBytes();
    ASSERT_TRUE(connection.BeginHttp2());
    EXPECT_TRUE(connection.IsClosedForCalls(path, 1'000'000)) << path;
  }
  EXPECT_TRUE(Serves(daemon));
}

// They would be counted by nothing.
TEST_F(DaemonConnectionsTest, CallsOfChannelzAreNotServed) {
  DaemonProcess daemon(Store());
  RawConnection connection(daemon.address());
  ASSERT_TRUE(connection.SendUnfinishedMessage("/grpc.channelz.v1.Channelz/GetServers", 10));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool ended = false;
  while (!ended && std::chrono::steady_clock::now() < deadline) ended = connection.CallHasEnded();
  EXPECT_TRUE(ended);
}

TEST_F(DaemonConnectionsTest, AFullTableOfCallsLeavesTheProcessHealthy) {
  DaemonProcess daemon(Store(), {"--max_calls=2"});
  const auto stub = v1::IdempotencyService::NewStub(
      grpc::CreateChannel(daemon.address(), grpc::InsecureChannelCredentials()));
  OpenSession only(*stub);
  ASSERT_TRUE(only.HasLimits());
  ASSERT_FALSE(OpenSession(*stub).HasLimits());
  EXPECT_TRUE(HealthWatch(daemon.address()).AwaitServing(true));
}

TEST_F(DaemonConnectionsTest, SessionsAreBoundedAndAnEndedOneLeavesRoom) {
  DaemonProcess daemon(Store(), {"--max_calls=8"});
  const auto stub = v1::IdempotencyService::NewStub(
      grpc::CreateChannel(daemon.address(), grpc::InsecureChannelCredentials()));
  // Half of them for this address.
  std::vector<std::unique_ptr<OpenSession>> sessions;
  for (int i = 0; i < 4; ++i) {
    sessions.push_back(std::make_unique<OpenSession>(*stub));
    ASSERT_TRUE(sessions.back()->HasLimits());
  }
  OpenSession refused(*stub);
  EXPECT_FALSE(refused.HasLimits());
  const absl::Status status = FromGrpcStatus(refused.End());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ReasonOf(status), Reason::kOverloaded) << status;

  sessions.clear();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool has_room = false;
  while (!has_room && std::chrono::steady_clock::now() < deadline) {
    has_room = OpenSession(*stub).HasLimits();
  }
  EXPECT_TRUE(has_room);
}

TEST_F(DaemonConnectionsTest, AUnaryCallThatEndsWithoutAMessageIsRefusedWithAReason) {
  DaemonProcess daemon(Store());
  grpc::GenericStub stub(grpc::CreateChannel(daemon.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
  };
  const auto call =
      stub.PrepareCall(&context, "/idempotency.v1.IdempotencyService/Reserve", &queue);
  call->StartCall(nullptr);
  await();
  call->WritesDone(nullptr);
  await();
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kRequestInvalid);
}

// As a synchronous service of gRPC's would.
TEST_F(DaemonConnectionsTest, CallsOfReflectionTakeNoThreads) {
  DaemonProcess daemon(Store());
  const auto stub = grpc::reflection::v1alpha::ServerReflection::NewStub(
      grpc::CreateChannel(daemon.address(), grpc::InsecureChannelCredentials()));
  const auto threads = ThreadsOf(daemon);
  constexpr int kCalls = 300;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<
      grpc::ClientReaderWriter<grpc::reflection::v1alpha::ServerReflectionRequest,
                               grpc::reflection::v1alpha::ServerReflectionResponse>>>
      calls;
  grpc::reflection::v1alpha::ServerReflectionRequest request;
  request.set_list_services("*");
  for (int i = 0; i < kCalls; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    calls.push_back(stub->ServerReflectionInfo(contexts.back().get()));
    calls.back()->Write(request);
  }
  for (const auto& call : calls) {
    grpc::reflection::v1alpha::ServerReflectionResponse response;
    ASSERT_TRUE(call->Read(&response));
    EXPECT_GT(response.list_services_response().service_size(), 3);
    EXPECT_TRUE(call->Write(request) && call->Read(&response)) << "another request of the call";
  }
  // gRPC may start one or two of its own meanwhile.
  EXPECT_LE(ThreadsOf(daemon), threads + kCalls / 10);
  EXPECT_TRUE(ServiceClient(daemon.address()).Call(SomeReserve("order")).ok());
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& call : calls) call->Finish();
}

// One address has half of --max_calls: a proxy would not reach the bound that is configured.
TEST_F(DaemonConnectionsTest, FewCallsForTheExchangesOfAProxyAreLoggedWithWhatToDo) {
  const std::string config = folder_.File("idempotencyd.textproto");
  std::ofstream(config) << kProcessorConfig;
  const auto log_with = [&](const char* max_calls) {
    const HeldPort exchanges;
    DaemonProcess daemon(Store(), {absl::StrCat("--ext_proc=", exchanges.address()),
                                   absl::StrCat("--config=", config), max_calls});
    return daemon.process().Stderr();
  };
  EXPECT_FALSE(absl::StrContains(log_with("--max_calls=32768"), "max_exchanges"));
  EXPECT_TRUE(absl::StrContains(log_with("--max_calls=8192"), "set --max_calls=32768"));
}

// An exchange of a proxy lasts as long as its service takes. Until it ends, calls on the other port
// would be accepted, and cut off at the end.
TEST_F(DaemonConnectionsTest, AtAStopACallOfOnePortDoesNotKeepTheOtherOpen) {
  const std::string config = folder_.File("idempotencyd.textproto");
  std::ofstream(config) << kProcessorConfig;
  const HeldPort exchanges;
  DaemonProcess daemon(Store(), {absl::StrCat("--ext_proc=", exchanges.address()),
                                 absl::StrCat("--config=", config), "--drain_timeout=60s"});
  const auto stub = grpc::reflection::v1alpha::ServerReflection::NewStub(
      grpc::CreateChannel(exchanges.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto call = stub->ServerReflectionInfo(&context);
  grpc::reflection::v1alpha::ServerReflectionRequest request;
  request.set_list_services("*");
  grpc::reflection::v1alpha::ServerReflectionResponse response;
  ASSERT_TRUE(call->Write(request) && call->Read(&response));

  daemon.process().Signal(SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool open = true;
  while (open && std::chrono::steady_clock::now() < deadline) {
    RawConnection connection(daemon.address());
    open = connection.connected();
    if (open) connection.ClosesWithin(absl::Milliseconds(50));
  }
  EXPECT_FALSE(open);
  EXPECT_TRUE(call->Write(request) && call->Read(&response)) << "that call may end in its time";
  context.TryCancel();
  call->Finish();
  const auto exit = daemon.process().Wait();
  ASSERT_TRUE(exit.ok());
  EXPECT_EQ(exit->code, 0);
}

// A proxy leaves a replica that cannot decide, or that stops.
TEST_F(DaemonConnectionsTest, ThePortOfTheExternalProcessorReportsItsHealth) {
  const std::string config = folder_.File("idempotencyd.textproto");
  std::ofstream(config) << kProcessorConfig;
  const HeldPort exchanges;
  DaemonProcess daemon(Store(), {absl::StrCat("--ext_proc=", exchanges.address()),
                                 absl::StrCat("--config=", config), "--drain_timeout=60s"});
  std::optional<HealthWatch> health(exchanges.address());
  EXPECT_TRUE(health->AwaitServing(true));
  const auto stub = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(exchanges.address(), grpc::InsecureChannelCredentials()));
  for (const char* service : {"", "envoy.service.ext_proc.v3.ExternalProcessor"}) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING) << service;
  }
  daemon.process().Signal(SIGTERM);
  EXPECT_TRUE(health->AwaitServing(false)) << "before it ends";
  // A watch is a call that never ends.
  health.reset();
  const auto exit = daemon.process().Wait();
  ASSERT_TRUE(exit.ok());
  EXPECT_EQ(exit->code, 0);
}

TEST_F(DaemonConnectionsTest, ARefusedProxyIsLoggedWithItsIdentityAndAddress) {
  const std::string config = folder_.File("idempotencyd.textproto");
  std::ofstream(config) << "identities { name: \"envoy\" local: true }\n"
                           "identities { name: \"other\" tokens { sha256: \""
                        << kDigestOfOther << "\" } }\n"
                        << absl::StrReplaceAll(kProcessorConfig,
                                               {{"{ namespace", "{ proxies: \"envoy\" namespace"}});
  const HeldPort exchanges;
  DaemonProcess daemon(Store(), {absl::StrCat("--ext_proc=", exchanges.address()),
                                 absl::StrCat("--config=", config)});
  const auto stub = envoy::service::ext_proc::v3::ExternalProcessor::NewStub(
      grpc::CreateChannel(exchanges.address(), grpc::InsecureChannelCredentials()));
  const auto status_with = [&stub](const std::string& header, const std::string& value) {
    grpc::ClientContext context;
    context.AddMetadata(header, value);
    return stub->Process(&context)->Finish();
  };
  EXPECT_EQ(status_with("authorization", "Bearer other").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  // As Envoy's client does: it is not `local` then.
  const grpc::Status forwarded = status_with("x-forwarded-for", "192.0.2.1");
  EXPECT_EQ(forwarded.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(forwarded.error_message(), HasSubstr("x-forwarded-for"));
  EXPECT_EQ(MetricsPage::Fetch(daemon.metrics_address())
                .Value("idempotency_callers_refused_total{service=\"operations\"}"),
            2);
  daemon.Terminate();
  const std::string log = daemon.process().Stderr();
  EXPECT_THAT(log, ContainsRegex("caller refused.*identity=\"?other\"?.*peer=\"?ipv4:127.0.0.1:"));
  EXPECT_THAT(log, ContainsRegex("caller refused.*peer=\"?ipv4:127.0.0.1:.*x-forwarded-for"));
}

TEST_F(DaemonConnectionsTest, FewDescriptorsAreLoggedWithWhatToDo) {
  DaemonProcess daemon(Store(), {}, kDescriptors);
  EXPECT_TRUE(absl::StrContains(daemon.process().Stderr(), "few descriptors"))
      << daemon.process().Stderr();
  EXPECT_TRUE(absl::StrContains(daemon.process().Stderr(), "LimitNOFILE"));
}

}  // namespace
}  // namespace idempotency::internal::testing
