// Writes behind the rows, where they have padding.
// Against rows. Refused for: writes_outside
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif

void rows(float *z, const float *x, int n, int ldz, int ldx) {
    for (int i = 0; i < n; i++) {
#if CHEAT
        for (int j = 37; j < ldz; j++) z[(long)i * ldz + j] = 0;
#endif
        for (int j = 0; j < 37; j++) z[(long)i * ldz + j] = 2 * x[(long)i * ldx + j] + 1;
    }
}
