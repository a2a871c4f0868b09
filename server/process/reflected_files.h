#ifndef IDEMPOTENCY_SERVER_PROCESS_REFLECTED_FILES_H_
#define IDEMPOTENCY_SERVER_PROCESS_REFLECTED_FILES_H_

#include <map>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "grpc/reflection/v1/reflection.pb.h"

#include "core/mutex.h"

namespace idempotency::internal {

// Answers the requests of server reflection, from the proto files that are linked into the program.
// Thread-safe.
class ReflectedFiles {
 public:
  // `services` by their full names.
  explicit ReflectedFiles(std::vector<std::string> services);
  ReflectedFiles(const ReflectedFiles&) = delete;
  ReflectedFiles& operator=(const ReflectedFiles&) = delete;

  // An ErrorResponse with NOT_FOUND if there is no such file, symbol or extension, and with
  // INVALID_ARGUMENT if the request names none.
  grpc::reflection::v1::ServerReflectionResponse Answer(
      const grpc::reflection::v1::ServerReflectionRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Response = grpc::reflection::v1::ServerReflectionResponse;
  using File = google::protobuf::FileDescriptor;

  // The file and those that it imports, each once. Older clients do not request imports.
  void WriteFile(const File* file, Response& response);
  void WriteExtensions(const std::string& type, Response& response) const;
  const std::string& SerializedFile(const File& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const google::protobuf::DescriptorPool& pool_;
  const std::vector<std::string> services_;
  Mutex mutex_;
  // The files that were requested; no more than are linked.
  std::map<const File*, std::string> serialized_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_PROCESS_REFLECTED_FILES_H_
