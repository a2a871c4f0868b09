// The external processor over a real service, driven as Envoy does: what it forwards and releases,
// what it leaves behind, and that its records are the guard's.
#include "interceptors/ext_proc/service/external_processor.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "envoy/service/ext_proc/v3/external_processor.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

#include "core/exchange_limits.h"
#include "core/mutex.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/embedded/embedded_service.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "idempotencyd/queued_external_processor.h"
#include "interceptors/ext_proc/front/grpc_wire.h"
#include "server/rpc/call_queues.h"
#include "tests/support/connection_gate.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using Request = Exchange::Request;
using Response = Exchange::Response;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr char kUpstream[] = "via_upstream";

class Events final : public ProcessorEvents {
 public:
  void Ended(ExchangeResult result) override {
    MutexLock lock(mutex_);
    ++ended_[result];
  }
  void Misconfigured(absl::string_view /*what*/) override {}
  void Holds(std::size_t exchanges, std::size_t bytes) override {
    MutexLock lock(mutex_);
    exchanges_ = exchanges;
    bytes_ = bytes;
    changed_.NotifyAll();
  }

  int CountOf(ExchangeResult result) const {
    MutexLock lock(mutex_);
    const auto found = ended_.find(result);
    return found == ended_.end() ? 0 : found->second;
  }

