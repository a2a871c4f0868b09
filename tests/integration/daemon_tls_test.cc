// TLS of a real idempotencyd: the clients that may connect, and certificates that are replaced
// while it serves.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/deadline.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/metrics_page.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using testing::CertificateAuthority;
using ::testing::ContainsRegex;
using Stub = v1::IdempotencyService::Stub;

class DaemonTlsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // gRPC logs each handshake that fails, and here failures are intended.
    setenv("GRPC_VERBOSITY", "NONE", 1);
    // As users have it.
    unsetenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS");
  }

  // In one step, as certificate managers do.
  void Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File("new")) << content;
    std::filesystem::rename(folder_.File("new"), folder_.File(name));
  }

  void Serve(const CertificateAuthority::Identity& identity, const std::string& client_root) {
    Write("cert", identity.certificate);
    Write("key", identity.key);
    Write("ca", client_root);
    daemon_ = std::make_unique<testing::DaemonProcess>(
        absl::StrCat("sqlite:", folder_.File("records.db")), TlsFlags());
  }
  std::vector<std::string> TlsFlags() const {
    return {absl::StrCat("--tls_cert=", folder_.File("cert")),
            absl::StrCat("--tls_key=", folder_.File("key")),
            absl::StrCat("--tls_client_ca=", folder_.File("ca"))};
  }

  // On a separate connection.
  std::unique_ptr<Stub> Connect(const std::string& root,
                                const CertificateAuthority::Identity& identity) {
    grpc::ChannelArguments alone;
    alone.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::IdempotencyService::NewStub(grpc::CreateCustomChannel(
        daemon_->address(), grpc::SslCredentials({root, identity.key, identity.certificate}),
        alone));
  }

  static grpc::Status Call(Stub& stub) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    v1::ReserveResponse response;
    return stub.Reserve(&context, testing::SomeReserve("order-1"), &response);
  }

  // Whether a new connection is established within 20 seconds.
  bool Reaches(const std::string& root, const CertificateAuthority::Identity& identity) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!Call(*Connect(root, identity)).ok()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  bool AwaitLog(const std::string& event) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!absl::StrContains(daemon_->process().Stderr(), event)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  double FailedHandshakes() const {
    return testing::MetricsPage::Fetch(daemon_->metrics_address())
        .Value("idempotency_handshakes_failed_total");
  }
  bool AwaitFailedHandshakes(double least) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (FailedHandshakes() < least) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }

  static constexpr char kHere[] = "IP:127.0.0.1";
  // The interval in which the daemon reads its files.
  static constexpr std::chrono::seconds kCertificateRefresh{1};

  testing::TempFolder folder_;
  CertificateAuthority first_;
  CertificateAuthority second_;
  std::unique_ptr<testing::DaemonProcess> daemon_;
};

TEST_F(DaemonTlsTest, OnlyClientsWithACertificateOfTheAuthorityConnect) {
  Serve(first_.Issue("idempotencyd", kHere), first_.root());
  EXPECT_TRUE(Call(*Connect(first_.root(), first_.Issue("guard"))).ok());
  EXPECT_EQ(Call(*Connect(first_.root(), {})).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(*Connect(first_.root(), second_.Issue("guard"))).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

// Such a client makes no call, so that no other metric shows it.
TEST_F(DaemonTlsTest, HandshakesThatFailAreCountedAndLogged) {
  setenv("GRPC_VERBOSITY", "ERROR", 1);
  Serve(first_.Issue("idempotencyd", kHere), first_.root());
  setenv("GRPC_VERBOSITY", "NONE", 1);
  EXPECT_TRUE(Call(*Connect(first_.root(), first_.Issue("guard"))).ok());
  EXPECT_EQ(FailedHandshakes(), 0);

  EXPECT_FALSE(Call(*Connect(first_.root(), second_.Issue("guard"))).ok());
  EXPECT_TRUE(AwaitLog("event=\"handshake failed\""));
  const std::string log = daemon_->process().Stderr();
  EXPECT_THAT(log, ContainsRegex("event=\"handshake failed\" error=\"Handshake failed.*"
                                 " recent_peers=.*127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_FALSE(Call(*Connect(first_.root(), {})).ok());
  EXPECT_TRUE(AwaitFailedHandshakes(2));
}

// A list of addresses has no name for which a certificate could be valid.
TEST_F(DaemonTlsTest, AListOfAddressesIsVerifiedByTheNameThatIsGiven) {
  const auto identity = first_.Issue("idempotencyd", "DNS:idempotencyd.example");
  Serve(identity, first_.root());
  const testing::DaemonProcess second(absl::StrCat("sqlite:", folder_.File("second.db")),
                                      TlsFlags());
  const std::string target = absl::StrCat("ipv4:", daemon_->address(), ",", second.address());
  const auto guard = first_.Issue("guard");
  const auto credentials = grpc::SslCredentials({first_.root(), guard.key, guard.certificate});

  const auto named = v1::IdempotencyService::NewStub(grpc::CreateCustomChannel(
      target, credentials, IdempotencydChannelArguments("idempotencyd.example")));
  std::set<std::string> reached;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (reached.size() < 2 && std::chrono::steady_clock::now() < deadline) {
    grpc::ClientContext context;
    v1::GetResponse response;
    // There is no such record.
    EXPECT_EQ(named->Get(&context, testing::SomeGet("order"), &response).error_code(),
              grpc::StatusCode::NOT_FOUND);
    reached.insert(context.peer());
  }
  EXPECT_EQ(reached.size(), 2);

  const auto unnamed = v1::IdempotencyService::NewStub(
      grpc::CreateCustomChannel(target, credentials, IdempotencydChannelArguments()));
  const grpc::Status refused = Call(*unnamed);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), "is not in peer certificate"))
      << refused.error_message();
}

TEST_F(DaemonTlsTest, NewFilesCountForNewConnections) {
  Serve(first_.Issue("idempotencyd", absl::StrCat(kHere, ",DNS:idempotencyd.example")),
        first_.root());
  const auto guard = first_.Issue("guard");
  const auto before = Connect(first_.root(), guard);
  ASSERT_TRUE(Call(*before).ok());

  // Everything by another authority.
  const auto renewed = second_.Issue("idempotencyd", kHere);
  Write("key", renewed.key);
  Write("cert", renewed.certificate);
  Write("ca", second_.root());
  EXPECT_TRUE(Reaches(second_.root(), second_.Issue("guard")));
  EXPECT_FALSE(Call(*Connect(first_.root(), guard)).ok());
  EXPECT_TRUE(Call(*before).ok()) << "a connection that is there goes on";
  EXPECT_TRUE(AwaitLog("lacks names of the previous one")) << "its clients refuse it";
  EXPECT_TRUE(AwaitLog("names=DNS:idempotencyd.example"));
}

TEST_F(DaemonTlsTest, AKeyOfAnotherCertificateNeverReplacesAPairThatFits) {
  Serve(first_.Issue("idempotencyd", kHere), first_.root());
  const auto guard = first_.Issue("guard");
  const auto renewed = second_.Issue("idempotencyd", kHere);
  Write("key", renewed.key);
  // Twice the interval in which gRPC reads its files.
  ASSERT_TRUE(AwaitLog("certificates cannot be used, the previous ones stay in use"));
  const auto seen = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < seen + 4 * kCertificateRefresh) {
    ASSERT_TRUE(Call(*Connect(first_.root(), guard)).ok());
  }
  const std::string log = daemon_->process().Stderr();
  EXPECT_EQ(log.find("the previous ones stay in use"), log.rfind("the previous ones stay in use"))
      << "logged once";

  Write("cert", renewed.certificate);
  EXPECT_TRUE(Reaches(second_.root(), guard));
  EXPECT_TRUE(AwaitLog("certificates replaced"));
}

