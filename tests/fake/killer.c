/* Preloaded into a program, kills it (SIGKILL) at its KILL_AT-th change of a file or folder, counted from 1: a write
 * is cut in half, any other change does not happen. At the end it writes the number of changes to KILL_COUNT, a file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long changes;

/* Whether this change is the last thing that the program does. */
static int is_last(void) {
  const char* const at = getenv("KILL_AT");
  const long number = atomic_fetch_add(&changes, 1) + 1;
  return at != NULL && number == atol(at);
}

static void die(void) { kill(getpid(), SIGKILL); }

static int is_file(int descriptor) { return descriptor > STDERR_FILENO; }

ssize_t write(int descriptor, const void* bytes, size_t count) {
  const int last = is_file(descriptor) && is_last();
  const ssize_t written = syscall(SYS_write, descriptor, bytes, last ? count / 2 : count);
  if (last) die();
  return written;
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  const int last = is_last();
  const ssize_t written = syscall(SYS_pwrite64, descriptor, bytes, last ? count / 2 : count, offset);
  if (last) die();
  return written;
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
  return pwrite(descriptor, bytes, count, offset);
}

int ftruncate(int descriptor, off_t length) {
  if (is_last()) die();
  return (int)syscall(SYS_ftruncate, descriptor, length);
}

int rename(const char* from, const char* to) {
  if (is_last()) die();
  return (int)syscall(SYS_rename, from, to);
}

int mkdir(const char* path, mode_t mode) {
  if (is_last()) die();
  return (int)syscall(SYS_mkdir, path, mode);
}

int unlink(const char* path) {
  if (is_last()) die();
  return (int)syscall(SYS_unlink, path);
}

int unlinkat(int folder, const char* path, int flags) {
  if (is_last()) die();
  return (int)syscall(SYS_unlinkat, folder, path, flags);
}

int rmdir(const char* path) {
  if (is_last()) die();
  return (int)syscall(SYS_rmdir, path);
}

__attribute__((destructor)) static void tell(void) {
  const char* const path = getenv("KILL_COUNT");
  if (path == NULL) return;
  char text[32];
  const int length = snprintf(text, sizeof text, "%ld\n", atomic_load(&changes));
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return;
  syscall(SYS_write, file, text, (size_t)length);
  close(file);
}
