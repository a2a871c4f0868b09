#include "server/console/console_api.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/retry_delays.h"
#include "core/utf8.h"
#include "core/wire_time.h"
#include "explanation/record_story.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/console/v1/console.pb.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/console/overview.h"
#include "server/observability/version.h"
#include "server/operation/admin_place.h"

namespace idempotency::internal {
namespace {

unsigned HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

HttpResponse JsonAnswer(unsigned status, const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  HttpResponse response;
  response.status = status;
  response.content_type = "application/json";
  // Fails for a time that JSON cannot express, which the store does not accept.
  if (!google::protobuf::util::MessageToJsonString(message, &response.body, options).ok()) {
    response.status = 500;
    response.body = R"({"error":{"code":"INTERNAL","message":"the answer cannot be written"}})";
  }
  return response;
}

absl::Status ReadJson(const std::string& body, google::protobuf::Message& message) {
  const auto read = google::protobuf::util::JsonStringToMessage(body, &message);
  if (read.ok()) return absl::OkStatus();
  // The parser's message quotes the body.
  return MakeError(Reason::kRequestInvalid,
                   absl::StrCat("the body is not ", AbslView(message.GetTypeName()),
                                " in protobuf's JSON mapping; docs/console.md has an example"));
}

absl::StatusOr<console::v1::Explanation> Explain(Administration& administration,
                                                 const v1::GetRequest& request, Caller& caller,
                                                 absl::Time now) {
  absl::StatusOr<v1::GetResponse> found = administration.Get(
      request, [&](const RecordKey& key) { return caller.Check(key, Permission::kRead); },
      caller.CheckEverywhere(Permission::kRead).ok());
  if (!found.ok()) return found.status();
  console::v1::Explanation explanation;
  v1::Record& record = *explanation.mutable_record();
  record.Swap(found->mutable_record());
  explanation.set_story(StoryOf(record, now));
  explanation.set_next_verdict(NextVerdict(record, now));
  explanation.set_remedy(Remedy(record, now));
  return explanation;
}

// One call on its way through the worker.
template <typename Request, typename Response>
struct RunningCall {
  RunningCall(const AccessControl& access, Credentials credentials)
      : caller(access, std::move(credentials)) {}