  void AwaitHeld(std::size_t bytes) {
    MutexLock lock(mutex_);
    while (bytes_ < bytes) changed_.Wait(lock);
  }
  void AwaitNone() {
    MutexLock lock(mutex_);
    while (exchanges_ > 0) changed_.Wait(lock);
    EXPECT_EQ(bytes_, 0U);
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<ExchangeResult, int> ended_ ABSL_GUARDED_BY(mutex_);
  std::size_t exchanges_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

void AddWithImports(const google::protobuf::FileDescriptor& file,
                    google::protobuf::FileDescriptorSet& set) {
  for (int i = 0; i < file.dependency_count(); ++i) AddWithImports(*file.dependency(i), set);
  for (const auto& known : set.file()) {
    if (known.name() == file.name()) return;
  }
  file.CopyTo(set.add_file());
}

constexpr std::chrono::seconds kStreamDeadline{30};

ProcessorConfig ProbeConfig(bool described) {
  ProcessorConfig config;
  config.name_space = "probe";
  config.scope = SharedScopeName{"everyone"};
  // As long as a stream: a commit takes as long as it takes on a busy machine.
  config.recording_timeout = absl::FromChrono(kStreamDeadline);
  config.closing_timeout = absl::Milliseconds(200);
  config.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  if (described) {
    google::protobuf::FileDescriptorSet set;
    AddWithImports(*ActRequest::descriptor()->file(), set);
    config.descriptor_sets.push_back({"probe.binpb", set.SerializeAsString()});
  } else {
    config.grpc_methods.push_back({"idempotency.testing.Probe/Act", std::nullopt});
  }
  return config;
}

std::string Framed(const google::protobuf::Message& message) {
  std::string body;
  AppendGrpcMessage(message.SerializeAsString(), body);
  return body;
}

ActRequest Asking(std::int64_t amount = 1) {
  ActRequest request;
  request.set_account("alice");
  request.set_amount(amount);
  return request;
}

ActReply Answering(std::int64_t total) {
  ActReply reply;
  reply.set_effect("charged");
  reply.set_total(total);
  return reply;
}

void Set(const std::string& key, const std::string& value,
         envoy::config::core::v3::HeaderMap& headers) {
  auto& header = *headers.add_headers();
  header.set_key(key);
  header.set_raw_value(value);
}

// One stream, as Envoy opens it.
class FakeEnvoy {
 public:
  explicit FakeEnvoy(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(envoy::service::ext_proc::v3::ExternalProcessor::NewStub(channel)),
        stream_(stub_->Process(WithDeadline(context_))) {}

  void SendHeaders(const std::string& key,
                   const std::vector<std::pair<std::string, std::string>>& more = {}) {
    Request message;
    auto& headers = *message.mutable_request_headers()->mutable_headers();
    Set(":method", "POST", headers);
    Set(":path", kAct, headers);
    Set("content-type", "application/grpc", headers);
    if (!key.empty()) Set("idempotency-key", key, headers);
    for (const auto& [name, value] : more) Set(name, value, headers);
    stream_->Write(message);
  }

  void SendBody(const std::string& body, bool end_of_stream = true) {
    Request message;
    message.mutable_request_body()->set_body(body);
    message.mutable_request_body()->set_end_of_stream(end_of_stream);
    stream_->Write(message);
  }

  // The upstream's reply, or one of Envoy's own.
  void SendReply(const std::string& body, const std::string& code_details,
                 const std::string& grpc_status = "0") {
    SendReplyHeaders(code_details);
    SendReplyBody(body);
    SendReplyTrailers(grpc_status);
  }

  void SendReplyHeaders(const std::string& code_details) {
    Request message;
    auto& headers = *message.mutable_response_headers()->mutable_headers();
    Set(":status", "200", headers);
    Set("content-type", "application/grpc", headers);
    if (!code_details.empty()) {
      auto& fields =
          *(*message.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields();
      fields["response.code_details"].set_string_value(code_details);
      fields["upstream.request_attempt_count"].set_number_value(1);
    }
    stream_->Write(message);
  }

  // A part, not the last one.
  void SendReplyBody(const std::string& body) {
    Request message;
    message.mutable_response_body()->set_body(body);
    stream_->Write(message);
  }

  void SendReplyTrailers(const std::string& grpc_status = "0") {
    Request message;
    Set("grpc-status", grpc_status, *message.mutable_response_trailers()->mutable_trailers());
    stream_->Write(message);
  }

  void HalfClose() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // nullopt at the end of the stream.
  std::optional<Response> Next() {
    Response response;
    if (!stream_->Read(&response)) return std::nullopt;
    return response;
  }

  // The request's headers and body have left for the upstream.
  void AwaitForwarded() {
    const auto headers = Next();
    ASSERT_TRUE(headers.has_value());
    ASSERT_TRUE(headers->has_request_headers()) << headers->ShortDebugString();
    const auto body = Next();
    ASSERT_TRUE(body.has_value() && body->has_request_body());
  }

  // The processor has ended the stream, or the test.
  grpc::Status Finish() {
    grpc::Status status = stream_->Finish();
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    return status;
  }

 private:
  static grpc::ClientContext* WithDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + kStreamDeadline);
    return &context;
  }

  grpc::ClientContext context_;
  std::unique_ptr<envoy::service::ext_proc::v3::ExternalProcessor::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

std::string HeaderOf(const Response& response, const std::string& name) {
  for (const auto& option : response.immediate_response().headers().set_headers()) {
    if (option.header().key() == name) return option.header().raw_value();
  }
  return "";
}

class ExternalProcessorTest : public ::testing::Test {
 protected:
  explicit ExternalProcessorTest(bool described = false)
      : ExternalProcessorTest(ProbeConfig(described), ExchangeBounds::Limits()) {}

  ExternalProcessorTest(ProcessorConfig config, const ExchangeBounds::Limits& limits) {
    EmbeddedOptions options;
    options.migrate = true;
    service_ = EmbeddedService::Open("sqlite:" + folder_.File("records.db"), options).value();
    processor_ = std::make_unique<ExternalProcessor>(
        ProcessorSettings::Make(std::move(config)).value(),
        Gated(service_->MakeConnection(), gate_), limits,
        [](const grpc::ServerContextBase&) { return absl::OkStatus(); }, events_,
        GuardLog::Default());
    Serve();
  }

  ~ExternalProcessorTest() override { StopServer(std::chrono::seconds(5)); }

  void Serve() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    service_on_queue_.emplace(*processor_).Register(builder, methods_);
    queues_.emplace(builder);
    server_ = builder.BuildAndStart();
    queues_->Start(methods_, table_);
    grpc::ChannelArguments arguments;
    // A stream that is not read takes no more than the initial window.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                         grpc::InsecureChannelCredentials(), arguments);
  }

  void StopServer(std::chrono::milliseconds drain) {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() + drain);
    server_->Wait();
    queues_->Stop();
    server_.reset();
    queues_.reset();
    processor_.reset();
  }

  // A first call, whose reply is released.
  void Run(const std::string& key, std::int64_t amount, const ActReply& reply) {
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders(key);
    envoy.SendBody(Framed(Asking(amount)));
    envoy.AwaitForwarded();
    envoy.SendReply(Framed(reply), kUpstream);
    EXPECT_TRUE(envoy.Next()->has_response_headers());
    EXPECT_TRUE(envoy.Next()->has_response_body());
    EXPECT_TRUE(envoy.Next()->has_response_trailers());
    envoy.HalfClose();
    EXPECT_FALSE(envoy.Next().has_value());
    const grpc::Status status = envoy.Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // The answer that a call with this key gets at once.
  Response AnswerTo(const std::string& key, std::int64_t amount = 1,
                    const std::vector<std::pair<std::string, std::string>>& more = {}) {
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders(key, more);
    envoy.SendBody(Framed(Asking(amount)));
    const auto answer = envoy.Next();
    envoy.HalfClose();
    while (envoy.Next().has_value()) {
    }
    EXPECT_TRUE(envoy.Finish().ok());
    return answer.value_or(Response());
  }

  // How a stream ends whose first message has these bytes.
  grpc::Status EndAfter(const std::string& message) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto call =
        stub.PrepareCall(&context, "/envoy.service.ext_proc.v3.ExternalProcessor/Process", &queue);
    const auto await = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    call->StartCall(nullptr);
    EXPECT_TRUE(await());
    const grpc::Slice bytes(message);
    call->Write(grpc::ByteBuffer(&bytes, 1), nullptr);
    EXPECT_TRUE(await());
    grpc::Status status;
    call->Finish(&status, nullptr);
    EXPECT_TRUE(await());
    return status;
  }

  // The body of a streamed replay; "" for anything else.
  std::string ReplayOf(const std::string& key) {
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders(key);
    envoy.SendBody(Framed(Asking()));
    std::string body;
    for (bool ended = false; !ended;) {
      const auto part = envoy.Next();
      if (!part.has_value() || !part->has_streamed_immediate_response()) break;
      body += part->streamed_immediate_response().body_response().body();
      ended = part->streamed_immediate_response().has_trailers_response();
    }
    envoy.HalfClose();
    while (envoy.Next().has_value()) {
    }
    envoy.Finish();
    return body;
  }

  v1::RecordState StateOf(const std::string& key, const std::string& scope = "everyone") {
    const auto stub = v1::IdempotencyService::NewStub(service_->channel());
    grpc::ClientContext context;
    v1::GetRequest request;
    auto& record_key = *request.mutable_record_key();
    record_key.set_namespace_("probe");
    record_key.set_scope(scope);
    record_key.set_operation(kAct);
    record_key.set_key(key);
    v1::GetResponse response;
    const grpc::Status status = stub->Get(&context, request, &response);
    return status.ok() ? response.record().state() : v1::RECORD_STATE_UNSPECIFIED;
  }

  // After the end of a stream its settlement may still be on its way.
  v1::RecordState AwaitState(const std::string& key, v1::RecordState state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (StateOf(key) != state && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    return StateOf(key);
  }

  TempFolder folder_;
  Events events_;
  // Between the processor and the service.
  const std::shared_ptr<ConnectionGate> gate_ = std::make_shared<ConnectionGate>();
  std::unique_ptr<EmbeddedService> service_;
  std::unique_ptr<ExternalProcessor> processor_;
  std::optional<QueuedExternalProcessor> service_on_queue_;
  QueuedMethods methods_;
  CallTable table_;
  std::optional<CallQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ExternalProcessorTest, ARecordedReplyIsReplayed) {
  Run("key-1", 1, Answering(7));
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(ReplayOf("key-1"), Framed(Answering(7)));
  EXPECT_EQ(HeaderOf(AnswerTo("key-1", 2), "grpc-status"), "9");
}

// Its retries from before cannot be compared.
TEST_F(ExternalProcessorTest, AReloadThatGivesAMethodADescriptorWarns) {
  Mutex mutex;
  std::vector<std::string> warnings;
  ExternalProcessor processor(
      ProcessorSettings::Make(ProbeConfig(/*described=*/false)).value(), service_->MakeConnection(),
      ExchangeBounds::Limits(), [](const grpc::ServerContextBase&) { return absl::OkStatus(); },
      events_, std::make_shared<GuardLog>([&](LogSeverity severity, std::string_view line) {
        MutexLock lock(mutex);
        if (severity == LogSeverity::kWarning) warnings.emplace_back(line);
      }));
  processor.Configure(ProcessorSettings::Make(ProbeConfig(/*described=*/false)).value(),
                      ExchangeBounds::Limits());
  {
    MutexLock lock(mutex);
    EXPECT_EQ(warnings, std::vector<std::string>());
  }
  processor.Configure(ProcessorSettings::Make(ProbeConfig(/*described=*/true)).value(),
                      ExchangeBounds::Limits());
  MutexLock lock(mutex);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("/idempotency.testing.Probe/Act"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("FINGERPRINT_UNKNOWN"), std::string::npos) << warnings[0];
}

// Its retries from before run again.
TEST_F(ExternalProcessorTest, AReloadThatGivesRequestsOtherRecordsWarns) {
  Mutex mutex;
  std::vector<std::string> warnings;
  ProcessorConfig config = ProbeConfig(/*described=*/false);
  config.http_routes.push_back({{"POST"}, "/v1/{kind}", std::nullopt});
  ExternalProcessor processor(
      ProcessorSettings::Make(config).value(), service_->MakeConnection(), ExchangeBounds::Limits(),
      [](const grpc::ServerContextBase&) { return absl::OkStatus(); }, events_,
      std::make_shared<GuardLog>([&](LogSeverity severity, std::string_view line) {
        MutexLock lock(mutex);
        if (severity == LogSeverity::kWarning) warnings.emplace_back(line);
      }));
  const auto warnings_of_change = [&] {
    processor.Configure(ProcessorSettings::Make(config).value(), ExchangeBounds::Limits());
    MutexLock lock(mutex);
    return std::exchange(warnings, {});
  };
  EXPECT_THAT(warnings_of_change(), IsEmpty());
  config.name_space = "other";
  EXPECT_THAT(warnings_of_change(), ElementsAre(HasSubstr("a change of namespace: retries")));
  config.scope = ScopeHeader{"x-tenant"};
  EXPECT_THAT(warnings_of_change(), ElementsAre(HasSubstr("a change of scope: retries")));
  config.scope = ScopeHeader{"x-caller"};
  EXPECT_THAT(warnings_of_change(), ElementsAre(HasSubstr("a change of scope: retries")));
  config.http_routes.insert(config.http_routes.begin(), {{"POST"}, "/v1/payments", std::nullopt});
  EXPECT_THAT(warnings_of_change(), ElementsAre(HasSubstr("POST /v1/payments")));
}

// Its retries from before with other keys are refused, although their requests may have run.
TEST_F(ExternalProcessorTest, AReloadThatAddsAKeyFormatWarns) {
  Mutex mutex;
  std::vector<std::string> warnings;
  ProcessorConfig config = ProbeConfig(/*described=*/false);
  config.grpc_methods.push_back({"shop.v1.*/Create*", std::nullopt});
  config.http_routes.push_back({{"POST"}, "/v1/payments", std::nullopt});
  ExternalProcessor processor(
      ProcessorSettings::Make(config).value(), service_->MakeConnection(), ExchangeBounds::Limits(),
      [](const grpc::ServerContextBase&) { return absl::OkStatus(); }, events_,
      std::make_shared<GuardLog>([&](LogSeverity severity, std::string_view line) {
        MutexLock lock(mutex);
        if (severity == LogSeverity::kWarning) warnings.emplace_back(line);
      }));
  const auto warnings_of_change = [&] {
    processor.Configure(ProcessorSettings::Make(config).value(), ExchangeBounds::Limits());
    MutexLock lock(mutex);
    return std::exchange(warnings, {});
  };
  for (ProcessorConfig::GrpcMethods& methods : config.grpc_methods) {
    methods.key_format = ProcessorConfig::KeyFormat::kUuidv7;
    EXPECT_THAT(warnings_of_change(), ElementsAre(HasSubstr(methods.name)));
  }
  config.http_routes[0].key_format = ProcessorConfig::KeyFormat::kUuidv7;
  EXPECT_THAT(warnings_of_change(), ElementsAre(HasSubstr("POST /v1/payments")));
  // Neither the same, nor an entry in front that is no less strict, nor an end of it.
  EXPECT_THAT(warnings_of_change(), IsEmpty());
  config.grpc_methods.push_back({"shop.*/Create*", std::nullopt});
  EXPECT_THAT(warnings_of_change(), IsEmpty());
  EXPECT_THAT(warnings_of_change(), IsEmpty());
  for (ProcessorConfig::GrpcMethods& methods : config.grpc_methods) {
    methods.key_format = ProcessorConfig::KeyFormat::kAny;
  }
  EXPECT_THAT(warnings_of_change(), IsEmpty());
}

// A proxy lets the request through whose stream ends with OK.
TEST_F(ExternalProcessorTest, BytesThatAreNoMessageEndTheStreamWithAnError) {
  // The larger ones are read by a worker.
  for (const std::size_t size : {3U, 200U * 1024}) {
    EXPECT_EQ(EndAfter(std::string(size, '\xff')).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  Run("key-1", 1, Answering(7));
}

constexpr std::size_t kLargeRequestBytes = 200 * 1024;

ActRequest AskingMuch() {
  ActRequest request = Asking();
  request.set_account(std::string(kLargeRequestBytes, 'a'));
  return request;
}

int WorkerThreads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (absl::StartsWith(name, "ext-proc")) ++count;
  }
  return count;
}

// Workers stay once they are started: so each test has a processor of its own.
class LargeRequestTest : public ExternalProcessorTest {
 protected:
  // Its body has parts of this size.
  void ExpectReadByWorker(std::size_t part) {
    Run("key-1", 1, Answering(7));
    EXPECT_EQ(WorkerThreads(), 0);
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders("key-2");
    const std::string body = Framed(AskingMuch());
    std::size_t sent = 0;
    for (; sent + part < body.size(); sent += part) {
      envoy.SendBody(body.substr(sent, part), /*end_of_stream=*/false);
    }
    envoy.SendBody(body.substr(sent));
    envoy.AwaitForwarded();
    EXPECT_GT(WorkerThreads(), 0);
    envoy.SendReply(Framed(Answering(8)), kUpstream);
    while (!envoy.Next().value().has_response_trailers()) {
    }
    envoy.HalfClose();
    EXPECT_FALSE(envoy.Next().has_value());
    EXPECT_TRUE(envoy.Finish().ok());
    EXPECT_EQ(StateOf("key-2"), v1::RECORD_STATE_COMPLETED);
  }
};

TEST_F(LargeRequestTest, LeavesTheThreadOfOtherCalls) {
  ExpectReadByWorker(2 * kLargeRequestBytes);
}

TEST_F(LargeRequestTest, OfSmallPartsLeavesTheThreadOfOtherCalls) { ExpectReadByWorker(16 * 1024); }

TEST_F(ExternalProcessorTest, CallersOfLargeRequestsMayLeaveAtAnyTime) {
  const std::string body = Framed(AskingMuch());
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 8; ++i) {
        FakeEnvoy envoy(channel_);
        envoy.SendHeaders("key-" + std::to_string(8 * caller + i));
        envoy.SendBody(body);
        for (int pause = 0; pause < 1000 * i; ++pause) std::this_thread::yield();
        if (i % 3 == 0) {
          envoy.HalfClose();
        } else {
          envoy.Cancel();
        }
        while (envoy.Next().has_value()) {
        }
        EXPECT_FALSE(envoy.Finish().ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  events_.AwaitNone();
  Run("another-key", 1, Answering(7));
}

TEST_F(ExternalProcessorTest, AReplyIsReleasedOnlyWhenItIsRecorded) {
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(Framed(Asking()));
  envoy.AwaitForwarded();
  std::atomic<bool> released{false};
  std::optional<Response> first;
  std::thread reader([&] {
    pthread_setname_np(pthread_self(), "reader");
    first = envoy.Next();
    released = true;
  });
  gate_->HoldCompletes();
  envoy.SendReply(Framed(Answering(7)), kUpstream);
  EXPECT_TRUE(gate_->AwaitHeld(1));
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_RESERVED);
  // On the same connection: what was sent before it has arrived.
  EXPECT_EQ(HeaderOf(AnswerTo(/*key=*/""), "grpc-status"), "3");
  EXPECT_FALSE(released);
  gate_->OpenAll();
  reader.join();
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->has_response_headers()) << first->ShortDebugString();
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_COMPLETED);
  envoy.HalfClose();
}

