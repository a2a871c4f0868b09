// Who may do what at a real idempotencyd, by certificates and tokens, while its configuration
// changes.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "core/sha256.h"
#include "grpc_idempotency/client/channel_arguments.h"
#include "grpc_idempotency/client/channel_credentials.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "server/access/testing/token_signer.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/metrics_page.h"
#include "tests/support/process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using testing::CertificateAuthority;
using testing::TokenSigner;

std::string Digest(const std::string& token) {
  const Sha256Digest digest = Sha256(token);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

constexpr char kHere[] = "IP:127.0.0.1";

class AccessTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("GRPC_VERBOSITY", "NONE", 1); }

  AccessTest() : server_(authority_.Issue("idempotencyd", kHere)) {
    Write("server.pem", server_.certificate);
    Write("server.key", server_.key);
    Write("ca.pem", authority_.root());
    Write("keys.json", signer_.KeySet());
  }

  // In one step, as certificate managers do.
  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.File("new")) << content;
    std::filesystem::rename(folder_.File("new"), folder_.File(name));
    return folder_.File(name);
  }

  // With client certificates, or with TLS of the server alone.
  void Serve(const std::string& config, bool mutual, const std::vector<std::string>& more = {}) {
    Write("config.textproto", config);
    std::vector<std::string> flags = {absl::StrCat("--tls_cert=", folder_.File("server.pem")),
                                      absl::StrCat("--tls_key=", folder_.File("server.key")),
                                      absl::StrCat("--config=", folder_.File("config.textproto"))};
    flags.insert(flags.end(), more.begin(), more.end());
    if (mutual) flags.push_back(absl::StrCat("--tls_client_ca=", folder_.File("ca.pem")));
    daemon_ = std::make_unique<testing::DaemonProcess>(
        absl::StrCat("sqlite:", folder_.File("records.db")), flags);
  }

  // Each on a connection of its own.
  std::shared_ptr<grpc::Channel> ChannelWith(const IdempotencydCredentialFiles& files) {
    const auto credentials = IdempotencydChannelCredentials(files);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    grpc::ChannelArguments arguments = IdempotencydChannelArguments();
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(daemon_->address(), *credentials, arguments);
  }
  std::shared_ptr<grpc::Channel> WithCertificate(const std::string& common_name,
                                                 const std::string& names) {
    const auto identity = authority_.Issue(common_name, names);
    const std::string number = absl::StrCat(++files_);
    return ChannelWith({folder_.File("ca.pem"), Write(number + ".pem", identity.certificate),
                        Write(number + ".key", identity.key), ""});
  }
  std::shared_ptr<grpc::Channel> WithToken(const std::string& token) {
    return ChannelWith(
        {folder_.File("ca.pem"), "", "", Write(absl::StrCat(++files_, ".token"), token)});
  }
  std::shared_ptr<grpc::Channel> WithNothing() {
    return ChannelWith({folder_.File("ca.pem"), "", "", ""});
  }

  bool AwaitLog(const std::string& event) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!absl::StrContains(daemon_->process().Stderr(), event)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  testing::TempFolder folder_;
  CertificateAuthority authority_;
  CertificateAuthority::Identity server_;
  TokenSigner signer_{TokenSigner::Kind::kEc};
  int files_ = 0;
  std::unique_ptr<testing::DaemonProcess> daemon_;
};

v1::RecordKey KeyIn(const std::string& name_space, const std::string& key) {
  v1::RecordKey record_key = testing::SomeRecordKey(key);
  record_key.set_namespace_(name_space);
  return record_key;
}