// A client whose only gRPC calls are blocking ones: between its tries no thread of its own polls.
TEST_F(DaemonTlsTest, CallWithRetriesFindsARestartedServer) {
  Serve(first_.Issue("idempotencyd", kHere), first_.root());
  const auto stub = Connect(first_.root(), first_.Issue("client"));
  daemon_->Terminate();
  int tries = 0;
  auto serving = std::chrono::steady_clock::time_point::max();
  CallRetries retries;
  retries.max_backoff = absl::Seconds(1);
  retries.budget = nullptr;
  const grpc::Status status = CallWithRetries(
      "0190a5f4-6f0e-7000-8000-000000000001", DeadlineIn(absl::Minutes(2)),
      [&](grpc::ClientContext& context) {
        v1::ReserveResponse response;
        const grpc::Status answer =
            stub->Reserve(&context, testing::SomeReserve("order-1"), &response);
        if (++tries == 2) {
          daemon_->Restart();
          serving = std::chrono::steady_clock::now();
        }
        return answer;
      },
      retries);
  EXPECT_TRUE(status.ok()) << status.error_message();
  // A handshake of which each step waits for gRPC's timer takes 10 s or longer.
  EXPECT_LT(std::chrono::steady_clock::now() - serving, std::chrono::seconds(8));
}

// A certificate of the authority "Expired authority", valid from 2020-01-01 to 2020-01-02.
constexpr char kExpired[] = R"(-----BEGIN CERTIFICATE-----
MIIBODCB4KADAgECAgEBMAoGCCqGSM49BAMCMBwxGjAYBgNVBAMMEUV4cGlyZWQg
YXV0aG9yaXR5MB4XDTIwMDEwMTAwMDAwMFoXDTIwMDEwMjAwMDAwMFowHDEaMBgG
A1UEAwwRRXhwaXJlZCBhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQGi55Z8/WE6WgM0Pb2fTZslryZqby8+T00IjSu5gceyv1LGbrOotbLKlsHWSPH
tzj0gdPP/GO5WH1DpiFt4Ut0oxMwETAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49
BAMCA0cAMEQCIHDAZnM8qAxbqNSaVxMwIJ/DUGkrC7u/Nli9bFDchxG+AiBlE+6y
saesRFYwBNwf7wPY+oLJ4Ad7IebDJm4JFWWpIA==
-----END CERTIFICATE-----
)";

TEST_F(DaemonTlsTest, AnExpiredAuthorityBesideOthersIsLoggedAndStopsNothing) {
  Serve(first_.Issue("idempotencyd", kHere), kExpired + first_.root());
  EXPECT_TRUE(AwaitLog("authority=\"CN=Expired authority, 2020-01-02T00:00:00Z\""));
  EXPECT_TRUE(Call(*Connect(first_.root(), first_.Issue("guard"))).ok());
  // The files are read again as ever.
  Write("ca", kExpired + second_.root());
  EXPECT_TRUE(Reaches(first_.root(), second_.Issue("guard")));
  const std::string log = daemon_->process().Stderr();
  EXPECT_EQ(log.find("has expired"), log.rfind("has expired")) << "logged once";
}

}  // namespace
}  // namespace idempotency::internal
