#include "server/store/redis/index.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/sha256.h"
#include "server/store/redis/record.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kIdBytes = 16;
constexpr std::size_t kHashBytes = 4;
constexpr std::size_t kMemberBytes = kIdBytes + 2 * kHashBytes;

std::string HashOf(std::string_view part) {
  const Sha256Digest digest = Sha256(part);
  return std::string(digest.begin(), digest.begin() + kHashBytes);
}

// The id, then hashes of the namespace and of the scope.
std::string MemberOf(const RecordKey& key, const RecordId& id) {
  return absl::StrCat(AbslView(UuidBytes(id)), HashOf(key.name_space), HashOf(key.scope));
}

// Behind every member of this id, and before those of the next.
std::string Behind(std::string_view id) {
  return absl::StrCat(AbslView(id), std::string(kMemberBytes, '\xFF'));
}

bool Passes(std::string_view member, const std::string& name_space, const std::string& scope) {
  return (name_space.empty() || member.substr(kIdBytes, kHashBytes) == name_space) &&
         (scope.empty() || member.substr(kIdBytes + kHashBytes) == scope);
}

std::string_view IdOf(std::string_view member) { return member.substr(0, kIdBytes); }

// The members of all shards up to the point to which each of them was read.
struct Chunk {
  std::vector<std::string> members;
  // nullopt: to the end.
  std::optional<std::string> frontier;
};

absl::StatusOr<Chunk> ChunkOf(const std::vector<absl::StatusOr<RedisReply>>& replies, int size) {
  Chunk chunk;
  for (const absl::StatusOr<RedisReply>& reply : replies) {
    if (!reply.ok()) return ToRedisCallerStatus(reply.status());
    const RedisValue members = reply->value();
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i].text().size() == kMemberBytes) chunk.members.emplace_back(members[i].text());
    }
    if (members.size() < static_cast<std::size_t>(size)) continue;
    const std::string last(IdOf(members[members.size() - 1].text()));
    if (!chunk.frontier || last < *chunk.frontier) chunk.frontier = last;
  }
  std::sort(chunk.members.begin(), chunk.members.end());
  if (!chunk.frontier) return chunk;
  const auto end =
      std::upper_bound(chunk.members.begin(), chunk.members.end(), Behind(*chunk.frontier));
  chunk.members.erase(end, chunk.members.end());
  return chunk;
}

// Adds the next member of the index. False if the page has no room for its id.
bool AddTo(RedisIndex::Page& page, const std::string& member, int limit) {
  const RecordId id = *UuidFrom(IdOf(member));
  if (!page.entries.empty() && page.entries.back().id == id) {
    page.entries.back().members.push_back(member);
    return true;
  }
  if (page.entries.size() == static_cast<std::size_t>(limit)) {
    page.next = page.entries.back().id;
    return false;
  }
  page.entries.push_back({id, {member}});
  return true;
}

}  // namespace

std::string RedisIndex::KeyOf(std::string_view member) const {
  // The last byte of an id is part of a hash, whatever the key.
  const int shard = static_cast<std::uint8_t>(member[kIdBytes - 1]) % kShards;
  return absl::StrCat(options_.prefix, ":i:", shard);
}

RedisCall RedisIndex::Add(const RecordKey& key, const RecordId& id) const {
  return AddMember(MemberOf(key, id));
}

RedisCall RedisIndex::AddMember(const std::string& member) const {
  return RedisCalls::Plain({"ZADD", KeyOf(member), "0", member});
}

RedisCall RedisIndex::Remove(const std::string& member) const {
  return RedisCalls::Plain({"ZREM", KeyOf(member), member});
}

absl::StatusOr<RedisIndex::Page> RedisIndex::Read(RedisConnections& connections,
                                                  const std::optional<RecordId>& after,
                                                  const std::optional<RecordId>& until,
                                                  const Filter& filter, int limit) const {
  const std::string name_space = filter.name_space ? HashOf(*filter.name_space) : "";
  const std::string scope = filter.scope ? HashOf(*filter.scope) : "";
  const std::string to = until ? absl::StrCat("(", Behind(UuidBytes(*until))) : "+";
  const int size = name_space.empty() ? std::min(limit + 1, kMaxChunk) : kMaxChunk;
  Page page;
  std::string from = after ? absl::StrCat("(", Behind(UuidBytes(*after))) : "-";
  for (int i = 0; i < kMaxChunks; ++i) {
    std::vector<RedisCall> calls;
    for (int shard = 0; shard < kShards; ++shard) {
      calls.push_back(RedisCalls::Plain({"ZRANGEBYLEX", absl::StrCat(options_.prefix, ":i:", shard),
                                         from, to, "LIMIT", "0", absl::StrCat(size)}));
    }
    const absl::StatusOr<Chunk> chunk = ChunkOf(connections.Run(calls), size);
    if (!chunk.ok()) return chunk.status();
    for (const std::string& member : chunk->members) {
      if (Passes(member, name_space, scope) && !AddTo(page, member, limit)) return page;
    }
    if (!chunk->frontier) {
      page.next.reset();
      return page;
    }
    page.next = UuidFrom(*chunk->frontier);
    from = absl::StrCat("(", Behind(*chunk->frontier));
  }
  return page;
}

}  // namespace idempotency::internal