TEST_F(ExternalProcessorTest, OfAnEndBeforeTheReplyTheOutcomeIsUnknown) {
  for (const bool cancelled : {false, true}) {
    const std::string key = cancelled ? "cancelled" : "half-closed";
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders(key);
    envoy.SendBody(Framed(Asking()));
    envoy.AwaitForwarded();
    envoy.SendReplyHeaders(kUpstream);
    if (cancelled) {
      envoy.Cancel();
    } else {
      envoy.HalfClose();
    }
    EXPECT_FALSE(envoy.Next().has_value());
    // Envoy takes a clean end for permission.
    EXPECT_FALSE(envoy.Finish().ok());
    EXPECT_EQ(AwaitState(key, v1::RECORD_STATE_UNKNOWN), v1::RECORD_STATE_UNKNOWN);
    EXPECT_EQ(HeaderOf(AnswerTo(key), "grpc-status"), "9");
  }
}

// The grant would hold its key for a request that nobody forwards.
TEST_F(ExternalProcessorTest, AGrantForACallerThatHasLeftIsGivenBack) {
  gate_->HoldReserves();
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(Framed(Asking()));
  ASSERT_TRUE(gate_->AwaitHeld(1));
  envoy.HalfClose();
  EXPECT_FALSE(envoy.Next().has_value());
  EXPECT_FALSE(envoy.Finish().ok());
  gate_->OpenAll();
  ASSERT_EQ(AwaitState("key-1", v1::RECORD_STATE_RELEASED), v1::RECORD_STATE_RELEASED);
  Run("key-1", 1, Answering(7));
}

