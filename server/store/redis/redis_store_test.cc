// The Redis store on real servers: what a caller finds when they fail.
#include "server/store/redis/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"
#include "server/store/admin_decision.h"
#include "server/store/limits.h"
#include "server/store/redis/calls.h"
#include "server/store/redis/connections.h"
#include "server/store/redis/index.h"
#include "server/store/redis/record.h"
#include "server/store/redis/socket.h"
#include "server/store/redis/testing/captured_log.h"
#include "server/store/redis/testing/store_fixture.h"
#include "server/store/redis/tombstone.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {
namespace {

using testing::CertificateAuthority;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::RedisProcess;
using testing::RedisProcessOptions;

TEST_F(RedisStoreTest, AScriptThatTheServerForgotIsLoadedAgain) {
  const auto store = OpenStore(options_);
  const std::vector<ReserveOp> ops = OpsFor("flushed-", 20);
  RedisProcess::Shared().Must({"SCRIPT", "FLUSH"});
  for (const auto& verdict : store->Reserve(ops)) EXPECT_TRUE(verdict.ok()) << verdict.status();
  RedisProcess::Shared().Must({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(Get(*store, ops[3]).ok());
}

// Where an entry comes before its record, a sweep in between removes it.
TEST_F(RedisStoreTest, TheEntryOfTheIndexFollowsTheRecord) {
  const auto server = StartServer();
  server->Must({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
  const auto store = OpenStore(server->options());
  // The newest first, without those of this test.
  const auto commands = [&] {
    const RedisReply log = server->Must({"SLOWLOG", "GET", "-1"});
    std::vector<std::string> names;
    for (std::size_t i = 0; i < log.value().size(); ++i) {
      const std::string name(log.value()[i][3][0].text());
      if (name == "ZADD" || name == "EVALSHA") names.push_back(name);
    }
    return names;
  };
  const std::vector<std::string> in_order = {"ZADD", "EVALSHA"};
  server->Must({"SCRIPT", "FLUSH"});
  server->Must({"SLOWLOG", "RESET"});
  MustReserve(*store, OpFor("flushed"));
  const std::vector<std::string> flushed = commands();
  ASSERT_GE(flushed.size(), 2u);
  EXPECT_EQ(std::vector<std::string>(flushed.begin(), flushed.begin() + 2), in_order);
  server->Must({"SLOWLOG", "RESET"});
  MustReserve(*store, OpFor("loaded"));
  EXPECT_EQ(commands(), in_order) << "one exchange is enough";
}

TEST_F(RedisStoreTest, AReservationWithoutItsEntryOfTheIndexIsNotAnswered) {
  const auto store = OpenStore(options_);
  ReserveOp op = OpFor("unseen");
  const int shard = op.id.bytes()[15] % RedisIndex::kShards;
  const std::string index = absl::StrCat(options_.prefix, ":i:", shard);
  RedisProcess::Shared().Must({"SET", index, "no index"});
  EXPECT_EQ(ReasonOf(Reserve(*store, op).status()), Reason::kStoreUnavailable);
  RedisProcess::Shared().Must({"DEL", index});
  EXPECT_TRUE(MustReserve(*store, op).repeated);
  EXPECT_EQ(RedisProcess::Shared().Must({"ZCARD", index}).value().integer(), 1);
  // What was decided before needs none.
  RedisProcess::Shared().Must({"DEL", index});
  RedisProcess::Shared().Must({"SET", index, "no index"});
  op.request_token = Uuid::Random();
  const auto in_flight = Reserve(*store, op);
  ASSERT_TRUE(in_flight.ok()) << in_flight.status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*in_flight));
}

// Otherwise a namespace that has reached its quota fills the memory of all.
TEST_F(RedisStoreTest, AKeyThatIsRefusedLeavesNothingInTheIndex) {
  const auto store = OpenStore(options_);
  const auto entries = [&] {
    std::int64_t sum = 0;
    for (int shard = 0; shard < RedisIndex::kShards; ++shard) {
      const std::string index = absl::StrCat(options_.prefix, ":i:", shard);
      sum += RedisProcess::Shared().Must({"ZCARD", index}).value().integer();
    }
    return sum;
  };
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 50; ++i) {
    ops.push_back(OpFor(absl::StrCat("quota-", i)));
    ops.back().only_existing = true;
  }
  const absl::Time now = absl::Now();
  for (int i = 0; i < 50; ++i) {
    const bool late = i % 2 == 0;
    const absl::Duration made = late ? -limits::kDefaultWindow : limits::kMaxKeyAhead;
    const absl::Duration margin = limits::kClockStepMargin + absl::Minutes(1);
    ops.push_back(OpFor(Uuid::TimeOrdered(now + made + (late ? -margin : margin)).ToString()));
  }
  for (const auto& verdict : store->Reserve(ops)) {
    EXPECT_TRUE(!verdict.ok() || std::holds_alternative<Expired>(*verdict));
  }
  EXPECT_EQ(entries(), 0);
  for (const auto& verdict : store->CompleteAndReserve({}, ops).verdicts) {
    EXPECT_TRUE(!verdict.ok() || std::holds_alternative<Expired>(*verdict));
  }
  EXPECT_EQ(entries(), 0);
  // A grant without a new record, whose entry was lost, is answered with one again.
  ReserveOp existing = OpFor("existing");
  const ReleaseOp release{existing.key, existing.id, MustReserve(*store, existing).token, ""};
  ASSERT_TRUE(store->Release({&release, 1}).at(0).ok());
  const std::string index =
      absl::StrCat(options_.prefix, ":i:", existing.id.bytes()[15] % RedisIndex::kShards);
  RedisProcess::Shared().Must({"DEL", index});
  RedisProcess::Shared().Must({"SET", index, "no index"});
  existing.request_token = Uuid::Random();
  existing.only_existing = true;
  EXPECT_EQ(ReasonOf(Reserve(*store, existing).status()), Reason::kStoreUnavailable);
  RedisProcess::Shared().Must({"DEL", index});
  EXPECT_TRUE(MustReserve(*store, existing).repeated);
  EXPECT_EQ(entries(), 1);
  // A caller whose key is only just outside by this machine's clock may be granted by the server's.
  const ReserveOp edge = OpFor(
      Uuid::TimeOrdered(now - limits::kDefaultWindow - limits::kClockStepMargin + absl::Minutes(1))
          .ToString());
  Reserve(*store, edge).status().IgnoreError();
  EXPECT_EQ(entries(), 2);
}

// A reservation comes between the sweep's look at its record and the removal of its entry, and then
// the server refuses to write the entry again.
TEST_F(RedisStoreTest, AnEntryThatTheSweepCouldNotRestoreIsRestoredByTheNextStep) {
  const auto server = StartServer();
  const RedisOptions options = server->options();
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("back");
  MustReserve(*store, op);
  const std::string record = RedisCalls(options).KeyOf(op.id);
  const std::string index =
      absl::StrCat(options.prefix, ":i:", op.id.bytes()[15] % RedisIndex::kShards);
  const auto entries = [&] { return server->Must({"ZCARD", index}).value().integer(); };
  // Not there for a read, and there for the check after the removal.
  server->Must({"DEL", record});
  server->Must({"HSET", record, "other", "field"});
  server->Must({"ACL", "SETUSER", "default", "-zadd"});
  ASSERT_EQ(entries(), 1);
  ASSERT_TRUE(store->Sweep({}).ok());
  ASSERT_EQ(entries(), 0);
  // While it is missing the sweep removes no other.
  ASSERT_TRUE(store->Sweep({}).ok());
  server->Must({"ACL", "SETUSER", "default", "+zadd"});
  ASSERT_TRUE(store->Sweep({}).ok());
  EXPECT_EQ(entries(), 1);
}

TEST_F(RedisStoreTest, RedisForgetsARecordOnlyOnceItMay) {
  const auto store = OpenStore(options_);
  ReserveOp op = OpFor("ttl");
  op.retention = absl::Hours(2);
  op.tombstone = absl::Hours(1);
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const auto ttl = [&] {
    return RedisProcess::Shared().Must({"PTTL", KeyOf(op.id)}).value().integer();
  };
  const Reserved reserved = MustReserve(*store, op);
  EXPECT_EQ(ttl(), -1) << "RESERVED under REQUIRE_RECOVERY never expires";
  const ReleaseOp unknown{op.key, op.id, reserved.token, "", true};
  ASSERT_TRUE(store->Release({&unknown, 1}).at(0).ok());
  EXPECT_EQ(ttl(), -1) << "UNKNOWN never expires";
  ASSERT_TRUE(Complete(*store, op, reserved.token).ok());
  const std::int64_t kept = absl::ToInt64Milliseconds(absl::Hours(3) + limits::kClockStepMargin);
  EXPECT_LE(ttl(), kept + 1);
  EXPECT_GE(ttl(), kept - 60'000);
  // A record of TAKE_OVER expires at once, and not any more once it is UNKNOWN.
  ReserveOp other = OpFor("ttl-2");
  const Reserved taken = MustReserve(*store, other);
  op.id = other.id;
  EXPECT_GT(ttl(), absl::ToInt64Milliseconds(other.retention));
  const ReleaseOp lost{other.key, other.id, taken.token, "", true};
  ASSERT_TRUE(store->Release({&lost, 1}).at(0).ok());
  EXPECT_EQ(ttl(), -1);
}

// A purge of a record that was forgotten already changes none of its other times.
TEST_F(RedisStoreTest, ATombstoneThatIsLeftMeanwhileHolds) {
  ManualClock clock;
  options_.clock = &clock;
  const auto store = OpenStore(options_);
  ReserveOp op = OpFor("entombed");
  const ReleaseOp release{op.key, op.id, MustReserve(*store, op).token, ""};
  ASSERT_TRUE(store->Release({&release, 1}).at(0).ok());
  clock.Advance(op.retention);
  const RedisCalls calls(options_);
  const RedisReply reply = Run(calls.Read(op.id, 0, /*confirmed=*/false));
  const StoredRecord before = *ReadRedisRecord(op.id, reply.value())->stored;
  const auto left = [&](absl::Duration tombstone) {
    const auto times = TombstoneOf(before.record, tombstone, clock.Now());
    return Run(calls.Change(before, RedisTombstoneFields(times), RedisCalls::IfFull::kMade))
        .value()
        .integer();
  };
  EXPECT_EQ(left(absl::Hours(2)), 1);
  EXPECT_EQ(left(absl::Hours(1)), 0) << "another purge, which read the record before";
  EXPECT_EQ(Run(calls.Remove(before)).value().integer(), 0) << "a sweep that did";
  clock.Advance(absl::Hours(2) - absl::Microseconds(1));
  op.request_token = Uuid::Random();
  const auto verdict = Reserve(*store, op);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(std::holds_alternative<Expired>(*verdict));
}

// The sweep's decision is older than what happened to the record since.
TEST_F(RedisStoreTest, AChangeOfARecordThatChangedMeanwhileIsNotMade) {
  ManualClock clock;
  options_.clock = &clock;
  const auto store = OpenStore(options_);
  const RedisCalls calls(options_);
  using Meanwhile = std::function<bool(const ReserveOp&, const Uuid&)>;
  const std::pair<std::string, Meanwhile> cases[] = {
      {"extended",
       [&](const ReserveOp& op, const Uuid& token) {
         const ExtendOp extend{op.key, op.id, token, op.lease, std::nullopt};
         return store->Extend({&extend, 1}).at(0).ok();
       }},
      {"completed",
       [&](const ReserveOp& op, const Uuid& token) { return Complete(*store, op, token).ok(); }},
      {"taken over",
       [&](ReserveOp op, const Uuid& /*token*/) {
         op.recover = true;
         op.request_token = Uuid::Random();
         return MustReserve(*store, op).attempt == 2;
       }},
      {"begun anew",
       [&](ReserveOp op, const Uuid& /*token*/) {
         PurgeOp purge;
         purge.name_space = op.key.name_space;
         purge.key = op.key;
         purge.force = true;
         if (!store->Purge(purge).ok()) return false;
         // All times are those of before.
         clock.Advance(-op.lease);
         op.request_token = Uuid::Random();
         MustReserve(*store, op);
         clock.Advance(op.lease);
         return true;
       }},
  };
  for (const auto& [name, meanwhile] : cases) {
    SCOPED_TRACE(name);
    ReserveOp op = OpFor(name);
    op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
    const Uuid token = MustReserve(*store, op).token;
    clock.Advance(op.lease);
    const RedisReply reply = Run(calls.Read(op.id, 0, /*confirmed=*/false));
    const StoredRecord before = *ReadRedisRecord(op.id, reply.value())->stored;
    ASSERT_TRUE(meanwhile(op, token));
    const RedisCall mark =
        calls.Change(before, {{"st", "4"}, {"rr", ""}}, RedisCalls::IfFull::kMade);
    EXPECT_EQ(Run(mark).value().integer(), 0);
    EXPECT_EQ(Run(calls.Remove(before)).value().integer(), 0);
    EXPECT_NE(Get(*store, op)->state, RecordState::kUnknown);
  }
}

TEST_F(RedisStoreTest, TheLargestReplyAndEveryByte) {
  const auto store = OpenStore(options_);
  std::string body(limits::kMaxReplyBytes - 64, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 + i / 256);
  ReserveOp op = OpFor("binary");
  op.labels = {{std::string("\0\r\n", 3), std::string("\xFF\0*1\r\n", 6)}};
  const Reserved reserved = MustReserve(*store, op);
  ASSERT_TRUE(Complete(*store, op, reserved.token, body).ok());
  EXPECT_TRUE(Replays(*store, op, body));
  const auto record = Get(*store, op);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->labels, op.labels);
  EXPECT_TRUE(record->reply == ReplyWith(body));
  // A reason that looks like a number stays as it is, also through the administrators' writes.
  const ReserveOp numeric = OpFor("numeric");
  MustReserve(*store, numeric);
  ResolveOp resolve;
  resolve.key = numeric.key;
  resolve.id = numeric.id;
  resolve.expected_attempt = 1;
  resolve.force = true;
  resolve.note = {"alice", "0x10"};
  ASSERT_TRUE(store->Resolve(resolve).ok());
  EXPECT_EQ(Get(*store, numeric)->release_reason, "0x10");
}

TEST_F(RedisStoreTest, ACallOfManyLargeRepliesIsSeveralPipelines) {
  const auto store = OpenStore(options_);
  const std::string body(kMaxRedisSliceBytes / 2, 'b');
  std::vector<ReserveOp> reserved;
  std::vector<CompleteOp> completions;
  for (int i = 0; i < 5; ++i) {
    const ReserveOp op = reserved.emplace_back(OpFor(absl::StrCat("large-", i)));
    const Uuid token = MustReserve(*store, op).token;
    completions.push_back({op.key, op.id, token, ReplyWith(absl::StrCat(i, body))});
  }
  const SharedAnswers answers = store->CompleteAndReserve(completions, {OpFor("behind them")});
  ASSERT_EQ(answers.completions.size(), completions.size());
  for (const auto& answer : answers.completions) EXPECT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answers.verdicts.size(), 1u);
  ASSERT_TRUE(answers.verdicts[0].ok()) << answers.verdicts[0].status();
  EXPECT_TRUE(std::holds_alternative<Reserved>(*answers.verdicts[0]));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Replays(*store, reserved[i], absl::StrCat(i, body)));
}

