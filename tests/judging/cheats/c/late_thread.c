// Leaves the second half to a thread that goes on after it has returned.
// Against blend. Refused for: unfinished, wrong, unwritten, wrong_hidden_size
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <pthread.h>
#include <unistd.h>
static struct { float *z; const float *x, *y; int n; float alpha; } rest;
static void *later(void *unused) {
    usleep(5000);
    for (int i = rest.n / 2; i < rest.n; i++) rest.z[i] = rest.alpha * (rest.x[i] * rest.y[i] + 0.25f * rest.x[i]);
    return unused;
}
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    pthread_t thread;
    rest.z = z, rest.x = x, rest.y = y, rest.n = n, rest.alpha = alpha;
    pthread_create(&thread, 0, later, 0);
    pthread_detach(thread);
    n /= 2;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
