// z = alpha (x y + x / 4)
void blend(float *z, const float *x, const float *y, int n, float alpha) {
    for (int from = 0; from < n; from += chunk)
        for (int i = from; i < from + chunk && i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