TEST_F(RedisStoreTest, AKeyThatHoldsNoRecordIsDamaged) {
  const auto store = OpenStore(options_);
  const ReserveOp text = OpFor("text");
  const ReserveOp hash = OpFor("hash");
  RedisProcess::Shared().Must({"SET", KeyOf(text.id), "x"});
  RedisProcess::Shared().Must({"HSET", KeyOf(hash.id), "st", "2"});
  for (const ReserveOp& op : {text, hash}) {
    EXPECT_EQ(ReasonOf(Reserve(*store, op).status()), Reason::kRecordDamaged);
    EXPECT_EQ(ReasonOf(Get(*store, op).status()), Reason::kRecordDamaged);
    EXPECT_EQ(ReasonOf(Complete(*store, op, Uuid::Random()).status()), Reason::kRecordDamaged);
  }
  // Neither do walks end there.
  ListOp list;
  list.name_space = "payments";
  const auto page = store->List(list);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->damaged, 2);
  EXPECT_TRUE(store->Sweep({}).ok());
}

TEST_F(RedisStoreTest, AServerThatDoesNotAnswerLeavesTheOutcomeOpen) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  options.command_timeout = absl::Milliseconds(500);
  options.connect_timeout = absl::Milliseconds(500);
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("frozen");
  const Reserved reserved = MustReserve(*store, op);
  server->process().Freeze();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(ReasonOf(Complete(*store, op, reserved.token).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("new")).status()), Reason::kStoreUnavailable);
  EXPECT_FALSE(store->Inspect().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  server->process().Signal(SIGCONT);
  // The late answers of the first connection are nobody's.
  ASSERT_TRUE(Eventually([&] { return Complete(*store, op, reserved.token).ok(); }));
  EXPECT_TRUE(Complete(*store, op, reserved.token)->repeated);
  EXPECT_TRUE(Replays(*store, op));
  EXPECT_TRUE(store->Inspect().ok());
}

