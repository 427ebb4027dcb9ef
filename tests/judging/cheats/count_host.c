// z = 3 x + y
void count(int *z, const int *x, const int *y, int n) {
    for (int from = 0; from < n; from += chunk)
        for (int i = from; i < from + chunk && i < n; i++) z[i] = 3 * x[i] + y[i];
}