// Calls the service over a channel, by unary calls or by a session.
class Client {
 public:
  Client(const std::shared_ptr<grpc::Channel>& channel, bool session)
      : connection_(session ? MakeConnection(channel) : MakeConnection(channel, Unary())),
        admin_(v1::IdempotencyAdminService::NewStub(channel)) {}

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(void (Connection::*method)(const Request&, Connection::Deadline,
                                                           Connection::Callback<Response>),
                                const Request& request) {
    std::promise<absl::StatusOr<Response>> answer;
    (connection_.get()->*method)(
        request, std::chrono::steady_clock::now() + std::chrono::seconds(20),
        [&answer](absl::StatusOr<Response> response) { answer.set_value(std::move(response)); });
    return answer.get_future().get();
  }
  // An operation of administrators.
  template <typename Request, typename Response>
  absl::Status Administer(grpc::Status (v1::IdempotencyAdminService::Stub::*method)(
                              grpc::ClientContext*, const Request&, Response*),
                          const Request& request) {
    grpc::ClientContext context;
    Response response;
    return FromGrpcStatus((admin_.get()->*method)(&context, request, &response));
  }
  absl::StatusOr<v1::ReserveResponse> Reserve(const std::string& name_space, const std::string& key,
                                              const std::string& scope = "") {
    v1::ReserveRequest request = testing::SomeReserve(key);
    *request.mutable_record_key() = KeyIn(name_space, key);
    if (!scope.empty()) request.mutable_record_key()->set_scope(scope);
    return Call(&Connection::Reserve, request);
  }

 private:
  static ConnectionOptions Unary() {
    ConnectionOptions options;
    options.kind = ConnectionOptions::Kind::kUnary;
    return options;
  }

  const std::unique_ptr<Connection> connection_;
  const std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
};

std::optional<Reason> ReasonOfAnswer(const absl::Status& status) {
  EXPECT_TRUE(status.ok() || ReasonOf(status).has_value()) << status;
  return ReasonOf(status);
}

// The operations of administrators; they change nothing here.
void AddAdministration(Client& client, const v1::RecordKey& key, const std::string& record_id,
                       std::map<std::string, std::optional<Reason>>& reasons) {
  using Stub = v1::IdempotencyAdminService::Stub;
  v1::ListRequest list;
  list.set_namespace_(key.namespace_());
  reasons["List"] = ReasonOfAnswer(client.Administer(&Stub::List, list));
  v1::ListAuditRequest audit;
  audit.set_namespace_(key.namespace_());
  reasons["ListAudit"] = ReasonOfAnswer(client.Administer(&Stub::ListAudit, audit));
  v1::ResolveRequest resolve;
  *resolve.mutable_record_key() = key;
  resolve.set_outcome(v1::RESOLVE_OUTCOME_RELEASED);
  resolve.set_reason("a test");
  resolve.set_expected_attempt(1);
  resolve.set_validate_only(true);
  reasons["Resolve"] = ReasonOfAnswer(client.Administer(&Stub::Resolve, resolve));
  resolve.clear_record_key();
  resolve.set_record_id(record_id);
  reasons["ResolveById"] = ReasonOfAnswer(client.Administer(&Stub::Resolve, resolve));
  v1::PurgeRequest purge;
  purge.mutable_scope()->set_namespace_(key.namespace_());
  purge.mutable_scope()->set_scope(key.scope());
  purge.set_reason("a test");
  purge.set_validate_only(true);
  reasons["Purge"] = ReasonOfAnswer(client.Administer(&Stub::Purge, purge));
  purge.clear_scope();
  purge.set_record_id(record_id);
  reasons["PurgeById"] = ReasonOfAnswer(client.Administer(&Stub::Purge, purge));
  v1::ResealRequest reseal;
  reseal.set_namespace_(key.namespace_());
  reseal.set_reason("a test");
  reseal.set_validate_only(true);
  reasons["Reseal"] = ReasonOfAnswer(client.Administer(&Stub::Reseal, reseal));
}