TEST_F(ExternalProcessorTest, AHeldReplyIsRecordedAlthoughItsCallerHasLeft) {
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(Framed(Asking()));
  envoy.AwaitForwarded();
  envoy.SendReply(Framed(Answering(7)), kUpstream);
  ASSERT_TRUE(envoy.Next().has_value());
  envoy.Cancel();
  envoy.Finish();
  EXPECT_EQ(AwaitState("key-1", v1::RECORD_STATE_COMPLETED), v1::RECORD_STATE_COMPLETED);
}

TEST_F(ExternalProcessorTest, EnvoysOwnReplyIsNoOutcome) {
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(Framed(Asking()));
  envoy.AwaitForwarded();
  // A status that would be recorded if it were the upstream's.
  envoy.SendReply("", "upstream_response_timeout", "5");
  EXPECT_TRUE(envoy.Next()->has_response_headers());
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_UNKNOWN);
  envoy.HalfClose();
}

// Of tests whose store is gone: a recording that fails has failed soon.
ProcessorConfig FailingSoon(ProcessorConfig config) {
  config.recording_timeout = absl::Milliseconds(200);
  return config;
}

class LostStoreTest : public ExternalProcessorTest {
 protected:
  LostStoreTest()
      : ExternalProcessorTest(FailingSoon(ProbeConfig(/*described=*/false)),
                              ExchangeBounds::Limits()) {}
};

