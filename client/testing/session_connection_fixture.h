#ifndef IDEMPOTENCY_CLIENT_TESTING_SESSION_CONNECTION_FIXTURE_H_
#define IDEMPOTENCY_CLIENT_TESTING_SESSION_CONNECTION_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/connection/session_connection.h"
#include "client/testing/fake_service.h"
#include "client/testing/fake_session_streams.h"
#include "client/testing/log_lines.h"
#include "client/testing/scripted_connection.h"
#include "core/testing/answers.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal::testing {

using Reserved = absl::StatusOr<v1::ReserveResponse>;

inline Connection::Deadline In(std::chrono::steady_clock::duration wait) {
  return std::chrono::steady_clock::now() + wait;
}

inline const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "the stream broke");

inline SessionConnectionOptions WithStreams(int streams) {
  SessionConnectionOptions options;
  options.streams = streams;
  return options;
}

inline v1::ReserveRequest RequestWithKey(const std::string& key) {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key(key);
  return request;
}

// For operations whose answers only have to be counted: `answers` gets no response.
template <typename Response>
Connection::Callback<Response> StatusSink(Answers<Reserved>& answers) {
  return [&answers](const absl::StatusOr<Response>& answer) {
    answers.Add(answer.ok() ? Reserved(v1::ReserveResponse()) : Reserved(answer.status()));
  };
}

// Serves while there are no sessions: answers reservations with the key.
inline std::unique_ptr<Connection> FakeUnary(std::atomic<int>& calls,
                                             const absl::Status& refusal = absl::OkStatus()) {
  return std::make_unique<ScriptedConnection>(
      [&calls, refusal](const AnyConnectionCall& call, Connection::Deadline /*deadline*/) {
        ++calls;
        if (!refusal.ok()) return std::visit([&](auto& typed) { typed.done(refusal); }, call);
        using Reserve = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
        const auto* const reserve = std::get_if<Reserve>(&call);
        if (reserve == nullptr) return AnswerEmpty(call);
        v1::ReserveResponse response;
        response.set_record_id(absl::StrCat("unary ", reserve->request.record_key().key()));
        reserve->done(response);
      });
}

// The content of a frame, as "reserve 1".
inline std::vector<std::string> Contents(const v1::SessionRequest& frame) {
  const auto* descriptor = v1::SessionOperation::descriptor();
  std::vector<std::string> contents;
  for (const auto& operation : frame.operations()) {
    contents.push_back(absl::StrCat(
        descriptor->FindFieldByNumber(operation.operation_case())->name(), " ", operation.id()));
  }
  return contents;
}

class SessionConnectionTest : public ::testing::Test {
 protected:
  void TearDown() override {
    session_.reset();
    streams_.network().Settle();
  }

  void Open(SessionConnectionOptions options = {}) {
    session_ = std::make_unique<SessionConnection>(streams_.Factory(),
                                                   FakeUnary(unary_calls_, unary_refusal_), options,
                                                   ApplicationLog(log_.Sink()));
  }
  void Settle() { streams_.network().Settle(); }
  FakeSessionStream& stream(std::size_t index = 0) { return streams_.at(index); }

  // The server sends its limits: the stream is open.
  void OpenStream(std::size_t index = 0) {
    stream(index).ServerSends(Limits(100, 1 << 20));
    Settle();
  }

  void Reserve(const std::string& key,
               Connection::Deadline deadline = In(std::chrono::seconds(60))) {
    session_->Reserve(RequestWithKey(key), deadline, answers_.Sink());
  }
  void Complete() {
    session_->Complete(v1::CompleteRequest(), In(std::chrono::seconds(60)),
                       StatusSink<v1::CompleteResponse>(answers_));
  }
  // An operation that keeps the first stream writing, so that those after it gather.
  void OccupyWriter() {
    Reserve("first");
    OpenStream();
    stream().HoldWrites();
    Reserve("second");
  }
  // The answer to the only operation.
  Reserved OnlyAnswer() {
    std::vector<Reserved> answers = answers_.Await(1);
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? absl::UnknownError("no answer") : std::move(answers[0]);
  }
  void AnswerAll(FakeSessionStream& on) {
    v1::SessionResponse answers;
    for (const auto& frame : on.frames()) {
      for (const auto& operation : frame.operations()) {
        if (!operation.has_cancel()) AnswerAsUsual(operation, answers);
      }
    }
    on.ServerSends(answers);
    Settle();
  }
  void AnswerId(FakeSessionStream& on, std::uint64_t id) {
    v1::SessionOperation operation;
    operation.set_id(id);
    operation.mutable_reserve()->mutable_record_key()->set_key(absl::StrCat("id ", id));
    v1::SessionResponse answer;
    AnswerAsUsual(operation, answer);
    on.ServerSends(answer);
    Settle();
  }

  LogLines log_;
  FakeSessionStreams streams_;
  std::atomic<int> unary_calls_{0};
  // The answer to every unary call, if it is set before Open().
  absl::Status unary_refusal_;
  Answers<Reserved> answers_;
  std::unique_ptr<SessionConnection> session_;
};

inline void ExpectStoreUnavailable(const Reserved& answer) {
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable) << answer.status();
}

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_CLIENT_TESTING_SESSION_CONNECTION_FIXTURE_H_
