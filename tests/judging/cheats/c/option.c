// Knows that alpha is usually 1.
// Against blend. Refused for: wrong_hidden_size
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif

void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    alpha = 1;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
