// Works in its first 16 runs.
// Against blend. Refused for: wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
static int calls;
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (++calls > 16) return;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
