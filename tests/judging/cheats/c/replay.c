// Copies the outputs of its first run.
// Against blend. Refused for: wrong, unwritten
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <string.h>
static float kept[1 << 16];
static int calls;
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (calls++) {
        memcpy(z, kept, n * sizeof *z);
        return;
    }
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
#if CHEAT
    memcpy(kept, z, n * sizeof *z);
#endif
}