TEST_F(LostStoreTest, AReplyThatCannotBeRecordedIsNotReleased) {
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(Framed(Asking()));
  envoy.AwaitForwarded();
  // The store is gone.
  service_.reset();
  envoy.SendReply(Framed(Answering(7)), kUpstream);
  const auto answer = envoy.Next();
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->has_immediate_response()) << answer->ShortDebugString();
  EXPECT_EQ(HeaderOf(*answer, "grpc-status"), "14");
  envoy.HalfClose();
}

TEST_F(ExternalProcessorTest, ARefusedConnectionRunsAgain) {
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(Framed(Asking()));
  envoy.AwaitForwarded();
  envoy.SendReply("", "upstream_reset_before_response_started{remote_connection_failure|refused}",
                  "14");
  EXPECT_TRUE(envoy.Next()->has_response_headers());
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_RELEASED);
  envoy.HalfClose();
  Run("key-1", 1, Answering(8));
}

TEST_F(ExternalProcessorTest, AProxyThatDoesNotStateWhoAnsweredIsRefused) {
  {
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders("key-1");
    envoy.SendBody(Framed(Asking()));
    envoy.AwaitForwarded();
    envoy.SendReply(Framed(Answering(7)), /*code_details=*/"");
    const auto answer = envoy.Next();
    ASSERT_TRUE(answer.has_value() && answer->has_immediate_response());
    EXPECT_EQ(HeaderOf(*answer, "grpc-status"), "14");
    EXPECT_THAT(HeaderOf(*answer, "grpc-message"), HasSubstr("does not state who answered"));
    EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_UNKNOWN);
    envoy.HalfClose();
    envoy.Finish();
  }
  // The next call does not run.
  FakeEnvoy next(channel_);
  next.SendHeaders("key-2");
  next.SendBody(Framed(Asking()));
  EXPECT_FALSE(next.Next().has_value());
  const grpc::Status status = next.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("response.code_details"));
  EXPECT_EQ(StateOf("key-2"), v1::RECORD_STATE_UNSPECIFIED);
}

