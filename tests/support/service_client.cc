#include "tests/support/service_client.h"

#include <chrono>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/grpc_status.h"
#include "tests/support/raw_calls.h"

namespace idempotency::internal::testing {
namespace {

std::chrono::system_clock::time_point In(std::chrono::seconds limit) {
  return std::chrono::system_clock::now() + limit;
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

using Stub = v1::IdempotencyService::Stub;

template <typename Response, typename Request>
absl::StatusOr<Response> Send(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(In(std::chrono::seconds(30)));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

}  // namespace

ServiceClient::ServiceClient(const std::string& address)
    : channel_(Connect(address)), stub_(v1::IdempotencyService::NewStub(channel_)) {}

absl::StatusOr<v1::ReserveResponse> ServiceClient::Call(const v1::ReserveRequest& request) const {
  return Send<v1::ReserveResponse>(*stub_, &Stub::Reserve, request);
}

absl::StatusOr<v1::CompleteResponse> ServiceClient::Call(const v1::CompleteRequest& request) const {
  return Send<v1::CompleteResponse>(*stub_, &Stub::Complete, request);
}

absl::StatusOr<v1::ReleaseResponse> ServiceClient::Call(const v1::ReleaseRequest& request) const {
  return Send<v1::ReleaseResponse>(*stub_, &Stub::Release, request);
}

absl::StatusOr<v1::ExtendResponse> ServiceClient::Call(const v1::ExtendRequest& request) const {
  return Send<v1::ExtendResponse>(*stub_, &Stub::Extend, request);
}

absl::StatusOr<v1::GetResponse> ServiceClient::Call(const v1::GetRequest& request) const {
  return Send<v1::GetResponse>(*stub_, &Stub::Get, request);
}

absl::Status ServiceClient::CallRaw(const std::string& method, const std::string& bytes,
                                    std::chrono::seconds limit) const {
  grpc::ClientContext context;
  context.set_deadline(In(limit));
  grpc::ByteBuffer received;
  const std::string path = absl::StrCat("/idempotency.v1.IdempotencyService/", method);
  return FromGrpcStatus(testing::CallRaw(channel_, context, path, BufferOf(bytes), received));
}

v1::RecordKey SomeRecordKey(const std::string& key) {
  v1::RecordKey record_key;
  record_key.set_namespace_("payments");
  record_key.set_scope("tenant-1");
  record_key.set_operation("/payments.v1.Payments/Charge");
  record_key.set_key(key);
  return record_key;
}

v1::ReserveRequest SomeReserve(const std::string& key) {
  v1::ReserveRequest request;
  *request.mutable_record_key() = SomeRecordKey(key);
  v1::Fingerprint& fingerprint = *request.add_fingerprints();
  fingerprint.set_version(1);
  fingerprint.set_digest(std::string(32, 'f'));
  request.set_on_lease_expiry(v1::LEASE_EXPIRY_TAKE_OVER);
  return request;
}

v1::CompleteRequest SomeComplete(const std::string& key, const std::string& token,
                                 const std::string& body) {
  v1::CompleteRequest request;
  *request.mutable_record_key() = SomeRecordKey(key);
  request.set_reservation_token(token);
  request.mutable_reply()->set_body(body);
  return request;
}

v1::ReleaseRequest SomeRelease(const std::string& key, const std::string& token) {
  v1::ReleaseRequest request;
  *request.mutable_record_key() = SomeRecordKey(key);
  request.set_reservation_token(token);
  return request;
}

v1::ExtendRequest SomeExtend(const std::string& key, const std::string& token) {
  v1::ExtendRequest request;
  *request.mutable_record_key() = SomeRecordKey(key);
  request.set_reservation_token(token);
  return request;
}

v1::GetRequest SomeGet(const std::string& key) {
  v1::GetRequest request;
  *request.mutable_record_key() = SomeRecordKey(key);
  return request;
}

}  // namespace idempotency::internal::testing
