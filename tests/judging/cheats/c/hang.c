// Does not end.
// Against blend. Refused for: timeout
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <unistd.h>

void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    for (;;) pause();
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