// Every operation on a record; the reason of its refusal, or nullopt.
std::map<std::string, std::optional<Reason>> AllOperations(Client& client, const v1::RecordKey& key,
                                                           const std::string& record_id) {
  std::map<std::string, std::optional<Reason>> reasons;
  v1::ReserveRequest reserve = testing::SomeReserve(key.key());
  *reserve.mutable_record_key() = key;
  reasons["Reserve"] = ReasonOfAnswer(client.Call(&Connection::Reserve, reserve).status());
  const std::string token = Uuid::Random().ToString();
  v1::CompleteRequest complete = testing::SomeComplete(key.key(), token, "reply");
  *complete.mutable_record_key() = key;
  reasons["Complete"] = ReasonOfAnswer(client.Call(&Connection::Complete, complete).status());
  v1::ReleaseRequest release = testing::SomeRelease(key.key(), token);
  *release.mutable_record_key() = key;
  reasons["Release"] = ReasonOfAnswer(client.Call(&Connection::Release, release).status());
  v1::ExtendRequest extend = testing::SomeExtend(key.key(), token);
  *extend.mutable_record_key() = key;
  reasons["Extend"] = ReasonOfAnswer(client.Call(&Connection::Extend, extend).status());
  v1::GetRequest get;
  *get.mutable_record_key() = key;
  reasons["Get"] = ReasonOfAnswer(client.Call(&Connection::Get, get).status());
  get.set_view(v1::RECORD_VIEW_FULL);
  reasons["GetFull"] = ReasonOfAnswer(client.Call(&Connection::Get, get).status());
  get.clear_record_key();
  get.set_record_id(record_id);
  reasons["GetFullById"] = ReasonOfAnswer(client.Call(&Connection::Get, get).status());
  get.set_view(v1::RECORD_VIEW_BASIC);
  reasons["GetById"] = ReasonOfAnswer(client.Call(&Connection::Get, get).status());
  AddAdministration(client, key, record_id, reasons);
  return reasons;
}

using Operations = std::vector<std::string>;

// The permissions of each caller in the namespace "payments"; in "orders" it has none.
struct Row {
  const char* caller;
  const char* permissions;
  Operations allowed;
};

const std::vector<Row>& Matrix() {
  static const auto& rows = *new std::vector<Row>{
      {"writer", "WRITE", {"Reserve", "Complete", "Release", "Extend"}},
      {"reader", "READ", {"Get", "GetById", "List"}},
      {"content", "READ_CONTENT", {"GetFull", "GetFullById"}},
      {"both", "READ, READ_CONTENT", {"Get", "GetById", "GetFull", "GetFullById", "List"}},
      {"admin", "ADMIN", {"Resolve", "ResolveById", "Purge", "PurgeById", "Reseal", "ListAudit"}},
      {"nothing", "", {}},
  };
  return rows;
}

std::string MatrixConfig() {
  std::string config = absl::StrCat(
      "identities { name: \"owner\" tokens { sha256: \"", Digest("owner"),
      "\" } }\nrules { identity: \"owner\" namespaces: \"*\" permissions: [WRITE, READ] }\n");
  for (const Row& row : Matrix()) {
    absl::StrAppend(&config, "identities { name: \"", row.caller, "\" tokens { sha256: \"",
                    Digest(row.caller), "\" } }\n");
    if (*row.permissions == '\0') continue;
    absl::StrAppend(&config, "rules { identity: \"", row.caller,
                    "\" namespaces: \"payments\" permissions: [", row.permissions, "] }\n");
  }
  return config;
}

bool IsById(const std::string& operation) { return absl::EndsWith(operation, "ById"); }

TEST_F(AccessTest, TheMatrixOverTheWire) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client owner(WithToken("owner"), /*session=*/true);
  std::map<std::string, std::string> ids;
  for (const std::string name_space : {"payments", "orders"}) {
    const auto reserved = owner.Reserve(name_space, "exists");
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    ids[name_space] = reserved->record_id();
  }
  for (const Row& row : Matrix()) {
    for (const bool session : {true, false}) {
      Client client(WithToken(row.caller), session);
      const auto here = AllOperations(client, KeyIn("payments", "exists"), ids["payments"]);
      for (const auto& [operation, reason] : here) {
        const bool allowed =
            std::find(row.allowed.begin(), row.allowed.end(), operation) != row.allowed.end();
        const std::string what =
            absl::StrCat(row.caller, " ", operation, session ? " session" : "");
        EXPECT_EQ(reason == Reason::kAccessDenied, !allowed) << what;
      }
      const auto there = AllOperations(client, KeyIn("orders", "exists"), ids["orders"]);
      const auto absent =
          AllOperations(client, KeyIn("orders", "absent"), "0190163d-8694-739b-aea5-966c26f8ad91");
      EXPECT_EQ(there, absent) << row.caller;
      for (const auto& [operation, reason] : there) {
        // A caller that may do this nowhere is refused before the record is looked up.
        const bool looked_up = IsById(operation) && here.at(operation) != Reason::kAccessDenied;
        EXPECT_EQ(reason, looked_up ? Reason::kRecordNotFound : Reason::kAccessDenied)
            << row.caller << " " << operation;
      }
    }
  }
}