  Caller caller;
  Request request;
  std::function<absl::StatusOr<Response>(const Request&, const AdminCaller&, Caller&)> method;
  HttpReply reply;
};

}  // namespace

HttpResponse ErrorAnswer(const absl::Status& status) {
  console::v1::ErrorResponse error;
  console::v1::Fault& fault = *error.mutable_error();
  fault.set_code(absl::StatusCodeToString(status.code()));
  if (const std::optional<Reason> reason = ReasonOf(status)) {
    fault.set_reason(std::string(ReasonName(*reason)));
  }
  fault.set_message(ToUtf8(std::string(status.message())));
  for (const auto& [name, value] : DetailsOf(status).metadata) {
    (*fault.mutable_metadata())[name] = ToUtf8(value);
  }
  for (const FieldViolation& violation : DetailsOf(status).violations) {
    (*fault.mutable_metadata())[violation.field] = ToUtf8(violation.description);
  }
  HttpResponse response = JsonAnswer(HttpStatusOf(status.code()), error);
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

template <typename Request, typename Response>
void ConsoleApi::Run(const std::string& body, Credentials credentials, Permission permission,
                     Method<Request, Response> method, const HttpReply& reply) const {
  using Running = RunningCall<Request, Response>;
  auto call = std::make_shared<Running>(service_.access, std::move(credentials));
  // A caller that may do this nowhere takes no place in the worker's queue.
  absl::Status refused = call->caller.CheckAnywhere(permission);
  if (refused.ok()) refused = ReadJson(body, call->request);
  if (!refused.ok()) {
    service_.administration.Refused(refused, call->caller, NamedNamespace(call->request));
    return reply(ErrorAnswer(refused));
  }
  call->method = std::move(method);
  call->reply = reply;
  const auto run = [call, permission, &administration = service_.administration,
                    &worker = service_.worker, &budget = service_.budget] {
    AdminCaller caller;
    caller.authorize = [&](std::string_view name_space) {
      return call->caller.CheckNamespace(AbslView(name_space), permission);
    };
    // A purge ends by itself within limits::kPurgeCallTime.
    caller.gone = [] { return false; };
    caller.pause = [&](absl::Duration rest) { return worker.Pause(rest); };
    const absl::StatusOr<Response> answer = call->method(call->request, caller, call->caller);
    if (!answer.ok()) {
      administration.Refused(answer.status(), call->caller, NamedNamespace(call->request));
      return call->reply(ErrorAnswer(answer.status()));
    }
    HttpResponse response = JsonAnswer(200, *answer);
    response.hold = budget.HoldAnswer(response.body.size());
    call->reply(std::move(response));
  };
  AdminPlace place = PlaceOfCall(call->request, call->caller, permission);
  if (service_.worker.TryRun(std::move(place), run)) return;
  reply(ErrorAnswer(MakeError(Reason::kOverloaded,
                              "other calls of administrators wait or run; nothing was done, try "
                              "again later",
                              RetryAfter(retry_delays::kAdministratorsBusy))));
}

void ConsoleApi::Overview(Credentials credentials, const HttpReply& reply) const {
  Caller caller(service_.access, std::move(credentials));
  if (const absl::Status refused = caller.CheckAnywhere(Permission::kRead); !refused.ok()) {
    service_.administration.Refused(refused, caller, /*name_space=*/"");
    return reply(ErrorAnswer(refused));
  }
  console::v1::Overview overview;
  overview.set_version(std::string(Version()));
  ToWire(service_.clock.Now(), *overview.mutable_now());
  if (const absl::StatusOr<std::string> name = caller.Name(); name.ok()) {
    overview.set_caller(ToUtf8(*name));
  }
  // Those with settings, and those that rules name.
  std::vector<std::string> names = caller.Named(Permission::kRead);
  for (std::string& name : service_.tenants.Names()) {
    if (caller.CheckNamespace(name, Permission::kRead).ok()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string& name : names) {
    console::v1::ConsoleNamespace& shown = *overview.add_namespaces();
    shown.set_name(name);
    shown.set_admin(caller.CheckNamespace(name, Permission::kAdmin).ok());
  }
  ReadMetrics(*service_.metrics, overview);
  reply(JsonAnswer(200, overview));
}

void ConsoleApi::Call(std::string_view method, const std::string& body, Credentials credentials,
                      const HttpReply& reply) const {
  Administration& administration = service_.administration;
  const auto by = [&administration](auto operation) {
    return [&administration, operation](const auto& request, const AdminCaller& admin, Caller&) {
      return (administration.*operation)(request, admin);
    };
  };
  if (method == "Overview") return Overview(std::move(credentials), reply);
  if (method == "Explain") {
    return Run<v1::GetRequest, console::v1::Explanation>(
        body, std::move(credentials), Permission::kRead,
        [&administration, &clock = service_.clock](const v1::GetRequest& request,
                                                   const AdminCaller&, Caller& caller) {
          return Explain(administration, request, caller, clock.Now());
        },
        reply);
  }
  if (method == "List") {
    return Run<v1::ListRequest, v1::ListResponse>(body, std::move(credentials), Permission::kRead,
                                                  by(&Administration::List), reply);
  }
  if (method == "Resolve") {
    return Run<v1::ResolveRequest, v1::ResolveResponse>(
        body, std::move(credentials), Permission::kAdmin, by(&Administration::Resolve), reply);
  }
  if (method == "Purge") {
    return Run<v1::PurgeRequest, v1::PurgeResponse>(
        body, std::move(credentials), Permission::kAdmin, by(&Administration::Purge), reply);
  }
  if (method == "ListAudit") {
    return Run<v1::ListAuditRequest, v1::ListAuditResponse>(
        body, std::move(credentials), Permission::kAdmin, by(&Administration::ListAudit), reply);
  }
  reply(ErrorAnswer(absl::NotFoundError("the console has no such method")));
}

}  // namespace idempotency::internal
