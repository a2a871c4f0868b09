#include "server/rpc/unanswered_operation.h"

#include "grpc_idempotency/errors.h"
#include "server/operation/operation_of.h"
#include "server/operation/pending_operation.h"

namespace idempotency::internal {
namespace {

// The kinds of operation: the request, its field in a v1::SessionOperation, and the field of its
// response in a v1::SessionAnswer.

struct ReserveKind {
  using Request = v1::ReserveRequest;
  static constexpr auto kField = v1::SessionOperation::kReserve;
  static constexpr auto kRequest = &v1::SessionOperation::reserve;
  static constexpr auto kResponse = &v1::SessionAnswer::mutable_reserve;
};
struct CompleteKind {
  using Request = v1::CompleteRequest;
  static constexpr auto kField = v1::SessionOperation::kComplete;
  static constexpr auto kRequest = &v1::SessionOperation::complete;
  static constexpr auto kResponse = &v1::SessionAnswer::mutable_complete;
};
struct ReleaseKind {
  using Request = v1::ReleaseRequest;
  static constexpr auto kField = v1::SessionOperation::kRelease;
  static constexpr auto kRequest = &v1::SessionOperation::release;
  static constexpr auto kResponse = &v1::SessionAnswer::mutable_release;
};
struct ExtendKind {
  using Request = v1::ExtendRequest;
  static constexpr auto kField = v1::SessionOperation::kExtend;
  static constexpr auto kRequest = &v1::SessionOperation::extend;
  static constexpr auto kResponse = &v1::SessionAnswer::mutable_extend;
};
struct GetKind {
  using Request = v1::GetRequest;
  static constexpr auto kField = v1::SessionOperation::kGet;
  static constexpr auto kRequest = &v1::SessionOperation::get;
  static constexpr auto kResponse = &v1::SessionAnswer::mutable_get;
};

template <typename Kind>
class Known final
    : public UnansweredOperation,
      private PendingResponse<typename OperationOf<typename Kind::Request>::Response> {
  using Operation = OperationOf<typename Kind::Request>;
  using Response = typename Operation::Response;
  using Pending = PendingResponse<Response>;

 public:
  Known(std::uint64_t id, const Origin& origin, SteadyTime deadline)
      : UnansweredOperation(id, origin.bytes, /*is_limited=*/BringsWork(Operation::kKind)),
        Pending(Operation::kKind, origin.arrived, deadline),
        stream_(origin.stream) {
    this->SetCaller(origin.caller);
  }

  InFlightWaiters::WaiterPtr waiting() const override { return Pending::waiting(); }
  void Begin(Operations& operations, const v1::SessionOperation& operation,
             Batcher::Group& group) override {
    (operations.*Operation::kBegin)((operation.*Kind::kRequest)(), *this, &group);
  }
  void Refuse(Operations& operations, const absl::Status& why) override {
    if (ReasonOf(why) == Reason::kOverloaded) {
      operations.observer().OperationShed(Operation::kKind, ShedReason::kSession);
    }
    operations.Refuse(*this, why);
  }

 private:
  Response& response() override {
    return *(GatheredAnswers::In(stream_).answer().*Kind::kResponse)();
  }
  void Finish(const absl::Status& status) override {
    GatheredAnswers::In(stream_).Add(this->id(), status, this->TakeHold());
  }

  GatheredAnswers::Stream& stream_;
};

// Of a kind that this server does not know.
class Unknown final : public UnansweredOperation {
 public:
  Unknown(std::uint64_t id, const Origin& origin)
      : UnansweredOperation(id, origin.bytes, /*is_limited=*/false), stream_(origin.stream) {}

  InFlightWaiters::WaiterPtr waiting() const override { return nullptr; }
  void Begin(Operations&, const v1::SessionOperation&, Batcher::Group&) override { Refuse(); }
  // For this reason, if there is another one, too.
  void Refuse(Operations&, const absl::Status&) override { Refuse(); }

 private:
  void Refuse() {
    GatheredAnswers::In(stream_).Add(
        id(), InvalidField("operation", "is required, and must be one that this server knows"));
  }

  GatheredAnswers::Stream& stream_;
};

using Made = std::unique_ptr<UnansweredOperation>;
using Origin = UnansweredOperation::Origin;

template <typename Kind>
Made MakeKnown(std::uint64_t id, const Origin& origin, SteadyTime deadline) {
  return std::make_unique<Known<Kind>>(id, origin, deadline);
}

struct KnownKind {
  v1::SessionOperation::OperationCase field;
  Made (*make)(std::uint64_t id, const Origin& origin, SteadyTime deadline);
};

template <typename Kind>
constexpr KnownKind EntryOf() {
  return {Kind::kField, &MakeKnown<Kind>};
}

constexpr KnownKind kKnownKinds[] = {EntryOf<ReserveKind>(), EntryOf<CompleteKind>(),
                                     EntryOf<ReleaseKind>(), EntryOf<ExtendKind>(),
                                     EntryOf<GetKind>()};

}  // namespace

Made UnansweredOperation::Make(const v1::SessionOperation& operation, const Origin& origin,
                               SteadyTime deadline) {
  for (const KnownKind& kind : kKnownKinds) {
    if (kind.field == operation.operation_case()) {
      return kind.make(operation.id(), origin, deadline);
    }
  }
  return std::make_unique<Unknown>(operation.id(), origin);
}

}  // namespace idempotency::internal