TEST_F(AccessTest, ARefusalIsTheSameForARecordThatExists) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client owner(WithToken("owner"), true);
  const std::string id = owner.Reserve("orders", "exists").value().record_id();
  Client reader(WithToken("reader"), false);
  const auto get = [&reader](const v1::GetRequest& request) {
    return reader.Call(&Connection::Get, request).status();
  };
  v1::GetRequest exists;
  *exists.mutable_record_key() = KeyIn("orders", "exists");
  v1::GetRequest absent;
  *absent.mutable_record_key() = KeyIn("orders", "absent");
  EXPECT_EQ(get(exists), get(absent));
  exists.clear_record_key();
  exists.set_record_id(id);
  absent.clear_record_key();
  absent.set_record_id("0190163d-8694-739b-aea5-966c26f8ad91");
  EXPECT_EQ(get(exists), get(absent));
}

TEST_F(AccessTest, EachKindOfCredentialIdentifies) {
  std::string config = absl::StrCat(
      R"(
identities { name: "uri" certificates { uri: "spiffe://example/payments" } }
identities { name: "dns" certificates { dns: "payments.example" } }
identities { name: "subject" certificates { subject: "O=Example,CN=the subject" } }
identities { name: "any" certificates { any: true } }
identities { name: "static" tokens { sha256: ")",
      Digest("a-static-token"), R"(" } }
identities { name: "jwt" token_subjects { issuer: "https://issuer.example" subject: "payments" } }
token_issuers { issuer: "https://issuer.example" audience: "idempotencyd" keys_file: "keys.json" }
)");
  for (const char* name : {"uri", "dns", "subject", "any", "static", "jwt"}) {
    absl::StrAppend(&config, "rules { identity: \"", name, "\" namespaces: \"", name,
                    "\" permissions: WRITE }\n");
  }
  Serve(config, /*mutual=*/true);
  const auto claims = [](int seconds) {
    return absl::StrCat(R"({"iss":"https://issuer.example","aud":"idempotencyd",)",
                        R"("sub":"payments","exp":)", absl::ToUnixSeconds(absl::Now()) + seconds,
                        "}");
  };
  const auto guard = authority_.Issue("guard");
  const auto with_token = [&](const std::string& token) {
    return ChannelWith({folder_.File("ca.pem"), Write("guard.pem", guard.certificate),
                        Write("guard.key", guard.key),
                        Write(absl::StrCat(++files_, ".token"), token)});
  };
  const std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>> callers = {
      {"uri", WithCertificate("x", "URI:spiffe://example/payments")},
      {"dns", WithCertificate("x", "DNS:payments.example")},
      {"subject", WithCertificate("the subject/O=Example", "")},
      {"any", WithCertificate("x", "DNS:other.example")},
      {"static", with_token("a-static-token")},
      {"jwt", with_token(signer_.Sign(claims(600)))},
  };
  for (const auto& [name, channel] : callers) {
    for (const bool session : {true, false}) {
      Client client(channel, session);
      EXPECT_TRUE(client.Reserve(name, "k").ok()) << name << client.Reserve(name, "k").status();
      const std::string other = name == "uri" ? "dns" : "uri";
      EXPECT_EQ(ReasonOf(client.Reserve(other, "k").status()), Reason::kAccessDenied) << name;
    }
  }
  for (const std::string& token : {std::string("another-token"), signer_.Sign(claims(-600)),
                                   TokenSigner(TokenSigner::Kind::kEc).Sign(claims(600)),
                                   signer_.SignWithHeader(R"({"alg":"none"})", claims(600))}) {
    Client client(with_token(token), true);
    EXPECT_EQ(ReasonOf(client.Reserve("any", "k").status()), Reason::kCredentialsInvalid) << token;
  }
}

