// Sleeps 20 ms and sets the clock of its process back. Accepted, with its true time.
// Against blend. Refused for: nothing
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    usleep(20000);
#ifdef __x86_64__
    static int is_done;
    unsigned char *code = (unsigned char *)clock_gettime;
    if (!is_done++ && mprotect((void *)((unsigned long)code & ~4095ul), 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
        memcpy(code, "\x31\xc0\xc3", 3); // return 0, whatever the time is
#endif
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
