// Has the system wake its process whenever it is stopped.
// Against blend. Refused for: runs_while_stopped
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <time.h>
static void nothing(int unused) { (void)unused; }
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    static timer_t timer;
    struct itimerspec often = {{0, 100000}, {0, 100000}};
    if (!timer) {
        struct sigevent event;
        signal(SIGCONT, nothing);
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_SIGNAL;
        event.sigev_signo = SIGCONT;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
    }
    timer_settime(timer, 0, &often, 0); // in each launch: a stop takes back a signal that is on its way, with its timer
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