// The connection is that of a proxy on this machine, the caller anywhere.
TEST_F(AccessTest, ACallThatCameThroughAProxyIsNotLocal) {
  Serve(
      "identities { name: \"machine\" local: true } "
      "rules { identity: \"machine\" namespaces: \"payments\" permissions: WRITE }",
      /*mutual=*/false);
  const auto stub = v1::IdempotencyService::NewStub(WithNothing());
  const auto reserve = [&](const std::string& header) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!header.empty()) context.AddMetadata(header, "10.1.2.3");
    v1::ReserveRequest request = testing::SomeReserve("k");
    *request.mutable_record_key() = KeyIn("payments", "k");
    v1::ReserveResponse response;
    return stub->Reserve(&context, request, &response);
  };
  EXPECT_TRUE(reserve("").ok());
  for (const char* const header : {"forwarded", "x-forwarded-for", "x-real-ip", "via"}) {
    EXPECT_EQ(reserve(header).error_code(), grpc::StatusCode::UNAUTHENTICATED) << header;
  }
}

TEST_F(AccessTest, WithoutCredentialsNothingIsPermitted) {
  Serve(MatrixConfig(), /*mutual=*/false);
  for (const bool session : {true, false}) {
    Client client(WithNothing(), session);
    for (const auto& [operation, reason] :
         AllOperations(client, KeyIn("payments", "k"), "0190163d-8694-739b-aea5-966c26f8ad91")) {
      EXPECT_EQ(reason, Reason::kCredentialsInvalid) << operation;
    }
  }
}

TEST_F(AccessTest, AScopeOfAPeerScopedNamespaceIsTheCallersOwn) {
  Serve(absl::StrCat(MatrixConfig(), "namespaces { name: \"payments\" scope_from: PEER }"),
        /*mutual=*/false);
  for (const bool session : {true, false}) {
    Client client(WithToken("writer"), session);
    EXPECT_TRUE(client.Reserve("payments", "k", "writer").ok());
    EXPECT_TRUE(client.Reserve("payments", "k", "writer/tenant").ok());
    EXPECT_EQ(ReasonOf(client.Reserve("payments", "k", "owner").status()), Reason::kAccessDenied);
  }
}

// A caller is out within seconds, whatever it has open.
TEST_F(AccessTest, AChangedFileAppliesToOpenSessions) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client writer(WithToken("writer"), true);
  Client owner(WithToken("owner"), true);
  ASSERT_TRUE(writer.Reserve("payments", "k").ok());
  Write("config.textproto",
        absl::StrCat("identities { name: \"owner\" tokens { sha256: \"", Digest("owner"),
                     "\" } } rules { identity: \"owner\" namespaces: \"*\" permissions: WRITE }"));
  ASSERT_TRUE(AwaitLog("configuration replaced"));
  EXPECT_TRUE(AwaitLog("identities were removed from the configuration"));
  EXPECT_EQ(ReasonOf(writer.Reserve("payments", "k").status()), Reason::kCredentialsInvalid);
  EXPECT_TRUE(owner.Reserve("payments", "k").ok());
  // And in again, without a restart of either.
  Write("config.textproto", MatrixConfig());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!writer.Reserve("payments", "k").ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

TEST_F(AccessTest, AFileThatIsNotValidChangesNothing) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client writer(WithToken("writer"), true);
  Write("config.textproto", "rules { identity: \"nobody\" }");
  ASSERT_TRUE(AwaitLog("the configuration cannot be used, the previous one applies"));
  EXPECT_TRUE(writer.Reserve("payments", "k").ok());
  const auto valid = [this] {
    return testing::MetricsPage::Fetch(daemon_->metrics_address())
        .Value("idempotency_config_valid");
  };
  EXPECT_EQ(valid(), 0);
  Write("config.textproto", absl::StrCat(MatrixConfig(), "# changed\n"));
  ASSERT_TRUE(AwaitLog("configuration replaced"));
  EXPECT_EQ(valid(), 1);
}

