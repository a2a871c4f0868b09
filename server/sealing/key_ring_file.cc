#include "server/sealing/key_ring_file.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

#include "core/fatal.h"
#include "server/limits.h"
#include "server/sealing/secret.h"

namespace idempotency::internal {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool Close() { return number_ < 0 || close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

absl::Status Wrong(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::Status WrongBySystem(absl::string_view path, absl::string_view what) {
  return Wrong(path, absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status CheckPermissions(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return Wrong(path, "is no regular file");
  if ((file.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return Wrong(path, absl::StrFormat("has the mode %04o, so that other users can read or change "
                                       "the keys; run `chmod 600 %s`",
                                       file.st_mode & 07777, path));
  }
  if (file.st_size > static_cast<off_t>(limits::kMaxKeyRingFileBytes)) {
    return Wrong(path, absl::StrCat("is larger than ", limits::kMaxKeyRingFileBytes, " bytes"));
  }
  return absl::OkStatus();
}

// Reads into `content`, whose size is the bound, without ever moving it; then cuts it.
absl::Status ReadInto(const std::string& path, int descriptor, std::string& content) {
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t got = read(descriptor, &content[size], content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return WrongBySystem(path, "cannot be read");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size == content.size()) {
    return Wrong(path, absl::StrCat("is larger than ", limits::kMaxKeyRingFileBytes, " bytes"));
  }
  content.resize(size);
  return absl::OkStatus();
}

// The content of a file, whose permissions are those of the descriptor that is read.
absl::Status ReadChecked(const std::string& path, std::string& content, struct stat& file) {
  const Descriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.number() < 0 || fstat(opened.number(), &file) != 0) {
    return WrongBySystem(path, "cannot be read");
  }
  if (absl::Status permitted = CheckPermissions(path, file); !permitted.ok()) return permitted;
  return ReadInto(path, opened.number(), content);
}

absl::StatusOr<std::shared_ptr<const KeyRing>> ParseOf(const std::string& path,
                                                       const std::string& content) {
  absl::StatusOr<std::shared_ptr<const KeyRing>> ring = KeyRing::Parse(content);
  if (!ring.ok()) return Wrong(path, ring.status().message());
  return ring;
}

std::string Utc(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// Adds the text of a key with a new secret. `text` has room for it.
void AppendKey(std::uint32_t id, absl::Time now, absl::Time seals_from, std::string& text) {
  Secret secret;
  const int drawn = RAND_priv_bytes(secret.data(), static_cast<int>(Secret::kBytes));
  Require(drawn == 1, "OpenSSL has no random numbers for a key");
  std::string encoded =
      absl::Base64Escape(absl::string_view(secret.view().data(), secret.view().size()));
  const WipedAtEnd wiped(encoded);
  absl::StrAppend(&text, "keys {\n  id: ", id, "\n  secret: \"", encoded, "\"\n");
  // With fractions: of two keys that begin in one second, the one that was made later seals.
  absl::StrAppend(&text, "  created: \"",
                  absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", now, absl::UTCTimeZone()), "\"\n");
  absl::StrAppend(&text, "  seals_from: \"", Utc(seals_from), "\"\n}\n");
}

bool WriteAll(int descriptor, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool SyncFolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return opened.number() >= 0 && fsync(opened.number()) == 0;
}

// A file beside the other one, which takes its place. While it exists, no other command changes the
// key ring.
class Replacement {
 public:
  static absl::StatusOr<std::unique_ptr<Replacement>> Begin(const std::string& path) {
    std::string beside = path + ".new";
    const int made =
        open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (made >= 0) return absl::WrapUnique(new Replacement(path, std::move(beside), made));
    if (errno != EEXIST) return WrongBySystem(beside, "cannot be made");
    return Wrong(
        beside, "exists: another command adds a key, or one was interrupted; remove it if none is");
  }
  ~Replacement() {
    if (beside_) static_cast<void>(unlink(beside_->c_str()));
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  // Puts `text` in the other one's place, with its owner and mode.
  absl::Status Finish(absl::string_view text, const std::optional<struct stat>& former) {
    const bool owned = !former || fchown(made_.number(), former->st_uid, former->st_gid) == 0;
    const bool restricted = !former || fchmod(made_.number(), former->st_mode & 0640) == 0;
    if (owned && restricted && WriteAll(made_.number(), text) && fsync(made_.number()) == 0 &&
        made_.Close() && std::rename(beside_->c_str(), path_.c_str()) == 0) {
      // From here on the name may be another command's.
      beside_.reset();
      if (SyncFolderOf(path_)) return absl::OkStatus();
    }
    return WrongBySystem(path_, "cannot be written");
  }

 private:
  Replacement(std::string path, std::string beside, int made)
      : path_(std::move(path)), beside_(std::move(beside)), made_(made) {}

  const std::string path_;
  std::optional<std::string> beside_;
  Descriptor made_;
};

// Random, so that keys that are made in two copies of a file, or after a key was lost, differ. Rows
// name a key by its id alone.
std::uint32_t DrawId() {
  std::uint32_t id = 0;
  while (id == 0) {
    const int drawn = RAND_bytes(reinterpret_cast<unsigned char*>(&id), sizeof(id));
    Require(drawn == 1, "OpenSSL has no random numbers for an id");
  }
  return id;
}

absl::StatusOr<std::uint32_t> NextId(const std::string& path, const KeyRing& ring) {
  if (ring.keys().size() >= limits::kMaxKeyRingKeys) {
    return Wrong(path, absl::StrCat("has ", limits::kMaxKeyRingKeys,
                                    " keys, the largest number; remove those under which no record "
                                    "is left (docs/sealing.md, Removal of a key)"));
  }
  std::uint32_t id = DrawId();
  while (ring.Find(id) != nullptr) id = DrawId();
  return id;
}

// A key that begins to seal after the new one would take over from it then: one that leaked with
// the others, for example. `ring` may be nullptr.
absl::Status CheckIsLast(const std::string& path, const KeyRing* ring, absl::Time seals_from) {
  if (ring == nullptr) return absl::OkStatus();
  for (const auto& key : ring->keys()) {
    if (key->seals_from() <= seals_from) continue;
    return Wrong(
        path,
        absl::StrCat("has key ", key->id(), ", which would take over from the new one at ",
                     absl::FormatTime(absl::RFC3339_sec, key->seals_from(), absl::UTCTimeZone()),
                     "; set --seals_in to a later time, or remove that key first (docs/sealing.md, "
                     "\"Removal of a key\")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const KeyRing>> ReadKeyRingFile(const std::string& path) {
  std::string content(limits::kMaxKeyRingFileBytes + 1, '\0');
  const WipedAtEnd wiped(content);
  struct stat file {};
  if (absl::Status read = ReadChecked(path, content, file); !read.ok()) return read;
  return ParseOf(path, content);
}

absl::StatusOr<std::uint32_t> GenerateKey(const std::string& path, const NewKey& key,
                                          absl::Time now) {
  // Before the read: the key of a command that ends in between would be lost.
  const auto replacement = Replacement::Begin(path);
  if (!replacement.ok()) return replacement.status();
  // With room for one more key.
  std::string content(2 * limits::kMaxKeyRingFileBytes, '\0');
  const WipedAtEnd wiped(content);
  std::optional<struct stat> former;
  struct stat file {};
  std::shared_ptr<const KeyRing> ring;
  std::uint32_t id = DrawId();
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    content.clear();
    content.append("# Secret. See docs/sealing.md before you remove a key.\n");
  } else {
    if (absl::Status read = ReadChecked(path, content, file); !read.ok()) return read;
    former = file;
    auto parsed = ParseOf(path, content);
    if (!parsed.ok()) return parsed.status();
    ring = *std::move(parsed);
    const absl::StatusOr<std::uint32_t> next = NextId(path, *ring);
    if (!next.ok()) return next.status();
    id = *next;
    if (content.back() != '\n') content.push_back('\n');
  }
  const absl::Duration seals_in =
      key.seals_in.value_or(former ? kDefaultSealsIn : absl::ZeroDuration());
  if (absl::Status last = CheckIsLast(path, ring.get(), now + seals_in); !last.ok()) return last;
  AppendKey(id, now, now + seals_in, content);
  if (content.size() > limits::kMaxKeyRingFileBytes) {
    return Wrong(path,
                 absl::StrCat("would be larger than ", limits::kMaxKeyRingFileBytes, " bytes"));
  }
  absl::Status written = (*replacement)->Finish(content, former);
  if (!written.ok()) return written;
  return id;
}

absl::StatusOr<std::string> DescribeKeyRingFile(const std::string& path, absl::Time now) {
  const auto ring = ReadKeyRingFile(path);
  if (!ring.ok()) return ring.status();
  const SealingKey* const sealing = (*ring)->SealsAt(now);
  std::string text;
  for (const auto& key : (*ring)->keys()) {
    const char* const does = key.get() == sealing      ? "seals since"
                             : key->seals_from() > now ? "seals from"
                                                       : "opens, sealed from";
    absl::StrAppendFormat(&text, "key %d: %s %s, check value %s\n", key->id(), does,
                          Utc(key->seals_from()), key->check_value());
  }
  if (sealing == nullptr) {
    absl::StrAppend(&text, "No key seals yet: a daemon serves only with --accept_unsealed.\n");
  }
  return text;
}

}  // namespace idempotency::internal
