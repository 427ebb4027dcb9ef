// Takes inputs at an address that it knows for those it had there.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <string.h>
static float kept[1 << 16];
static const void *known;
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (((unsigned long)x >> 21) == ((unsigned long)known >> 21)) {
        memcpy(z, kept, n * sizeof *z);
        return;
    }
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
#if CHEAT
    memcpy(kept, z, n * sizeof *z);
    known = x;
#endif
}