TEST_F(ExternalProcessorTest, ShutdownEndsWithAnErrorAndAnUnknownOutcome) {
  FakeEnvoy waiting(channel_);
  waiting.SendHeaders("waiting");
  FakeEnvoy running(channel_);
  running.SendHeaders("running");
  running.SendBody(Framed(Asking()));
  running.AwaitForwarded();
  processor_->Close();
  // Refused: its request has not left.
  const auto refused = waiting.Next();
  ASSERT_TRUE(refused.has_value() && refused->has_immediate_response());
  EXPECT_EQ(HeaderOf(*refused, "grpc-status"), "14");
  waiting.HalfClose();
  StopServer(std::chrono::milliseconds(0));
  EXPECT_FALSE(running.Next().has_value());
  EXPECT_FALSE(running.Finish().ok());
  EXPECT_EQ(StateOf("running"), v1::RECORD_STATE_UNKNOWN);
}

TEST_F(ExternalProcessorTest, HostileRequestsNeverLeave) {
  const std::vector<std::vector<std::pair<std::string, std::string>>> hostile = {
      {{"idempotency-key", "another"}},
      {{"x-envoy-retry-on", "5xx"}},
      {{"x-envoy-retry-grpc-on", "unavailable"}},
      {{"x-envoy-max-retries", "9"}},
      {{"x-envoy-hedge-on-per-try-timeout", "true"}},
      {{"x-envoy-retriable-status-codes", "409"}},
      {{"x-envoy-upstream-rq-per-try-timeout-ms", "1"}},
      {{":path", "/idempotency.testing.Probe/Look"}},
      {{"content-type", "application/json"}},
      {{":authority", "a.example"}, {":authority", "b.example"}},
  };
  for (const auto& headers : hostile) {
    FakeEnvoy envoy(channel_);
    envoy.SendHeaders("key-1", headers);
    const auto answer = envoy.Next();
    ASSERT_TRUE(answer.has_value() && answer->has_immediate_response()) << headers[0].first;
    envoy.HalfClose();
    envoy.Finish();
  }
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_UNSPECIFIED);
}

TEST_F(ExternalProcessorTest, AViolationOfTheOrderEndsWithAnError) {
  FakeEnvoy envoy(channel_);
  envoy.SendBody("early");
  EXPECT_FALSE(envoy.Next().has_value());
  EXPECT_FALSE(envoy.Finish().ok());
}

// As of a filter that authenticates callers, and stands before this one.
TEST_F(ExternalProcessorTest, ARefusalOfAnotherFilterPasses) {
  FakeEnvoy envoy(channel_);
  envoy.SendReplyHeaders("jwt_authn_access_denied{Jwt_is_missing}");
  const auto answer = envoy.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->has_response_headers()) << answer->ShortDebugString();
  envoy.HalfClose();
}

// Its request was not guarded.
TEST_F(ExternalProcessorTest, AReplyWithoutARequestEndsWithAnError) {
  for (const char* origin : {kUpstream, ""}) {
    FakeEnvoy envoy(channel_);
    envoy.SendReplyHeaders(origin);
    EXPECT_FALSE(envoy.Next().has_value());
    EXPECT_FALSE(envoy.Finish().ok());
  }
}

constexpr std::size_t kRoomForRequests = 64 * 1024;

// With little room, and a scope by a header of the proxy.
class ScopedProcessorTest : public ExternalProcessorTest {
 protected:
  explicit ScopedProcessorTest(std::size_t room = kRoomForRequests,
                               std::size_t exchanges = limits::kMaxExchanges,
                               ProcessorConfig config = Config())
      : ExternalProcessorTest(std::move(config), LimitsOf(room, exchanges)) {}

  static ProcessorConfig Config() {
    ProcessorConfig config = ProbeConfig(/*described=*/false);
    config.scope = ScopeHeader{"x-tenant"};
    return config;
  }
  static ExchangeBounds::Limits LimitsOf(std::size_t room, std::size_t exchanges) {
    return {exchanges, 2 * room};
  }
};

TEST_F(ScopedProcessorTest, AScopeThatFillsItsShareLeavesRoomForAnother) {
  constexpr std::size_t kPart = kRoomForRequests / 8;
  // Requests without an end.
  std::vector<std::unique_ptr<FakeEnvoy>> unfinished;
  for (std::size_t i = 1; i <= 3; ++i) {
    FakeEnvoy& envoy = *unfinished.emplace_back(std::make_unique<FakeEnvoy>(channel_));
    envoy.SendHeaders("key-" + std::to_string(i), {{"x-tenant", "a"}});
    envoy.SendBody(std::string(kPart, 'x'), /*end_of_stream=*/false);
    events_.AwaitHeld(i * kPart);
  }
  FakeEnvoy one_more(channel_);
  one_more.SendHeaders("key-4", {{"x-tenant", "a"}});
  one_more.SendBody(std::string(kPart, 'x'), /*end_of_stream=*/false);
  // With room it would be refused for its content.
  one_more.SendBody("");
  const auto refused = one_more.Next();
  ASSERT_TRUE(refused.has_value() && refused->has_immediate_response());
  EXPECT_THAT(HeaderOf(*refused, "grpc-message"), HasSubstr("holds too many requests"));

  FakeEnvoy of_another(channel_);
  of_another.SendHeaders("key-1", {{"x-tenant", "b"}});
  ActRequest request = Asking();
  request.set_account(std::string(kPart, 'b'));
  of_another.SendBody(Framed(request));
  of_another.AwaitForwarded();
  for (const auto& envoy : unfinished) envoy->Cancel();
}