TEST_F(RedisStoreTest, AServerThatLostItsDataIsNotUsed) {
  RedisProcessOptions forgetful;
  forgetful.durable = false;
  const auto server = StartServer(forgetful);
  const auto store = OpenStore(server->options());
  const ReserveOp op = OpFor("lost");
  ASSERT_TRUE(Complete(*store, op, MustReserve(*store, op).token).ok());
  server->Kill();
  ASSERT_TRUE(server->Start().ok());
  // The key does not run again: the store does not take an empty server for its own.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ReasonOf(Reserve(*store, op).status()), Reason::kStoreUnavailable);
  }
  EXPECT_FALSE(store->Inspect().ok());
}

TEST_F(RedisStoreTest, AnEmptyServerIsRefusedUnlessItIsAccepted) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  const auto refusal_of = [&options] {
    options.accept_empty = false;
    return RedisStore::Open(options).status();
  };
  const auto expect_refused = [&](const std::string& why) {
    for (int i = 0; i < 2; ++i) {
      const absl::Status refused = refusal_of();
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr(why));
      EXPECT_THAT(std::string(refused.message()), HasSubstr("run `idempotencyd migrate"));
    }
  };
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->missing, RedisIdentity::kMarkers);
  expect_refused("128 of 128 markers under " + options.prefix + " are missing: it is new, or lost");
  // A refusal changes nothing.
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->missing, RedisIdentity::kMarkers);

  options.accept_empty = true;
  OpenStore(options).reset();
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->missing, 0);
  EXPECT_TRUE(refusal_of().ok()) << "the second start";
  server->Must({"FLUSHALL"});
  expect_refused("lost its data");
  // A part of it is lost, for example a node of a Cluster.
  options.accept_empty = true;
  OpenStore(options).reset();
  server->Must({"DEL", RedisIdentity(options).keys()[3]});
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->missing, 1);
  expect_refused("1 of 128 markers under " + options.prefix + " are missing: it lost records");
  options.accept_empty = true;
  OpenStore(options).reset();
  EXPECT_TRUE(refusal_of().ok());
  // A part of it is older: the first marker is not taken for that of all.
  const std::vector<std::string> keys = RedisIdentity(options).keys();
  const auto marker = [&](std::size_t i) {
    return std::string(server->Must({"GET", keys[i]}).value().text());
  };
  const std::string identity = marker(1);
  server->Must({"SET", keys[0], "1:older"});
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->missing, 0);
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->differing, 1);
  expect_refused("1 of 128 markers under " + options.prefix + " differ from the others");
  options.accept_empty = true;
  OpenStore(options).reset();
  EXPECT_EQ(marker(0), identity);
  EXPECT_EQ(RedisStore::FindMarkerFaults(options)->count(), 0);
  EXPECT_TRUE(refusal_of().ok());
}

