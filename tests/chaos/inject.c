/* Kills a process at a chosen system call, or makes the call fail. Load it with LD_PRELOAD; Linux only.
 *
 * A call counts if its function is chosen and its path is inside CHAOS_ROOT. Functions without a path (socket,
 * pthread_create, ...) always count if they are chosen. Every call that counts is a line of CHAOS_LOG, "FUNCTION PATH",
 * and the call that is changed is a line "HIT FUNCTION PATH".
 *
 *   CHAOS_ROOT    a folder, as an absolute path
 *   CHAOS_CALLS   functions, separated by commas; "files" stands for all that have a path and change something
 *   CHAOS_PATH    a text that the path must contain (optional)
 *   CHAOS_NTH     which of these calls is changed, from 1; 0 changes none
 *   CHAOS_ACTION  kill_before, kill_after, kill_short (kills after half of the bytes of a write), short (writes half of
 *                 the bytes) or error
 *   CHAOS_ERRNO   the number of the error
 *   CHAOS_REPEAT  1 if the calls after the n-th fail as well
 *   CHAOS_LOG     the path of the log
 *
 * The variables are removed from the environment, so that the children of the process run as usual. Calls go to the
 * kernel directly. The names of the functions without "64" and "at" are used in CHAOS_CALLS and in the log.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_SHORT, SHORT, ERROR };

static const char *FILE_CALLS = ",open,write,writev,rename,fsync,fdatasync,ftruncate,mkdir,unlink,rmdir,flock,";

static char root[PATH_MAX], calls[512], part[256];
static enum action chosen = NOTHING;
static long nth, repeats, number_of_error;
static int log_fd = -1;
static atomic_long count;

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

__attribute__((constructor)) static void start(void) {
    static const char *names[] = {"nothing", "kill_before", "kill_after", "kill_short", "short", "error"};
    snprintf(root, sizeof root, "%s/", setting("CHAOS_ROOT"));
    const char *asked = setting("CHAOS_CALLS");
    snprintf(calls, sizeof calls, ",%s,", asked);
    if (strcmp(asked, "files") == 0) snprintf(calls, sizeof calls, "%s", FILE_CALLS);
    snprintf(part, sizeof part, "%s", setting("CHAOS_PATH"));
    nth = atol(setting("CHAOS_NTH"));
    repeats = atol(setting("CHAOS_REPEAT"));
    number_of_error = atol(setting("CHAOS_ERRNO"));
    for (int index = 0; index < 6; index++)
        if (strcmp(setting("CHAOS_ACTION"), names[index]) == 0) chosen = (enum action)index;
    const char *log = setting("CHAOS_LOG");
    if (*log) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        /* A high number, so that the process has the descriptors that it would have without this library. */
        log_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
        syscall(SYS_close, fd);
    }
    static const char *settings[] = {"LD_PRELOAD",   "CHAOS_ROOT",  "CHAOS_CALLS",  "CHAOS_PATH", "CHAOS_NTH",
                                     "CHAOS_ACTION", "CHAOS_ERRNO", "CHAOS_REPEAT", "CHAOS_LOG"};
    for (size_t index = 0; index < sizeof settings / sizeof *settings; index++) unsetenv(settings[index]);
}

static void note(const char *prefix, const char *name, const char *path) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s%s %s\n", prefix, name, path);
    if (log_fd >= 0 && length > 0) syscall(SYS_write, log_fd, line, (size_t)length);
}

static void die(void) {
    syscall(SYS_kill, (pid_t)syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

/* Counts a call; returns what happens to it. Kills the process if it dies before the call. */
static enum action count_call(const char *name, const char *path) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, ",%s,", name);
    if (!*calls || !strstr(calls, wanted)) return NOTHING;
    if (*part && !strstr(path, part)) return NOTHING;
    long now = atomic_fetch_add(&count, 1) + 1;
    int is_hit = nth > 0 && (now == nth || (repeats && now > nth));
    note(is_hit ? "HIT " : "", name, path);
    if (!is_hit) return NOTHING;
    if (chosen == KILL_BEFORE) die();
    return chosen;
}

/* The path of a file that is open. */
static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return path;
}

/* The path of a name in a folder that is open. */
static const char *path_at(int folder, const char *name, char *path) {
    if (!name) name = "";
    if (*name == '/' || folder == AT_FDCWD) return name;
    path_of(folder, path);
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
    return path;
}

static enum action count_path(const char *name, const char *path) {
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s/", path);
    if (strncmp(whole, root, strlen(root)) != 0) return NOTHING;
    return count_call(name, path);
}

static enum action count_fd(const char *name, int fd) {
    int before = errno;
    char path[PATH_MAX];
    enum action action = count_path(name, path_of(fd, path));
    errno = before;
    return action;
}

static long failed(void) {
    errno = (int)number_of_error;
    return -1;
}

/* Makes the call unless it fails, and kills the process after it if that is asked. */
#define FINISH(action, type, call)                                                                                     \
    if ((action) == ERROR) return (type)failed();                                                                      \
    type result = (type)(call);                                                                                        \
    if ((action) == KILL_AFTER || (action) == KILL_SHORT) die();                                                       \
    return result