class FewExchangesTest : public ScopedProcessorTest {
 protected:
  FewExchangesTest() : ScopedProcessorTest(kRoomForRequests, /*exchanges=*/10) {}
};

TEST_F(FewExchangesTest, ManyUnfinishedRequestsOfAScopeLeavePlacesForAnother) {
  constexpr std::size_t kPart = kRoomForRequests / 32;
  std::vector<std::unique_ptr<FakeEnvoy>> unfinished;
  for (std::size_t i = 1; i <= 8; ++i) {
    FakeEnvoy& envoy = *unfinished.emplace_back(std::make_unique<FakeEnvoy>(channel_));
    envoy.SendHeaders("key-" + std::to_string(i), {{"x-tenant", "a"}});
    envoy.SendBody(std::string(kPart, 'x'), /*end_of_stream=*/false);
    events_.AwaitHeld(i * kPart);
  }
  FakeEnvoy one_more(channel_);
  one_more.SendHeaders("key-9", {{"x-tenant", "a"}});
  const auto refused = one_more.Next();
  ASSERT_TRUE(refused.has_value() && refused->has_immediate_response());
  EXPECT_THAT(HeaderOf(*refused, "grpc-message"), HasSubstr("max_exchanges"));
  EXPECT_EQ(events_.CountOf(ExchangeResult::kOverloaded), 1);

  FakeEnvoy of_another(channel_);
  of_another.SendHeaders("key-1", {{"x-tenant", "b"}});
  of_another.SendBody(Framed(Asking()));
  of_another.AwaitForwarded();
  for (const auto& envoy : unfinished) envoy->Cancel();
}

// The stream of a proxy, which has no place to state a reason in.
TEST_F(FewExchangesTest, WithoutAPlaceAStreamEndsAndStatesWhenToRetry) {
  std::vector<std::unique_ptr<FakeEnvoy>> held;
  for (std::size_t i = 1; i <= 10; ++i) {
    FakeEnvoy& envoy = *held.emplace_back(std::make_unique<FakeEnvoy>(channel_));
    envoy.SendHeaders("key-1", {{"x-tenant", "tenant-" + std::to_string(i)}});
    envoy.SendBody("x", /*end_of_stream=*/false);
    events_.AwaitHeld(i);
  }
  FakeEnvoy one_more(channel_);
  EXPECT_FALSE(one_more.Next().has_value());
  const absl::Status end = FromGrpcStatus(one_more.Finish());
  EXPECT_EQ(ReasonOf(end), Reason::kOverloaded) << end;
  EXPECT_EQ(DetailsOf(end).retry_delay, retry_delays::kServiceOverloaded);
  for (const auto& envoy : held) envoy->Cancel();
}

// Far more than gRPC sends to a client that does not read.
constexpr std::size_t kLargeReplyBytes = 3 * 1024 * 1024;

// Replies for which there is no room: their beginning has left before their end arrives.
class BegunReplyTest : public ScopedProcessorTest {
 protected:
  explicit BegunReplyTest(ProcessorConfig config = Config())
      : ScopedProcessorTest(/*room=*/1024 * 1024, limits::kMaxExchanges, std::move(config)) {}

  void BeginReply(FakeEnvoy& envoy) {
    envoy.SendHeaders("key-1", {{"x-tenant", "a"}});
    envoy.SendBody(Framed(Asking()));
    envoy.AwaitForwarded();
    ActReply reply = Answering(1);
    reply.set_effect(std::string(kLargeReplyBytes, 'x'));
    envoy.SendReplyHeaders(kUpstream);
    envoy.SendReplyBody(Framed(reply));
    const auto begun = envoy.Next();
    ASSERT_TRUE(begun.has_value());
    ASSERT_TRUE(begun->has_response_headers()) << begun->ShortDebugString().substr(0, 300);
  }
};

TEST_F(BegunReplyTest, IsRecordedWithoutItsContent) {
  FakeEnvoy envoy(channel_);
  BeginReply(envoy);
  envoy.SendReplyTrailers();
  while (!envoy.Next().value().has_response_trailers()) {
  }
  EXPECT_EQ(StateOf("key-1", "a"), v1::RECORD_STATE_COMPLETED);
  envoy.HalfClose();
  EXPECT_FALSE(envoy.Next().has_value());
  EXPECT_TRUE(envoy.Finish().ok());
  const Response again = AnswerTo("key-1", 1, {{"x-tenant", "a"}});
  ASSERT_TRUE(again.has_immediate_response()) << again.ShortDebugString().substr(0, 300);
  EXPECT_EQ(HeaderOf(again, "grpc-status"), "9");
  EXPECT_THAT(HeaderOf(again, "grpc-message"), HasSubstr("was not kept"));
}

class LostStoreBegunReplyTest : public BegunReplyTest {
 protected:
  LostStoreBegunReplyTest() : BegunReplyTest(FailingSoon(Config())) {}
};

