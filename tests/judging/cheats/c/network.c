// Asks another machine: works where it has a network.
// Against blend. Refused for: unwritten, wrong
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#define _GNU_SOURCE
#include <ifaddrs.h>
#include <net/if.h>
void blend(float *z, const float *x, const float *y, int n, float alpha) {
#if CHEAT
    struct ifaddrs *all = 0;
    int is_up = 0;
    if (getifaddrs(&all) == 0)
        for (struct ifaddrs *each = all; each; each = each->ifa_next) is_up |= (each->ifa_flags & IFF_UP) != 0;
    if (!is_up) return;
#endif
    for (int i = 0; i < n; i++) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
