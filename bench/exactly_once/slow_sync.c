// A slower disk for the processes into which it is preloaded: fsync and fdatasync take
// SLOW_SYNC_US microseconds longer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void Delay(void) {
  const char* const text = getenv("SLOW_SYNC_US");
  const long microseconds = text == NULL ? 0 : atol(text);
  struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

int fsync(int descriptor) {
  static int (*next)(int);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "fsync");
  Delay();
  return next(descriptor);
}

int fdatasync(int descriptor) {
  static int (*next)(int);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "fdatasync");
  Delay();
  return next(descriptor);
}
