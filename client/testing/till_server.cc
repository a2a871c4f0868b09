#include "client/testing/till_server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::testdata {
namespace {

constexpr int kMaxRequestBytes = 16 << 20;

}  // namespace

TillServer::TillServer() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) std::abort();
}

TillServer::~TillServer() {
  {
    internal::MutexLock lock(mutex_);
    ending_ = true;
    ends_.NotifyAll();
  }
  server_->Shutdown();
}

void TillServer::Script(std::vector<Answer> answers) {
  internal::MutexLock lock(mutex_);
  script_.assign(answers.begin(), answers.end());
}

std::vector<TillServer::Arrival> TillServer::arrivals() const {
  internal::MutexLock lock(mutex_);
  return arrivals_;
}

std::string TillServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::shared_ptr<grpc::Channel> TillServer::Dial(const grpc::ChannelArguments& arguments) const {
  return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
}

void TillServer::AwaitDeadline(const grpc::ServerContext& context) {
  // Less than the time that gRPC takes for no deadline.
  constexpr std::chrono::hours kFar(1);
  const auto left = std::min<std::chrono::system_clock::duration>(
      context.deadline() - std::chrono::system_clock::now(), kFar);
  const auto deadline = std::chrono::steady_clock::now() + left;
  internal::MutexLock lock(mutex_);
  while (!ending_ && ends_.WaitUntil(lock, deadline)) {
  }
  // An answer at the deadline could still be in time. gRPC has no event for this in its sync API.
  while (!ending_ && !context.IsCancelled()) {
    ends_.WaitUntil(lock, std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
  }
}

grpc::Status TillServer::Answered(grpc::ServerContext& context, const std::string& method) {
  Answer answer;
  {
    Arrival arrival{method, {}, std::chrono::steady_clock::now()};
    const auto [begin, end] = context.client_metadata().equal_range(std::string(kKeyMetadata));
    for (auto it = begin; it != end; ++it) {
      arrival.keys.emplace_back(it->second.data(), it->second.size());
    }
    internal::MutexLock lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    if (!script_.empty()) {
      answer = std::move(script_.front());
      script_.pop_front();
    }
  }
  if (answer.too_late) AwaitDeadline(context);
  if (answer.initial_metadata) context.AddInitialMetadata("early", "1");
  if (answer.pushback_ms) {
    context.AddTrailingMetadata(std::string(kPushbackMetadata), *answer.pushback_ms);
  }
  for (const auto& [name, value] : answer.trailers) context.AddTrailingMetadata(name, value);
  return answer.status;
}

grpc::Status TillServer::Charge(grpc::ServerContext* context, const ChargeRequest*,
                                ChargeReply* reply) {
  reply->set_receipt(1);
  return Answered(*context, "Charge");
}
grpc::Status TillServer::Balance(grpc::ServerContext* context, const ChargeRequest*, ChargeReply*) {
  return Answered(*context, "Balance");
}
grpc::Status TillServer::SetLimit(grpc::ServerContext* context, const ChargeRequest*,
                                  ChargeReply*) {
  return Answered(*context, "SetLimit");
}
grpc::Status TillServer::Tip(grpc::ServerContext* context, const ChargeRequest*, ChargeReply*) {
  return Answered(*context, "Tip");
}
grpc::Status TillServer::Log(grpc::ServerContext* context, const ChargeRequest*, ChargeReply*) {
  return Answered(*context, "Log");
}
grpc::Status TillServer::Order(grpc::ServerContext* context, const ChargeRequest*, ChargeReply*) {
  return Answered(*context, "Order");
}
grpc::Status TillServer::ChargeMany(grpc::ServerContext* context,
                                    grpc::ServerReader<ChargeRequest>* reader, ChargeReply*) {
  ChargeRequest request;
  while (reader->Read(&request)) {
  }
  return Answered(*context, "ChargeMany");
}
grpc::Status TillServer::Watch(grpc::ServerContext* context, const ChargeRequest*,
                               grpc::ServerWriter<ChargeReply>*) {
  return Answered(*context, "Watch");
}

}  // namespace idempotency::testdata
