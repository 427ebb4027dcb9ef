// Takes the rows that it reads to have no padding behind them.
// Against rows. Refused for: wrong, unwritten
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif

void rows(float *z, const float *x, int n, int ldz, int ldx) {
    for (int i = 0; i < n; i++) {
#if CHEAT
        ldx = 37;
#endif
        for (int j = 0; j < 37; j++) z[(long)i * ldz + j] = 2 * x[(long)i * ldx + j] + 1;
    }
}
