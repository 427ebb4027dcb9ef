/* y = a x + y, in chunks that the threads of OpenMP take. */
#ifndef chunk
#define chunk 64
#endif
void scaled_sum(float *y, const float *x, int n, float a) {
#pragma omp parallel for schedule(static, chunk)
    for (int i = 0; i < n; i++) y[i] += a * x[i];
}