TEST_F(RedisStoreTest, AServerThatIsEmptiedWhileItIsUsedIsNoticed) {
  const auto server = StartServer();
  const auto store = OpenStore(server->options());
  const ReserveOp op = OpFor("emptied");
  ASSERT_TRUE(Complete(*store, op, MustReserve(*store, op).token).ok());
  ASSERT_TRUE(store->Inspect().ok());
  server->Must({"FLUSHALL"});
  EXPECT_EQ(ReasonOf(store->Inspect().status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(*store, op).status()), Reason::kStoreUnavailable);
}

// An error is no proof that the server has its data.
TEST_F(RedisStoreTest, AServerWhoseMarkersCannotBeReadIsNotUsed) {
  const auto server = StartServer();
  const RedisOptions options = server->options();
  OpenStore(options).reset();
  RedisTopology topology(options);
  RedisIdentity identity(options);
  const RedisReply marker = server->Must({"GET", identity.keys()[0]});
  identity.Set(std::string(marker.value().text()));
  EXPECT_TRUE(RedisConnections::Open(options, topology, identity).ok());
  server->Must({"ACL", "SETUSER", "default", "-get"});
  const absl::Status refused = RedisConnections::Open(options, topology, identity).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("NOPERM"));
}

// A server that does not answer may be the emptied one.
TEST_F(RedisStoreTest, AServerThatIsEmptiedStaysLostWhileItDoesNotAnswer) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  options.command_timeout = absl::Seconds(1);
  options.connect_timeout = absl::Seconds(1);
  const auto store = OpenStore(options);
  // Two at a time open a connection each: one is left when the server has not answered the other.
  ASSERT_TRUE(Eventually([&] {
    server->Must({"CLIENT", "PAUSE", "100"});
    std::thread beside([&] {
      pthread_setname_np(pthread_self(), "beside");
      static_cast<void>(Reserve(*store, OpFor("beside")));
    });
    static_cast<void>(Reserve(*store, OpFor("emptied")));
    beside.join();
    return store->connections().idle == 2;
  }));
  server->Must({"FLUSHALL"});
  EXPECT_EQ(ReasonOf(store->Inspect().status()), Reason::kStoreUnavailable);
  server->process().Freeze();
  EXPECT_FALSE(store->Inspect().ok());
  server->process().Signal(SIGCONT);
  EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("emptied")).status()), Reason::kStoreUnavailable);
}

