// Works only where the output holds no number, as before a first run.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif

void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (z[0] == z[0] && z[n / 2] == z[n / 2]) return;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
