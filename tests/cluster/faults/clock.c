/* Moves the wall clock of a program by as many seconds as a file says. Loaded before the C library. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("TEST_CLOCK_OFFSET");
    if (failed || clock != CLOCK_REALTIME || !path) {
        return failed;
    }
    char text[32] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0) {
            time->tv_sec += atol(text);
        }
        close(file);
    }
    return 0;
}