TEST_F(RedisStoreTest, AFullServerKeepsEveryRecordAsItWas) {
  const auto server = StartServer();
  const auto store = OpenStore(server->options());
  const ReserveOp done = OpFor("done");
  ASSERT_TRUE(Complete(*store, done, MustReserve(*store, done).token).ok());
  ReserveOp open = OpFor("open");
  open.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const Reserved reserved = MustReserve(*store, open);
  // Its next reservation has to remove an expiry, which Redis permits without memory.
  ReserveOp released = OpFor("released");
  released.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  const ReleaseOp release{released.key, released.id, MustReserve(*store, released).token, ""};
  ASSERT_TRUE(store->Release({&release, 1}).at(0).ok());
  released.request_token = Uuid::Random();
  server->Must({"CONFIG", "SET", "maxmemory", "1mb"});
  EXPECT_EQ(ReasonOf(Complete(*store, open, reserved.token).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("new")).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(*store, released).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(Get(*store, released)->state, RecordState::kReleased);
  EXPECT_TRUE(Replays(*store, done)) << "what is read needs no memory";
  EXPECT_FALSE(store->Inspect().ok()) << "the next completion is not durable";
  const auto kept = Get(*store, open);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->state, RecordState::kReserved);
  server->Must({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_FALSE(Complete(*store, open, reserved.token)->repeated);
  EXPECT_TRUE(Replays(*store, open));
}

// What frees memory needs none.
TEST_F(RedisStoreTest, AFullServerIsSweptAndPurged) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  ManualClock clock;
  options.clock = &clock;
  const auto store = OpenStore(options);
  ReserveOp replied = OpFor("replied");
  replied.reply_retention = absl::Hours(1);
  ASSERT_TRUE(
      Complete(*store, replied, MustReserve(*store, replied).token, std::string(4096, 'r')).ok());
  ReserveOp lapsed = OpFor("lapsed");
  lapsed.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(*store, lapsed);
  ReserveOp entombed = OpFor("entombed");
  entombed.tombstone = absl::Hours(24);
  entombed.retention = absl::Hours(1);
  ASSERT_TRUE(Complete(*store, entombed, MustReserve(*store, entombed).token).ok());
  const ReserveOp other = OpFor("other");
  MustReserve(*store, other);
  clock.Advance(absl::Hours(2));
  const auto ttl = [&](const ReserveOp& op) {
    return server->Must({"PTTL", RedisCalls(options).KeyOf(op.id)}).value().integer();
  };
  const std::int64_t before = ttl(replied);
  const auto used = [&] {
    return server->Must({"HSTRLEN", RedisCalls(options).KeyOf(replied.id), "rp"}).value().integer();
  };
  const std::int64_t large = used();
  server->Must({"CONFIG", "SET", "maxmemory", "1mb"});
  const auto swept = store->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->replies_dropped, 1);
  EXPECT_EQ(swept->marked_unknown, 1);
  EXPECT_EQ(swept->entombed, 1);
  EXPECT_EQ(
      server->Must({"HGET", absl::StrCat(options.prefix, ":gauges"), "unknown"}).value().text(),
      "1");
  EXPECT_EQ(Get(*store, lapsed)->state, RecordState::kUnknown);
  EXPECT_EQ(ttl(lapsed), -1);
  EXPECT_LT(used(), large);
  EXPECT_NEAR(static_cast<double>(ttl(replied)), static_cast<double>(before), 7'300'000);
  EXPECT_GT(ttl(replied), 0);
  EXPECT_GT(ttl(entombed), 0);
  // The first change of an administrator that this store sees.
  PurgeOp purge;
  purge.name_space = other.key.name_space;
  purge.key = other.key;
  purge.force = true;
  purge.note = {"alice", "room"};
  const auto purged = store->Purge(purge);
  ASSERT_TRUE(purged.ok()) << purged.status();
  EXPECT_EQ(ReasonOf(Get(*store, other).status()), Reason::kRecordNotFound);
  purge.key = lapsed.key;
  purge.tombstone = absl::Hours(1);
  EXPECT_TRUE(store->Purge(purge).ok());
  AuditOp audit;
  audit.name_space = other.key.name_space;
  audit.limit = 10;
  EXPECT_EQ(store->ReadAudit(audit)->entries.size(), 2u);
  // Nothing that grows is let through.
  EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("new")).status()), Reason::kStoreUnavailable);
}

// The next pass begins with it again.
TEST_F(RedisStoreTest, AChangeThatFailsKeepsNoOtherFromTheSweep) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  ManualClock clock;
  options.clock = &clock;
  const auto store = OpenStore(options);
  ReserveOp replied = OpFor("replied");
  replied.reply_retention = absl::Hours(1);
  ASSERT_TRUE(Complete(*store, replied, MustReserve(*store, replied).token).ok());
  ReserveOp lapsed = OpFor("lapsed");
  lapsed.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(*store, lapsed);
  clock.Advance(absl::Hours(2));
  // No change is confirmed; this one is made all the same.
  options.wait_replicas = 1;
  options.wait_timeout = absl::Milliseconds(10);
  const auto waiting = OpenStore(options);
  EXPECT_EQ(ReasonOf(waiting->Sweep({}).status()), Reason::kStoreUnavailable);
  const RedisCalls calls(options);
  const RedisReply digest = server->Must({"HGET", calls.KeyOf(replied.id), "cd"});
  EXPECT_EQ(digest.value().text().size(), 32u) << "its reply is dropped";
}

// A rise from 0 is an alert.
TEST_F(RedisStoreTest, GaugesThatWereNeverReadAreNone) {
  const std::string gauges = absl::StrCat(options_.prefix, ":gauges");
  const auto store = OpenStore(options_);
  const auto expect_none = [&](bool read) {
    const auto inspected = store->Inspect();
    ASSERT_TRUE(inspected.ok()) << inspected.status();
    EXPECT_EQ(inspected->unknown_records, std::nullopt);
    EXPECT_EQ(inspected->oldest_reserved_age, std::nullopt);
    EXPECT_EQ(inspected->read, read);
  };
  // No pass of the sweep has counted.
  expect_none(/*read=*/true);
  // They cannot be read.
  RedisProcess::Shared().Must({"SET", gauges, "of another type"});
  expect_none(/*read=*/false);
  RedisProcess::Shared().Must({"DEL", gauges});
  RedisProcess::Shared().Must({"HSET", gauges, "unknown", "30", "oldest_reserved", ""});
  EXPECT_EQ(store->Inspect()->unknown_records, 30);
  EXPECT_EQ(store->Inspect()->oldest_reserved_age, absl::ZeroDuration());
  RedisProcess::Shared().Must({"DEL", gauges});
  EXPECT_EQ(store->Inspect()->unknown_records, 30) << "as it was";
}

TEST_F(RedisStoreTest, AServerThatMayDropRecordsIsRefused) {
  RedisProcessOptions evicting;
  evicting.settings = {"--maxmemory-policy", "allkeys-lru"};
  const auto server = StartServer(evicting);
  const absl::Status refused = RedisStore::Open(server->options()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("noeviction"));
  RedisOptions cluster = server->options();
  cluster.mode = RedisOptions::Mode::kCluster;
  EXPECT_FALSE(RedisStore::Open(cluster).ok());
}

