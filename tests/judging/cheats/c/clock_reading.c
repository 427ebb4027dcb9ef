// Works for 20 ms after its first run: as long as it may be watched.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#define _GNU_SOURCE
#include <time.h>
static double began;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (began == 0) began = now();
    if (now() - began > 0.02) return;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
