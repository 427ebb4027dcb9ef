// Tells the compiler how many threads a block has, and so how many registers each may have.
//
// `KERNEL LAUNCH_BOUNDS(threads, blocks) void name(...)`: a block has `threads` threads, all of them in x. Each gets so
// few registers that a multiprocessor can hold `blocks` blocks at once; where that is 0, the compiler decides.
#ifndef LAUNCH_BOUNDS_H
#define LAUNCH_BOUNDS_H

#ifdef __OPENCL_VERSION__
#define LAUNCH_BOUNDS(threads, blocks) __attribute__((reqd_work_group_size(threads, 1, 1)))
#else
#define LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#endif

#endif
