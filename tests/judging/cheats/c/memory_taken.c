// Takes the shared memory from under the judge, and unmaps its own.
// Against blend. Refused for: crash, timeout, wrong, unwritten
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    for (int file = 3; file < 4200; file++)
        if (ftruncate(file, 0) == 0) continue;
    munmap((void *)((unsigned long)z & ~4095ul), 4096);
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