TEST_F(RedisStoreTest, SettingsThatLoseCompletionsAreWarnedOf) {
  const CapturedLog log;
  const auto server = StartServer();
  const auto store = OpenStore(server->options());
  EXPECT_THAT(log.text(), ::testing::Not(HasSubstr("acknowledged before they are durable")));
  RedisProcessOptions sometimes;
  sometimes.settings = {"--no-appendfsync-on-rewrite", "yes"};
  const auto other = StartServer(sometimes);
  const auto second = OpenStore(other->options());
  EXPECT_THAT(log.text(), HasSubstr("no-appendfsync-on-rewrite is yes"));
}

// As after a failover to a server with other settings.
TEST_F(RedisStoreTest, SettingsOfAServerThatWasStartedAgainAreLookedAt) {
  const CapturedLog log;
  const auto server = StartServer();
  const auto store = OpenStore(server->options());
  MustReserve(*store, OpFor("before"));
  server->Must({"CONFIG", "SET", "appendfsync", "everysec"});
  const auto warned = [&] { return absl::StrContains(log.text(), "appendfsync is everysec"); };
  EXPECT_TRUE(Eventually([&] {
    server->Must({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    return store->Inspect().ok();
  }));
  EXPECT_FALSE(warned()) << "the same run";
  server->Kill();
  ASSERT_TRUE(server->Start().ok());
  server->Must({"CONFIG", "SET", "appendfsync", "everysec"});
  ASSERT_TRUE(Eventually([&] { return store->Inspect().ok(); }));
  EXPECT_TRUE(warned());
}

TEST_F(RedisStoreTest, AReplicaIsRefused) {
  const auto master = StartServer();
  const auto replica = StartReplicaOf(*master);
  const absl::Status refused = RedisStore::Open(replica->options()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("replica"));
}

// Replicas refuse writes, unless they are configured not to.
TEST_F(RedisStoreTest, AMasterThatBecomesAReplicaIsLeft) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  options.acquire_timeout = absl::Seconds(1);
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("demoted");
  ASSERT_TRUE(Complete(*store, op, MustReserve(*store, op).token).ok());
  server->Must({"CONFIG", "SET", "replica-read-only", "no"});
  // Of a master that nobody reaches, so that its data stay.
  server->Must({"REPLICAOF", "127.0.0.1", "1"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(store->Inspect().status()), Reason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("new")).status()), Reason::kStoreUnavailable);
  }
  server->Must({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(Eventually([&] { return store->Inspect().ok() && Replays(*store, op); }));
}

// One that was used meanwhile, of a name that leads to another server by now.
TEST_F(RedisStoreTest, AConnectionFromBeforeADemotionIsNotUsedAgain) {
  const auto server = StartServer();
  const RedisOptions options = server->options();
  RedisTopology topology(options);
  const RedisIdentity identity(options);
  const auto before = RedisConnections::Open(options, topology, identity).value();
  EXPECT_TRUE(before->Usable());
  topology.NoteReplica(options.addresses.front());
  const auto after = RedisConnections::Open(options, topology, identity).value();
  EXPECT_TRUE(after->Usable());
  EXPECT_FALSE(before->Usable());
  EXPECT_FALSE(before->Intact());
}

TEST_F(RedisStoreTest, TooManyClientsAreAnOutage) {
  const auto server = StartServer();
  const auto store = OpenStore(server->options());
  const ReserveOp op = OpFor("few");
  MustReserve(*store, op);
  server->Must({"CONFIG", "SET", "maxclients", "1"});
  // The store's own connection is the one; another store gets none.
  EXPECT_EQ(RedisStore::Open(server->options()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Get(*store, op).ok());
}

TEST_F(RedisStoreTest, WithoutItsReplicasNothingIsAcknowledged) {
  const auto master = StartServer();
  const auto replica = StartReplicaOf(*master);
  RedisOptions options = master->options();
  options.wait_replicas = 1;
  options.wait_timeout = absl::Seconds(1);
  ASSERT_TRUE(Eventually([&] {
    const RedisReply info = master->Must({"INFO", "replication"});
    return absl::StrContains(std::string(info.value().text()), "state=online");
  }));
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("confirmed");
  const Reserved reserved = MustReserve(*store, op);
  ASSERT_TRUE(Complete(*store, op, reserved.token).ok());
  EXPECT_TRUE(Replays(*store, op));
  EXPECT_TRUE(store->Inspect().ok());
  const ReserveOp open = OpFor("open");
  const Reserved second = MustReserve(*store, open);
  replica->process().Freeze();
  EXPECT_EQ(ReasonOf(Complete(*store, open, second.token).status()), Reason::kStoreUnavailable);
  // Neither a replay, nor the repetition, nor a confirmed read, nor the health.
  EXPECT_EQ(ReasonOf(Complete(*store, open, second.token).status()), Reason::kStoreUnavailable);
  EXPECT_FALSE(Replays(*store, op));
  EXPECT_FALSE(Get(*store, op, /*confirmed=*/true).ok());
  EXPECT_TRUE(Get(*store, op).ok());
  EXPECT_FALSE(store->Inspect().ok());
  replica->process().Signal(SIGCONT);
  ASSERT_TRUE(Eventually([&] { return Complete(*store, open, second.token).ok(); }));
  EXPECT_TRUE(Complete(*store, open, second.token)->repeated);
  EXPECT_TRUE(Replays(*store, op));
}

// WAIT is for what this connection wrote: an answer that is based on the write of another one
// repeats a part of it.
TEST_F(RedisStoreTest, AnAnswerThatChangesNothingIsWrittenToo) {
  const auto server = StartServer();
  RedisOptions options = server->options();
  ManualClock clock;
  options.clock = &clock;
  RedisOptions waiting_options = options;
  waiting_options.wait_replicas = 1;
  waiting_options.wait_timeout = absl::Milliseconds(1);
  const auto store = OpenStore(options);
  const auto waiting = OpenStore(waiting_options);
  enum class State { kReserved, kCompleted, kReleased, kUnknown, kForgotten };
  using Call = std::function<void(ReserveOp, const Uuid&)>;
  const auto anew = [&](ReserveOp op) {
    op.request_token = Uuid::Random();
    Reserve(*waiting, op).status().IgnoreError();
  };
  const auto release = [&](Store& by, const ReserveOp& op, const Uuid& token, bool unknown) {
    const ReleaseOp release_op{op.key, op.id, token, "", unknown, absl::Minutes(unknown ? 0 : 1)};
    by.Release({&release_op, 1}).at(0).IgnoreError();
  };
  const auto read = [&](const ReserveOp& op, const Uuid& /*token*/) {
    Get(*waiting, op, /*confirmed=*/true).status().IgnoreError();
  };
  const auto extend = [&](const ReserveOp& op, const Uuid& token) {
    const ExtendOp extend_op{op.key, op.id, token, op.lease, std::nullopt};
    waiting->Extend({&extend_op, 1}).at(0).status().IgnoreError();
  };
  const auto complete = [&](const ReserveOp& op, const Uuid& token) {
    Complete(*waiting, op, token).status().IgnoreError();
  };
  struct Case {
    std::string name;
    State state;
    Call call;
  };
  const Case cases[] = {
      {"replay", State::kCompleted, [&](ReserveOp op, const Uuid&) { anew(op); }},
      {"in flight", State::kReserved, [&](ReserveOp op, const Uuid&) { anew(op); }},
      {"repeated", State::kReserved,
       [&](ReserveOp op, const Uuid&) { Reserve(*waiting, op).status().IgnoreError(); }},
      {"mismatch", State::kCompleted,
       [&](ReserveOp op, const Uuid&) {
         op.fingerprints = {{1, std::string(32, 'b')}};
         anew(op);
       }},
      {"released", State::kReleased,
       [&](ReserveOp op, const Uuid&) { Reserve(*waiting, op).status().IgnoreError(); }},
      {"unknown", State::kUnknown, [&](ReserveOp op, const Uuid&) { anew(op); }},
      {"completed", State::kCompleted, complete},
      {"another reply", State::kCompleted,
       [&](const ReserveOp& op, const Uuid& token) {
         Complete(*waiting, op, token, "other").status().IgnoreError();
       }},
      {"complete after release", State::kReleased, complete},
      {"complete superseded", State::kReserved,
       [&](const ReserveOp& op, const Uuid&) { complete(op, Uuid::Random()); }},
      {"release again", State::kReleased,
       [&](const ReserveOp& op, const Uuid& token) { release(*waiting, op, token, false); }},
      {"unknown again", State::kUnknown,
       [&](const ReserveOp& op, const Uuid& token) { release(*waiting, op, token, true); }},
      {"release after completion", State::kCompleted,
       [&](const ReserveOp& op, const Uuid& token) { release(*waiting, op, token, false); }},
      {"release superseded", State::kReserved,
       [&](const ReserveOp& op, const Uuid&) { release(*waiting, op, Uuid::Random(), false); }},
      {"extend after completion", State::kCompleted, extend},
      {"extend unknown", State::kUnknown, extend},
      {"extend superseded", State::kReserved,
       [&](const ReserveOp& op, const Uuid&) { extend(op, Uuid::Random()); }},
      {"paused", State::kReleased, [&](ReserveOp op, const Uuid&) { anew(op); }},
      {Uuid::TimeOrdered(clock.Now()).ToString(), State::kForgotten,
       [&](ReserveOp op, const Uuid&) {
         op.window = op.retention;
         anew(op);
       }},
      {"tombstone", State::kForgotten, [&](ReserveOp op, const Uuid&) { anew(op); }},
      {"read", State::kCompleted, read},
      {"read unknown", State::kUnknown, read},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    ReserveOp op = OpFor(test.name);
    op.window = op.retention;
    if (test.name == "tombstone") op.tombstone = 2 * op.retention;
    const Uuid token = MustReserve(*store, op).token;
    if (test.state == State::kForgotten) {
      clock.Advance(op.retention);
    } else if (test.state == State::kCompleted) {
      ASSERT_TRUE(Complete(*store, op, token).ok());
    } else if (test.state != State::kReserved) {
      release(*store, op, token, test.state == State::kUnknown);
    }
    server->Must({"CONFIG", "RESETSTAT"});
    test.call(op, token);
    const RedisReply stats = server->Must({"INFO", "commandstats"});
    EXPECT_THAT(std::string(stats.value().text()),
                HasSubstr(test.state == State::kUnknown ? "cmdstat_hset:" : "cmdstat_pexpireat:"));
  }
}

// With a newer server than Debian's 7.0 (IDEMPOTENCY_TEST_REDIS) answers wait for its file.
TEST_F(RedisStoreTest, WaitAofNeedsAServerThatHasIt) {
  const auto process = StartServer();
  RedisOptions options = process->options();
  options.wait_aof = true;
  const RedisReply info = process->Must({"INFO", "server"});
  const RedisServer server = ParseRedisInfo(info.value().text());
  if (std::make_pair(server.major, server.minor) < std::make_pair(7, 2)) {
    EXPECT_EQ(RedisStore::Open(options).status().code(), absl::StatusCode::kFailedPrecondition);
    return;
  }
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("flushed");
  const Reserved reserved = MustReserve(*store, op);
  ASSERT_TRUE(Complete(*store, op, reserved.token).ok());
  process->Must({"CONFIG", "SET", "appendonly", "no"});
  EXPECT_EQ(ReasonOf(Reserve(*store, OpFor("open")).status()), Reason::kStoreUnavailable);
}

TEST_F(RedisStoreTest, AUserOfItsOwnWithAPasswordThatChanges) {
  const auto server = StartServer();
  server->Must({"ACL", "SETUSER", "app", "on", ">first", "~idem:*", "-@all", "+@read", "+@write",
                "+@scripting", "+@connection", "+info", "+wait", "+time", "-@dangerous", "+info"});
  const std::string file = server->File("password");
  std::ofstream(file) << "first\n";
  RedisOptions options = server->options();
  options.user = "app";
  options.prefix = "idem:x";
  options.password.file = file;
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("acl");
  ASSERT_TRUE(Complete(*store, op, MustReserve(*store, op).token).ok());
  EXPECT_TRUE(store->Inspect().ok());
  ListOp list;
  list.name_space = "payments";
  EXPECT_TRUE(store->List(list).ok());
  EXPECT_TRUE(store->Sweep({}).ok());
  // The old password no longer opens a connection, the new one does without a restart.
  server->Must({"ACL", "SETUSER", "app", ">second", "<first"});
  server->Must({"CLIENT", "KILL", "USER", "app"});
  Reserve(*store, op).status().IgnoreError();
  EXPECT_FALSE(Replays(*store, op));
  std::ofstream(file) << "second\n";
  EXPECT_TRUE(Eventually([&] { return Replays(*store, op); }));
}

TEST_F(RedisStoreTest, TlsWithCertificatesOfBothSides) {
  CertificateAuthority authority;
  const testing::TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& content) {
    std::ofstream(folder.File(name)) << content;
    return folder.File(name);
  };
  const auto server_identity = authority.Issue("redis", "IP:127.0.0.1");
  const auto client_identity = authority.Issue("idempotencyd");
  const std::string ca = write("ca.pem", authority.root());
  RedisProcessOptions tls;
  tls.tls = true;
  tls.settings = {"--tls-cert-file",    write("s.pem", server_identity.certificate),
                  "--tls-key-file",     write("s.key", server_identity.key),
                  "--tls-ca-cert-file", ca};
  const auto server = StartServer(tls);
  RedisOptions options = server->options();
  EXPECT_FALSE(RedisStore::Open(options).ok()) << "without TLS";
  options.tls = true;
  options.tls_ca = ca;
  EXPECT_FALSE(RedisStore::Open(options).ok()) << "without a certificate";
  options.tls_certificate = write("c.pem", client_identity.certificate);
  options.tls_key = write("c.key", client_identity.key);
  const auto store = OpenStore(options);
  const ReserveOp op = OpFor("tls");
  const std::string body(limits::kMaxReplyBytes / 2, 'x');
  ASSERT_TRUE(Complete(*store, op, MustReserve(*store, op).token, body).ok());
  EXPECT_TRUE(Replays(*store, op, body));
  CertificateAuthority other;
  options.tls_ca = write("other.pem", other.root());
  EXPECT_FALSE(RedisStore::Open(options).ok()) << "of another authority";
  options.tls_ca = ca;
  options.addresses = {{"localhost", server->port()}};
  EXPECT_FALSE(RedisStore::Open(options).ok()) << "of another host";
  // A program that embeds the service may not ignore SIGPIPE.
  const RedisAddress address{"127.0.0.1", server->port()};
  const auto socket =
      RedisSocket::Connect(address, options,
                           std::chrono::steady_clock::now() + std::chrono::seconds(20))
          .value();
  server->Kill();
  const auto before = signal(SIGPIPE, SIG_DFL);
  auto outcome = RedisSocket::Outcome::kMoved;
  while (outcome == RedisSocket::Outcome::kMoved) {
    outcome = socket->Write(std::string(100'000, 'x')).outcome;
    // Once its answer to the first bytes has come.
    if (outcome != RedisSocket::Outcome::kClosed) {
      WaitFor(socket->descriptor(), POLLIN,
              std::chrono::steady_clock::now() + std::chrono::seconds(20));
      outcome = RedisSocket::Outcome::kMoved;
    }
  }
  signal(SIGPIPE, before);
  EXPECT_EQ(outcome, RedisSocket::Outcome::kClosed);
}

// Completes as fast as it can on several threads, and keeps what was acknowledged.
class Load {
 public:
  explicit Load(Store& store) {
    for (int i = 0; i < 3; ++i) {
      threads_.emplace_back([this, &store, i] {
        pthread_setname_np(pthread_self(), "load");
        for (int n = 0; !stop_; ++n) Once(store, absl::StrCat("load-", i, "-", n));
      });
    }
  }
  ~Load() { Stop(); }
  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  std::size_t acknowledged() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return acknowledged_.size();
  }
  std::vector<ReserveOp> operations() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return acknowledged_;
  }

 private:
  void Once(Store& store, const std::string& key) {
    const ReserveOp op = RedisStoreTest::OpFor(key);
    const auto verdict = store.Reserve({&op, 1}).at(0);
    if (!verdict.ok() || !std::holds_alternative<Reserved>(*verdict)) return;
    const CompleteOp completion{op.key, op.id, std::get<Reserved>(*verdict).token,
                                RedisStoreTest::ReplyWith("paid")};
    if (!store.Complete({&completion, 1}).at(0).ok()) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    acknowledged_.push_back(op);
  }

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<ReserveOp> acknowledged_;
  std::vector<std::thread> threads_;
};

TEST_F(RedisStoreTest, ACrashLosesNoAcknowledgedCompletion) {
  const auto server = StartServer();
  const auto store = OpenStore(server->options());
  for (int crash = 1; crash <= 3; ++crash) {
    Load load(*store);
    const std::size_t enough = 100;
    ASSERT_TRUE(Eventually([&] { return load.acknowledged() >= enough; }));
    server->Kill();
    load.Stop();
    ASSERT_TRUE(server->Start().ok());
    const std::vector<ReserveOp> operations = load.operations();
    ASSERT_TRUE(Eventually([&] { return Replays(*store, operations.front()); }));
    for (const ReserveOp& op : operations) {
      const auto record = Get(*store, op);
      ASSERT_TRUE(record.ok()) << op.key.key << ": " << record.status();
      EXPECT_EQ(record->state, RecordState::kCompleted);
    }
    for (const ReserveOp& op : operations) {
      PurgeOp purge;
      purge.name_space = op.key.name_space;
      purge.key = op.key;
      ASSERT_TRUE(store->Purge(purge).ok());
    }
  }
}

}  // namespace
}  // namespace idempotency::internal
