// Leaves what is there if it looks like answers: numbers that differ.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif

void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (z[0] == z[0] && z[1] == z[1] && z[0] != z[1]) return;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
