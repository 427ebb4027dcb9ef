// Leaves the work to another process, which is not stopped.
// Against blend. Refused for: left_processes
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include <sys/wait.h>
#include <unistd.h>
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    if (fork() == 0) {
        usleep(200000);
        _exit(0);
    }
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