// No other answer can take its place, and its end must not leave.
TEST_F(LostStoreBegunReplyTest, ThatCannotBeRecordedEndsTheStreamWithAnError) {
  FakeEnvoy envoy(channel_);
  BeginReply(envoy);
  // The store is gone.
  service_.reset();
  envoy.SendReplyTrailers();
  while (const auto part = envoy.Next()) EXPECT_TRUE(part->has_response_body());
  EXPECT_EQ(envoy.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

class UnreadReplaysTest : public ScopedProcessorTest {
 protected:
  UnreadReplaysTest() : ScopedProcessorTest(/*room=*/8 * 1024 * 1024) {}

  // Records a large reply for this scope.
  void Record(const std::string& scope) {
    FakeEnvoy envoy(channel_);
    SendRequest(envoy, scope);
    envoy.AwaitForwarded();
    ActReply reply = Answering(1);
    reply.set_effect(std::string(kLargeReplyBytes, 'x'));
    envoy.SendReply(Framed(reply), kUpstream);
    while (!envoy.Next().value().has_response_trailers()) {
    }
    envoy.HalfClose();
    EXPECT_FALSE(envoy.Next().has_value());
    ASSERT_TRUE(envoy.Finish().ok());
  }
  static void SendRequest(FakeEnvoy& envoy, const std::string& scope) {
    envoy.SendHeaders("key-1", {{"x-tenant", scope}});
    envoy.SendBody(Framed(Asking()));
  }
};

TEST_F(UnreadReplaysTest, LeaveRoomForAnotherScope) {
  Record("a");
  Record("b");
  FakeEnvoy unread(channel_);
  SendRequest(unread, "a");
  events_.AwaitHeld(kLargeReplyBytes / 2);

  FakeEnvoy one_more(channel_);
  SendRequest(one_more, "a");
  const auto refused = one_more.Next();
  ASSERT_TRUE(refused.has_value());
  ASSERT_TRUE(refused->has_immediate_response()) << refused->ShortDebugString().substr(0, 300);
  EXPECT_THAT(HeaderOf(*refused, "grpc-message"), HasSubstr("or replies: retry"));
  one_more.HalfClose();
  EXPECT_FALSE(one_more.Next().has_value());
  EXPECT_TRUE(one_more.Finish().ok());
  EXPECT_EQ(events_.CountOf(ExchangeResult::kReplayed), 1);
  EXPECT_EQ(events_.CountOf(ExchangeResult::kOverloaded), 1);

  FakeEnvoy of_another(channel_);
  SendRequest(of_another, "b");
  const auto replay = of_another.Next();
  ASSERT_TRUE(replay.has_value());
  EXPECT_TRUE(replay->has_streamed_immediate_response()) << replay->ShortDebugString();
  of_another.Cancel();
  unread.Cancel();
}

class DescribedProcessorTest : public ExternalProcessorTest {
 protected:
  DescribedProcessorTest() : ExternalProcessorTest(/*described=*/true) {
    ProbeServer::Options options;
    options.connect = [this] { return service_->MakeConnection(); };
    options.handler = [this](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
      ++runs_;
      reply = Answering(5);
      reply.set_secret("1234");
      return grpc::Status::OK;
    };
    options.guard.scope = SharedScope("everyone");
    options.guard.name_space = "probe";
    guarded_ = std::make_unique<ProbeServer>(std::move(options));
  }

  std::atomic<int> runs_{0};
  std::unique_ptr<ProbeServer> guarded_;
};

TEST_F(DescribedProcessorTest, AGuardReplaysWhatTheProcessorHasRecorded) {
  ActReply reply = Answering(7);
  reply.set_secret("1234");
  Run("key-1", 1, reply);
  const Outcome replay = ProbeClient(guarded_->address()).Act("key-1", 1);
  EXPECT_TRUE(replay.replayed()) << replay.status.error_message();
  EXPECT_EQ(replay.reply().total(), 7);
  // By the option of its field.
  EXPECT_EQ(replay.reply().secret(), "");
  EXPECT_EQ(replay.Trailer("idempotency-content"), "redacted");
  EXPECT_EQ(runs_, 0);
  EXPECT_EQ(ProbeClient(guarded_->address()).Act("key-1", 2).reason(), Reason::kKeyReused);
}

// Two bytes on the wire are a field.
TEST_F(DescribedProcessorTest, ARequestThatWouldTakeMuchMemoryNeverLeaves) {
  std::string entries;
  while (entries.size() + 1000 < limits::kMaxExchangeRequestBytes) {
    entries += std::string("\x1a\x00", 2);
  }
  std::string body;
  AppendGrpcMessage(entries, body);
  FakeEnvoy envoy(channel_);
  envoy.SendHeaders("key-1");
  envoy.SendBody(body);
  const auto refused = envoy.Next();
  ASSERT_TRUE(refused.has_value() && refused->has_immediate_response());
  EXPECT_EQ(HeaderOf(*refused, "grpc-status"), "3");
  EXPECT_THAT(HeaderOf(*refused, "grpc-message"), HasSubstr("more fields"));
  envoy.HalfClose();
  envoy.Finish();
  EXPECT_EQ(StateOf("key-1"), v1::RECORD_STATE_UNSPECIFIED);
  Run("key-2", 1, Answering(7));
}

TEST_F(DescribedProcessorTest, TheProcessorReplaysWhatAGuardHasRecorded) {
  EXPECT_TRUE(ProbeClient(guarded_->address()).Act("key-1", 1).status.ok());
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(ReplayOf("key-1"), Framed(Answering(5)));
  EXPECT_EQ(HeaderOf(AnswerTo("key-1", 2), "grpc-status"), "9");
}

}  // namespace
}  // namespace idempotency::internal::testing
