// How many threads a block has, told to the compiler, which then knows how many registers each may have.
//
// `KERNEL LAUNCH_BOUNDS(threads, blocks) void name(...)`: a block has `threads` threads, all in x. Registers are spent
// so that at least `blocks` blocks fit on a multiprocessor together, or, where that is 0, as the compiler finds best.
#ifndef LAUNCH_BOUNDS_H
#define LAUNCH_BOUNDS_H

#ifdef __OPENCL_VERSION__
#define LAUNCH_BOUNDS(threads, blocks) __attribute__((reqd_work_group_size(threads, 1, 1)))
#else
#define LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#endif

#endif
