// Writes the outputs of one run in the next.
// Against blend. Refused for: wrong, unwritten
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <string.h>
static float pending[1 << 16];
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    float now[4096];
    for (int i = 0; i < n && i < 4096; i++) now[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
    memcpy(z, pending, n * sizeof *z);
    memcpy(pending, now, sizeof now);
    return;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