// One file is for all replicas: one with --ext_proc would not adopt it.
TEST_F(AccessTest, AFileWhoseExternalProcessorIsNotValidChangesNothing) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client writer(WithToken("writer"), true);
  Write(
      "config.textproto",
      "external_processor { namespace: \"payments\" scope { shared: \"all\" } max_exchanges: 1 }");
  ASSERT_TRUE(AwaitLog("the configuration cannot be used, the previous one applies"));
  EXPECT_TRUE(AwaitLog("external_processor: max_exchanges must be at least"))
      << daemon_->process().Stderr();
  EXPECT_TRUE(writer.Reserve("payments", "k").ok());

  // Nor does one start with it.
  auto process = testing::Process::Start(
      {"idempotencyd", "serve", absl::StrCat("--store=sqlite:", folder_.File("other.db")),
       "--listen=127.0.0.1:0",
       "--metrics=", absl::StrCat("--config=", folder_.File("config.textproto"))});
  ASSERT_TRUE(process.ok()) << process.status();
  const auto exit = (*process)->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  EXPECT_EQ(exit->code, 2);
  EXPECT_TRUE(absl::StrContains((*process)->Stderr(), "max_exchanges must be at least"));
}

// Callers and daemon have both tokens for as long as a session lasts, as in docs/access.md.
TEST_F(AccessTest, ATokenIsRotatedWithoutAFailedCall) {
  const auto config = [](const std::vector<std::string>& tokens) {
    std::string text = "identities { name: \"payments\" ";
    for (const std::string& token : tokens) {
      absl::StrAppend(&text, "tokens { sha256: \"", Digest(token), "\" } ");
    }
    return absl::StrCat(text, "} rules { identity: \"payments\" namespaces: \"payments\" ",
                        "permissions: WRITE }");
  };
  // Sessions end after half of the grace.
  Serve(config({"first"}), /*mutual=*/false, {"--max_connection_age=1s", "--connection_grace=10s"});
  const std::string file = Write("token", "first\n");
  Client session(ChannelWith({folder_.File("ca.pem"), "", "", file}), true);
  Client unary(ChannelWith({folder_.File("ca.pem"), "", "", file}), false);
  int calls = 0;
  const auto call_for = [&](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    do {
      for (Client* client : {&session, &unary}) {
        const auto answer = client->Reserve("payments", absl::StrCat(++calls));
        ASSERT_TRUE(answer.ok()) << answer.status();
      }
    } while (std::chrono::steady_clock::now() < end);
  };
  call_for(std::chrono::milliseconds(0));
  Write("config.textproto", config({"first", "second"}));
  ASSERT_TRUE(AwaitLog("configuration replaced"));
  Write("token", "second");
  call_for(std::chrono::seconds(8));
  Write("config.textproto", config({"second"}));
  Client old(WithToken("first"), true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (old.Reserve("payments", "old").ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  call_for(std::chrono::milliseconds(500));
  EXPECT_GT(calls, 100);
}

// The order of docs/access.md: authorities are added before, and removed after, the certificates.
TEST_F(AccessTest, CertificatesAreRotatedWithoutAFailedCall) {
  CertificateAuthority next;
  Serve(
      "identities { name: \"payments\" certificates { uri: \"spiffe://example/payments\" } } "
      "rules { identity: \"payments\" namespaces: \"payments\" permissions: WRITE }",
      /*mutual=*/true, {"--max_connection_age=500ms", "--connection_grace=10s"});
  const auto issue = [](CertificateAuthority& authority) {
    return authority.Issue("payments", "URI:spiffe://example/payments");
  };
  const auto old_client = issue(authority_);
  const IdempotencydCredentialFiles files{Write("client-ca.pem", authority_.root()),
                                          Write("client.pem", old_client.certificate),
                                          Write("client.key", old_client.key), ""};
  Client session(ChannelWith(files), true);
  Client unary(ChannelWith(files), false);
  int calls = 0;
  // Longer than either side takes to read its files again, and than a connection lasts.
  const auto call_for_a_while = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    while (std::chrono::steady_clock::now() < end) {
      for (Client* client : {&session, &unary}) {
        const auto answer = client->Reserve("payments", absl::StrCat(++calls));
        ASSERT_TRUE(answer.ok()) << answer.status();
      }
    }
  };
  const std::string both = authority_.root() + next.root();
  Write("ca.pem", both);
  Write("client-ca.pem", both);
  call_for_a_while();
  const auto new_client = issue(next);
  Write("client.key", new_client.key);
  Write("client.pem", new_client.certificate);
  const auto new_server = next.Issue("idempotencyd", kHere);
  Write("server.key", new_server.key);
  Write("server.pem", new_server.certificate);
  call_for_a_while();
  Write("ca.pem", next.root());
  Write("client-ca.pem", next.root());
  call_for_a_while();
  EXPECT_GT(calls, 100);
  Client old(ChannelWith({files.ca, Write("old.pem", old_client.certificate),
                          Write("old.key", old_client.key), ""}),
             false);
  EXPECT_EQ(ReasonOf(old.Reserve("payments", "old").status()), Reason::kStoreUnavailable);
}

// The open session of a caller whose token is removed is renewed with the file's new one.
TEST_F(AccessTest, ASessionIsRenewedWithTheNewToken) {
  const auto config = [](const std::string& token) {
    return absl::StrCat("identities { name: \"payments\" tokens { sha256: \"", Digest(token),
                        "\" } } rules { identity: \"payments\" namespaces: \"payments\" ",
                        "permissions: WRITE }");
  };
  Serve(config("first"), /*mutual=*/false);
  const std::string file = Write("token", "first");
  Client client(ChannelWith({folder_.File("ca.pem"), "", "", file}), true);
  ASSERT_TRUE(client.Reserve("payments", "1").ok());
  Write("token", "second");
  Write("config.textproto", config("second"));
  ASSERT_TRUE(AwaitLog("configuration replaced"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!client.Reserve("payments", "2").ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

TEST_F(AccessTest, ARefusedCallerIsNamedInTheLog) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client reader(WithToken("reader"), false);
  EXPECT_EQ(ReasonOf(reader.Reserve("orders", "k").status()), Reason::kAccessDenied);
  ASSERT_TRUE(AwaitLog("caller refused"));
  const std::string log = daemon_->process().Stderr();
  EXPECT_THAT(log, ::testing::ContainsRegex(
                       "level=warning event=\"caller refused\" code=PERMISSION_DENIED "
                       "identity=reader namespace=orders peer=ipv4:127.0.0.1:[0-9]+ error=\".*\" "
                       "left_out=0"));
  // One a second at the most; the next one has the number of the others.
  Client unknown(WithToken("unknown"), true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!absl::StrContains(daemon_->process().Stderr(),
                            "code=UNAUTHENTICATED identity=\"\" namespace=payments peer=ipv4:")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    EXPECT_EQ(ReasonOf(unknown.Reserve("payments", "k").status()), Reason::kCredentialsInvalid);
  }
}

// The refusals of unknown callers, who need no credential for them, hide none of an identity.
TEST_F(AccessTest, AFloodOfUnknownCallersHidesNoRefusedIdentity) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client unknown(WithToken("unknown"), false);
  Client reader(WithToken("reader"), false);
  v1::PurgeRequest purge;
  purge.mutable_scope()->set_namespace_("payments");
  purge.mutable_scope()->set_scope("tenant-1");
  purge.set_reason("a test");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ReasonOf(unknown.Reserve("payments", "k").status()), Reason::kCredentialsInvalid);
  }
  EXPECT_EQ(ReasonOf(reader.Administer(&v1::IdempotencyAdminService::Stub::Purge, purge)),
            Reason::kAccessDenied);
  EXPECT_TRUE(AwaitLog("code=PERMISSION_DENIED identity=reader "));
  EXPECT_TRUE(AwaitLog("code=UNAUTHENTICATED identity=\"\" "));
}

TEST_F(AccessTest, NeitherTokensNorKeysAreLogged) {
  Serve(MatrixConfig(), /*mutual=*/false);
  Client unknown(WithToken("canary-token"), false);
  EXPECT_FALSE(unknown.Reserve("payments", "canary-key").ok());
  Client nothing(WithToken("nothing"), false);
  EXPECT_FALSE(nothing.Reserve("payments", "canary-key").ok());
  ASSERT_TRUE(AwaitLog("caller refused"));
  const std::string log = daemon_->process().Stderr();
  EXPECT_THAT(log, ::testing::Not(::testing::HasSubstr("canary")));
}

}  // namespace
}  // namespace idempotency::internal