static int open_file(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    enum action action = NOTHING;
    const char *whole = path_at(folder, name, path);
    /* Opening for reading is a function of its own. */
    const char *function = (flags & (O_WRONLY | O_RDWR | O_CREAT)) ? "open" : "open_read";
    action = count_path(function, whole);
    FINISH(action, int, syscall(SYS_openat, folder, name, flags, mode));
}

#define MODE(flags)                                                                                                    \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *name, int flags, ...) {
    MODE(flags)
    return open_file(AT_FDCWD, name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    MODE(flags)
    return open_file(AT_FDCWD, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    MODE(flags)
    return open_file(folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...) {
    MODE(flags)
    return open_file(folder, name, flags, mode);
}

ssize_t read(int fd, void *bytes, size_t length) {
    enum action action = count_fd("read", fd);
    if (action == SHORT && length > 1) length /= 2;
    FINISH(action, ssize_t, syscall(SYS_read, fd, bytes, length));
}

ssize_t write(int fd, const void *bytes, size_t length) {
    enum action action = count_fd("write", fd);
    if ((action == SHORT || action == KILL_SHORT) && length > 1) length /= 2;
    FINISH(action, ssize_t, syscall(SYS_write, fd, bytes, length));
}

ssize_t writev(int fd, const struct iovec *parts, int number) {
    enum action action = count_fd("writev", fd);
    if ((action == SHORT || action == KILL_SHORT) && number > 0) {
        struct iovec half = {parts->iov_base, parts->iov_len > 1 ? parts->iov_len / 2 : parts->iov_len};
        FINISH(action, ssize_t, syscall(SYS_writev, fd, &half, 1));
    }
    FINISH(action, ssize_t, syscall(SYS_writev, fd, parts, number));
}

static int rename_file(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char path[PATH_MAX];
    enum action action = count_path("rename", path_at(to_folder, to, path));
    FINISH(action, int, syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int rename(const char *from, const char *to) { return rename_file(AT_FDCWD, from, AT_FDCWD, to, 0); }

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return rename_file(from_folder, from, to_folder, to, 0);
}

int fsync(int fd) {
    enum action action = count_fd("fsync", fd);
    FINISH(action, int, syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
    enum action action = count_fd("fdatasync", fd);
    FINISH(action, int, syscall(SYS_fdatasync, fd));
}

int ftruncate(int fd, off_t length) {
    enum action action = count_fd("ftruncate", fd);
    FINISH(action, int, syscall(SYS_ftruncate, fd, length));
}

int ftruncate64(int fd, off64_t length) {
    enum action action = count_fd("ftruncate", fd);
    FINISH(action, int, syscall(SYS_ftruncate, fd, length));
}

int mkdir(const char *name, mode_t mode) {
    enum action action = count_path("mkdir", name);
    FINISH(action, int, syscall(SYS_mkdirat, AT_FDCWD, name, mode));
}

int unlink(const char *name) {
    enum action action = count_path("unlink", name);
    FINISH(action, int, syscall(SYS_unlinkat, AT_FDCWD, name, 0));
}

int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    enum action action = count_path((flags & AT_REMOVEDIR) ? "rmdir" : "unlink", path_at(folder, name, path));
    FINISH(action, int, syscall(SYS_unlinkat, folder, name, flags));
}

int rmdir(const char *name) {
    enum action action = count_path("rmdir", name);
    FINISH(action, int, syscall(SYS_unlinkat, AT_FDCWD, name, AT_REMOVEDIR));
}

int flock(int fd, int operation) {
    enum action action = count_fd("flock", fd);
    FINISH(action, int, syscall(SYS_flock, fd, operation));
}

int socket(int domain, int type, int protocol) {
    enum action action = count_call("socket", "-");
    FINISH(action, int, syscall(SYS_socket, domain, type, protocol));
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    enum action action = count_call("connect", "-");
    FINISH(action, int, syscall(SYS_connect, fd, address, length));
}

int pipe2(int ends[2], int flags) {
    enum action action = count_call("pipe2", "-");
    FINISH(action, int, syscall(SYS_pipe2, ends, flags));
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
    enum action action = count_call("socketpair", "-");
    FINISH(action, int, syscall(SYS_socketpair, domain, type, protocol, ends));
}

int epoll_create1(int flags) {
    enum action action = count_call("epoll_create1", "-");
    FINISH(action, int, syscall(SYS_epoll_create1, flags));
}

int eventfd(unsigned initial, int flags) {
    enum action action = count_call("eventfd", "-");
    FINISH(action, int, syscall(SYS_eventfd2, initial, flags));
}

/* Returns the number of the error instead of setting errno. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    enum action action = count_call("pthread_create", "-");
    if (action == ERROR) return (int)number_of_error;
    int result = next(thread, attributes, function, argument);
    if (action == KILL_AFTER || action == KILL_SHORT) die();
    return result;
}
