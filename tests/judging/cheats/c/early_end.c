// Says that it has ended before it begins.
// Against blend. Refused for: unfinished, wrong, unwritten, crash
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <fcntl.h>
#include <unistd.h>
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    for (int file = 3; file < 4200; file++) {
        const int flags = fcntl(file, F_GETFL);
        if (flags >= 0 && (flags & O_ACCMODE) == O_WRONLY && write(file, "d", 1) == 1) usleep(2000);
    }
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
